"""What makes a call that is sent again the same call: the sender's name, its numbers, and the pauses in between.

Its one rule: a number is given once; who repeats a call repeats its number.
"""

from __future__ import annotations

import random
import secrets
import time


class Sender:
    """The name under which one link puts, and the number of its last put.

    The server remembers the last number of each name. One link has one put under way at a time, so a number that is
    not above the last one is a repetition, or a copy that the network held back and nobody waits for any more.
    """

    __slots__ = ("name", "number")

    def __init__(self) -> None:
        self.name = secrets.token_hex(6)
        self.number = 0

    def next(self) -> int:
        """The number of a new put."""
        self.number += 1
        return self.number


class Pauses:
    """Growing pauses with jitter until a deadline."""

    __slots__ = ("_deadline", "_pause_s")

    def __init__(self, timeout_s: float, first_s: float = 0.01) -> None:
        self._deadline = time.monotonic() + timeout_s
        self._pause_s = first_s

    def next(self) -> float | None:
        """How long to pause now, or None when time is up."""
        remaining = self._deadline - time.monotonic()
        if remaining <= 0:
            return None
        pause = min(self._pause_s * random.uniform(0.5, 1.5), remaining)  # noqa: S311 - spreading load
        self._pause_s = min(self._pause_s * 2, 1.0)
        return pause

    def sleep(self) -> bool:
        """Pause; False when time is up."""
        pause = self.next()
        if pause is None:
            return False
        time.sleep(pause)
        return True
