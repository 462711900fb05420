"""Load and kill -9, and the account of it: nothing acknowledged is lost, nothing is committed twice.

Producers in threads and in an event loop put every kind of job, while children, supervisors and the server are killed
or frozen at random. Behind it every run is compared with what was acknowledged and with what the store has counted.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from sys import intern
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from holdfast import Holdfast
from holdfast.admin.audit import audit
from holdfast.errors import Unavailable
from lifecycle.play import Stage, Worker, until
from servers import DURABLE, Server
from soak.app import LEAVES, build

LEASE_S = 1.5
KEYS = 8
#: Producers wait while more than this is queued: it is a storm, not a flood.
MOST_QUEUED = 1000
OPTIONS = ("--processes", 2, "--threads", 4, "--lease", LEASE_S, "--max-crashes", 1000, "--stop-timeout", 10)


class Line(NamedTuple):
    """What one run wrote."""

    event: str
    id: str
    attempt: int
    fence: int
    pid: int
    ns: int
    name: str
    tag: str


@dataclass
class Ledger:
    """What the producers know. Each is written by one thread."""

    acknowledged: dict[str, str] = field(default_factory=dict)
    cancelled: set[str] = field(default_factory=set)
    #: Puts without an answer: nobody knows.
    uncertain: int = 0


class Storm:
    """One storm.

    Example:
        >>> print(Storm(seconds=15, seed=1).run())
    """

    def __init__(self, seconds: float, seed: int) -> None:
        self.seconds = seconds
        self.random = random.Random(seed)
        # A long storm need not be a dense one: the whole account has to fit into memory.
        self.pause_s = 0.002 + seconds / 60_000
        self.ledgers: list[Ledger] = []
        self.faults: Counter[str] = Counter()
        self.workers: list[Worker] = []
        #: Children that were frozen longer than their lease, together with who renews it.
        self.frozen: set[int] = set()
        self.is_over = threading.Event()
        self.may_put = threading.Event()
        self.failures: list[BaseException] = []

    def run(self) -> str:
        """Let it rage, then count; a line of figures, or AssertionError."""
        with TemporaryDirectory(prefix="hf-storm-") as directory:
            self.stage = Stage(Path(directory))
            self.server = Server(*DURABLE)
            try:
                with build(self.server.url) as self.app:
                    self._rage()
                    self._settle()
                    return self._account()
            finally:
                for worker in self.workers:
                    worker.close()
                self.stage.close()
                self.server.close()

    # -- the storm --------------------------------------------------------------------------------

    def _rage(self) -> None:
        self.may_put.set()
        for _ in range(2):
            self._start_worker()
        threads = [self._thread(self._produce, i) for i in range(2)] + [self._thread(self._produce_async, 2)]
        ends = time.monotonic() + self.seconds
        while time.monotonic() < ends and not self.failures:
            time.sleep(self.random.uniform(0.05, 0.5))
            self._strike()
            self._mind_the_queue()
        self.is_over.set()
        self.may_put.set()
        for thread in threads:
            thread.join()
        assert not self.failures, self.failures

    def _thread(self, target: Callable[..., None], number: int) -> threading.Thread:
        ledger = Ledger()
        self.ledgers.append(ledger)

        def run() -> None:
            try:
                target(ledger, number)
            except BaseException as error:
                self.failures.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    def _start_worker(self) -> None:
        worker = Worker("soak.app:app", *OPTIONS, stage=self.stage, url=self.server.url, cwd=self.stage.directory)
        self.workers.append(worker)

    def _strike(self) -> None:
        strikes = {
            self._kill_child: 10, self._kill_supervisor: 3, self._kill_server: 3, self._freeze_child: 2,
            self._freeze_worker: 2, self._stop_worker: 2,
        }  # fmt: skip
        strike = self.random.choices(list(strikes), list(strikes.values()))[0]
        self.faults[strike.__name__.strip("_")] += 1
        strike()
        self.workers = [worker for worker in self.workers if worker.process.poll() is None]
        while len(self.workers) < 2:
            self._start_worker()

    def _children(self) -> list[int]:
        return [pid for worker in self.workers for pid in worker.children]

    def _kill_child(self) -> None:
        for pid in self.random.sample(self._children(), 1) if self._children() else []:
            _signal(pid, signal.SIGKILL)

    def _kill_supervisor(self) -> None:
        self.random.choice(self.workers).kill()

    def _kill_server(self) -> None:
        self.server.restart()

    def _freeze_child(self) -> None:
        children = self._children()
        if children:
            pid = self.random.choice(children)
            _signal(pid, signal.SIGSTOP)
            time.sleep(self.random.uniform(0.1, 2 * LEASE_S))
            _signal(pid, signal.SIGCONT)

    def _freeze_worker(self) -> None:
        worker = self.random.choice(self.workers)
        frozen = [worker.pid, *worker.children]
        self.frozen.update(frozen)
        for pid in frozen:
            _signal(pid, signal.SIGSTOP)
        time.sleep(2 * LEASE_S)
        for pid in reversed(frozen):
            _signal(pid, signal.SIGCONT)

    def _stop_worker(self) -> None:
        worker = self.random.choice(self.workers)
        worker.says("child.ready")
        assert worker.stop() == 0, worker.log

    def _mind_the_queue(self) -> None:
        try:
            queued = sum(report.numbers["jobs"] for report in self._looks())
        except Unavailable:
            return
        (self.may_put.clear if queued > MOST_QUEUED else self.may_put.set)()

    def _looks(self) -> list[Any]:
        return audit(self.app.client)

    # -- what is put ------------------------------------------------------------------------------

    def _produce(self, ledger: Ledger, number: int) -> None:
        dice = random.Random(self.random.random())
        with build(self.server.url) as app:
            for i in self._until_over():
                tag = f"{number}.{i}"
                try:
                    self._put(app, ledger, dice, tag, number)
                except Unavailable:
                    ledger.uncertain += 10

    def _until_over(self) -> Iterator[int]:
        i = 0
        while not self.is_over.is_set():
            self.may_put.wait()
            yield i
            i += 1

    def _put(self, app: Holdfast, ledger: Ledger, dice: random.Random, tag: str, number: int) -> None:
        work = app.tasks["work"]
        match dice.randrange(8):
            case 0 | 1:
                jobs = [work.enqueue(tag, dice.choice((0, 0, 0.005)))]
            case 2:
                key = dice.randrange(KEYS)
                # Each producer has its own keys: only then it knows in which order they were put.
                jobs = [work.using(key=f"{number}:{key}", queue="wide").enqueue(f"key={number}:{key}", 0.001)]
            case 3:
                jobs = [app.tasks["flaky"].enqueue(tag)]
            case 4:
                jobs = [app.tasks["mother"].enqueue(f"mother {tag}")]
            case 5:
                jobs = [work.using(delay=dice.uniform(0, 2), queue="other").enqueue(tag)]
            case 6:
                jobs = work.using(queue="wide").enqueue_many([(f"{tag}.{i}",) for i in range(10)])
            case _:
                job = work.using(delay=5).enqueue(tag)
                if job.cancel():
                    ledger.cancelled.add(job.id)
                return
        ledger.acknowledged.update((job.id, tag) for job in jobs)
        time.sleep(self.pause_s)

    def _produce_async(self, ledger: Ledger, number: int) -> None:
        async def produce(lane: int) -> None:
            for i in self._until_over():
                try:
                    job = await app.tasks["work_async"].aenqueue(f"{number}.{lane}.{i}", 0.002)
                    ledger.acknowledged[job.id] = f"{number}.{lane}.{i}"
                except Unavailable:
                    ledger.uncertain += 1
                await asyncio.sleep(0.02)

        async def all_lanes() -> None:
            await asyncio.gather(*(produce(lane) for lane in range(4)))
            await app.client.aclose()

        with build(self.server.url) as app:
            asyncio.run(all_lanes())

    # -- the account ------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Let all that is queued end, then let the workers go."""
        until(lambda: all(r.numbers["jobs"] == r.numbers["outbox"] == 0 for r in self._looks()),
              "end of all jobs", lambda: [(r.partition, r.numbers) for r in self._looks()], within_s=90)  # fmt: skip
        for worker in self.workers:
            assert worker.stop() == 0, worker.log
        assert [problem for report in self._looks() for problem in report.problems] == []

    def _account(self) -> str:
        lines = sorted((line for path in self.stage.directory.glob("journal-*") for line in _read(path)), key=_when)
        ended = {line.id for line in lines if line.event == "end"}
        acknowledged = {id: tag for ledger in self.ledgers for id, tag in ledger.acknowledged.items()}
        uncertain = sum(ledger.uncertain for ledger in self.ledgers)
        cancelled = {id for ledger in self.ledgers for id in ledger.cancelled}
        numbers: Counter[str] = Counter()
        for report in self._looks():
            numbers.update(report.numbers)
        assert not acknowledged.keys() - ended, f"lost: {acknowledged.keys() - ended}"
        mothers = {line.id for line in lines if line.event == "end" and line.name == "mother"}
        leaves = _check_leaves(lines)
        assert leaves == len(mothers) * len(LEAVES)
        # Each entry that the store has counted as done was one that ended, and each was counted once.
        assert numbers["done"] == len(ended), (numbers, len(ended))
        assert numbers["dead"] == numbers["broken"] == numbers["trimmed"] == 0
        assert len(cancelled) <= numbers["cancelled"] <= len(cancelled) + uncertain
        strangers = len(ended) - leaves - len(acknowledged)
        assert 0 <= strangers <= uncertain, f"{strangers} jobs that nobody put"
        # What a frozen machine still runs when it wakes up can be fenced, but not prevented.
        _check_alone([line for line in lines if line.pid not in self.frozen])
        _check_order(lines)
        again = sum(count - 1 for count in Counter(line.id for line in lines if line.event == "end").values())
        starts = sum(line.event == "start" for line in lines)
        return (
            f"{len(acknowledged)} acknowledged, {uncertain} uncertain, {len(ended)} done, {starts} starts,"
            f" {again} ended more than once, {len(cancelled)} cancelled; faults: {dict(self.faults)}"
        )


def _when(line: Line) -> int:
    return line.ns


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def _read(path: Path) -> Iterator[Line]:
    for text in path.read_text().splitlines():
        event, id, attempt, fence, pid, ns, name, tag = text.split(" ", 7)
        # Each text stands there several times; once in memory is enough.
        yield Line(intern(event), intern(id), int(attempt), int(fence), int(pid), int(ns), intern(name), intern(tag))


def _check_leaves(lines: list[Line]) -> int:
    """Each leaf of each mother is one job; how many there are."""
    born: dict[str, set[str]] = defaultdict(set)
    for line in lines:
        if ">" in line.tag:
            born[line.tag].add(line.id)
    assert all(len(ids) == 1 for ids in born.values()), [ids for ids in born.values() if len(ids) > 1]
    return len(born)


def _check_alone(lines: list[Line]) -> None:
    """No two runs of one job or of one key overlap, and a later run has a higher fence."""
    runs: dict[tuple[str, int], list[int]] = defaultdict(list)
    for line in lines:
        runs[line.id, line.fence].append(line.ns)
    by_name: dict[str, list[tuple[int, int, str]]] = defaultdict(list)
    tags = {line.id: line.tag for line in lines}
    for (id, _), times in runs.items():
        by_name[id].append((min(times), max(times), id))
        if tags[id].startswith("key="):
            by_name[tags[id]].append((min(times), max(times), id))
    for name, spans in by_name.items():
        spans.sort()
        for before, after in pairwise(spans):
            assert before[1] <= after[0], f"{name}: {before} and {after} ran at the same time"


def _check_order(lines: list[Line]) -> None:
    """The jobs of a key start for the first time in the order in which they were put, which is that of their ids."""
    firsts: dict[str, list[str]] = defaultdict(list)
    seen: set[str] = set()
    for line in lines:
        if line.tag.startswith("key=") and line.id not in seen:
            seen.add(line.id)
            firsts[line.tag].append(line.id)
    for key, ids in firsts.items():
        assert ids == sorted(ids), key
