"""Children and supervisors that die: what ran, runs again; who may have been at fault is told from who only waited."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from typing import Any

import pytest

from holdfast.errors import JobDead
from lifecycle.conftest import Start
from lifecycle.play import Stage, is_alive, until


def test_a_job_whose_child_is_killed_runs_again_at_once_and_is_charged(start: Start, stage: Stage, tasks: Any) -> None:
    worker = start()
    job = tasks.hold.enqueue("a", "gate")
    first = stage.next("started")
    killed = time.monotonic()
    os.kill(first.pid, signal.SIGKILL)
    second = stage.next("started")
    # 0.2 s is what we promise of a machine at rest; one under load may take its time.
    assert time.monotonic() - killed < 5
    assert (second.id, second.attempt) == (job.id, 2)
    assert second.pid != first.pid
    assert second.fence > first.fence
    stage.open("gate")
    assert job.result(timeout=30) == "a"
    assert worker.stop() == 0


@pytest.mark.parametrize(
    ("how", "why"),
    [("SIGKILL", "was killed by SIGKILL"), ("SIGSEGV", "was killed by SIGSEGV"), ("exit", "exited with code 3")],
)
def test_a_job_that_ends_its_process_three_times_is_dead_and_costs_nobody_else_anything(
    start: Start, stage: Stage, tasks: Any, how: str, why: str
) -> None:
    # One thread, and enough short jobs that many of them wait in the child that dies.
    before = tasks.note.enqueue_many([(f"before {i}",) for i in range(100)])
    pill = tasks.die.enqueue(how)
    after = tasks.note.enqueue_many([(f"after {i}",) for i in range(100)])
    worker = start("--threads", 1)
    with pytest.raises(JobDead, match=rf"poison: its process {why}, 3 times"):
        pill.result(timeout=30)
    for job in before + after:
        job.result(timeout=30)
    assert worker.stop() == 0
    runs = Counter(fact.id for fact in stage.said("ran"))
    # What had ended but was not committed yet runs once more; what had not started, once.
    assert runs.keys() == {job.id for job in before + after}
    assert {runs[job.id] for job in after} == {1}
    assert {fact.attempt for fact in stage.said("ran")} == {1}
    assert [fact.attempt for fact in stage.said("started")] == [1, 2, 3]


def test_of_several_jobs_in_a_dead_child_nobody_is_charged_and_each_runs_alone(
    start: Start, stage: Stage, tasks: Any
) -> None:
    start("--threads", 3)
    tasks.hold.enqueue_many([(f"{i}", "gate") for i in range(3)])
    first = stage.several(3, "started")
    os.kill(first[0].pid, signal.SIGKILL)
    stage.open("gate")
    facts = stage.several(6)
    # Nobody starts before the one before has ended.
    assert [fact.word for fact in facts] == ["started", "ended"] * 3
    assert {fact.attempt for fact in facts} == {1}


def test_the_pill_among_several_is_found_and_the_others_are_never_charged(
    start: Start, stage: Stage, tasks: Any
) -> None:
    start("--threads", 4)
    others = tasks.hold.enqueue_many([(f"{i}", "gate") for i in range(3)])
    stage.several(3, "started")
    pill = tasks.die.enqueue("SIGKILL")
    stage.next("started", "SIGKILL")
    stage.open("gate")
    with pytest.raises(JobDead):
        pill.result(timeout=30)
    for i, job in enumerate(others):
        assert job.result(timeout=30) == f"{i}"
    assert {fact.attempt for fact in stage.said("ended")} == {1}


def test_when_the_supervisor_is_killed_its_children_die_and_another_worker_takes_over(
    start: Start, stage: Stage, tasks: Any
) -> None:
    worker = start("--lease", 1)
    job = tasks.hold.enqueue("a", "gate")
    first = stage.next("started")
    other = start("--lease", 1)
    other.says("child.ready")
    worker.kill()
    assert not is_alive(first.pid)
    second = stage.next("started")
    assert (second.id, second.attempt) == (job.id, 1)
    assert second.fence > first.fence
    stage.open("gate")
    assert job.result(timeout=30) == "a"
    assert other.stop() == 0


def test_a_job_that_silences_worker_after_worker_is_buried_too(start: Start, stage: Stage, tasks: Any) -> None:
    job = tasks.hold.enqueue("a", "gate")
    # The first time nobody knows what it had started; then it runs alone, and is charged.
    for crashes in (0, 0, 1):
        worker = start("--lease", 0.5, "--max-crashes", 2)
        assert stage.next("started").attempt == crashes + 1
        worker.kill()
    start("--lease", 0.5, "--max-crashes", 2)
    with pytest.raises(JobDead, match="poison: its worker vanished, 2 times"):
        job.result(timeout=30)


def test_a_worker_that_was_frozen_past_its_lease_cannot_end_what_another_one_runs(
    start: Start, stage: Stage, tasks: Any
) -> None:
    worker = start("--lease", 0.5)
    job = tasks.hold.enqueue("a", "gate")
    first = stage.next("started")
    for pid in (worker.pid, first.pid):
        os.kill(pid, signal.SIGSTOP)
    other = start("--lease", 0.5)
    second = stage.next("started")
    assert second.fence > first.fence
    # The frozen one wakes up first: it ends its run, or is ended before it can.
    (stage.directory / "gate.open").touch()
    assert job.result(timeout=30) == "a"
    for pid in (first.pid, worker.pid):
        os.kill(pid, signal.SIGCONT)
    worker.says("child.gone")
    worker.says("child.ready", times=2)
    until(lambda: not is_alive(first.pid), "end of the frozen child")
    assert tasks.add.enqueue(1, 1).result(timeout=30) == 2
    assert other.stop() == 0
    assert tasks.add.enqueue(2, 2).result(timeout=30) == 4
    assert worker.stop() == 0


def test_a_frozen_child_keeps_its_jobs_as_long_as_its_supervisor_lives(start: Start, stage: Stage, tasks: Any) -> None:
    worker = start("--lease", 0.5)
    job = tasks.hold.enqueue("a", "gate")
    fact = stage.next("started")
    os.kill(fact.pid, signal.SIGSTOP)
    other = start("--lease", 0.5)
    # Longer than its lease: the other one has looked for silent workers several times.
    renewals = _renewals(tasks)
    until(lambda: _renewals(tasks) > renewals + 6, "renewals")
    os.kill(fact.pid, signal.SIGCONT)
    stage.open("gate")
    assert job.result(timeout=30) == "a"
    assert stage.said("started") == []
    assert [worker.stop(), other.stop()] == [0, 0]


def _renewals(tasks: Any) -> int:
    client = tasks.add._client
    with client._the_pool().link() as link:
        text = link.command("INFO", "commandstats").decode()
    line = next(line for line in text.splitlines() if line.startswith("cmdstat_hrandfield:"))
    return int(line.partition("calls=")[2].partition(",")[0])
