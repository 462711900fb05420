"""Who runs when: queues in their order, one at a time of a key, nobody behind a long job while a neighbour idles."""

from __future__ import annotations

import os
import signal
import statistics
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pytest

from holdfast import Holdfast
from holdfast.admin.audit import audit
from lifecycle.apps.jobs import build
from lifecycle.conftest import Start
from lifecycle.play import Fact, Stage, until
from servers import Server


def test_jobs_of_one_queue_start_in_the_order_in_which_they_were_put(start: Start, stage: Stage, tasks: Any) -> None:
    names = [f"{i}" for i in range(200)]
    tasks.note.enqueue_many([(name,) for name in names])
    start("--threads", 1)
    assert [fact.name for fact in stage.several(200, "ran")] == names


def test_a_later_queue_waits_until_the_earlier_ones_are_empty(start: Start, stage: Stage, tasks: Any) -> None:
    names = {queue: [f"{queue} {i}" for i in range(30)] for queue in ("low", "middle", "high")}
    for queue, those in names.items():
        tasks.note.using(queue=queue).enqueue_many([(name,) for name in those])
    start("--threads", 1, "--queues", "high,middle,low")
    assert [fact.name for fact in stage.several(90, "ran")] == names["high"] + names["middle"] + names["low"]


def test_what_comes_into_an_earlier_queue_overtakes_a_later_one(start: Start, stage: Stage, tasks: Any) -> None:
    start("--threads", 1, "--queues", "high,low")
    tasks.hold.using(queue="low").enqueue("1", "gate")
    stage.next("started")
    tasks.hold.using(queue="low").enqueue_many([("3",), ("4",)])
    tasks.hold.using(queue="high").enqueue("2")
    stage.open("gate")
    assert [fact.name for fact in stage.several(3, "started")] == ["2", "3", "4"]


def test_a_worker_without_a_list_finds_queues_that_appear_later(start: Start, stage: Stage, tasks: Any) -> None:
    worker = start("--lease", 0.6)
    worker.says("child.ready")
    job = tasks.hold.using(queue="fresh").enqueue("a")
    assert job.result(timeout=30) == "a"
    # And now that it is known, its bell rings as any other.
    assert tasks.hold.using(queue="fresh").enqueue("b").result(timeout=30) == "b"


def test_a_long_job_never_waits_behind_another_one_while_a_neighbour_idles(
    start: Start, stage: Stage, tasks: Any
) -> None:
    start("--threads", 1, "--processes", 2)
    # So many short ones that both have learnt to take them by the dozen.
    tasks.note.enqueue_many([(f"{i}",) for i in range(2000)])
    tasks.hold.enqueue_many([("a", "gate"), ("b", "gate")])
    tasks.note.enqueue_many([(f"{i}",) for i in range(10)])
    both = stage.several(2, "started")
    assert len({fact.pid for fact in both}) == 2
    stage.open("gate")
    stage.several(2010, "ran")


@pytest.mark.parametrize("kills", [0, 6])
def test_jobs_of_one_key_run_one_at_a_time_and_in_order(start: Start, stage: Stage, tasks: Any, kills: int) -> None:
    worker = start("--processes", 2, "--threads", 5)
    keys, count = ("x", "y", "z"), 40
    for i in range(count):
        for key in keys:
            tasks.hold.using(key=key).enqueue(f"{key} {i}")
    killed: list[int] = []
    facts: list[Fact] = []
    while len({fact.id for fact in facts if fact.word == "ended"}) < count * len(keys):
        facts.append(stage.next())
        children = [pid for pid in worker.children if pid not in killed]
        if len(killed) < kills and len(facts) % 15 == 0 and children:
            killed.append(children[0])
            os.kill(children[0], signal.SIGKILL)
    _check_line(facts, keys, killed, count)


def _check_line(facts: Sequence[Fact], keys: Sequence[str], killed: Sequence[int], count: int) -> None:
    for key in keys:
        mine = [fact for fact in facts if fact.name.startswith(f"{key} ")]
        starts = list(dict.fromkeys(fact.name for fact in mine if fact.word == "started"))
        assert starts == [f"{key} {i}" for i in range(count)]
        running: Fact | None = None
        for fact in mine:
            if fact.word == "started":
                assert running is None or running.pid in killed, f"{running} was not over when {fact}"
                running = fact
            elif running is not None and running.fence == fact.fence:
                running = None


def test_an_idle_worker_starts_a_job_when_it_comes_and_a_scheduled_one_when_it_is_due(
    start: Start, stage: Stage, tasks: Any
) -> None:
    start().says("child.ready")
    tasks.add.enqueue(1, 1).result(timeout=30)
    late: dict[str, list[float]] = defaultdict(list)
    for i in range(7):
        for kind, delay in (("at once", 0.0), ("scheduled", 0.1 + i / 20)):
            due = time.monotonic() + delay
            tasks.note.using(delay=delay).enqueue(kind)
            stage.next("ran", kind)
            late[kind].append(time.monotonic() - due)
    # The net below the bells is a look each second: then half of them would wait for more than half of one.
    assert statistics.median(late["at once"]) < 0.2
    assert statistics.median(late["scheduled"]) < 0.2
    # Never too early; the clocks of the test and of the server tick apart by a millisecond.
    assert min(late["scheduled"]) > -0.002


def test_an_earlier_due_time_is_heard_of_while_waiting_for_a_later_one(start: Start, stage: Stage, tasks: Any) -> None:
    start().says("child.ready")
    tasks.note.using(delay=600).enqueue("in ten minutes")
    tasks.note.using(delay=0.3).enqueue("soon")
    assert stage.next("ran").name == "soon"


def test_what_a_job_spawns_runs_once_wherever_it_belongs(start: Start, stage: Stage, server: Server) -> None:
    with build(server.url, partitions={"wide": 4}) as app:
        start("--queues", "default,other,wide", "--processes", 2)
        mothers = app.tasks["spawn"].enqueue_many([(f"{i}", ["default", "other", "wide"]) for i in range(50)])
        names = [fact.name for fact in stage.several(150, "ran")]
        assert sorted(names) == sorted(f"{i}>{queue}" for i in range(50) for queue in ("default", "other", "wide"))
        for mother in mothers:
            mother.result(timeout=30)
        until(lambda: _is_settled(app), "empty outboxes")
        assert stage.said("ran") == []


def test_only_the_attempt_that_succeeds_bears_anything(start: Start, stage: Stage, tasks: Any) -> None:
    worker = start()
    tasks.spawn_then_fail.enqueue("a").result(timeout=30)
    assert stage.next("ran").name == "a of attempt 3"
    assert worker.stop() == 0
    assert stage.said("ran") == []


def test_a_job_that_is_killed_after_it_said_what_to_spawn_has_spawned_nothing(
    start: Start, stage: Stage, tasks: Any
) -> None:
    start("--queues", "default,other")
    mother = tasks.spawn.enqueue("a", ["default", "other"], "gate")
    os.kill(stage.next("spawning").pid, signal.SIGKILL)
    assert stage.next("spawning").attempt == 2
    stage.open("gate")
    mother.result(timeout=30)
    assert sorted(fact.name for fact in stage.several(2, "ran")) == ["a>default", "a>other"]
    assert stage.said("ran") == []


def _is_settled(app: Holdfast) -> bool:
    reports = audit(app.client)
    return all(report.numbers["outbox"] == 0 and report.numbers["jobs"] == 0 for report in reports)
