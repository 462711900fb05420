"""A child is killed, or loses its connection, at each step of a job: before a call arrives, or before its answer."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast
from lifecycle.conftest import Start
from lifecycle.play import Stage, until
from lifecycle.proxy import Proxy
from servers import Server

# What has run again when a child was killed there: only a run whose end the store has not seen.
STEPS = pytest.mark.parametrize(
    ("verb", "moment", "runs"),
    [("claim", "before", 1), ("claim", "behind", 1), ("finish", "before", 2), ("finish", "behind", 1)],
)


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    proxy = Proxy(server)
    yield proxy
    proxy.close()


@STEPS
def test_a_child_that_is_killed_in_the_middle_of_a_call_loses_nothing(
    start: Start, stage: Stage, proxy: Proxy, tasks: Any, verb: str, moment: Any, runs: int
) -> None:
    job = tasks.hold.enqueue("a")
    proxy.hold(verb, moment)
    worker = start(url=proxy.url)
    assert proxy.held.wait(30)
    os.kill(worker.children[0], signal.SIGKILL)
    assert job.result(timeout=30) == "a"
    assert worker.stop() == 0
    facts = stage.said("started")
    assert [fact.attempt for fact in facts] == [1] * runs
    assert len({fact.fence for fact in facts}) == runs


@STEPS
def test_a_connection_that_breaks_in_the_middle_of_a_call_costs_nothing(
    start: Start, stage: Stage, proxy: Proxy, tasks: Any, verb: str, moment: Any, runs: int
) -> None:
    job = tasks.hold.enqueue("a")
    proxy.hold(verb, moment)
    worker = start(url=proxy.url)
    assert proxy.held.wait(30)
    proxy.cut()
    assert job.result(timeout=30) == "a"
    assert tasks.add.enqueue(1, 1).result(timeout=30) == 2
    assert worker.stop() == 0
    # The same process goes on, and what it had in hand runs once.
    assert len(stage.said("started")) == 1
    assert worker.log.count("child.ready") == 1


def test_a_claim_that_arrives_when_its_connection_is_long_gone_is_found_out(
    start: Start, stage: Stage, proxy: Proxy, tasks: Any
) -> None:
    worker = start(url=proxy.url, place="lifecycle.apps.jobs:hasty")
    tasks.note.enqueue("first")
    stage.next("ran")
    proxy.hold("claim", "late")
    assert proxy.held.wait(30)
    proxy.cut()
    worker.says("server.back")
    worker.send(signal.SIGSTOP)
    os.kill(worker.children[0], signal.SIGSTOP)
    job = tasks.hold.enqueue("a")
    proxy.deliver()
    os.kill(worker.children[0], signal.SIGCONT)
    worker.send(signal.SIGCONT)
    assert job.result(timeout=30) == "a"
    assert worker.log.count("child.ready") == 1


@pytest.mark.parametrize(("verb", "moment"), [("settle", "before"), ("settle", "behind"), ("relay", "before")])
def test_what_a_job_spawns_is_born_once_whenever_its_child_is_killed(
    start: Start, stage: Stage, proxy: Proxy, tasks: Any, verb: str, moment: Any
) -> None:
    worker = start("--queues", "default,other", url=proxy.url)
    mother = tasks.spawn.enqueue("a", ["default", "other"], "gate")
    stage.next("spawning")
    child = worker.children[0]
    proxy.hold(verb, moment)
    stage.open("gate")
    assert proxy.held.wait(30)
    os.kill(child, signal.SIGKILL)
    mother.result(timeout=30)
    assert sorted(fact.name for fact in stage.several(2, "ran")) == ["a>default", "a>other"]
    assert worker.stop() == 0
    assert stage.said("ran") == []
    assert stage.said("started") == []


def test_connections_that_break_again_and_again_lose_nothing_and_leave_no_descriptor(
    start: Start, stage: Stage, proxy: Proxy, app: Holdfast, tasks: Any
) -> None:
    worker = start(url=proxy.url)
    tasks.note.enqueue("first")
    child = stage.next("ran").pid
    until(lambda: _is_idle(app), "idle worker")
    before = {pid: _descriptors(pid) for pid in (worker.pid, child)}
    runs: Counter[str] = Counter()
    for i in range(30):
        jobs = tasks.note.enqueue_many([(f"{i}",) for _ in range(20)])
        proxy.cut()
        for job in jobs:
            job.result(timeout=30)
        runs.update(fact.id for fact in stage.several(20, "ran"))
    assert set(runs.values()) == {1}
    assert stage.said("ran") == []
    assert worker.children == [child]
    until(lambda: _is_idle(app), "idle worker")
    for pid, count in before.items():
        until(lambda pid=pid, count=count: _descriptors(pid) <= count, "closed descriptors", lambda: before)
    assert worker.stop() == 0


def test_connections_that_break_in_a_flood_lose_no_turn_that_was_under_way(
    start: Start, stage: Stage, proxy: Proxy, app: Holdfast, tasks: Any
) -> None:
    store = app.client.store_at("default", 0)
    count = 100_000
    app.client.run(store.pause(True))
    tasks.nothing.enqueue_many(() for _ in range(count))
    worker = start(url=proxy.url)
    worker.says("child.ready")
    app.client.run(store.pause(False))

    def done() -> int:
        return int(app.client.run(store.meta()).get("done", 0))

    for i in range(5):
        until(lambda i=i: done() > i * count / 10, "progress", done)
        proxy.cut()
        worker.says("server.back", times=i + 1)
    until(lambda: done() == count, "end of the flood", done)
    assert "job.lost" not in worker.log
    assert worker.log.count("child.ready") == 1
    assert worker.stop() == 0


def _descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def _is_idle(app: Holdfast) -> bool:
    return app.client.run(app.client.store_at("default", 0).size("idle")) > 0
