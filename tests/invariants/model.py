"""What the verbs promise, in plain Python: the same methods as `Store`, answered at once from memory.

Its one rule: it says what must be true, not how a script gets there. An entry is one object with one place, so what
the scripts keep in twenty keys cannot disagree here; `keyspace` shows what those keys must hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from holdfast.engine.keys import Partition
from holdfast.engine.model import (
    Claimed,
    Ended,
    Entry,
    Look,
    Marks,
    Note,
    Options,
    Outgoing,
    Renewed,
    Settlement,
    Swept,
)
from holdfast.engine.wakeup import bell, end, wishes
from holdfast.ids import encode

PRIORITY = 2**43
GRAVE_MS = 180 * 24 * 3600 * 1000
WISH_MS = 3_600_000
PLACES = ("ready", "suspects", "later", "line", "held", "dead", "broken")
LOOKS = {
    "ready": "queued", "suspects": "queued", "later": "scheduled", "line": "waiting", "held": "running",
    "dead": "dead", "broken": "broken",
}  # fmt: skip


@dataclass
class Item:
    """One entry; `score` is its order in ready and suspects, its due time in later, its time of death in a grave."""

    id: str
    envelope: bytes
    place: str = "ready"
    score: int = 0
    # What it came out of ready with, and goes back with.
    order: int = 0
    holder: str = ""
    fence: int = 0
    alone: bool = False
    key: str = ""
    unique: str = ""
    skip: bool = False
    # The order it starts with next; None is 'whenever it is due'.
    next_order: int | None = None
    failures: int = 0
    crashes: int = 0
    expires: int = 0
    flagged: bool = False
    error: bytes | None = None
    note: bytes | None = None

    @property
    def marks(self) -> Marks:
        return Marks(self.failures, self.crashes, self.expires, self.flagged)

    @property
    def has_marks(self) -> bool:
        return self.marks != Marks() or self.skip or self.next_order is not None


@dataclass(frozen=True)
class Kept:
    """A string key: what it holds, and whether it will vanish by itself."""

    value: bytes
    mortal: bool


class Model:
    """One partition. `server_ms` is what the server's own clock says; whoever tests may move it as he likes."""

    def __init__(self, partition: Partition, server_ms: int) -> None:
        self.partition = partition
        self.server_ms = server_ms
        self.clock = 0
        self.fence = 0
        self.paused = False
        self.items: dict[str, Item] = {}
        self.locks: dict[str, str] = {}
        self.lines: dict[str, list[str]] = {}
        self.wishes: dict[str, bytes] = {}
        self.watched: dict[str, int] = {}
        self.workers: dict[str, int] = {}
        self.listening: set[str] = set()
        self.idle: dict[str, int] = {}
        self.calls: dict[str, int] = {}
        self.inbox: list[bytes] = []
        self.outbox: list[Outgoing] = []
        self.senders: dict[str, tuple[int, list[str], bool]] = {}
        self.results: dict[str, bytes] = {}
        self.cron: dict[str, int] = {}
        self.counters: Counter[str] = Counter()
        self.published: Counter[str] = Counter()
        self.outgoing = 0

    # -- the verbs --------------------------------------------------------------------------------

    def put(self, name: str, number: int, entries: Sequence[Entry], keep_ms: int = 3_600_000) -> list[str]:
        last, answered, _ = self.senders.get(name, (0, [], True))
        if number <= last:
            self.counters["again"] += 1
            return answered if number == last else [""] * len(entries)
        now, due_before = self._now(), self._first_due()
        present = {e.id for e in entries if e.id in self.items}
        answer, woken = [], 0
        for entry in entries:
            if entry.id in present:
                answer.append(entry.id)
                continue
            other, ready = self._admit(now, entry)
            answer.append(other)
            woken += ready
        self.senders[name] = (number, answer, keep_ms > 0)
        self.clock = now
        self._ring_for(woken, due_before)
        return answer

    def claim(self, token: str, limit: int, alone: bool = False) -> Claimed:
        if not self.workers.get(token):
            return Claimed("gone")
        now = self._now()
        if self.paused:
            self.idle.setdefault(token, now)
            return Claimed("paused", now)
        promoted = self._promote(now)
        self._take_in(now)
        if limit == 0:
            self.idle.pop(token, None)
            self._ring(1)
            return Claimed("claimed", now)
        taken = self._first("suspects", 1) if alone else []
        suspect = bool(taken)
        taken = taken or self._first("ready", limit)
        waiting = len(self.at("suspects")) - (len(taken) if suspect else 0)
        if not taken:
            self.idle.setdefault(token, now)
            due = self._first_due()
            return Claimed("claimed", now, -1 if due is None else due, waiting)
        self.clock = now
        self.fence = max(self.fence + 1, now * 1000)
        self.idle.pop(token, None)
        for item in taken:
            item.place, item.holder, item.fence = "held", token, self.fence
            item.order, item.alone = item.score, suspect
        self._ring(len(self.at("ready")) + (promoted and bool(self.at("later"))))
        return Claimed("claimed", now, -1, waiting, *self._columns(taken))

    def recall(self, token: str) -> Claimed:
        if not self.workers.get(token):
            return Claimed("gone")
        return Claimed("claimed", self._now(), -1, 0, *self._columns(self.held_by(token)))

    def note(self, token: str, entries: Sequence[Note]) -> tuple[str, ...]:
        for n in entries:
            if self._holds(token, n.id, n.fence):
                self.items[n.id.decode()].note = n.text
        return tuple(n.id.decode() for n in entries if not self._holds(token, n.id, n.fence))

    def finish(self, token: str, number: int, ended: Sequence[Ended]) -> tuple[str, ...]:
        # Those with a result come first in the call.
        in_order = sorted(ended, key=lambda e: not e.ttl_ms)
        good = [e for e in in_order if self._holds(token, e.id, e.fence)]
        lost = tuple(e.id.decode() for e in in_order if e not in good)
        if not good:
            return () if self._seen(token, number) else lost
        self._remember(token, number)
        self.results |= {e.id.decode(): e.record for e in good if e.ttl_ms}
        for e in good:
            self.items[e.id.decode()].place = "gone"
        self._ring(sum(self._forget(e.id.decode(), "done") for e in good))
        return lost

    def settle(self, token: str, number: int, settlement: Settlement) -> str:
        s = settlement
        name, verdict, record, ttl_ms = s.id.decode(), s.verdict, s.record, s.ttl_ms
        if not self._holds(token, s.id, s.fence):
            return "again" if self._seen(token, number) else "lost"
        self._remember(token, number)
        now, due_before = self._now(), self._first_due()
        item = self.items[name]
        item.note = bytes(s.note) or None
        if name in self.wishes and verdict in ("retry", "snooze", "cancelled"):
            verdict, record, ttl_ms = "cancelled", self.wishes[name], WISH_MS
        woken = 0
        if verdict in ("retry", "snooze"):
            if verdict == "retry":
                item.failures += 1
                item.error = bytes(s.error)
                self.counters["retried"] += 1
            item.place, item.score, item.next_order = "later", now + s.delay_ms, item.order
            if item.skip and item.key:
                woken += self._step_down(item)
        elif verdict in ("dead", "broken"):
            item.failures += 1
            woken += self._bury(item, verdict, now, bytes(s.error))
        else:
            item.place = "gone"
            woken += self._forget(name, verdict)
        if ttl_ms:
            self.results[name] = record
        for child in s.born_here:
            if child.id not in self.items:
                woken += self._admit(now, child)[1]
        for partition, entries in s.born_elsewhere:
            self.outgoing = max(self.outgoing + 1, now * 1000)
            self.outbox.append(Outgoing(self.outgoing, partition, entries))
        self.clock = now
        self._ring_for(woken, due_before)
        return verdict

    def release(self, token: str, number: int, fence: bytes, ids: Sequence[bytes]) -> str:
        back = [self.items[name.decode()] for name in ids if self._holds(token, name, fence)]
        if not back:
            return "again" if self._seen(token, number) else "released"
        self._remember(token, number)
        for item in back:
            self._give_back(item, suspect=item.alone)
        self.idle.pop(token, None)
        self._ring(len(back))
        return "released"

    def renew(self, lease_ms: int, tokens: Sequence[str], enlist: bool = False) -> Renewed:
        now = self._now()
        gone = [t for t in tokens if not self.workers.get(t) and not enlist]
        self.workers |= {t: now + lease_ms for t in tokens if t not in gone}
        self.watched = {name: until for name, until in self.watched.items() if until > now}
        self._trim(now)
        self.clock = now
        return Renewed(now, tuple(gone), tuple(sorted(self.wishes)))

    def sweep(self, token: str, cause: str, *, max_crashes: int, error: str, culprits: Sequence[str] = ()) -> Swept:
        now = self._now()
        if token not in self.workers:
            return Swept("gone")
        if cause == "silent" and self.workers[token] > now:
            return Swept("alive")
        self.idle.pop(token, None)
        held = self.held_by(token)
        # Of several that may have done it, none is charged.
        charged = culprits[0] if len(culprits) == 1 else ""
        if cause == "silent" and len(held) == 1 and held[0].alone:
            charged = held[0].id
        woken = buried = 0
        for item in held:
            if item.id == charged:
                item.crashes += 1
                self.counters["crashed"] += 1
                if item.crashes >= max_crashes:
                    buried += 1
                    woken += self._bury(item, "dead", now, error.encode())
                    continue
            self._give_back(item, suspect=item.alone or item.id in culprits or cause == "silent")
        del self.workers[token]
        self.calls.pop(token, None)
        self.clock = now
        self._ring(woken + len(held) - buried + 1)
        return Swept("swept", 0, len(held) - buried, buried)

    def revive(self, ids: Sequence[str]) -> list[str]:
        now, words, woken = self._now(), [], 0
        for name in ids:
            item = self.items.get(name)
            if item is None or item.place not in ("dead", "broken"):
                words.append("gone")
                continue
            item.failures = item.crashes = item.expires = 0
            item.flagged, item.error, item.note, item.next_order = False, None, None, None
            woken += self._step_up(item, now)
            words.append("revived")
        self.clock = now
        self._ring(woken)
        return words

    def cancel(self, ids: Sequence[str], record: bytes, ttl_ms: int) -> list[str]:
        words, woken = [], 0
        for name in ids:
            item = self.items.get(name)
            if item is None:
                words.append("cancelled" if ttl_ms and self.results.get(name) == record else "gone")
            elif item.place == "held":
                self.wishes[name] = record
                self.published[wishes(self.partition)] += 1
                words.append("asked")
            else:
                if item.place == "line":
                    self._leave_line(item)
                item.place = "gone"
                woken += self._forget(name, "cancelled")
                if ttl_ms:
                    self.results[name] = record
                words.append("cancelled")
        self._ring(woken)
        return words

    def look(self, id: str, watch_ms: int = 0) -> Look:
        if id in self.results:
            return Look("ended", 0, Marks(), "", self.results[id], b"")
        item = self.items.get(id)
        if item is None:
            return Look("gone", 0, Marks(), "", b"", b"")
        if watch_ms and item.place not in ("dead", "broken"):
            self.watched[id] = max(self.watched.get(id, 0), self._now() + watch_ms)
        when = 0 if item.place in ("held", "line") else item.score
        error = (item.error or b"").decode()
        return Look(LOOKS[item.place], when, item.marks, error, b"", item.envelope, item.note or b"")

    def fire(self, name: str, tick: int, entry: Entry) -> bool:
        if tick <= self.cron.get(name, 0):
            return False
        now, due_before = self._now(), self._first_due()
        self.cron[name] = tick
        _, woken = self._admit(now, entry)
        self.clock = now
        self._ring_for(woken, due_before)
        return True

    def relay(self, limit: int, delivered: Sequence[int] = ()) -> list[Outgoing]:
        self.outbox = [o for o in self.outbox if o.place not in delivered]
        return self.outbox[:limit]

    def pause(self, on: bool) -> str:
        self.paused = on
        if not on:
            self._ring(len(self.at("ready")) + 1)
        return "paused" if on else "resumed"

    # -- questions --------------------------------------------------------------------------------

    def at(self, *places: str) -> list[Item]:
        """The entries in these places, in the order in which they were put."""
        return [item for item in self.items.values() if item.place in places]

    def held_by(self, token: str) -> list[Item]:
        return [item for item in self.at("held") if item.holder == token]

    def keyspace(self) -> dict[str, Any]:
        """What the keys of the partition must hold, in the words of `World.run`."""
        items = self.items.values()
        found: dict[str, Any] = {
            place: {i.id: i.score for i in self.at(place)} for place in PLACES if place not in ("line", "held")
        }
        for token in {i.holder for i in self.at("held")}:
            found[f"held:{token}"] = {i.id: (i.fence, i.order, i.alone) for i in self.held_by(token)}
        found |= {
            "jobs": {i.id: i.envelope for i in items},
            "marks": {i.id: (i.marks, i.next_order, i.skip) for i in items if i.has_marks},
            "errors": {i.id: i.error for i in items if i.error is not None},
            "notes": {i.id: i.note for i in items if i.note is not None},
            "keyed": {i.id: i.key for i in items if i.key and i.place != "line"},
            "locks": self.locks,
            "line": self.lines,
            "waits": {name: key for key, names in self.lines.items() for name in names},
            "unique": {i.unique: i.id for i in items if i.unique},
            "uniques": {i.id: i.unique for i in items if i.unique},
            "cancels": self.wishes,
            "watched": self.watched,
            "workers": self.workers,
            "idle": self.idle,
            "calls": self.calls,
            "inbox": self.inbox,
            "outbox": self.outbox,
            "cron": self.cron,
            "meta": {name: value for name, value in self._meta().items() if value},
        }
        found |= {f"sender:{name}": Kept(*_sent(sent)) for name, sent in self.senders.items()}
        found |= {f"result:{name}": Kept(record, True) for name, record in self.results.items()}
        return {name: content for name, content in found.items() if content}

    # -- what the verbs share ---------------------------------------------------------------------

    def _meta(self) -> dict[str, int]:
        return {
            **self.counters,
            "clock": self.clock, "fence": self.fence, "outgoing": self.outgoing, "paused": int(self.paused),
        }  # fmt: skip

    def _now(self) -> int:
        return max(self.server_ms, self.clock)

    def _admit(self, now: int, entry: Entry) -> tuple[str, int]:
        o = msgspec.json.decode(entry.options or b"{}", type=Options)
        holder = next((i.id for i in self.items.values() if o.unique and i.unique == o.unique), "")
        if holder:
            return holder, 0
        due = max(o.at or now + o.delay, now)
        order = (-due if o.front else due) - o.priority * PRIORITY
        item = Item(entry.id, entry.envelope, key=o.key, unique=o.unique, skip=o.skip)
        item.next_order = order if o.front or o.priority else None
        item.expires = now + o.ttl if o.ttl else 0
        self.items[item.id] = item
        self.counters["put"] += 1
        if due > now:
            item.place, item.score = "later", due
            return "", 0
        return "", self._step_up(item, order)

    def _promote(self, now: int) -> bool:
        due = sorted((i for i in self.at("later") if i.score <= now), key=lambda i: (i.score, i.id))
        for item in due:
            self._step_up(item, item.score if item.next_order is None else item.next_order)
        return bool(due)

    def _take_in(self, now: int) -> None:
        raw, self.inbox = self.inbox[:100], self.inbox[100:]
        for envelope in raw:
            self.counters["taken"] += 1
            self.counters["put"] += 1
            name = encode(now, 9) + encode(self.counters["taken"], 4) + "foreign"
            self.items[name] = Item(name, envelope, score=now)

    def _step_up(self, item: Item, order: int) -> int:
        if item.key and self.locks.get(item.key, item.id) != item.id:
            item.place, item.next_order = "line", order
            self.lines.setdefault(item.key, []).append(item.id)
            self.counters["lined"] += 1
            return 0
        if item.key:
            self.locks[item.key] = item.id
        item.place, item.score = "ready", order
        return 1

    def _step_down(self, item: Item) -> int:
        if self.locks.get(item.key) != item.id:
            return 0
        del self.locks[item.key]
        if item.key not in self.lines:
            return 0
        heir = self.items[self.lines[item.key][0]]
        self._leave_line(heir)
        assert heir.next_order is not None
        return self._step_up(heir, heir.next_order)

    def _leave_line(self, item: Item) -> None:
        self.lines[item.key].remove(item.id)
        if not self.lines[item.key]:
            del self.lines[item.key]

    def _give_back(self, item: Item, suspect: bool) -> None:
        item.place, item.score = "suspects" if suspect else "ready", item.order
        item.flagged = item.flagged or item.id in self.wishes

    def _bury(self, item: Item, grave: str, now: int, error: bytes) -> int:
        item.place, item.score, item.error = grave, now, error
        woken = self._let_go(item)
        self._trim(now, grave)
        return woken

    def _trim(self, now: int, *graves: str) -> None:
        for item in self.at(*graves or ("dead", "broken")):
            if item.score <= now - GRAVE_MS:
                self._forget(item.id, "trimmed")

    def _let_go(self, item: Item) -> int:
        item.unique = ""
        self.wishes.pop(item.id, None)
        if self.watched.pop(item.id, None) is not None:
            self.published[end(self.partition, item.id)] += 1
        return self._step_down(item) if item.key else 0

    def _forget(self, id: str, counter: str) -> int:
        woken = self._let_go(self.items[id])
        del self.items[id]
        self.counters[counter] += 1
        return woken

    def _seen(self, token: str, number: int) -> bool:
        return number <= self.calls.get(token, 0)

    def _remember(self, token: str, number: int) -> None:
        self.calls[token] = max(number, self.calls.get(token, 0))

    def _holds(self, token: str, name: bytes, fence: bytes) -> bool:
        item = self.items.get(name.decode())
        return item is not None and (item.place, item.holder, item.fence) == ("held", token, int(fence))

    def _first(self, place: str, limit: int) -> list[Item]:
        return sorted(self.at(place), key=lambda i: (i.score, i.id))[:limit]

    def _columns(self, items: Iterable[Item]) -> tuple[list[Any], ...]:
        rows = [(i.id.encode(), b"%d" % i.fence, i.envelope, i.marks) for i in items]
        return tuple(list(column) for column in zip(*rows, strict=True)) or ([], [], [], [])

    def _first_due(self) -> int | None:
        return min((i.score for i in self.at("later")), default=None)

    def _ring(self, n: int) -> None:
        for token in sorted(self.idle, key=lambda t: (self.idle[t], t)):
            if n <= 0:
                return
            del self.idle[token]
            if token in self.listening:
                self.published[bell(self.partition, token)] += 1
                n -= 1

    def _ring_for(self, n: int, due_before: int | None) -> None:
        self._ring(n + (self._first_due() != due_before))


def _sent(sent: tuple[int, list[str], bool]) -> tuple[bytes, bool]:
    number, answer, mortal = sent
    refused = [f" {i}:{other}" for i, other in enumerate(answer, 1) if other]
    return "".join([str(number), *refused]).encode(), mortal
