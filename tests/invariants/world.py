"""The server of the invariants: its clock is ours, and after each call all its keys are read. Its one rule: one step,
one transaction. `TIME` stands still inside MULTI, so a call meets exactly the time it was told, on any machine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from hiredis import pack_command

from holdfast.engine.model import Audit, Marks, Outgoing
from holdfast.engine.store import Store
from holdfast.wire.call import Call
from holdfast.wire.connect import Address
from holdfast.wire.sync import Ear, Link
from invariants.model import PLACES, Kept

SET_CLOCK = b"""
local time = redis.call('TIME')
local skew = ARGV[1] - time[1] * 1000 - math.floor(time[2] / 1000)
return redis.call('HSET', KEYS[1], 'skew', string.format('%.0f', skew))
"""
READ_ALL = b"""
local read = {
  hash = function(key) return redis.call('HGETALL', key) end,
  zset = function(key) return redis.call('ZRANGE', key, 0, -1, 'WITHSCORES') end,
  list = function(key) return redis.call('LRANGE', key, 0, -1) end,
  string = function(key) return { redis.call('GET', key), redis.call('PTTL', key) } end,
}
local answer = {}
for _, key in ipairs(redis.call('KEYS', ARGV[1] .. '*')) do
  answer[#answer + 1] = { string.sub(key, #ARGV[1] + 1), read[redis.call('TYPE', key)['ok']](key) }
end
return answer
"""


class World:
    """One server, and a pair of ears for what it says by itself."""

    def __init__(self, address: Address, scripts: Store) -> None:
        self._link = Link(address)
        self._ear = Ear(address)
        self._channels: set[str] = set()
        self._set_clock = self._link.command("SCRIPT", "LOAD", SET_CLOCK)
        self._read_all = self._link.command("SCRIPT", "LOAD", READ_ALL)
        for target in scripts._targets.values():
            self._link.command("SCRIPT", "LOAD", target.script.source)

    def empty(self) -> None:
        """Forget everything."""
        self._link.command("FLUSHALL")

    def run(self, store: Store, call: Call[Any], audit: Call[Audit], ms: int) -> tuple[Any, dict[str, Any], Audit]:
        """Run *call* at *ms* by the server's own clock; its answer, all keys after it, and what the audit says."""
        key = store.partition.key
        self._link.write(
            b"".join(
                [
                    pack_command(("MULTI",)),
                    pack_command(("EVALSHA", self._set_clock, 1, key("meta"), ms)),
                    call.packed(),
                    pack_command(("EVALSHA", self._read_all, 0, key(""))),
                    audit.packed(),
                    pack_command(("EXEC",)),
                ]
            )
        )
        _, answer, keys, audited = [self._link._try_read() for _ in range(6)][-1]
        for reply in (answer, keys, audited):
            if isinstance(reply, Exception):
                raise reply
        return call.decode(answer), dict(_parsed(name.decode(), reply) for name, reply in keys), audit.decode(audited)

    def plain(self, *command: Any) -> None:
        """A command of somebody who knows nothing of the protocol."""
        self._link.command(*command)

    def listen(self, channel: str) -> None:
        """From now on, what is said there is heard."""
        if channel not in self._channels:
            self._ear.listen(channel)
            self._channels.add(channel)

    def heard(self) -> Counter[str]:
        """How often each channel spoke since it was listened to; then listen to none any more."""
        self._ear.ignore(*self._channels)
        self._channels.clear()
        said: Counter[str] = Counter()
        while message := self._ear.hear(0):
            said[message[0]] += 1
        return said

    def close(self) -> None:
        self._ear.close()
        self._link.close()


def _parsed(name: str, reply: Any) -> tuple[str, Any]:
    """One key, in the words of `Model.keyspace`."""
    kind, _, owner = name.partition(":")
    if owner and kind != "held":
        value, ttl_ms = reply
        return name, Kept(value, ttl_ms > 0)
    return name, _PARSERS.get(kind, _strings)(reply)


def _pairs(reply: list[bytes]) -> list[tuple[str, bytes]]:
    return [(name.decode(), value) for name, value in zip(reply[::2], reply[1::2], strict=True)]


def _strings(reply: list[bytes]) -> dict[str, str]:
    return {name: value.decode() for name, value in _pairs(reply)}


def _numbers(reply: list[bytes]) -> dict[str, int]:
    return {name: int(float(value)) for name, value in _pairs(reply)}


def _held(reply: list[bytes]) -> dict[str, tuple[int, int, bool]]:
    holds = {name: hold.split() for name, hold in _pairs(reply)}
    return {name: (int(fence), int(float(order)), rest == [b"s"]) for name, (fence, order, *rest) in holds.items()}


def _marks(reply: list[bytes]) -> dict[str, tuple[Marks, int | None, bool]]:
    return {name: _mark(text) for name, text in _pairs(reply)}


def _mark(text: bytes) -> tuple[Marks, int | None, bool]:
    order, flags = text.split()[3:]
    return Marks.parse(text), None if order == b"-" else int(float(order)), b"k" in flags


def _line(reply: list[bytes]) -> dict[str, list[str]]:
    lines: dict[str, list[str]] = {}
    for member in reply[::2]:
        key, _, name = member.decode().split("\0")
        lines.setdefault(key, []).append(name)
    return lines


def _outbox(reply: list[bytes]) -> list[Outgoing]:
    members = [member.split(b"\0", 2) for member in reply[::2]]
    return [Outgoing(int(place), partition.decode(), entries) for place, partition, entries in members]


def _meta(reply: list[bytes]) -> dict[str, int]:
    return {name: int(value) for name, value in _pairs(reply) if name != "skew" and int(value)}


_PARSERS: dict[str, Callable[[list[bytes]], Any]] = {
    **dict.fromkeys((*PLACES, "watched", "workers", "idle", "calls", "cron"), _numbers),
    **dict.fromkeys(("jobs", "errors", "notes", "cancels"), lambda reply: dict(_pairs(reply))),
    "waits": lambda reply: {name: member.decode().split("\0")[0] for name, member in _pairs(reply)},
    "inbox": lambda reply: reply[::-1],
    "held": _held,
    "marks": _marks,
    "line": _line,
    "outbox": _outbox,
    "meta": _meta,
}
