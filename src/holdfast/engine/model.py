"""What the verbs take and what they answer. Its one rule: values only, no sockets, no policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import msgspec

from holdfast.errors import OptionError

Verdict = Literal["done", "retry", "snooze", "dead", "cancelled", "expired", "broken"]


class Options(msgspec.Struct, omit_defaults=True, frozen=True):
    """How an entry takes its place; times in milliseconds."""

    delay: int = 0
    at: int = 0
    ttl: int = 0
    priority: int = 0
    key: str = ""
    unique: str = ""
    front: bool = False
    skip: bool = False


PLAIN = Options()
_encode = msgspec.json.Encoder().encode


class Entry(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A new entry on its way in; a structure without garbage collection, since they come by the hundred thousand."""

    id: str
    envelope: bytes
    options: bytes = b""


def packed_options(options: Options) -> bytes:
    """Options as the scripts read them: nothing for a plain entry."""
    if "\0" in options.key:
        raise OptionError(f"a key must not contain NUL: {options.key!r}")
    return b"" if options == PLAIN else _encode(options)


class Marks(NamedTuple):
    """What an entry has beyond its envelope."""

    failures: int = 0
    crashes: int = 0
    expires: int = 0
    cancelled: bool = False

    @classmethod
    def parse(cls, text: bytes | None) -> Marks:
        """Marks as the scripts keep them."""
        if not text:
            return FRESH
        failures, crashes, expires, _, flags = text.split(b" ")
        return cls(int(failures), int(crashes), 0 if expires == b"-" else int(expires), b"c" in flags)


FRESH = Marks()


class Claimed(NamedTuple):
    """What a worker was handed: columns, since a row an entry would cost more than the claim.

    `fences` has one value an entry. `word` is claimed | paused | gone.
    """

    word: str
    now: int = 0
    next_due: int = -1
    suspects: int = 0
    ids: Sequence[bytes] = ()
    fences: Sequence[bytes] = ()
    envelopes: Sequence[bytes | None] = ()
    marks: Sequence[bytes | None] = ()


class Ended(NamedTuple):
    """A plain success: the entry, under which fence it was held, and what is kept of it."""

    id: bytes
    fence: bytes
    ttl_ms: int = 0
    record: bytes = b""


class Note(NamedTuple):
    """What a running entry says of itself."""

    id: bytes
    fence: bytes
    text: bytes


class Settlement(NamedTuple):
    """Any other end of an entry, with all that its step brings."""

    id: bytes
    fence: bytes
    verdict: Verdict
    delay_ms: int = 0
    error: str | bytes = b""
    ttl_ms: int = 0
    record: bytes = b""
    note: bytes = b""
    born_here: Sequence[Entry] = ()
    born_elsewhere: Sequence[tuple[str, bytes]] = ()


class Renewed(NamedTuple):
    """The leases that were renewed, those that are over, and who should be cancelled."""

    now: int
    gone: tuple[str, ...]
    cancels: tuple[str, ...]


class Swept(NamedTuple):
    """What a sweep did; call again while anything remains. `word` is swept | alive | gone."""

    word: str
    remaining: int = 0
    given_back: int = 0
    buried: int = 0


class Look(NamedTuple):
    """Where an entry is: ended | queued | scheduled | waiting | running | dead | broken | gone."""

    place: str
    when: int
    marks: Marks
    error: str
    record: bytes
    envelope: bytes
    note: bytes = b""


class Outgoing(NamedTuple):
    """Something in the outbox: its place there, whom it is for, and the packed entries."""

    place: int
    partition: str
    entries: bytes


class Audit(NamedTuple):
    """The numbers of a partition and whatever is wrong with it."""

    numbers: dict[str, int]
    problems: tuple[str, ...]
