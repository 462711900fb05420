"""Ids of jobs. Their one rule: they sort by the time they were made, and within one process by the order.

An id is 20 characters of base 32: nine of milliseconds, four of a counter within that millisecond, seven random ones
that belong to the process. The order matters: entries that became ready in the same millisecond are started in the
order of their ids, so what one process puts is first in, first out.
"""

from __future__ import annotations

import os
import re
import secrets
import threading

from holdfast.clock import wall_ms

ALPHABET = "0123456789abcdefghijklmnopqrstuv"
_FORM = re.compile(r"[0-9a-v]{13}[0-9a-z]{7}")
#: Ids of one millisecond; a longer series goes on in the next one.
MOST = 1 << 20
_PAIRS = [a + b for a in ALPHABET for b in ALPHABET]


class _Maker:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ms = 0
        self._count = 0
        self.reseed()

    def reseed(self) -> None:
        """A forked child must not make its parent's ids."""
        self._lock = threading.Lock()
        number = secrets.randbits(35)
        self._tail = "".join(ALPHABET[number >> (5 * i) & 31] for i in range(7))

    def make(self, n: int) -> list[str]:
        with self._lock:
            ms = wall_ms()
            # Neither a clock that is set back nor a long series may bring an id that sorts before an older one.
            if ms <= self._ms:
                ms = self._ms
            else:
                self._ms, self._count = ms, 0
            if self._count + n > MOST:
                ms = self._ms = ms + 1
                self._count = 0
            first, self._count = self._count, self._count + n
        head = encode(ms, 9)
        tail = self._tail
        return [f"{head}{_PAIRS[i >> 10]}{_PAIRS[i & 1023]}{tail}" for i in range(first, first + n)]


def encode(number: int, width: int) -> str:
    """A number in base 32, *width* characters, ten at the most."""
    return "".join([_PAIRS[number >> shift & 1023] for shift in (40, 30, 20, 10, 0)])[-width:]


_maker = _Maker()
os.register_at_fork(after_in_child=_maker.reseed)


def new_id() -> str:
    """A new id."""
    return _maker.make(1)[0]


def new_ids(n: int) -> list[str]:
    """*n* new ids in order."""
    if n <= MOST:
        return _maker.make(n)
    return [id for start in range(0, n, MOST) for id in _maker.make(min(MOST, n - start))]


def made_ms(id: str) -> int:
    """When an id was made, by the clock of the machine that made it."""
    return int(id[:9], 32)


def is_id(text: str) -> bool:
    """Whether this has the form of an id."""
    return _FORM.fullmatch(text) is not None


def new_token() -> str:
    """A fresh name for a worker process: 64 random bits, so none is ever met twice."""
    return secrets.token_hex(8)
