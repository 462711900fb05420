"""A handle to a job: its status and its result in every state, awaited or not."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any, Optional

import pytest

from holdfast import (
    Cancel,
    Holdfast,
    Job,
    JobCancelled,
    JobDead,
    JobExpired,
    JobNotFound,
    OptionError,
    PayloadError,
    ResultTimeout,
    Retry,
    Snooze,
)
from holdfast.engine.wakeup import end
from tasks.hand import Hand, outcome_of

both_ways = pytest.mark.parametrize("ask", ["waiting", "awaiting"], indirect=True)


@pytest.fixture
def ask(request: pytest.FixtureRequest, app: Holdfast) -> Callable[[Job[Any], str], Any]:
    """Ask a job by its method of this name, or by the one that is awaited."""

    def waiting(job: Job[Any], name: str, *args: Any, **kwargs: Any) -> Any:
        return getattr(job, name)(*args, **kwargs)

    def awaiting(job: Job[Any], name: str, *args: Any, **kwargs: Any) -> Any:
        async def asked() -> Any:
            try:
                return await getattr(job, f"a{name}")(*args, **kwargs)
            finally:
                await app.aclose()

        return asyncio.run(asked())

    return waiting if request.param == "waiting" else awaiting


def add(a: int, b: int) -> int:
    return a + b


def nothing() -> None: ...


def fail() -> int:
    raise ValueError("no such\nthing")


def cancel() -> int:
    raise Cancel("not needed")


def broken_result() -> Any:
    return object()


def wrong_result() -> int:
    return "text"  # type: ignore[return-value]


def rich_result() -> dict[int, datetime]:
    return {1: datetime(2026, 1, 1, tzinfo=UTC)}


def unannotated_result():  # type: ignore[no-untyped-def]
    return {"a": [1, None]}


def bent_result():  # type: ignore[no-untyped-def]
    return {1, 2}


# -- each state ---------------------------------------------------------------------------------------


@both_ways
def test_a_job_that_waits_runs_and_is_done(app: Holdfast, ask: Any) -> None:
    job = app.task(add).enqueue(1, 2)
    assert ask(job, "status") == "queued"
    hand = Hand(app)
    [run] = hand.take()
    assert ask(job, "status") == "running"
    hand.commit([(run, outcome_of(run))])
    assert ask(job, "status") == "done"
    assert ask(job, "result", timeout=0) == 3


@both_ways
def test_a_job_that_returns_nothing_leaves_nothing(app: Holdfast, ask: Any) -> None:
    job = app.task(nothing).enqueue()
    Hand(app).work()
    assert ask(job, "status") == "done"
    assert ask(job, "result", timeout=0) is None
    # Whoever did not put it cannot know that it was there.
    with pytest.raises(JobNotFound, match=f"there is no job {job.id}: it never existed, or it ended and no result is"):
        app.job(job.id)


@both_ways
def test_a_job_between_two_attempts_is_scheduled(app: Holdfast, ask: Any) -> None:
    job = app.task(backoff=60)(fail).enqueue()
    Hand(app).work()
    assert ask(job, "status") == "scheduled"
    with pytest.raises(ResultTimeout, match=f"job {job.id} is still scheduled after 0 s; it goes on"):
        ask(job, "result", timeout=0)


@both_ways
def test_a_job_that_failed_too_often_is_dead_and_says_why(app: Holdfast, ask: Any) -> None:
    job = app.task(retries=0)(fail).enqueue()
    Hand(app).work()
    assert ask(job, "status") == "dead"
    with pytest.raises(JobDead, match=f"^job {job.id} is dead: ValueError: no such$") as caught:
        ask(job, "result")
    assert (caught.value.id, caught.value.reason) == (job.id, "ValueError: no such")


@both_ways
def test_the_dead_come_back_with_all_their_retries(app: Holdfast, ask: Any) -> None:
    task = app.task(retries=1, backoff=0)(fail)
    job, hand = task.enqueue(), Hand(app)
    for _ in range(2):
        hand.later(1)
        hand.work()
    assert ask(job, "status") == "dead"
    assert ask(job, "revive") is True
    assert ask(job, "status") == "queued"
    assert ask(job, "revive") is False
    [run] = hand.take()
    assert run.attempt == 1
    hand.commit([(run, run.failed(ValueError()))])
    assert ask(job, "status") == "scheduled"


@both_ways
def test_a_job_that_was_not_started_is_cancelled_at_once(app: Holdfast, ask: Any) -> None:
    job = app.task(add).enqueue(1, 2)
    assert ask(job, "cancel", "no need") is True
    assert ask(job, "status") == "cancelled"
    assert Hand(app).work() == []
    with pytest.raises(JobCancelled, match=f"^job {job.id} was cancelled: no need$"):
        ask(job, "result")
    assert ask(job, "cancel") is False


@both_ways
def test_a_job_that_runs_is_asked_to_stop(app: Holdfast, ask: Any) -> None:
    job, hand = app.task(add).enqueue(1, 2), Hand(app)
    [run] = hand.take()
    assert ask(job, "cancel") is True
    assert ask(job, "status") == "running"
    hand.commit([(run, outcome_of(run))])
    assert (ask(job, "status"), ask(job, "result")) == ("done", 3)


def test_a_job_whose_worker_died_after_it_was_cancelled_does_not_start_again(app: Holdfast) -> None:
    job, hand = app.task(add).enqueue(1, 2), Hand(app)
    hand.take()
    job.cancel("no need")
    app.client.run(hand.store.sweep(hand.feed.token, "died", max_crashes=3, error="killed"))
    assert job.status() == "queued"
    [ended] = Hand(app).work()
    assert ended.verdict == "cancelled"
    assert job.status() == "cancelled"


def test_a_crash_counts_as_an_attempt(app: Holdfast) -> None:
    job, hand = app.task(add).enqueue(1, 2), Hand(app)
    hand.take()
    app.client.run(hand.store.sweep(hand.feed.token, "died", max_crashes=3, error="killed", culprits=[job.id]))
    hand = Hand(app)
    [run] = hand.take(alone=True)
    assert run.attempt == 2


@both_ways
def test_a_job_may_cancel_itself(app: Holdfast, ask: Any) -> None:
    job = app.task(cancel).enqueue()
    Hand(app).work()
    assert ask(job, "status") == "cancelled"
    with pytest.raises(JobCancelled, match="was cancelled: not needed"):
        ask(job, "result")


@both_ways
def test_a_job_that_expired_says_so(app: Holdfast, ask: Any) -> None:
    job, hand = app.task(add).using(expires=1).enqueue(1, 2), Hand(app)
    hand.later(2)
    hand.work()
    assert ask(job, "status") == "expired"
    with pytest.raises(JobExpired, match=r"expired: not started in time"):
        ask(job, "result")


def test_a_reason_may_be_anything(app: Holdfast) -> None:
    task = app.task(add)
    jobs = [task.enqueue(1, 2) for _ in range(3)]
    for job, reason in zip(jobs, ["", "\ud800", '"\\\n'], strict=True):
        job.cancel(reason)
    assert [job.status() for job in jobs] == ["cancelled"] * 3
    with pytest.raises(JobCancelled, match=r"was cancelled$"):
        jobs[0].result()


# -- results ------------------------------------------------------------------------------------------


def result_of(app: Holdfast, function: Callable[..., Any], *args: Any) -> Any:
    job = app.task(function).enqueue(*args)
    Hand(app).work()
    return job.result(timeout=0)


def test_a_result_is_restored_by_the_annotation(app: Holdfast) -> None:
    assert result_of(app, rich_result) == {1: datetime(2026, 1, 1, tzinfo=UTC)}
    assert result_of(app, unannotated_result) == {"a": [1, None]}


def number_or_retry() -> int | Retry:
    return 5


def nothing_or_ends() -> Retry | Snooze | None:
    return None


def only_an_end() -> Cancel:
    return Cancel("always")


def optional_or_end() -> Optional[dict[int, str] | Cancel]:  # noqa: UP045 - the older way
    return {1: "a"}


def test_an_end_that_is_annotated_is_no_part_of_the_result(app: Holdfast) -> None:
    assert result_of(app, number_or_retry) == 5
    assert result_of(app, optional_or_end) == {1: "a"}
    assert result_of(app, nothing_or_ends) is None
    nothing = [app.task(function).definition.result_ttl_ms for function in (nothing_or_ends, only_an_end)]
    assert nothing == [0, 0]
    with pytest.raises(JobCancelled, match="was cancelled: always"):
        result_of(app, only_an_end)


def test_a_job_that_was_found_again_may_leave_no_trace(app: Holdfast) -> None:
    found = app.job(app.task(nothing).enqueue().id)
    assert found.status() == "queued"
    Hand(app).work()
    for ask in (found.status, found.result):
        with pytest.raises(JobNotFound, match=f"there is no job {found.id}"):
            ask()


def test_of_a_job_that_was_found_again_the_result_is_plain(app: Holdfast) -> None:
    job = app.task(rich_result).enqueue()
    Hand(app).work()
    found = app.job(job.id)
    assert found.result(timeout=0) == {"1": "2026-01-01T00:00:00Z"}
    assert (found, hash(found), found.queue) == (job, hash(job), "default")
    assert repr(found) == f"<Job {job.id} in default>"


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (broken_result, "PayloadError: the result: object would not arrive as such"),
        (bent_result, "PayloadError: the result: set would not arrive as such; annotate it"),
    ],
)
def test_a_result_that_json_cannot_carry_is_no_reason_to_run_it_again(
    app: Holdfast, function: Callable[..., Any], said: str
) -> None:
    with pytest.raises(JobDead, match=said):
        result_of(app, function)


def test_a_result_that_is_too_large_is_refused(server: Any) -> None:
    def large() -> str:
        return "x" * 2000

    with Holdfast(server.url, max_payload=1024) as app, pytest.raises(JobDead, match=r"2,002 bytes, 1,024 are allowed"):
        result_of(app, large)


def test_a_result_that_is_not_what_was_annotated_is_refused_where_it_is_read(app: Holdfast) -> None:
    with pytest.raises(PayloadError, match=r"returned what its task's annotation does not say: Expected `int`"):
        result_of(app, wrong_result)


@pytest.mark.parametrize(("ttl", "ms"), [(None, 3_600_000), (60, 60_000), (timedelta(days=2), 172_800_000)])
def test_a_result_is_kept_for_an_hour_or_as_long_as_wanted(app: Holdfast, ttl: Any, ms: int) -> None:
    job = app.task(result_ttl=ttl)(add).enqueue(1, 2)
    hand = Hand(app)
    hand.work()
    left = app.client.run(hand.store.expiry(f"result:{job.id}"))
    assert ms - 60_000 < left <= ms


def test_no_result_is_kept_if_none_is_wanted(app: Holdfast) -> None:
    job = app.task(result_ttl=0)(add).enqueue(1, 2)
    hand = Hand(app)
    hand.work()
    assert app.client.run(hand.store.expiry(f"result:{job.id}")) == -2
    assert job.result(timeout=0) is None


# -- waiting ------------------------------------------------------------------------------------------


def until_watched(app: Holdfast, job: Job[Any]) -> None:
    """Until somebody waits for the end of this job, and would hear it."""
    with app.client._the_pool().link() as link:
        while not link.command("PUBSUB", "NUMSUB", end(job._store.partition, job.id))[1]:
            pass
        while link.command("ZSCORE", job._store.partition.key("watched"), job.id) is None:
            pass


@both_ways
@pytest.mark.parametrize("how", ["done", "dead", "cancelled"])
def test_whoever_waits_is_told_of_the_end(app: Holdfast, ask: Any, how: str) -> None:
    hand, job = Hand(app), app.task(retries=0)(fail if how == "dead" else add).enqueue(*[1, 2][: 2 * (how != "dead")])
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(ask, job, "result", timeout=60)
        until_watched(app, job)
        if how == "cancelled":
            job.cancel()
        hand = Hand(app)
        hand.work()
        if how == "done":
            assert waiting.result() == 3
        else:
            with pytest.raises(JobDead if how == "dead" else JobCancelled):
                waiting.result()


def test_any_number_may_wait_for_one_job(app: Holdfast) -> None:
    job = app.task(add).enqueue(1, 2)

    async def all_of_them() -> list[int]:
        async with asyncio.timeout(60):
            try:
                return list(await asyncio.gather(*[job.aresult(timeout=60) for _ in range(5)]))
            finally:
                await app.aclose()

    with ThreadPoolExecutor(5) as threads:
        waiting = [threads.submit(job.result, timeout=60) for _ in range(4)]
        in_loop = threads.submit(asyncio.run, all_of_them())
        with app.client._the_pool().link() as link:
            # Each thread has a connection of its own, a loop has one for all.
            while link.command("PUBSUB", "NUMSUB", end(job._store.partition, job.id))[1] < 5:
                pass
        Hand(app).work()
        assert [each.result() for each in waiting] == [3] * 4
        assert in_loop.result() == [3] * 5


@both_ways
@pytest.mark.parametrize("timeout", [0.05, timedelta(milliseconds=50)])
def test_whoever_waited_long_enough_is_told_that_the_job_goes_on(app: Holdfast, ask: Any, timeout: Any) -> None:
    job = app.task(add).enqueue(1, 2)
    with pytest.raises(ResultTimeout, match=rf"job {job.id} is still queued after 0.05 s; it goes on") as caught:
        ask(job, "result", timeout=timeout)
    assert isinstance(caught.value, TimeoutError)
    Hand(app).work()
    assert ask(job, "result", timeout=0) == 3


@pytest.mark.parametrize("timeout", ["5", float("nan"), True, 1e15])
def test_a_timeout_is_a_number_of_seconds(app: Holdfast, timeout: Any) -> None:
    with pytest.raises(OptionError, match="timeout must be a number of seconds"):
        app.task(add).enqueue(1, 2).result(timeout=timeout)


def test_one_who_gives_up_does_not_disturb_the_others(app: Holdfast) -> None:
    job = app.task(add).enqueue(1, 2)
    waiting = threading.Event()

    async def two() -> int:
        patient, hasty = asyncio.create_task(job.aresult(60)), asyncio.create_task(job.aresult(60))
        await asyncio.to_thread(until_watched, app, job)
        hasty.cancel()
        await asyncio.gather(hasty, return_exceptions=True)
        waiting.set()
        try:
            return await patient
        finally:
            await app.aclose()

    with ThreadPoolExecutor(1) as thread:
        result = thread.submit(asyncio.run, two())
        waiting.wait(60)
        Hand(app).work()
        assert result.result(60) == 3


def test_a_job_that_never_was_is_not_found(app: Holdfast) -> None:
    app.task(add).enqueue(1, 2)
    for id in ("nothing", "", "0" * 20, "a b\n"):
        with pytest.raises(JobNotFound, match="there is no job "):
            app.job(id)
        with pytest.raises(JobNotFound, match="there is no job "):
            asyncio.run(app.ajob(id))


def test_an_application_that_knows_no_queue_finds_no_job(app: Holdfast) -> None:
    with pytest.raises(JobNotFound):
        app.job("nothing")
    with pytest.raises(JobNotFound):
        asyncio.run(app.ajob("nothing"))


def test_a_job_is_found_again_in_whatever_queue_it_is(server: Any) -> None:
    with Holdfast(server.url, partitions={"wide": 5}) as app:
        task = app.task(add)
        jobs = [task.using(queue=f"q{i % 3}").enqueue(i, 2) for i in range(6)]
        jobs += task.using(queue="wide").enqueue_many([(i, 2) for i in range(20)])
        assert [app.job(job.id).queue for job in jobs] == [job.queue for job in jobs]
        assert asyncio.run(app.ajob(jobs[-1].id)) == jobs[-1]
