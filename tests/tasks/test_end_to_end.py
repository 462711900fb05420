"""From `enqueue` to the result, by a real worker in another process."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import Any

import pytest

from holdfast import JobCancelled, JobDead


def test_def_and_async_def_tasks_return_their_results(shop: ModuleType) -> None:
    assert shop.add.enqueue(1, b=2).result(timeout=60) == 3
    assert shop.multiply.enqueue(3, 4).result(timeout=60) == 12
    assert shop.nothing.enqueue().result(timeout=60) is None


def test_results_are_awaited(shop: ModuleType) -> None:
    async def both() -> list[int]:
        jobs = [await shop.add.aenqueue(1, 2), await shop.multiply.aenqueue(3, 4)]
        return list(await asyncio.gather(*[job.aresult(timeout=60) for job in jobs]))

    assert asyncio.run(both()) == [3, 12]


def test_many_keep_their_results_apart(shop: ModuleType) -> None:
    jobs = shop.add.enqueue_many([shop.add.bind(i, b=i) for i in range(300)])
    assert [job.result(timeout=60) for job in jobs] == [2 * i for i in range(300)]


def test_what_waits_for_its_time_is_run_when_it_comes(shop: ModuleType) -> None:
    due = datetime.now(UTC) + timedelta(milliseconds=50)
    jobs = [shop.add.using(delay=0.05).enqueue(1, 2), shop.add.using(run_at=due).enqueue(1, 2)]
    assert [job.result(timeout=60) for job in jobs] == [3, 3]
    assert datetime.now(UTC) >= due


def test_a_job_fails_is_retried_and_succeeds(shop: ModuleType) -> None:
    job = shop.fail_until.enqueue(3)
    assert job.result(timeout=60) == 3


def test_a_job_that_fails_too_often_is_dead_and_may_be_revived(shop: ModuleType) -> None:
    job = shop.fail_until.enqueue(4)
    for _ in range(2):
        with pytest.raises(JobDead, match="ValueError: attempt 3"):
            job.result(timeout=60)
        assert job.revive()


@pytest.mark.parametrize("how", ["retry", "snooze"])
def test_an_end_may_be_returned(shop: ModuleType, how: str) -> None:
    job = shop.return_ends.using(result_ttl=60).enqueue(how)
    if how == "retry":
        with pytest.raises(JobCancelled, match="was cancelled: at attempt 2"):
            job.result(timeout=60)
    else:
        assert job.status() != "dead"
        job.cancel("it would snooze for ever")
        with pytest.raises(JobCancelled):
            job.result(timeout=60)


@pytest.mark.parametrize("name", ["tell", "atell"])
def test_a_job_that_runs_is_cancelled(shop: ModuleType, name: str) -> None:
    job: Any = shop.tell.enqueue("x", until_cancelled=True) if name == "tell" else shop.atell.enqueue()
    while job.status() != "running":
        pass
    assert job.cancel("enough")
    with pytest.raises(JobCancelled, match="was cancelled: enough"):
        job.result(timeout=60)
    assert job.status() == "cancelled"
