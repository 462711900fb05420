"""Every way in which a job may end, or not even begin; none of them hurts what comes after it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast import Holdfast
from holdfast.engine.model import Entry
from holdfast.errors import JobCancelled, JobDead, JobEnded, JobExpired
from holdfast.ids import new_id
from holdfast.wire.sync import Link
from lifecycle.conftest import Start
from lifecycle.play import Stage, until
from servers import Server


@pytest.mark.parametrize("how", ["value", "sys.exit", "KeyboardInterrupt", "retry"])
def test_whatever_a_job_raises_its_thread_goes_on(start: Start, stage: Stage, tasks: Any, how: str) -> None:
    worker = start("--threads", 1)
    assert tasks.end.enqueue(how).result(timeout=30) == how
    assert [fact.attempt for fact in stage.said("ran")] == ([1] if how == "value" else [1, 2])
    assert worker.log.count("child.ready") == 1


@pytest.mark.parametrize("how", ["result", "error", "reason", "message"])
@pytest.mark.parametrize("name", ["end_oddly", "end_oddly_async"])
def test_whatever_nobody_can_look_at_is_an_end_as_well(
    start: Start, stage: Stage, tasks: Any, name: str, how: str
) -> None:
    worker = start("--threads", 1, "--async-slots", 1)
    with pytest.raises(JobEnded):
        getattr(tasks, name).enqueue(how).result(timeout=30)
    assert tasks.add.enqueue(1, 2).result(timeout=30) == 3
    assert tasks.add_async.enqueue(1, 2).result(timeout=30) == 3
    assert worker.log.count("child.ready") == 1


def test_a_job_that_cancels_itself_does_not_run_again(start: Start, stage: Stage, tasks: Any) -> None:
    start()
    with pytest.raises(JobCancelled, match="no need"):
        tasks.end.enqueue("cancel").result(timeout=30)
    assert len(stage.said("ran")) == 1


def test_a_job_that_fails_is_retried_and_counts_its_attempts(start: Start, stage: Stage, tasks: Any) -> None:
    start()
    assert tasks.fail.enqueue("a", 3).result(timeout=30) == 4
    with pytest.raises(JobDead, match="RuntimeError: not yet"):
        tasks.fail.using(retries=1).enqueue("b", 3).result(timeout=30)
    assert [fact.attempt for fact in stage.said("ran", "b")] == [1, 2]


def test_a_job_that_snoozes_comes_back_and_has_not_failed(start: Start, stage: Stage, tasks: Any) -> None:
    start()
    job = tasks.snooze.enqueue("a", "gate")
    assert [fact.attempt for fact in stage.several(3, "ran")] == [1, 1, 1]
    stage.open("gate")
    assert job.result(timeout=30) == "a"


def test_what_no_worker_can_read_is_set_aside_and_nothing_else_stops(
    start: Start, stage: Stage, app: Holdfast, tasks: Any
) -> None:
    store = app.client.store_at("default", 0)
    broken = [
        b"not JSON",
        b"{}",
        b"\xff\xfe",
        b'{"task": "nobody knows it"}',
        b'{"task": "add", "args": ["one", "two"]}',
    ]
    tasks.note.enqueue("before")
    for envelope in broken:
        app.client.put(store, [Entry(new_id(), envelope)])
    tasks.note.enqueue("after")
    worker = start()
    assert {fact.name for fact in stage.several(2, "ran")} == {"before", "after"}
    until(lambda: app.client.run(store.size("broken")) == len(broken), "broken entries")
    assert tasks.add.enqueue(1, 2).result(timeout=30) == 3
    assert worker.log.count("child.ready") == 1


def test_a_program_that_knows_only_lpush_and_json_can_put_jobs(
    start: Start, stage: Stage, server: Server, app: Holdfast
) -> None:
    start()
    link = Link(server.address)
    inbox = app.client.store_at("default", 0).partition.key("inbox")
    link.command("LPUSH", inbox, json.dumps({"task": "note", "args": ["from afar"]}))
    link.close()
    assert stage.next("ran").name == "from afar"


def test_a_job_that_was_not_started_in_time_has_expired(start: Start, stage: Stage, tasks: Any) -> None:
    job = tasks.hold.using(expires=0.05).enqueue("too late")
    # Whatever is put 100 ms later by the server's clock is due after the first one has expired.
    tasks.hold.using(delay=0.1).enqueue("in time")
    until(lambda: _is_due(tasks), "due job")
    start()
    with pytest.raises(JobExpired):
        job.result(timeout=30)
    assert stage.next("started").name == "in time"
    assert job.status() == "expired"


def _is_due(tasks: Any) -> bool:
    client = tasks.hold._client
    store = client.store_at("default", 0)
    with client._the_pool().link() as link:
        seconds, micros = link.command("TIME")
    return int(seconds) * 1000 + int(micros) / 1000 > next(iter(client.run(store.page("later", 0, 1)).values()))
