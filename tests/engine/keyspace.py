"""A partition as plain Python values, so that a test reads: before, call, after. Its one rule: always all of it.

A state is a dictionary from a key's name to what is there:

    {"jobs": {"a": "A"}, "ready": {"a": NOW}, "held:w": {"b": hold()}, "sender:me": "3 for 1h", "meta": {...}}

Sorted sets and hashes are dictionaries, a key with a time to live says it in whole hours, rounded up, and the NULs in
`line`, `waits` and `outbox` are spaces. The clock stands still: the scripts never let it run behind `meta clock`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from hiredis import pack_command

from holdfast.engine.model import Audit, Entry, Options, packed_options
from holdfast.engine.states import MOVES
from holdfast.engine.store import Store
from holdfast.engine.wakeup import bell, end, wishes
from holdfast.wire.call import Call
from holdfast.wire.connect import Address
from holdfast.wire.sync import Ear, Link

T = TypeVar("T")
State = dict[str, Any]

#: In 2033; a clock that shows less is behind, and waits here.
NOW = 2_000_000_000_000
FENCE = NOW * 1000
HOUR = 3_600_000
LEASE_END = NOW + 15_000
ZSETS = ("ready", "later", "suspects", "dead", "broken")


def entry(id: str, envelope: bytes = b"", **options: Any) -> Entry:
    """A new entry; its envelope is its id in capitals."""
    return Entry(id, envelope or id.upper().encode(), packed_options(Options(**options)))


def jobs(*ids: str) -> dict[str, str]:
    """The envelopes of these entries."""
    return {id: id.upper() for id in ids}


def hold(order: int = NOW, fence: int = FENCE, mark: str = "") -> str:
    """What `held:<token>` has for an entry."""
    return f"{fence} {order}{mark}"


def marks(failures: int = 0, crashes: int = 0, expires: Any = "-", order: Any = "-", flags: str = "-") -> str:
    """What an entry has beyond its envelope."""
    return f"{failures} {crashes} {expires} {order} {flags}"


def but(before: State, changes: Mapping[str, Any]) -> State:
    """The state with these keys in place of its own; None is a key that is gone. Of `meta`, only these fields."""
    after = before | dict(changes) | {"meta": before["meta"] | changes.get("meta", {})}
    after["meta"] = {name: value for name, value in after["meta"].items() if value is not None}
    return {name: value for name, value in after.items() if value not in (None, {}, [])}


class Keyspace:
    """One partition on the server, and who listens there."""

    def __init__(self, link: Link, store: Store) -> None:
        self.link = link
        self.store = store

    def given(self, state: State | None = None) -> State:
        """Make it so. The clock is `NOW`, and as many entries were put as there are, unless `meta` says otherwise."""
        state = dict(state or {})
        state["meta"] = {"clock": NOW, "put": len(state.get("jobs", ()))} | state.get("meta", {})
        self.link.commands(*[c for name, value in state.items() for c in _commands(self._key(name), name, value)])
        return self.state()

    def state(self) -> State:
        """All there is."""
        prefix = self._key("")
        names = sorted(key.decode() for key in self.link.command("KEYS", "*"))
        assert all(name.startswith(prefix) for name in names), names
        return {name.removeprefix(prefix): self._read(name, name.removeprefix(prefix)) for name in names}

    def run(self, call: Call[T]) -> T:
        """Run a verb, and see that it moved nothing but what it may, and that the partition is sound."""
        before = self.state()
        answer = self.link.run(call)
        after = self.state()
        _check_moves(call.name, before, after)
        assert self.audit(after).problems == ()
        return answer

    def audit(self, state: State | None = None) -> Audit:
        """What the auditor says of it, with all workers and the first thousand entries."""
        state = self.state() if state is None else state
        tokens = [name.partition(":")[2] for name in state if name.startswith("held:")]
        return self.link.run(self.store.audit(tokens, list(state.get("jobs", ()))[:1000]))

    def _key(self, name: str) -> str:
        return self.store.partition.key(name)

    def _read(self, key: str, name: str) -> Any:
        kind = self.link.command("TYPE", key).decode()
        if kind == "string":
            left_ms = self.link.command("PTTL", key)
            text = _text(self.link.command("GET", key))
            return text if left_ms < 0 else f"{text} for {math.ceil(left_ms / HOUR)}h"
        if kind == "list":
            return [_text(value) for value in self.link.command("LRANGE", key, 0, -1)]
        if kind == "zset":
            flat = self.link.command("ZRANGE", key, 0, -1, "WITHSCORES")
            scores = {_shown(name, member): int(float(score)) for member, score in _pairs(flat)}
            return list(scores) if name == "line" else scores
        values = {_text(field): _shown(name, value) for field, value in _pairs(self.link.command("HGETALL", key))}
        return {field: int(value) for field, value in values.items()} if name in ("meta", "cron", "calls") else values


class Bells:
    """Hears what is rung on a partition: for these workers, for the ends of these entries, and for wishes to cancel."""

    def __init__(self, address: Address, store: Store) -> None:
        self._ear = Ear(address)
        self._store = store
        self._names: dict[str, str] = {}

    def listen(self, tokens: Iterable[str] = (), ids: Iterable[str] = ()) -> None:
        """From now on these are heard."""
        partition = self._store.partition
        names = {bell(partition, token): token for token in tokens} | {end(partition, id): id for id in ids}
        self._names |= names | {wishes(partition): "wish"}
        self._ear.listen(*self._names)

    def rung(self) -> list[str]:
        """What was rung since the last time, in order."""
        # Messages come before the confirmation of whatever is asked after them.
        self._ear.listen("a mark")
        heard = []
        while message := self._ear.hear(0):
            name = self._names[message[0]]
            heard.append(f"{name} {message[1]}" if message[1] else name)
        return heard

    def close(self) -> None:
        """Hang up."""
        self._ear.close()


def _check_moves(verb: str, before: State, after: State) -> None:
    allowed = MOVES.get(verb, frozenset())
    outside = "inbox" if verb == "claim" else "nowhere"
    was, is_now = _places(before), _places(after)
    for id in was.keys() | is_now.keys():
        source, target = was.get(id, outside), is_now.get(id, "nowhere")
        assert target in _reachable(allowed, source), f"{verb} moved {id}: {source} -> {target}"


def _places(state: State) -> dict[str, str]:
    found = dict.fromkeys(state.get("waits", ()), "line")
    for name, value in state.items():
        kind = name.partition(":")[0]
        if kind in (*ZSETS, "held"):
            found |= dict.fromkeys(value, kind)
    return found


def _reachable(moves: Iterable[tuple[str, str]], source: str) -> set[str]:
    found, new = {source}, {source}
    while new:
        new = {target for start, target in moves if start in new} - found
        found |= new
    return found


def _commands(key: str, name: str, value: Any) -> list[tuple[Any, ...]]:
    kind = name.partition(":")[0]
    if isinstance(value, str):
        text, _, hours = value.partition(" for ")
        return [("SET", key, text, "PX", int(hours.rstrip("h")) * HOUR) if hours else ("SET", key, text)]
    if kind == "inbox":
        return [("RPUSH", key, *value)]
    if kind == "line":
        value = dict.fromkeys(value, 0)
    items = [(_stored(kind, field), _stored(kind, content)) for field, content in value.items()]
    sorted_set = kind in (*ZSETS, "line", "watched", "workers", "idle", "outbox")
    command = "ZADD" if sorted_set else "HSET"
    flat = [part for field, content in items for part in ((content, field) if sorted_set else (field, content))]
    return [(command, key, *flat[i : i + 2000]) for i in range(0, len(flat), 2000)]


def _shown(name: str, raw: bytes) -> str:
    """NULs as spaces, and places in the line without their zeros."""
    if name in ("line", "waits"):
        key, place, id = _text(raw).split("\0")
        return f"{key} {int(place)} {id}"
    return _text(raw).replace("\0", " ") if name == "outbox" else _text(raw)


def _stored(name: str, value: Any) -> Any:
    if name in ("line", "waits") and " " in str(value):
        key, place, id = value.split(" ")
        return f"{key}\0{int(place):016}\0{id}"
    return value.replace(" ", "\0") if name == "outbox" and isinstance(value, str) else value


def _pairs(flat: list[bytes]) -> Iterable[tuple[bytes, bytes]]:
    return zip(flat[::2], flat[1::2], strict=True)


def _text(raw: bytes) -> str:
    return raw.decode(errors="surrogateescape")


def packed(*command: Any) -> bytes:
    """A command as it goes over the wire."""
    return bytes(pack_command(command))
