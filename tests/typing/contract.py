"""The public contract as type checkers see it. Nothing here runs: `make types` reads it.

Each line that is marked as an error must be one: an ignore that ignores nothing is an error itself.
"""

from __future__ import annotations

from collections.abc import Coroutine
from datetime import datetime, timedelta
from typing import Any, assert_type

from holdfast import Cancel, Holdfast, Job, Line, Progress, Retry, Run, Snooze, Task, current_job
from holdfast.tasks.job import Jobs
from holdfast.tasks.task import Bound

app = Holdfast()


@app.task
def add(a: int, b: int = 2) -> int:
    return a + b


@app.task
async def fetch(url: str, *, tries: int = 3) -> bytes | None:
    return url.encode() * tries


@app.task(queue="mail", retries=5, backoff=[1, timedelta(minutes=1)], timeout=30, key="k", unique=True)
def send(to: str) -> None: ...


@app.task()
def bare(numbers: list[int]) -> int | Retry:
    return sum(numbers) or Retry(5)


@app.task(key=lambda account: f"account:{account}", backoff=lambda count: 2.0**count)
async def charge(account: int) -> dict[str, int]:
    return {"account": account}


def tasks_are_still_functions() -> None:
    assert_type(add(1, 2), int)
    assert_type(add.name, str)
    _ = assert_type(fetch("a"), Coroutine[Any, Any, bytes | None])
    _ = assert_type(charge(1), Coroutine[Any, Any, dict[str, int]])
    assert_type(send("a"), None)
    add("1")  # type: ignore[arg-type]
    add()  # type: ignore[call-arg]
    add(1, 2, 3)  # type: ignore[call-arg]
    _ = fetch("a", tries="3")  # type: ignore[arg-type]


def arguments_of_jobs_are_checked() -> None:
    assert_type(add.enqueue(1), Job[int])
    assert_type(add.enqueue(1, b=2), Job[int])
    assert_type(bare.enqueue([1]), Job[int | Retry])
    assert_type(fetch.enqueue("a", tries=1), Job[bytes | None])
    assert_type(send.enqueue("a"), Job[None])
    assert_type(charge.enqueue(1), Job[dict[str, int]])
    assert_type(add.spawn(1, 2), Job[int])
    assert_type(fetch.spawn("a"), Job[bytes | None])
    add.enqueue("1")  # type: ignore[arg-type]
    add.enqueue(1, c=2)  # type: ignore[call-arg]
    add.enqueue()  # type: ignore[call-arg]
    add.enqueue(1, delay=5)  # type: ignore[call-arg]
    fetch.enqueue("a", 3)  # type: ignore[call-arg]
    send.enqueue(None)  # type: ignore[arg-type]
    charge.spawn("1")  # type: ignore[arg-type]


async def jobs_are_put_from_loops() -> None:
    assert_type(await add.aenqueue(1, 2), Job[int])
    assert_type(await fetch.aenqueue("a"), Job[bytes | None])
    assert_type(await add.aenqueue_many([(1, 2)]), Jobs[int])
    await add.aenqueue("1")  # type: ignore[arg-type]
    await send.aenqueue()  # type: ignore[call-arg]


def many_are_put_at_once() -> None:
    assert_type(add.enqueue_many([(1, 2), (3, 4)]), Jobs[int])
    assert_type(add.enqueue_many([(1,)])[0], Job[int])
    assert_type([job.result() for job in add.enqueue_many([(1,)])], list[int])
    assert_type(add.bind(1, b=2), Bound)
    assert_type(add.enqueue_many([add.bind(1), (3, 4)]), Jobs[int])
    assert_type(add.enqueue_many((n,) for n in range(3)), Jobs[int])
    add.bind("1")  # type: ignore[arg-type]
    add.bind(1, c=2)  # type: ignore[call-arg]
    add.enqueue_many([1, 2])  # type: ignore[list-item]


def options_are_checked() -> None:
    later = add.using(delay=60, queue="low", priority=10, key="acct:7", at_front=True)
    assert_type(later(1, 2), int)
    assert_type(later.enqueue(1), Job[int])
    assert_type(later.using(run_at=datetime.now()).enqueue(1, 2), Job[int])
    assert_type(fetch.using(delay=timedelta(1)).enqueue("a"), Job[bytes | None])
    later.enqueue("1")  # type: ignore[arg-type]
    add.using(prioritty=1)  # type: ignore[call-arg]
    add.using(priority="high")  # type: ignore[arg-type]
    add.using(delay="5")  # type: ignore[arg-type]
    add.using(run_at=5)  # type: ignore[arg-type]
    add.using(on_failure="pass")  # type: ignore[arg-type]
    add.using(unique=False)  # type: ignore[arg-type]
    add.using(name="other")  # type: ignore[call-arg]
    app.task(retires=3)  # type: ignore[call-overload]
    app.task(backoff="soon")  # type: ignore[arg-type]


def handles_know_their_results(job: Job[int], unknown: Job[Any]) -> None:
    assert_type(job.id, str)
    assert_type(job.status(), str)
    assert_type(job.result(timeout=5), int)
    assert_type(job.result(timedelta(seconds=5)), int)
    assert_type(job.cancel("no need"), bool)
    assert_type(job.revive(), bool)
    assert_type(job.progress(), Progress | None)
    assert_type(job.logs(), list[Line])
    assert_type(app.job("id"), Job[Any])
    assert_type(add.enqueue(1).result() + 1, int)
    send.enqueue("a").result() + 1  # type: ignore[operator]
    job.result(timeout="5")  # type: ignore[arg-type]


async def handles_are_awaited(job: Job[int]) -> None:
    assert_type(await app.ajob("id"), Job[Any])
    assert_type(await job.astatus(), str)
    assert_type(await job.aresult(timeout=5), int)
    assert_type(await job.acancel(), bool)
    assert_type(await job.arevive(), bool)
    assert_type(await job.aprogress(), Progress | None)
    assert_type(await job.alogs(), list[Line])
    assert_type(await (await fetch.aenqueue("a")).aresult(), bytes | None)


def inside_of_a_job() -> None:
    run = current_job()
    assert_type(run, Run | None)
    print(run.fence)  # type: ignore[union-attr]
    if run is not None:
        assert_type(run.id, str)
        assert_type(run.attempt, int)
        assert_type(run.fence, int)
        assert_type(run.deadline, datetime | None)
        run.progress(0.4, "text")
        run.log("a line")
        run.check_cancelled()
        run.progress("half")  # type: ignore[arg-type]
    raise Retry(delay=timedelta(seconds=1), reason="closed")


def ends_take_durations() -> None:
    Snooze(5)
    Snooze(timedelta(1))
    Cancel("reason")
    Snooze()  # type: ignore[call-arg]
    Retry("5")  # type: ignore[arg-type]


class Mailer:
    """A task may be kept anywhere."""

    def __init__(self, task: Task[[str], None, None]) -> None:
        self.task = task

    def send(self, to: str) -> Job[None]:
        return self.task.enqueue(to)


Mailer(send)
Mailer(add)  # type: ignore[arg-type]
