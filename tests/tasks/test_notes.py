"""What running jobs say of themselves: progress and log lines."""

from __future__ import annotations

import asyncio
import logging
from types import ModuleType
from typing import Any

import pytest

from holdfast import Cancel, Holdfast, Line, OptionError, Progress, Retry, current_job
from holdfast.admin.audit import audit
from holdfast.tasks.job import Job
from holdfast.tasks.step import MAX_LINE, MOST_CHARACTERS, MOST_LINES, Capture, Step, open_note
from tasks.hand import Hand, outcome_of


def run() -> Any:
    found = current_job()
    assert found is not None
    return found


def texts(job: Job[Any]) -> list[str]:
    return [line.text for line in job.logs()]


def test_progress_is_seen_while_the_job_runs_and_leaves_no_trace(app: Holdfast) -> None:
    @app.task
    def work() -> None:
        run().progress(0.4, "4 of 10")

    hand, job = Hand(app), work.enqueue()
    assert job.progress() is None
    [taken] = hand.take()
    assert job.progress() is None
    outcome = outcome_of(taken)
    hand.tell()
    assert job.progress() == Progress(0.4, "4 of 10")
    assert asyncio.run(_everything(app, job)) == (Progress(0.4, "4 of 10"), [])
    hand.commit([(taken, outcome)])
    assert job.progress() is None
    assert [report.problems for report in audit(app.client)] == [[]]


async def _everything(app: Holdfast, job: Job[Any]) -> tuple[Progress | None, list[Line]]:
    async with app:
        return await job.aprogress(), await job.alogs()


def test_a_job_that_says_much_is_told_of_once(app: Holdfast) -> None:
    @app.task
    def work() -> None:
        for i in range(1000):
            run().progress(i / 1000)

    hand, rung = Hand(app), []
    hand.source.wake = lambda: rung.append(1)
    work.enqueue()
    [taken] = hand.take()
    outcome_of(taken)
    assert (list(hand.source.said), len(rung)) == ([taken], 1)
    hand.tell()
    taken.progress(1)
    assert (list(hand.source.said), len(rung)) == ([taken], 2)


def test_a_job_that_was_given_back_is_not_where_it_was(app: Holdfast) -> None:
    @app.task
    def work() -> None:
        run().progress(0.5)
        run().log("half")

    hand, job = Hand(app), work.enqueue()
    [taken] = hand.take()
    outcome_of(taken)
    hand.tell()
    app.client.run(hand.store.release(hand.feed.token, 1, taken.hold, [taken.entry]))
    assert (job.status(), job.progress(), texts(job)) == ("queued", None, ["half"])


def test_a_job_that_says_nothing_has_nothing_to_tell(app: Holdfast) -> None:
    @app.task
    def work() -> None:
        """Say nothing."""

    hand = Hand(app)
    work.enqueue()
    [taken] = hand.take()
    outcome_of(taken)
    assert taken.step is None
    assert not hand.source.said


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan"), "half", True])
def test_progress_goes_from_0_to_1(share: Any) -> None:
    with pytest.raises(OptionError, match="progress must be a number from 0 to 1"):
        Step().say(share, "")


def test_the_log_is_kept_as_long_as_the_result(app: Holdfast) -> None:
    @app.task
    def work() -> int:
        run().log("first")
        run().log("second", level="WARNING")
        return 1

    hand, job = Hand(app), work.enqueue()
    hand.work()
    assert [(line.level, line.text) for line in job.logs()] == [("INFO", "first"), ("WARNING", "second")]
    assert job.result() == 1
    assert app.job(job.id).logs() == job.logs()
    assert hand.look(job).note == b""


def test_without_a_result_the_log_goes_with_the_job(app: Holdfast) -> None:
    @app.task
    def work() -> None:
        run().log("first")

    hand, job = Hand(app), work.enqueue()
    hand.work()
    assert job.logs() == []
    assert [report.problems for report in audit(app.client)] == [[]]


def test_the_dead_keep_their_log_and_lose_their_progress(app: Holdfast) -> None:
    @app.task(retries=0)
    def work() -> None:
        run().progress(0.9)
        run().log("before it failed")
        raise ValueError

    hand, job = Hand(app), work.enqueue()
    hand.work()
    assert job.status() == "dead"
    assert texts(job) == ["before it failed"]
    assert job.progress() is None
    assert job.revive()
    assert job.logs() == []


def test_a_result_that_json_cannot_carry_leaves_the_log_that_may_tell_why(app: Holdfast) -> None:
    @app.task
    def work() -> Any:
        run().log("strange")
        return object()

    hand, job = Hand(app), work.enqueue()
    hand.work()
    assert (job.status(), texts(job)) == ("dead", ["strange"])


def test_between_two_runs_the_log_of_the_last_one_is_there(app: Holdfast) -> None:
    @app.task(retries=2, backoff=60)
    def work() -> int:
        attempt = run().attempt
        if attempt < 3:
            run().log(f"attempt {attempt}")
            raise Retry
        return attempt

    hand, job = Hand(app), work.enqueue()
    for attempt in (1, 2):
        hand.work()
        assert (job.status(), texts(job)) == ("scheduled", [f"attempt {attempt}"])
        hand.later(60)
    hand.work()
    assert (job.result(), texts(job)) == (3, [])


def test_a_job_that_cancels_itself_keeps_its_log(app: Holdfast) -> None:
    @app.task
    def work() -> None:
        run().log("why")
        raise Cancel("enough")

    hand, job = Hand(app), work.enqueue()
    hand.work()
    assert (job.status(), texts(job)) == ("cancelled", ["why"])


def test_whoever_lost_its_claim_can_say_nothing_of_the_job(app: Holdfast) -> None:
    @app.task
    def work() -> None:
        run().log("from the past")

    job = work.enqueue()
    first, second = Hand(app), Hand(app)
    [taken] = first.take()
    app.client.run(first.store.release(first.feed.token, 1, taken.hold, [taken.entry]))
    second.take()
    outcome_of(taken)
    first.tell()
    assert job.logs() == []


def test_the_oldest_lines_make_room() -> None:
    step = Step()
    for i in range(MOST_LINES + 5):
        step.log(str(i), "INFO")
    assert [line.text for line in step.lines()] == [str(i) for i in range(5, MOST_LINES + 5)]


def test_a_log_is_bounded_in_size_and_a_line_as_well() -> None:
    step = Step()
    for _ in range(MOST_LINES):
        step.log("x" * 5000, "INFO")
    lines = step.lines()
    assert {len(line.text) for line in lines} == {MAX_LINE}
    assert len(lines) == MOST_CHARACTERS // MAX_LINE
    assert lines[0].text.endswith("x…")


def test_text_that_json_cannot_carry_is_made_to_fit() -> None:
    step = Step()
    step.say(1, "\ud800")
    step.log("a\udfffb", "INFO")
    note = open_note(step.note())
    assert (note.progress, note.log[0].text) == (Progress(1.0, "?"), "a?b")


def test_what_a_job_logs_outside_of_one_goes_nowhere() -> None:
    record = logging.makeLogRecord({"msg": "nobody's"})
    Capture().emit(record)


# -- in a real worker ---------------------------------------------------------------------------------


def test_a_worker_shows_what_its_jobs_say(shop: ModuleType) -> None:
    job = shop.tell.enqueue("loud", until_cancelled=True)
    # Its first note may leave before its second line is written.
    while len(texts(job)) < 2:
        pass
    assert texts(job) == ["loud by itself", "loud by logging"]
    assert job.progress() == Progress(0.5, "loud")
    assert job.cancel()


def test_a_worker_keeps_the_log_of_what_ended(shop: ModuleType) -> None:
    job = shop.tell.enqueue("brief", until_cancelled=False)
    assert job.result(timeout=30) == "brief"
    assert [(line.level, line.text) for line in job.logs()] == [
        ("INFO", "brief by itself"),
        ("WARNING", "brief by logging"),
    ]


def test_a_job_of_the_loop_is_heard_as_well(shop: ModuleType) -> None:
    job = shop.atell.enqueue()
    while not job.progress():
        pass
    assert (job.progress(), texts(job)) == (Progress(0.25), ["from a loop"])
    assert job.cancel()


def test_a_thread_of_a_job_is_not_the_job(shop: ModuleType) -> None:
    job = shop.log_from_a_thread.enqueue()
    assert job.result(timeout=30) == 1
    assert texts(job) == ["mine"]
