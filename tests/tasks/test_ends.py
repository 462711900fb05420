"""What a task may end with: a value, an error, and the three ends, raised or returned."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from holdfast import Cancel, Cancelled, Holdfast, Retry, Snooze, UsageError, current_job
from holdfast.engine.keys import Partition
from holdfast.tasks.source import MAX_ERROR, MOST_BORN, described
from tasks.hand import Hand


def outcome(app: Holdfast, function: Callable[..., Any], **options: Any) -> tuple[Any, Hand, Any]:
    """How it ended, once."""
    job = app.task(**options)(function).enqueue()
    hand = Hand(app)
    [ended] = hand.work()
    return ended, hand, job


def either_way(make: Callable[[], BaseException]) -> list[Callable[[], Any]]:
    """Four functions that end with it."""

    def raising() -> None:
        raise make()

    def returning() -> Any:
        return make()

    async def araising() -> None:
        raise make()

    async def areturning() -> Any:
        return make()

    return [raising, returning, araising, areturning]


@pytest.mark.parametrize("function", either_way(lambda: Retry(delay=30, reason="the bank is closed")))
def test_retry_runs_again_after_its_delay_and_counts(app: Holdfast, function: Any) -> None:
    ended, hand, job = outcome(app, function)
    assert (ended.verdict, ended.delay_ms) == ("retry", 30_000)
    look = hand.look(job)
    assert (look.place, look.marks.failures) == ("scheduled", 1)
    assert look.error.startswith("Retry: the bank is closed")


@pytest.mark.parametrize("function", either_way(Retry))
def test_retry_without_a_delay_waits_as_the_task_says(app: Holdfast, function: Any) -> None:
    ended, _, _ = outcome(app, function, backoff=[7])
    assert (ended.verdict, ended.delay_ms) == ("retry", 7000)


@pytest.mark.parametrize("function", either_way(lambda: Retry(delay=0)))
def test_retry_is_no_way_around_the_limit(app: Holdfast, function: Any) -> None:
    _, _, job = outcome(app, function, retries=0)
    assert job.status() == "dead"


@pytest.mark.parametrize("function", either_way(lambda: Snooze(timedelta(minutes=1))))
def test_snooze_runs_again_and_does_not_count(app: Holdfast, function: Any) -> None:
    ended, hand, job = outcome(app, function, retries=0)
    assert (ended.verdict, ended.delay_ms) == ("snooze", 60_000)
    hand.later(60)
    [run] = hand.take()
    assert (run.attempt, hand.look(job).error) == (1, "")


@pytest.mark.parametrize("function", either_way(lambda: Cancel("no longer needed")))
def test_cancel_ends_it_for_good(app: Holdfast, function: Any) -> None:
    ended, _, job = outcome(app, function)
    assert (ended.verdict, job.status()) == ("cancelled", "cancelled")


@pytest.mark.parametrize(
    ("end", "verdict", "said"),
    [
        (Retry, "retry", "Retry: asked to be"),
        (Cancel, "cancelled", ""),
        (Snooze, "retry", "TypeError: Snooze.__init__"),
    ],
)
def test_a_class_that_was_returned_is_taken_for_what_was_meant(
    app: Holdfast, end: Any, verdict: str, said: str
) -> None:
    def careless() -> None:
        return end

    [ended] = [outcome(app, careless)[0]]
    assert ended.verdict == verdict
    assert ended.error.startswith(said)


class Own(Snooze):
    def __init__(self) -> None:
        """Forget those before."""


class OwnRetry(Retry):
    def __init__(self) -> None:
        """Forget those before."""


class OwnCancel(Cancel):
    def __init__(self) -> None:
        """Forget those before."""


@pytest.mark.parametrize(("end", "verdict"), [(Own, "snooze"), (OwnRetry, "retry"), (OwnCancel, "cancelled")])
def test_an_end_of_ones_own_needs_nothing(app: Holdfast, end: Any, verdict: str) -> None:
    def careful() -> None:
        raise end

    assert outcome(app, careful)[0].verdict == verdict


class Model:
    def model_dump(self, mode: str) -> Any:
        raise LookupError("no such column")


def model() -> Model:
    return Model()


def test_a_model_that_cannot_be_dumped_ends_its_job_and_nothing_else(app: Holdfast) -> None:
    ended, _, job = outcome(app, model)
    assert ended.verdict == "dead"
    assert "the result: Model is nothing that JSON could carry (no such column)" in ended.error
    assert job.status() == "dead"


def test_what_cannot_be_told_of_a_task_at_its_end_ends_its_job_and_nothing_else(app: Holdfast) -> None:
    def task() -> int:
        return 1

    app.task(task).enqueue()
    [run] = Hand(app).take()
    task.__annotations__["return"] = "Missing"
    run.task.__dict__.pop("signature", None)
    run.task.__dict__.pop("result_ttl_ms", None)
    ended = run.ended(1)
    assert ended.verdict == "dead"
    assert "an annotation of task() cannot be read: name 'Missing' is not defined" in ended.error


def test_cancelled_by_itself_is_a_failure_like_any_other(app: Holdfast) -> None:
    def confused() -> None:
        raise Cancelled("by nobody")

    assert outcome(app, confused)[0].verdict == "retry"


def test_one_that_was_cancelled_while_it_ran_may_heed_it(app: Holdfast) -> None:
    def patient() -> None:
        run = current_job()
        assert run is not None
        run.check_cancelled()
        run.wish = True
        run.check_cancelled()

    ended, _, job = outcome(app, patient)
    assert ended.verdict == "cancelled"
    assert job.status() == "cancelled"


def test_an_error_is_retried_until_the_retries_are_used_up(app: Holdfast) -> None:
    seen = []

    @app.task(retries=2, backoff=10)
    def fail() -> None:
        run = current_job()
        assert run is not None
        seen.append((run.attempt, run.fence))
        raise ValueError("again")

    job, hand = fail.enqueue(), Hand(app)
    for _ in range(5):
        hand.work()
        hand.later(10)
    assert [attempt for attempt, _ in seen] == [1, 2, 3]
    assert seen == sorted(seen, key=lambda pair: pair[1])
    assert len({fence for _, fence in seen}) == 3
    assert job.status() == "dead"


def test_by_default_there_are_25_retries(app: Holdfast) -> None:
    @app.task
    def fail() -> None:
        raise ValueError

    job, hand = fail.enqueue(), Hand(app)
    attempts = 0
    while job.status() != "dead":
        attempts += len(hand.work())
        hand.later(30 * 86_400)
    assert attempts == 26


@pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt(), GeneratorExit()], ids=repr)
def test_even_what_should_end_a_process_is_a_failure_of_the_job(app: Holdfast, error: BaseException) -> None:
    app.task(nothing).enqueue()
    [run] = Hand(app).take()
    assert run.failed(error).verdict == "retry"


def nothing() -> None: ...


# -- what is kept of an error -------------------------------------------------------------------------


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


class Exiting(Exception):
    def __str__(self) -> str:
        raise SystemExit


class Deep(Exception):
    def __str__(self) -> str:
        return "x" * 100_000


def caught(make: Callable[[], BaseException]) -> BaseException:
    try:
        raise make()
    except BaseException as error:
        return error


def recurse() -> None:
    recurse()


def test_an_error_is_kept_with_its_type_its_text_and_its_place() -> None:
    text = described(caught(lambda: ValueError("what")))
    assert text.startswith("ValueError: what\n")
    assert ", in caught\n    raise make()" in text


@pytest.mark.parametrize(
    ("error", "start"),
    [
        (Unspeakable(), "Unspeakable: (its text cannot be had: RuntimeError)"),
        (Exiting(), "Exiting: (its text cannot be had: SystemExit)"),
        (Deep(), "Deep: xxxx"),
        (ValueError("\ud800"), "ValueError: ?"),
        (ValueError(), "ValueError: "),
        (KeyError("a"), "KeyError: 'a'"),
        (ExceptionGroup("several", [ValueError("a")]), "ExceptionGroup: several (1 sub-exception)"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_whatever_the_error_is_its_text_fits(error: Exception, start: str) -> None:
    text = described(error)
    assert text.startswith(start.rstrip())
    assert len(text.encode()) <= MAX_ERROR + 1


def test_of_a_deep_recursion_the_end_is_kept() -> None:
    with pytest.raises(RecursionError) as info:
        recurse()
    text = described(info.value)
    assert text.startswith("RecursionError: maximum recursion depth exceeded")
    assert len(text) <= MAX_ERROR + 1


# -- what a step brings -------------------------------------------------------------------------------


def test_spawned_jobs_are_there_when_the_job_has_ended_well(app: Holdfast) -> None:
    children: list[Any] = []

    @app.task(retries=1, backoff=0)
    def parent(fails: bool) -> None:
        children.append(child.spawn(len(children)))
        assert children[-1].status() == "done"  # as far as the store knows
        if fails and len(children) == 1:
            raise ValueError

    @app.task
    def child(n: int) -> int:
        return n

    hand = Hand(app)
    parent.enqueue(fails=True)
    hand.work()
    hand.later(1)
    hand.work(1)
    assert [job.status() for job in children] == ["done", "queued"]
    hand.work()
    assert children[1].result(timeout=0) == 1


@pytest.mark.parametrize("end", [lambda: Snooze(1), lambda: Retry(1), Cancel, ValueError])
def test_nothing_is_born_of_any_other_end(app: Holdfast, end: Any) -> None:
    @app.task
    def child() -> None: ...

    def parent() -> None:
        child.spawn()
        raise end()

    ended, hand, _ = outcome(app, parent)
    assert list(ended.born) == []
    assert app.client.run(hand.store.size("ready")) == 0


def test_spawned_into_another_queue_they_go_by_the_outbox(app: Holdfast) -> None:
    @app.task(queue="other", key="k")
    def child(n: int) -> None: ...

    @app.task
    def parent() -> int:
        child.spawn(1)
        child.using(delay=60, queue="default").spawn(2)
        return 5

    job, hand = parent.enqueue(), Hand(app)
    hand.work()
    assert job.result(timeout=0) == 5
    assert app.client.run(hand.store.size("later")) == 1
    [outgoing] = app.client.run(hand.store.relay(10))
    assert outgoing.partition == str(Partition("test", "other"))


def test_a_step_brings_no_more_than_the_store_takes_at_once(app: Holdfast) -> None:
    @app.task
    def child(n: int) -> None: ...

    @app.task
    def parent(count: int) -> None:
        for n in range(count):
            child.spawn(n)

    hand = Hand(app)
    parent.enqueue(MOST_BORN)
    [ended] = hand.work(1)
    assert ended.verdict == "done"
    assert app.client.run(hand.store.size("ready")) == MOST_BORN
    parent.using(at_front=True, retries=0).enqueue(MOST_BORN + 1)
    [ended] = hand.work(1)
    assert "UsageError: one step brings at most 1,000 jobs: spawn one that enqueues the rest" in ended.error


def test_nothing_is_spawned_outside_of_a_job(app: Holdfast) -> None:
    assert current_job() is None
    with pytest.raises(UsageError, match="spawn works only inside a running job"):
        app.task(nothing).spawn()
