"""One method a verb, each a `Call` of the script of that name. Its one rule: no policy and no socket."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import chain, groupby
from operator import attrgetter
from typing import Any

import msgspec

from holdfast.engine.keys import PRESENCE, QUEUES, Partition
from holdfast.engine.model import (
    Audit,
    Claimed,
    Ended,
    Entry,
    Look,
    Marks,
    Note,
    Outgoing,
    Renewed,
    Settlement,
    Swept,
)
from holdfast.errors import OptionError
from holdfast.wire.call import Call, Plain, Target
from holdfast.wire.library import Arg
from holdfast.wire.script import load

VERBS = (
    "put", "claim", "recall", "note", "finish", "settle", "release", "renew", "sweep",
    "revive", "cancel", "look", "fire", "relay", "pause", "audit",
)  # fmt: skip
#: A script stops the server while it runs, so none may have more to do than this.
MOST = 1000
_pack_entries = msgspec.msgpack.Encoder().encode
_unpack_entries = msgspec.msgpack.Decoder(list[Entry]).decode
_by_fence = attrgetter("fence")


class Store:
    """The verbs of one partition.

    Example:
        >>> store = Store(Partition("app", "mail"))
        >>> link.run(store.claim("token", limit=10))
    """

    def __init__(self, partition: Partition) -> None:
        self.partition = partition

    @cached_property
    def _targets(self) -> dict[str, Target]:
        scripts = [load("holdfast.engine", verb) for verb in VERBS]
        return {s.name: Target(s, [self.partition.key(name) for name in s.keys]) for s in scripts}

    def put(self, name: str, number: int, entries: Sequence[Entry], keep_ms: int = 3_600_000) -> Call[list[str]]:
        """Bring new entries, once however often it is sent; '' or the id that stands in the way, an entry."""
        _check(len(entries), "entries", least=1)
        args: list[Arg] = [number, keep_ms]
        for entry in entries:
            args += (entry.id, entry.envelope, entry.options)
        return Call(self._targets["put"], _put, args, (self.partition.key("sender", name),))

    def claim(self, token: str, limit: int, alone: bool = False) -> Call[Claimed]:
        """Hand over up to *limit* entries; *alone* asks for one suspect first."""
        _check(limit, "entries")
        return Call(self._targets["claim"], _claimed, (token, limit, int(alone)), self._held(token))

    def recall(self, token: str) -> Call[Claimed]:
        """What *token* holds: for a worker that lost the answer to a claim."""
        return Call(self._targets["recall"], _recalled, (token,), self._held(token))

    def note(self, token: str, entries: Sequence[Note]) -> Call[tuple[str, ...]]:
        """What running entries say of themselves; answers those that are not held any more."""
        _check(len(entries), "entries", least=1)
        return Call(self._targets["note"], _lost, (token, *chain.from_iterable(entries)), self._held(token))

    def finish(self, token: str, number: int, ended: Sequence[Ended]) -> Call[tuple[str, ...]]:
        """Entries that ended well; answers those that were not held any more."""
        _check(len(ended), "entries", least=1)
        kept = [e for e in ended if e.ttl_ms > 0]
        args: list[Arg] = [token, number, len(kept)]
        for e in kept:
            args += (e.ttl_ms, e.record)
        # The results belong to the first ids of the call.
        in_order = kept + [e for e in ended if e.ttl_ms <= 0] if kept else ended
        for fence, group in groupby(in_order, _by_fence):
            ids = [e.id for e in group]
            args += (fence, len(ids), *ids)
        results = [self.partition.key("result", e.id.decode()) for e in kept]
        return Call(self._targets["finish"], _lost, args, (*self._held(token), *results))

    def settle(self, token: str, number: int, settlement: Settlement) -> Call[str]:
        """Any other end of an entry; answers the verdict it got, 'lost', or 'again'."""
        s = settlement
        _check(len(s.born_here), "entries")
        _check(len(s.born_elsewhere), "entries")
        args: list[Arg] = [token, number, s.fence, s.id, s.verdict, s.delay_ms, s.error, s.ttl_ms, s.record, s.note]
        args.append(len(s.born_here))
        for entry in s.born_here:
            args += (entry.id, entry.envelope, entry.options)
        for partition, entries in s.born_elsewhere:
            args += (partition, entries)
        keys = (*self._held(token), self.partition.key("result", s.id.decode()))
        return Call(self._targets["settle"], _last_word, args, keys)

    def release(self, token: str, number: int, fence: bytes, ids: Sequence[bytes]) -> Call[str]:
        """Give back what has not started."""
        _check(len(ids), "ids")
        return Call(self._targets["release"], _first_word, (token, number, fence, *ids), self._held(token))

    def renew(self, lease_ms: int, tokens: Sequence[str], enlist: bool = False) -> Call[Renewed]:
        """These tokens live on; with *enlist* they are new."""
        _check(len(tokens), "tokens")
        return Call(self._targets["renew"], _renewed, (lease_ms, int(enlist), *tokens))

    def sweep(
        self, token: str, cause: str, *, max_crashes: int, error: str, culprits: Sequence[str] = ()
    ) -> Call[Swept]:
        """Take back what a worker held that died, left or fell silent."""
        _check(len(culprits), "culprits")
        return Call(self._targets["sweep"], _swept, (token, cause, max_crashes, error, *culprits), self._held(token))

    def revive(self, ids: Sequence[str]) -> Call[list[str]]:
        """Dead or broken entries start afresh; a word an id."""
        _check(len(ids), "ids")
        return Call(self._targets["revive"], _words, ids)

    def cancel(self, ids: Sequence[str], record: bytes, ttl_ms: int) -> Call[list[str]]:
        """These entries shall not run; a word an id: cancelled | asked | gone."""
        _check(len(ids), "ids")
        results = [self.partition.key("result", name) for name in ids]
        return Call(self._targets["cancel"], _words, (ttl_ms, record, *ids), results)

    def look(self, id: str, watch_ms: int = 0) -> Call[Look]:
        """Where an entry is; its end will be rung for the next *watch_ms*."""
        return Call(self._targets["look"], _look, (id, watch_ms), (self.partition.key("result", id),))

    def fire(self, name: str, tick: int, entry: Entry) -> Call[bool]:
        """Bring the entry of a tick, if nobody has brought it; answers whether this call did."""
        return Call(self._targets["fire"], _fired, (name, tick, entry.id, entry.envelope, entry.options))

    def relay(self, limit: int, delivered: Sequence[int] = (), after: int = 0) -> Call[list[Outgoing]]:
        """Drop from the outbox what was delivered; answers what was not, oldest first, from behind this place on."""
        _check(limit, "entries")
        _check(len(delivered), "places")
        return Call(self._targets["relay"], _outgoing, (after, limit, *delivered))

    def pause(self, on: bool) -> Call[str]:
        """Hand out nothing any more, or go on."""
        return Call(self._targets["pause"], _first_word, (int(on),))

    def audit(self, tokens: Sequence[str], ids: Sequence[str]) -> Call[Audit]:
        """Are these entries each in one place, and do the numbers add up?"""
        _check(len(tokens), "tokens")
        _check(len(ids), "ids")
        held = [self.partition.key("held", token) for token in tokens]
        return Call(self._targets["audit"], _audit, (len(tokens), *tokens, *ids), held)

    def _held(self, token: str) -> tuple[str]:
        return (self.partition.key("held", token),)

    # -- plain reads of single keys ---------------------------------------------------------------

    def size(self, name: str) -> Call[int]:
        """How many there are in the sorted set, hash or list of this name."""
        command = {"inbox": "LLEN", "jobs": "HLEN", "waits": "HLEN"}.get(name, "ZCARD")
        return Plain((command, self.partition.key(name)), int)

    def meta(self) -> Call[dict[str, str]]:
        """The counters and limits of the partition."""
        return Plain(("HGETALL", self.partition.key("meta")), _dict)

    def tokens(self) -> Call[dict[str, int]]:
        """Every worker with the end of its lease."""
        return Plain(("ZRANGE", self.partition.key("workers"), 0, -1, "WITHSCORES"), _scores)

    def held(self, token: str) -> Call[list[str]]:
        """The ids that *token* holds."""
        return Plain(("HKEYS", self.partition.key("held", token)), _strings)

    def page(self, name: str, start: int, count: int, newest_first: bool = False) -> Call[dict[str, int]]:
        """Ids with their scores, from one of the sorted sets."""
        verb = "ZREVRANGE" if newest_first else "ZRANGE"
        return Plain((verb, self.partition.key(name), start, start + count - 1, "WITHSCORES"), _scores)

    def scan(self, name: str, cursor: int = 0, count: int = 500) -> Call[tuple[int, list[str]]]:
        """Some ids out of a hash, and the cursor for more; 0 when that was all."""
        return Plain(("HSCAN", self.partition.key(name), cursor, "COUNT", count), _scanned)

    def keys(self, cursor: int = 0, count: int = 1000) -> Call[tuple[int, list[str]]]:
        """Some names of keys of the partition, and the cursor for more; 0 when that was all."""
        prefix = self.partition.key("")
        return Plain(
            ("SCAN", cursor, "MATCH", f"{prefix}*", "COUNT", count),
            lambda reply: (int(reply[0]), [name.removeprefix(prefix) for name in _strings(reply[1])]),
        )

    def expiry(self, name: str) -> Call[int]:
        """In how many ms a key will be gone; -1 for never, -2 if it is gone."""
        return Plain(("PTTL", self.partition.key(name)), int)


class Registry:
    """What is known of a namespace as a whole: which queues there are, which workers.

    These are hints to find things by; nothing is decided by them.
    """

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace

    def add_queue(self, queue: str, partitions: int) -> Call[Any]:
        """Make a queue known."""
        return Plain(("HSET", QUEUES % self.namespace, queue, partitions), int)

    def add_queue_if_new(self, queue: str, partitions: int) -> Call[Any]:
        """Make a queue known about which somebody else may know more."""
        return Plain(("HSETNX", QUEUES % self.namespace, queue, partitions), int)

    def queues(self) -> Call[dict[str, int]]:
        """Every known queue with its number of partitions."""
        return Plain(("HGETALL", QUEUES % self.namespace), lambda reply: {k: int(v) for k, v in _dict(reply).items()})

    def announce(self, token: str, presence: bytes) -> Call[Any]:
        """Say who is behind a token."""
        return Plain(("HSET", PRESENCE % self.namespace, token, presence), int)

    def forget(self, tokens: Sequence[str]) -> Call[Any]:
        """A worker is gone."""
        return Plain(("HDEL", PRESENCE % self.namespace, *tokens), int)

    def present(self) -> Call[dict[str, str]]:
        """Every announced worker."""
        return Plain(("HGETALL", PRESENCE % self.namespace), _dict)


def _check(count: int, what: str, least: int = 0) -> None:
    if not least <= count <= MOST:
        raise OptionError(f"a call takes {least} to {MOST:,} {what}, not {count:,}")


def pack_entries(entries: Sequence[Entry]) -> bytes:
    """Entries for the outbox."""
    return _pack_entries(entries)


def unpack_entries(packed: bytes) -> list[Entry]:
    """Entries from the outbox."""
    return _unpack_entries(packed)


# -- decoders: replies come as bytes ------------------------------------------------------------------


def _put(reply: list[Any]) -> list[str]:
    return [other.decode() for other in reply[2:]]


def _claimed(reply: list[Any]) -> Claimed:
    word = reply[0]
    if word == b"gone":
        return Claimed("gone")
    if word == b"paused":
        return Claimed("paused", reply[1])
    _, now, fence, next_due, suspects, ids, envelopes, marks = reply
    fences = [b"%d" % fence] * len(ids)
    return Claimed("claimed", now, next_due, suspects, ids, fences, envelopes, marks or [None] * len(ids))


def _recalled(reply: list[Any]) -> Claimed:
    if reply[0] == b"gone":
        return Claimed("gone")
    _, now, ids, holds, envelopes, marks = reply
    return Claimed("claimed", now, -1, 0, ids, [hold.split(b" ")[0] for hold in holds], envelopes, marks)


def _lost(reply: list[Any]) -> tuple[str, ...]:
    return tuple(name.decode() for name in reply[1:])


def _first_word(reply: list[Any]) -> str:
    return str(reply[0].decode())


def _last_word(reply: list[Any]) -> str:
    return str(reply[-1].decode())


def _words(reply: list[Any]) -> list[str]:
    return [word.decode() for word in reply[1:]]


def _renewed(reply: list[Any]) -> Renewed:
    _, now, gone, cancels = reply
    return Renewed(now, tuple(_strings(gone)), tuple(_strings(cancels)))


def _swept(reply: list[Any]) -> Swept:
    return Swept(reply[0].decode(), *reply[1:])


def _look(reply: list[Any]) -> Look:
    place, when, marks, error, record, envelope, note = reply
    return Look(place.decode(), when, Marks.parse(marks), error.decode(errors="replace"), record, envelope, note)


def _fired(reply: list[Any]) -> bool:
    return bool(reply[0] == b"fired")


def _outgoing(reply: list[Any]) -> list[Outgoing]:
    return [Outgoing(int(place), partition.decode(), entries) for place, partition, entries in reply]


def _audit(reply: list[Any]) -> Audit:
    numbers, problems = reply
    pairs = zip(numbers[::2], numbers[1::2], strict=True)
    return Audit({name.decode(): int(value) for name, value in pairs}, tuple(_strings(problems)))


def _strings(reply: list[bytes]) -> list[str]:
    return [value.decode(errors="replace") for value in reply]


def _dict(reply: list[bytes]) -> dict[str, str]:
    return dict(zip(_strings(reply[::2]), _strings(reply[1::2]), strict=True))


def _scores(reply: list[bytes]) -> dict[str, int]:
    return {name.decode(): int(float(score)) for name, score in zip(reply[::2], reply[1::2], strict=True)}


def _scanned(reply: list[Any]) -> tuple[int, list[str]]:
    cursor, pairs = reply
    return int(cursor), _strings(pairs[::2])
