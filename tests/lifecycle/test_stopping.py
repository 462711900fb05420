"""Signals to a worker: the first lets running jobs end, the second does not wait, and nothing is lost by either."""

from __future__ import annotations

import signal
import time
from typing import Any

import pytest

from lifecycle.conftest import Start
from lifecycle.play import Stage, until

TERM, INT, HUP = signal.SIGTERM, signal.SIGINT, signal.SIGHUP


@pytest.mark.parametrize("number", [TERM, INT, HUP])
@pytest.mark.parametrize("name", ["hold", "hold_async"])
def test_the_first_signal_lets_running_jobs_end_and_takes_no_others(
    start: Start, stage: Stage, tasks: Any, name: str, number: int
) -> None:
    worker = start("--threads", 1, "--async-slots", 1)
    task = getattr(tasks, name)
    running = task.enqueue("running", "gate")
    stage.next("started")
    waiting = task.enqueue("waiting", "gate")
    worker.send(number)
    worker.says("worker.stopping")
    stage.open("gate")
    assert worker.wait() == 0
    assert running.result(timeout=0) == "running"
    assert waiting.status() == "queued"
    assert stage.said("started") == []


def test_a_worker_under_nohup_outlives_its_terminal(start: Start, stage: Stage, tasks: Any) -> None:
    before = signal.signal(HUP, signal.SIG_IGN)
    try:
        worker = start()
    finally:
        signal.signal(HUP, before)
    worker.says("child.ready")
    worker.send(HUP)
    tasks.note.enqueue("after")
    assert stage.next("ran").name == "after"
    worker.send(TERM)
    assert worker.wait() == 0


def test_what_had_not_started_goes_back_unharmed_and_in_its_order(start: Start, stage: Stage, tasks: Any) -> None:
    names = [f"{i}" for i in range(200)]
    tasks.note.enqueue_many([(f"before {i}",) for i in range(100)])
    tasks.hold.enqueue("in the way", "gate")
    tasks.note.enqueue_many([(name,) for name in names])
    worker = start("--threads", 1)
    stage.next("started")
    worker.send(TERM)
    worker.says("worker.stopping")
    stage.open("gate")
    assert worker.wait() == 0
    stage.several(100, "ran")
    start("--threads", 1)
    facts = stage.several(200, "ran")
    assert [fact.name for fact in facts] == names
    assert {fact.attempt for fact in facts} == {1}


@pytest.mark.parametrize("number", [TERM, INT])
def test_the_second_signal_kills_at_once_and_the_job_is_not_charged(
    start: Start, stage: Stage, tasks: Any, number: int
) -> None:
    worker = start()
    job = tasks.defy.enqueue("a", "gate")
    stage.next("started")
    worker.send(number)
    worker.says("worker.stopping")
    sent = time.monotonic()
    worker.send(number)
    assert worker.wait() == 0
    assert time.monotonic() - sent < 10
    assert job.status() == "queued"
    start()
    assert stage.next("started").attempt == 1
    stage.open("gate")
    assert job.result(timeout=30) is None


@pytest.mark.parametrize(("name", "error"), [("heed", "Cancelled"), ("heed_async", "CancelledError")])
def test_when_the_time_for_stopping_is_over_jobs_are_interrupted_and_given_back_uncharged(
    start: Start, stage: Stage, tasks: Any, name: str, error: str
) -> None:
    worker = start("--stop-timeout", 0.2)
    job = getattr(tasks, name).enqueue("a", "gate")
    stage.next("started")
    assert worker.stop() == 0
    assert stage.next(error).id == job.id
    assert job.status() == "queued"
    stage.open("gate")
    start()
    assert job.result(timeout=30) == "a"
    assert stage.next("started").attempt == 1


def test_a_job_that_does_not_heed_the_end_is_ended_with_its_process_and_never_runs_twice_at_once(
    start: Start, stage: Stage, tasks: Any
) -> None:
    other = start("--threads", 1)
    blocker = tasks.hold.enqueue("blocker", "free")
    assert stage.next("started").id == blocker.id
    worker = start("--stop-timeout", 0.2)
    job = tasks.defy.enqueue("a", "gate")
    first = stage.next("started", "a")
    stage.open("free")
    assert worker.stop() == 0
    second = stage.next("started", "a")
    assert (second.id, second.attempt) == (job.id, 1)
    assert second.pid != first.pid
    stage.open("gate")
    assert job.result(timeout=30) is None
    # The first run was over when the second began: it never came to its end.
    assert len(stage.several(2, "ended")) == 2
    assert stage.said("ended") == []
    assert other.stop() == 0


def test_a_worker_stops_while_it_idles(start: Start, tasks: Any) -> None:
    worker = start("--processes", 2)
    worker.says("child.ready", times=2)
    assert worker.stop() == 0


def test_a_worker_stops_before_its_children_are_ready(start: Start) -> None:
    worker = start()
    until(lambda: worker.children, "child")
    assert worker.stop() in (0, -TERM)


def test_a_drain_ends_when_nothing_is_left(start: Start, stage: Stage, tasks: Any) -> None:
    jobs = tasks.note.enqueue_many([(f"{i}",) for i in range(300)])
    worker = start("--drain", "--processes", 2)
    assert worker.wait() == 0
    assert len({fact.id for fact in stage.several(300, "ran")}) == len(jobs)


def test_a_drain_leaves_no_job_that_stood_in_line_or_was_born_in_it(start: Start, stage: Stage, tasks: Any) -> None:
    tasks.note.using(key="k").enqueue_many([(f"{i}",) for i in range(20)])
    tasks.spawn.enqueue("mother", ["default", "elsewhere"])
    worker = start("--drain", "--queues", "default,elsewhere")
    assert worker.wait() == 0
    names = [fact.name for fact in stage.several(22, "ran")]
    assert [name for name in names if ">" not in name] == [f"{i}" for i in range(20)]
    assert sorted(name for name in names if ">" in name) == ["mother>default", "mother>elsewhere"]
