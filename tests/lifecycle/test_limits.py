"""Jobs that take too long, and jobs that somebody cancels."""

from __future__ import annotations

import time
from typing import Any

import pytest

from holdfast import Holdfast
from holdfast.errors import JobCancelled, JobDead
from lifecycle.conftest import Start
from lifecycle.play import Stage

KINDS = pytest.mark.parametrize(
    ("name", "timed_out", "cancelled"),
    [("heed", "TimeLimit", "Cancelled"), ("heed_async", "CancelledError", "CancelledError")],
)


@KINDS
def test_a_job_over_its_soft_limit_is_interrupted_and_fails(
    start: Start, stage: Stage, tasks: Any, name: str, timed_out: str, cancelled: str
) -> None:
    worker = start()
    job = getattr(tasks, name).using(timeout=0.2, retries=0).enqueue("a", "never")
    assert stage.next(timed_out).id == job.id
    with pytest.raises(JobDead, match=r"TimeLimit: over its limit of 0\.2 s"):
        job.result(timeout=30)
    assert worker.log.count("child.ready") == 1


def test_a_job_over_its_hard_limit_is_ended_with_its_process_and_only_it_is_charged(
    start: Start, stage: Stage, tasks: Any
) -> None:
    start("--threads", 2, "--max-crashes", 1)
    innocent = tasks.hold.enqueue("innocent", "gate")
    first = stage.next("started", "innocent")
    culprit = tasks.defy.using(hard_timeout=0.3).enqueue("culprit", "never")
    with pytest.raises(JobDead, match="over its hard limit"):
        culprit.result(timeout=30)
    second = stage.next("started", "innocent")
    assert second.pid != first.pid
    assert second.attempt == 1
    stage.open("gate")
    assert innocent.result(timeout=30) == "innocent"
    assert len(stage.said("started", "culprit")) == 1


@KINDS
def test_a_running_job_that_is_cancelled_is_interrupted_and_does_not_run_again(
    start: Start, stage: Stage, tasks: Any, name: str, timed_out: str, cancelled: str
) -> None:
    worker = start()
    job = getattr(tasks, name).enqueue("a", "never")
    stage.next("started")
    asked = time.monotonic()
    assert job.cancel()
    assert stage.next(cancelled).id == job.id
    # Its supervisor would tell it with the next renewal, five seconds later.
    assert time.monotonic() - asked < 3
    with pytest.raises(JobCancelled):
        job.result(timeout=30)
    assert job.status() == "cancelled"
    assert job.cancel(), "sent again, it is answered as before"
    assert not job.cancel("too late")
    assert worker.stop() == 0
    assert stage.said("started") == []


def test_a_running_job_is_cancelled_although_others_end_by_the_thousand_beside_it(
    start: Start, stage: Stage, app: Holdfast, tasks: Any
) -> None:
    start("--threads", 2)
    job = tasks.heed.enqueue("a", "never")
    stage.next("started")
    store = app.client.store_at("default", 0)
    app.client.run(store.pause(True))
    tasks.note.enqueue("the flood begins")
    tasks.nothing.enqueue_many(() for _ in range(100_000))
    app.client.run(store.pause(False))
    stage.next("ran")
    assert job.cancel()
    assert stage.next("Cancelled").id == job.id
    assert app.client.run(store.size("ready")) > 0


@pytest.mark.parametrize("name", ["hold", "hold_async"])
def test_a_queued_job_that_is_cancelled_never_runs(start: Start, stage: Stage, tasks: Any, name: str) -> None:
    task = getattr(tasks, name)
    job, next_one = task.enqueue("cancelled"), task.enqueue("next")
    assert job.cancel("not needed")
    start()
    assert next_one.result(timeout=30) == "next"
    with pytest.raises(JobCancelled, match="not needed"):
        job.result(timeout=0)
    assert {fact.name for fact in stage.said()} == {"next"}


def test_a_cancelled_job_that_ends_well_all_the_same_is_done(start: Start, stage: Stage, tasks: Any) -> None:
    start()
    job = tasks.defy.enqueue("a", "gate")
    stage.next("started")
    job.cancel()
    stage.next("defies")
    stage.open("gate")
    stage.next("ended")
    assert job.result(timeout=30) is None


def test_a_cancelled_job_whose_child_dies_does_not_run_again(start: Start, stage: Stage, tasks: Any) -> None:
    start("--threads", 1)
    job = tasks.defy.using(hard_timeout=0.5).enqueue("a", "never")
    stage.next("started")
    job.cancel()
    with pytest.raises(JobCancelled):
        job.result(timeout=30)
    assert stage.said("started") == []
