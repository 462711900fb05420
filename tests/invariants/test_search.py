"""The protocol, small enough to look at every state it can reach; and what happens when a protection is taken out.

Two workers, a client, a store and its replica. Whoever sends a call may get no answer and sends it again; a copy of it
may arrive at any later time. A worker may crash, or sleep past its lease and wake up as a zombie; a sweep works in two
calls and its sweeper may die in between; a failover may undo the last writes. The search is breadth-first and complete
within a budget of faults, so the trace of what it finds is the shortest there is.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

import pytest

#: How many writes a failover may undo.
LAG = 2
#: More fences than are issued while the clock stands still.
TICK = 100


class Store(NamedTuple):
    """What the server keeps. `leases` has the end of a lease as a word: running | over | condemned."""

    number: int = 0
    ready: tuple[int, ...] = ()
    line: tuple[int, ...] = ()
    later: frozenset[int] = frozenset()
    lock: int | None = None
    held: frozenset[tuple[int, int, int]] = frozenset()
    leases: tuple[tuple[int, str], ...] = ((0, "running"), (1, "running"))
    fence: int = 0
    done: frozenset[int] = frozenset()


class State(NamedTuple):
    """The store, and all that is not in it."""

    store: Store = Store()
    #: Where the replica stood when it was cut off, and how many writes it has missed.
    replica: Store | None = None
    missed: int = 0
    clock: int = 1
    #: A worker is its token, or None after a crash, and (job, fence) of what it believes to hold.
    workers: tuple[tuple[int | None, frozenset[tuple[int, int]]], ...] = ((0, frozenset()), (1, frozenset()))
    tokens: int = 2
    sent: int = 0
    acknowledged: int = 0
    #: A call that the network holds back, or a second copy of one.
    under_way: tuple[int, int, int] | None = None
    #: What a sweeper has read and not yet given back: token and (job, fence)s; False when a failover came between.
    sweeping: tuple[int, frozenset[tuple[int, int]], bool] | None = None
    undone: frozenset[int] = frozenset()
    last_fence: int = 0
    faults: int = 0


class Violated(Exception):
    """What must never happen, happened."""


class Protocol:
    """All that can happen next.

    `keys` has the key of each job, '-' for none; jobs are put in this order. `without` names a protection taken out.
    """

    def __init__(self, keys: str, without: str = "") -> None:
        self.keys = keys
        self.without = without

    def has(self, protection: str) -> bool:
        return protection != self.without

    def steps(self, s: State) -> Iterator[tuple[str, State]]:
        """Everything that can happen next, and what is then."""
        yield from self.client_steps(s)
        for i, (token, hands) in enumerate(s.workers):
            yield from self.worker_steps(s, i, token, hands)
        if s.under_way:
            yield f"finish{s.under_way} arrives late", self.finish(s, *s.under_way)._replace(under_way=None)
        yield from self.sweep_steps(s)
        yield from self.store_steps(s)

    # -- a client ---------------------------------------------------------------------------------

    def client_steps(self, s: State) -> Iterator[tuple[str, State]]:
        if s.acknowledged < len(self.keys):
            job = s.acknowledged
            after = self.put(s._replace(sent=job + 1), job)
            yield f"put {job}", after._replace(acknowledged=job + 1)
            if s.faults:
                yield f"put {job}, no answer", after._replace(faults=s.faults - 1)
        for job in range(s.sent):
            yield f"copy of put {job} arrives", self.put(s, job)

    def put(self, s: State, job: int) -> State:
        store = s.store
        if self.has("numbered puts") and job + 1 <= store.number:
            return s
        if not self.has("numbered puts") and job in self.present(store):
            return s
        return self.write(s, self.step_up(store._replace(number=job + 1), job))

    def step_up(self, store: Store, job: int) -> Store:
        if self.keys[job] != "-":
            if store.lock not in (None, job) and self.has("lock asks for its holder"):
                return store._replace(line=(*store.line, job))
            store = store._replace(lock=job)
        return store._replace(ready=tuple(sorted((*store.ready, job))))

    # -- a worker ---------------------------------------------------------------------------------

    def worker_steps(
        self, s: State, i: int, token: int | None, hands: frozenset[tuple[int, int]]
    ) -> Iterator[tuple[str, State]]:
        known = dict(s.store.leases)
        if token is None or token not in known:
            # A process that is gone, or is told so by its next call, starts anew under a fresh token.
            fresh = s.store._replace(leases=(*s.store.leases, (s.tokens, "running")))
            yield f"worker {i} enlists", self.write(s._replace(tokens=s.tokens + 1), fresh, i, s.tokens, frozenset())
        if token is None:
            return
        for job, fence in hands:
            call = (token, job, fence)
            after = self.finish(s, *call)
            yield f"finish{call}", self.worker(after, i, token, hands - {(job, fence)})
            if s.faults:
                yield f"finish{call}, no answer", after._replace(faults=s.faults - 1)
                yield f"finish{call} is held back", s._replace(under_way=call, faults=s.faults - 1)
                for verb in (self.release, self.fail):
                    after = verb(s._replace(faults=s.faults - 1), *call)
                    yield f"{verb.__name__}{call}", self.worker(after, i, token, hands - {(job, fence)})
        if known.get(token) in ("running", "over") and s.store.ready:
            after, grant = self.claim(s, token)
            yield f"{token} claims {grant}", self.worker(after, i, token, hands | {grant})
            if s.faults:
                yield f"{token} claims {grant}, no answer", after._replace(faults=s.faults - 1)
        mine = frozenset((job, fence) for owner, job, fence in s.store.held if owner == token)
        if token in known and mine != hands:
            yield f"{token} recalls", self.worker(s, i, token, mine)
        if known.get(token) == "over":
            yield f"{token} renews", self.lease(s, token, "running")
        if s.faults:
            fewer = s._replace(faults=s.faults - 1)
            yield f"worker {i} crashes", self.worker(fewer, i, None, frozenset())
            if known.get(token) == "running":
                yield f"{token} sleeps past its lease", self.lease(fewer, token, "over")

    def claim(self, s: State, token: int) -> tuple[State, tuple[int, int]]:
        store = s.store
        job, ready = store.ready[0], store.ready[1:]
        fence = max(store.fence + 1, s.clock * TICK) if self.has("clock in the fence") else store.fence + 1
        if fence <= s.last_fence:
            raise Violated(f"fence {fence} is not above {s.last_fence}")
        if s.sweeping and s.sweeping[0] == token and s.sweeping[2]:
            raise Violated(f"{token} claims while it is swept: that may never end")
        held = store.held | {(token, job, fence)}
        after = self.write(s, store._replace(ready=ready, held=held, fence=fence))
        return after._replace(last_fence=fence), (job, fence)

    def finish(self, s: State, token: int, job: int, fence: int) -> State:
        store = s.store
        same = (token, job, fence) if self.has("fence") else (token, job)
        found = [hold for hold in store.held if hold[: len(same)] == same]
        if not found:
            return s
        if found != [(token, job, fence)]:
            raise Violated(f"job {job} was committed by {token} under {fence}, but {found} holds it")
        return self.write(s, self.step_down(self.let_go(store, found[0])._replace(done=store.done | {job}), job))

    def step_down(self, store: Store, job: int) -> Store:
        if store.lock != job and self.has("lock asks who gives it up"):
            return store
        if not store.line or not self.has("lock is handed on"):
            return store._replace(lock=None)
        return self.step_up(store._replace(lock=None, line=store.line[1:]), store.line[0])

    def release(self, s: State, token: int, job: int, fence: int) -> State:
        if (token, job, fence) not in s.store.held:
            return s
        store = self.let_go(s.store, (token, job, fence))
        return self.write(s, store._replace(ready=tuple(sorted((*store.ready, job)))))

    def fail(self, s: State, token: int, job: int, fence: int) -> State:
        """To be tried again later; the next of its key may pass."""
        if (token, job, fence) not in s.store.held:
            return s
        store = self.let_go(s.store, (token, job, fence))
        return self.write(s, self.step_down(store._replace(later=store.later | {job}), job))

    # -- a sweeper --------------------------------------------------------------------------------

    def sweep_steps(self, s: State) -> Iterator[tuple[str, State]]:
        if s.sweeping:
            token, read, _ = s.sweeping
            yield f"sweep {token} gives back {sorted(read)}", self.give_back(s, token, read)._replace(sweeping=None)
            if s.faults:
                yield f"the sweeper of {token} dies", s._replace(sweeping=None, faults=s.faults - 1)
            return
        living = {token for token, _ in s.workers}
        for token, word in s.store.leases:
            if word != "running" or token not in living:
                read = frozenset((job, fence) for owner, job, fence in s.store.held if owner == token)
                condemned = self.lease(s, token, "condemned") if self.has("condemned first") else s
                yield f"sweep {token} reads {sorted(read)}", condemned._replace(sweeping=(token, read, True))

    def give_back(self, s: State, token: int, read: frozenset[tuple[int, int]]) -> State:
        store = s.store
        for job, fence in read:
            if (token, job, fence) in store.held or not self.has("still held"):
                store = self.let_go(store, (token, job, fence))
                store = store._replace(ready=tuple(sorted((*store.ready, job))))
        if token not in {owner for owner, _, _ in store.held} or not self.has("looks again"):
            store = store._replace(leases=tuple(lease for lease in store.leases if lease[0] != token))
        return self.write(s, store)

    # -- the store --------------------------------------------------------------------------------

    def store_steps(self, s: State) -> Iterator[tuple[str, State]]:
        for job in s.store.later:
            store = s.store._replace(later=s.store.later - {job})
            yield f"{job} is due again", self.write(s, self.step_up(store, job))
            yield f"{job} is cancelled", self.write(s, self.step_down(store._replace(done=store.done | {job}), job))
        if s.replica is None and s.faults:
            yield "the replica is cut off", s._replace(replica=s.store, missed=0, faults=s.faults - 1)
        if s.replica is not None:
            lost = (self.present(s.store) | s.store.done) - self.present(s.replica) - s.replica.done
            clock = s.clock + self.has("clock goes on")
            sweeping = s.sweeping and (*s.sweeping[:2], False)
            yield (
                "failover",
                s._replace(store=s.replica, replica=None, clock=clock, undone=s.undone | lost, sweeping=sweeping),
            )

    def write(
        self, s: State, store: Store, worker: int | None = None, token: int | None = None,
        hands: frozenset[tuple[int, int]] = frozenset(),
    ) -> State:  # fmt: skip
        after = s._replace(store=store, missed=s.missed + (s.replica is not None))
        return after if worker is None else self.worker(after, worker, token, hands)

    def worker(self, s: State, i: int, token: int | None, hands: frozenset[tuple[int, int]]) -> State:
        return s._replace(workers=(*s.workers[:i], (token, hands), *s.workers[i + 1 :]))

    def lease(self, s: State, token: int, word: str) -> State:
        leases = tuple((t, word if t == token else w) for t, w in s.store.leases)
        return self.write(s, s.store._replace(leases=leases))

    def let_go(self, store: Store, hold: tuple[int, int, int]) -> Store:
        return store._replace(held=store.held - {hold})

    def present(self, store: Store) -> set[int]:
        return {*store.ready, *store.line, *store.later, *(job for _, job, _ in store.held)}

    # -- what must hold in every state ------------------------------------------------------------

    def check(self, s: State) -> None:
        store = s.store
        places = [*store.ready, *store.line, *store.later, *(job for _, job, _ in store.held), *store.done]
        if len(places) != len(set(places)):
            raise Violated(f"a job is in two places: {store}")
        if sum(self.keys[job] != "-" for _, job, _ in store.held) > 1:
            raise Violated(f"two of one key are held: {store}")
        if missing := set(range(s.acknowledged)) - set(places) - s.undone:
            raise Violated(f"acknowledged and lost: {missing}")
        known = dict(store.leases)
        if any(token not in known for token, _, _ in store.held):
            raise Violated(f"held by one that nobody will sweep: {store}")

    def ended(self, s: State) -> bool:
        return set(range(len(self.keys))) <= s.store.done | s.undone


def search(protocol: Protocol, faults: int) -> tuple[int, int]:
    """Visit every reachable state once; answers how many there are, and from how many of them no end can be reached."""
    states = [State(faults=faults)]
    numbers = {states[0]: 0}
    came_by: list[tuple[int, str]] = [(0, "")]
    before: list[list[int]] = [[]]
    for n, state in enumerate(states):
        try:
            protocol.check(state)
            for what, after in protocol.steps(state):
                if after.missed > LAG:
                    continue
                m = numbers.setdefault(after, len(states))
                if m == len(states):
                    states.append(after)
                    came_by.append((n, what))
                    before.append([])
                before[m].append(n)
        except Violated as violated:
            raise Violated("\n".join([*trace(came_by, n), str(violated)])) from None
    goals = [n for n, state in enumerate(states) if protocol.ended(state)]
    return len(states), len(states) - len(all_before(goals, before))


def all_before(goals: list[int], before: list[list[int]]) -> set[int]:
    seen = set(goals)
    while goals:
        goals = [n for n in set(chain.from_iterable(before[m] for m in goals)) if n not in seen]
        seen.update(goals)
    return seen


def trace(came_by: list[tuple[int, str]], n: int) -> list[str]:
    words = []
    while n > 0:
        n, what = came_by[n]
        words.append(what)
    return words[::-1]


@pytest.mark.parametrize(("keys", "faults"), [("kk", 2), ("k-", 2), ("kkk", 1), ("kk-", 1)])
def test_nothing_that_must_not_happen_can_happen(keys: str, faults: int) -> None:
    """In no reachable state is a promise broken, and from each of them all jobs can still end."""
    states, stuck = search(Protocol(keys), faults)
    assert states > 1000
    assert stuck == 0


@pytest.mark.soak
@pytest.mark.skipif("HOLDFAST_EXAMPLES" not in os.environ, reason="takes a minute")
@pytest.mark.parametrize(("keys", "faults"), [("kk", 3), ("kk-", 2)])
def test_nor_with_more_faults(keys: str, faults: int) -> None:
    assert search(Protocol(keys), faults)[1] == 0


@pytest.mark.parametrize(
    ("without", "keys", "faults", "violated"),
    [
        ("numbered puts", "-", 1, "two places"),
        ("lock asks for its holder", "kk", 0, "two of one key"),
        ("lock asks who gives it up", "kkk", 1, "two of one key"),
        ("fence", "-", 1, "was committed by"),
        ("clock in the fence", "-", 1, "is not above"),
        ("clock goes on", "-", 1, "is not above"),
        ("still held", "-", 1, "two places"),
        ("condemned first", "-", 1, "claims while it is swept"),
        ("looks again", "-", 2, "nobody will sweep"),
    ],
)
def test_each_protection_is_needed(without: str, keys: str, faults: int, violated: str) -> None:
    """Taken out, the search finds how it goes wrong: so it would find it too if the protocol lacked it."""
    with pytest.raises(Violated, match=violated):
        search(Protocol(keys, without), faults)


def test_the_search_sees_what_can_never_end() -> None:
    """If a lock were not handed on, whoever stands in line would stand there for ever."""
    assert search(Protocol("kk", "lock is handed on"), 0)[1] > 0
