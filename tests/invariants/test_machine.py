"""Any sequence of calls, by any clients and workers, alive or not, leaves exactly what the model says.

A script is isolated, so a sequence of calls is every interleaving of those who call. After each call its answer, all
keys of the partition and the auditor are compared with `Model`: a step that is half done, done twice, done under a
stale fence or done in another order shows at once. `HOLDFAST_EXAMPLES=20000` looks for longer.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec
import pytest
from hypothesis import HealthCheck, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from holdfast.engine.keys import Partition
from holdfast.engine.model import Claimed, Ended, Entry, Marks, Note, Options, Outgoing, Settlement, packed_options
from holdfast.engine.store import Store, pack_entries, unpack_entries
from holdfast.engine.wakeup import bell, end, wishes
from invariants.model import PLACES, Item, Model
from invariants.world import World
from servers import Server

T = TypeVar("T")

# A time that a score writes as 1.8e+12, and a microsecond fence as 1.8e+15.
START_MS = 1_800_000_000_000
LEASE_MS = 15_000
MAX_CRASHES = 2
HERE, THERE = Store(Partition("test", "here")), Store(Partition("test", "there"))

EXAMPLES = int(os.environ.get("HOLDFAST_EXAMPLES", "0"))
FEW = settings(
    max_examples=200, stateful_step_count=50, deadline=None, print_blob=True, suppress_health_check=list(HealthCheck)
)
MANY = settings(FEW, max_examples=max(EXAMPLES, 1))

picks = st.integers(0, 15)
some = st.sets(st.integers(0, 7), min_size=1, max_size=4)
options = st.just(Options()) | st.builds(
    Options,
    delay=st.sampled_from([0, 0, 1, 1000]),
    at=st.sampled_from([0, 0, 0, -5, 500]),
    ttl=st.sampled_from([0, 0, 60_000]),
    priority=st.sampled_from([0, 0, -1, 2]),
    key=st.sampled_from(["k", "", "k\x20"]),
    unique=st.sampled_from(["", "", "u"]),
    front=st.booleans(),
    skip=st.booleans(),
)
verdicts = st.sampled_from(["retry", "dead", "done", "snooze", "cancelled", "expired", "broken"])


@pytest.fixture(scope="module", autouse=True)
def world(shared_server: Server) -> Iterator[None]:
    Engine.world = World(shared_server.address, HERE)
    yield
    Engine.world.close()


@dataclass
class Side:
    """One partition: the real one, and what it should be."""

    store: Store
    model: Model


@dataclass
class Client:
    name: str
    number: int = 0


@dataclass
class Worker:
    """A worker, and what it believes to hold; nobody tells it that it was swept."""

    token: str
    number: int = 0
    hands: dict[bytes, bytes] = field(default_factory=dict)

    def next(self) -> int:
        self.number += 1
        return self.number


class Engine(RuleBasedStateMachine):
    world: World

    def __init__(self) -> None:
        super().__init__()
        self.world.empty()
        self.now = START_MS
        self.here = Side(HERE, Model(HERE.partition, START_MS))
        self.there = Side(THERE, Model(THERE.partition, START_MS))
        self.clients = [Client("one"), Client("two")]
        self.workers: list[Worker] = []
        self.relayers: list[list[Outgoing]] = [[], []]
        self.calls: list[tuple[Side, str, Any, Any]] = []
        self.ids: list[str] = []
        self.sent_away = 0
        self.put_order: list[str] = []
        self.started: set[str] = set()
        self.last_fence = 0
        self.sound = False
        self.world.listen(wishes(HERE.partition))

    # -- who puts ---------------------------------------------------------------------------------

    @rule(client=picks, wanted=st.lists(options, min_size=1, max_size=3), late_clock=st.booleans())
    def put(self, client: int, wanted: list[Options], late_clock: bool) -> None:
        who = choose(self.clients, client)
        who.number += 1
        entries = self.born(wanted, late_clock)
        refused = self.step(self.here, "put", who.name, who.number, entries)
        self.put_order += [
            e.id for e, other in zip(entries, refused, strict=True) if not other and self.item(e.id).place != "later"
        ]

    @rule(client=picks, wanted=st.lists(options, min_size=1, max_size=2), behind=st.integers(1, 2))
    def put_that_arrives_late(self, client: int, wanted: list[Options], behind: int) -> None:
        """Nobody waits for it any more: it brings nothing."""
        who = choose(self.clients, client)
        before = dict(self.here.model.items)
        self.step(self.here, "put", who.name, who.number - behind, self.born(wanted, False))
        assert self.here.model.items == before

    @rule(names=picks, tick=st.integers(0, 2), wanted=options, racers=st.integers(1, 2))
    def fire(self, names: int, tick: int, wanted: Options, racers: int) -> None:
        """Of those that see the same tick, one brings it."""
        name = choose(["hourly", "daily"], names)
        tick += self.here.model.cron.get(name, 0)
        fired = [self.step(self.here, "fire", name, tick, self.born([wanted], False)[0]) for _ in range(racers)]
        assert fired.count(True) <= 1

    @rule(n=st.integers(1, 2))
    def drop_into_the_inbox(self, n: int) -> None:
        for _ in range(n):
            envelope = b"foreign %d" % len(self.calls)
            self.world.plain("LPUSH", HERE.partition.key("inbox"), envelope)
            self.here.model.inbox.append(envelope)

    # -- who works --------------------------------------------------------------------------------

    @initialize()
    def two_workers(self) -> None:
        self.enlist(listens=True)
        self.enlist(listens=False)
        self.sound = True

    @precondition(lambda self: len(self.here.model.workers) < 3)
    @rule(listens=st.booleans())
    def enlist(self, listens: bool) -> None:
        who = Worker(f"w{len(self.calls):03d}")
        self.workers.append(who)
        if listens:
            self.world.listen(bell(HERE.partition, who.token))
            self.here.model.listening.add(who.token)
        self.step(self.here, "renew", LEASE_MS, [who.token], enlist=True)

    @rule(worker=picks, limit=st.sampled_from([1, 2, 3, 9, 0]), alone=st.booleans(), answered=st.booleans())
    def claim(self, worker: int, limit: int, alone: bool, answered: bool) -> None:
        who = choose(self.workers, worker)
        claimed = self.step(self.here, "claim", who.token, limit, alone)
        self.check_starts(claimed)
        if answered or limit == 9:
            who.hands |= zip(claimed.ids, claimed.fences, strict=True)

    @rule(worker=picks)
    def recall(self, worker: int) -> None:
        """What a worker holds is what it is told."""
        who = choose(self.workers, worker)
        told = self.step(self.here, "recall", who.token)
        if told.word == "claimed":
            who.hands = dict(zip(told.ids, told.fences, strict=True))

    @precondition(lambda self: self.handful())
    @rule(worker=picks, which=some)
    def note(self, worker: int, which: set[int]) -> None:
        """What it says of them goes with them."""
        who = choose(self.handful(), worker)
        names = choose_some(sorted(who.hands), which)
        self.step(self.here, "note", who.token, [Note(name, who.hands[name], b"half of " + name) for name in names])

    @precondition(lambda self: self.handful())
    @rule(worker=picks, which=some, kept=st.sets(st.integers(0, 3), max_size=2))
    def finish(self, worker: int, which: set[int], kept: set[int]) -> None:
        who = choose(self.handful(), worker)
        ended = [
            Ended(name, who.hands.pop(name), *((1000, b"result of " + name) if i in kept else ()))
            for i, name in enumerate(choose_some(sorted(who.hands), which))
        ]
        self.step(self.here, "finish", who.token, who.next(), ended)

    @precondition(lambda self: self.handful())
    @rule(
        worker=picks, pick=picks, verdict=verdicts, delay=st.sampled_from([0, 1, 5000]), kept=st.booleans(),
        children=st.lists(options, max_size=2), elsewhere=st.lists(st.integers(1, 2), max_size=2),
    )  # fmt: skip
    def settle(
        self,
        worker: int,
        pick: int,
        verdict: Any,
        delay: int,
        kept: bool,
        children: list[Options],
        elsewhere: list[int],
    ) -> None:
        who = choose(self.handful(), worker)
        name = choose(sorted(who.hands), pick)
        end_of_it = Settlement(
            name, who.hands.pop(name), verdict, delay, b"why " + name, 1000 * kept, b"record" * kept,
            note=b"remains" * kept,
            born_here=self.born(children, False),
            born_elsewhere=[
                (str(THERE.partition), pack_entries(self.born([Options()] * n, False))) for n in elsewhere
            ],
        )  # fmt: skip
        was_out = self.here.model.outgoing
        word = self.step(self.here, "settle", who.token, who.next(), end_of_it)
        if word != "lost":
            self.put_order += [e.id for e in end_of_it.born_here if self.place(e.id) not in ("", "later")]
        if self.here.model.outgoing != was_out:
            self.sent_away += sum(elsewhere)

    @precondition(lambda self: self.here.model.at("held"))
    @rule(worker=picks, pick=picks, verb=st.sampled_from(["finish", "settle", "release", "note"]), late=st.booleans())
    def trespass(self, worker: int, pick: int, verb: str, late: bool) -> None:
        """Under another token or an older fence nothing is committed."""
        item = choose(self.here.model.at("held"), pick)
        who = choose([w for w in self.workers if late or w.token != item.holder] or [Worker("nobody")], worker)
        name, fence = item.id.encode(), b"%d" % (item.fence - late)
        stolen: Any = {
            "finish": (who.next(), [Ended(name, fence, 1000, b"stolen")]),
            "settle": (who.next(), Settlement(name, fence, "dead")),
            "release": (who.next(), fence, [name]),
            "note": ([Note(name, fence, b"stolen")],),
        }
        self.step(self.here, verb, who.token, *stolen[verb])
        assert self.item(item.id) is item
        assert item.place == "held"

    @precondition(lambda self: self.handful())
    @rule(worker=picks, which=some)
    def release(self, worker: int, which: set[int]) -> None:
        who = choose(self.handful(), worker)
        ids = choose_some(sorted(who.hands), which)
        fence = who.hands[ids[0]]
        ids = [name for name in ids if who.hands[name] == fence]
        for name in ids:
            del who.hands[name]
        self.step(self.here, "release", who.token, who.next(), fence, ids)

    @rule(which=some)
    def renew(self, which: set[int]) -> None:
        self.step(self.here, "renew", LEASE_MS, [w.token for w in choose_some(self.workers, which)])

    # -- who dies ---------------------------------------------------------------------------------

    @rule(worker=picks, cause=st.sampled_from(["died", "died", "left", "silent"]), guilty=st.sets(picks, max_size=2))
    def sweep(self, worker: int, cause: str, guilty: set[int]) -> None:
        who = choose(self.workers, worker)
        culprits = choose_some([*sorted(who.hands), b"stranger"], guilty) if cause == "died" else []
        self.step(
            self.here, "sweep", who.token, cause, max_crashes=MAX_CRASHES, error="crashed",
            culprits=[name.decode() for name in culprits],
        )  # fmt: skip

    @rule(worker=picks)
    def fall_silent(self, worker: int) -> None:
        """Another takes back what the silent one held; it does not know, and comes back as a zombie."""
        who = choose(self.workers, worker)
        self.turn_clock(max(self.here.model.workers.get(who.token, 0) - self.now, 0))
        self.step(self.here, "sweep", who.token, "silent", max_crashes=MAX_CRASHES, error="silent")

    # -- who operates -----------------------------------------------------------------------------

    @rule(place=st.sampled_from(["dead", "broken", *PLACES]), which=some)
    def revive(self, place: str, which: set[int]) -> None:
        self.step(self.here, "revive", self.somewhere(place, which))

    @rule(place=st.sampled_from([*PLACES, "held"]), which=some, kept=st.booleans())
    def cancel(self, place: str, which: set[int], kept: bool) -> None:
        self.step(self.here, "cancel", self.somewhere(place, which), b"cancelled", 1000 * kept)

    @rule(place=st.sampled_from(PLACES), pick=picks, watch_ms=st.sampled_from([0, 5000]))
    def look(self, place: str, pick: int, watch_ms: int) -> None:
        (name,) = self.somewhere(place, {pick})
        if watch_ms:
            self.world.listen(end(HERE.partition, name))
        self.step(self.here, "look", name, watch_ms)

    @rule(on=st.booleans())
    def pause(self, on: bool) -> None:
        self.step(self.here, "pause", on)

    @rule(ms=st.sampled_from([1, 999, 5000, LEASE_MS + 1, 200 * 24 * 3600 * 1000]))
    def turn_clock(self, ms: int) -> None:
        self.set_clock(self.now + ms)

    @rule(ms=st.sampled_from([1, 10_000, 3600_000]))
    def turn_clock_back(self, ms: int) -> None:
        """Whoever sets the server's clock back changes nothing: time stands still until it has caught up."""
        self.set_clock(self.now - ms)

    # -- the outbox -------------------------------------------------------------------------------

    @rule(relayer=picks, limit=st.integers(1, 3))
    def read_outbox(self, relayer: int, limit: int) -> None:
        self.relayers[relayer % 2] = self.step(self.here, "relay", limit)

    @precondition(lambda self: any(self.relayers))
    @rule(relayer=picks, dropped=st.booleans())
    def deliver(self, relayer: int, dropped: bool) -> None:
        """Any number of relayers may deliver the same, and die before they say so."""
        outgoing = choose([r for r in self.relayers if r], relayer)
        first = outgoing.pop(0)
        entries = unpack_entries(first.entries)
        self.step(self.there, "put", str(HERE.partition), first.place, entries, keep_ms=0)
        if dropped:
            self.step(self.here, "relay", 1, [first.place])

    # -- the network ------------------------------------------------------------------------------

    @rule(back=st.integers(0, 40))
    def repeat(self, back: int) -> None:
        """Any call comes a second time: its reply was lost, or the network held a copy."""
        if back < len(self.calls):
            side, verb, args, more = self.calls[-1 - back]
            self.step(side, verb, *args, **more)

    # -- the end ----------------------------------------------------------------------------------

    def teardown(self) -> None:
        """Whatever happened: everything can be brought to its end, and then no trace of it is left."""
        if self.sound:
            self.step(self.here, "pause", False)
            while batch := self.step(self.here, "relay", 100):
                for out in batch:
                    self.step(self.there, "put", str(HERE.partition), out.place, unpack_entries(out.entries), keep_ms=0)
                self.step(self.here, "relay", 0, [out.place for out in batch])
            self.drain(self.here)
            self.drain(self.there)
            assert self.there.model.counters["put"] == self.sent_away
        heard = self.world.heard()
        if self.sound:
            assert heard == self.here.model.published

    def drain(self, side: Side) -> None:
        model = side.model
        for token in list(model.workers):
            self.step(side, "sweep", token, "left", max_crashes=MAX_CRASHES, error="")
        last = Worker("last")
        self.step(side, "renew", LEASE_MS, [last.token], enlist=True)
        while model.items or model.inbox:
            self.set_clock(max([self.now, *(item.score for item in model.at("later"))]))
            if graves := model.at("dead", "broken"):
                self.step(side, "revive", [item.id for item in graves])
            claimed = self.step(side, "claim", last.token, 1000, True)
            assert claimed.ids, "nothing of this can be claimed"
            ended = [Ended(*row) for row in zip(claimed.ids, claimed.fences, strict=True)]
            self.step(side, "finish", last.token, last.next(), ended)
        found = self.step(side, "sweep", last.token, "left", max_crashes=MAX_CRASHES, error="", want_keys=True)
        assert {name.partition(":")[0] for name in found} <= {"meta", "sender", "result", "cron", "watched"}
        counters = model.counters
        assert counters["put"] == sum(counters[word] for word in ("done", "cancelled", "expired", "trimmed"))

    # -- one step ---------------------------------------------------------------------------------

    def step(self, side: Side, verb: str, *args: Any, check: bool = True, want_keys: bool = False, **more: Any) -> Any:
        """Run a verb in both worlds; whatever differs is a bug of one of them."""
        self.calls.append((side, verb, args, more))
        expected = _normal(verb, getattr(side.model, verb)(*args, **more))
        audit = side.store.audit(self.tokens(), [*self.ids, *side.model.items])
        call = getattr(side.store, verb)(*args, **more)
        was_sound, self.sound = self.sound, False
        answer, found, audited = self.world.run(side.store, call, audit, self.now)
        answer = _normal(verb, answer)
        note(f"{self.now - START_MS:+} {verb} {args} {more} -> {answer}")
        if check:
            assert answer == expected
        wanted = side.model.keyspace()
        differing = [name for name in sorted({*found, *wanted}) if found.get(name) != wanted.get(name)]
        assert {n: found.get(n) for n in differing} == {n: wanted.get(n) for n in differing}
        assert audited.problems == ()
        assert [audited.numbers[p] for p in PLACES] == [len(side.model.at(p)) for p in PLACES]
        self.sound = was_sound
        return found if want_keys else answer

    def check_starts(self, claimed: Claimed) -> None:
        """Of one key, none starts for the first time before one that was put earlier; fences only grow."""
        if claimed.ids:
            fence = int(claimed.fences[0])
            assert fence > self.last_fence
            self.last_fence = fence
        for name in (raw.decode() for raw in claimed.ids):
            key = self.item(name).key
            if key and name in self.put_order and name not in self.started:
                earlier = self.put_order[: self.put_order.index(name)]
                assert not [e for e in earlier if e not in self.started and self.place(e) and self.item(e).key == key]
            self.started.add(name)

    # -- who is meant -----------------------------------------------------------------------------

    def born(self, wanted: Sequence[Options], late_clock: bool) -> list[Entry]:
        """New entries; ids of a client whose clock is late sort before those of others."""
        entries = []
        for o in wanted:
            name = f"{'a' if late_clock else 'b'}{len(self.ids):03d}"
            self.ids.append(name)
            moved = msgspec.structs.replace(o, at=o.at and self.now + o.at)
            entries.append(Entry(name, b"envelope of " + name.encode(), packed_options(moved)))
        return entries

    def handful(self) -> list[Worker]:
        return [w for w in self.workers if w.hands]

    def somewhere(self, place: str, which: set[int]) -> list[str]:
        there = [item.id for item in self.here.model.at(place)] or [*self.ids, "nobody"]
        return choose_some(there, which)

    def item(self, id: str) -> Item:
        return self.here.model.items[id]

    def place(self, id: str) -> str:
        return self.item(id).place if id in self.here.model.items else ""

    def tokens(self) -> list[str]:
        return [*(w.token for w in self.workers), "nobody", "last"]

    def set_clock(self, ms: int) -> None:
        self.now = self.here.model.server_ms = self.there.model.server_ms = ms


def choose(many: Sequence[T], pick: int) -> T:
    return many[pick % len(many)]


def choose_some(many: Sequence[T], which: set[int]) -> list[T]:
    return [many[i] for i in sorted({pick % len(many) for pick in which})]


def _normal(verb: str, answer: Any) -> Any:
    """Answers whose order means nothing, in one order."""
    if isinstance(answer, Claimed):
        marks = [m if isinstance(m, Marks) else Marks.parse(m) for m in answer.marks]
        rows = list(zip(answer.ids, answer.fences, answer.envelopes, marks, strict=True))
        if verb == "recall":
            rows.sort()
        columns = zip(*rows, strict=True) if rows else [()] * 4
        return Claimed(answer.word, answer.now, answer.next_due, answer.suspects, *map(list, columns))
    if verb == "renew":
        return answer._replace(cancels=tuple(sorted(answer.cancels)))
    return answer


TestEngine = Engine.TestCase
TestEngine.settings = FEW


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.skipif(not EXAMPLES, reason="runs as long as HOLDFAST_EXAMPLES says")
class TestForLong(Engine.TestCase):
    settings = MANY
