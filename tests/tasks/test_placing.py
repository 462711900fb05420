"""How a job takes its place: delays, times, priorities, keys, unique names, expiry; and options that cannot be."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast import DurabilityUncertain, Holdfast, JobExpired, OptionError
from holdfast.clock import as_ms
from holdfast.tasks.job import Job
from tasks.hand import Hand


@pytest.fixture
def ran(app: Holdfast) -> list[Any]:
    """What the task `note` was called with, in order."""
    return []


@pytest.fixture
def note(app: Holdfast, ran: list[Any]) -> Any:
    @app.task
    def note(value: Any) -> None:
        ran.append(value)

    return note


@pytest.fixture
def hand(app: Holdfast, note: Any) -> Hand:
    return Hand(app)


# -- when ---------------------------------------------------------------------------------------------


def now_of(hand: Hand) -> int:
    return hand.client.run(hand.store.claim(hand.feed.token, 1)).now


@pytest.mark.parametrize("delay", [60, 60.0004, timedelta(minutes=1)], ids=repr)
def test_a_delay_counts_from_the_servers_now(hand: Hand, note: Any, ran: list[Any], delay: Any) -> None:
    before = now_of(hand)
    job = note.using(delay=delay).enqueue(1)
    assert before + 60_000 <= hand.look(job).when <= now_of(hand) + 60_000
    assert job.status() == "scheduled"
    assert hand.work() == []
    hand.later(60)
    assert len(hand.work()) == 1


@pytest.mark.parametrize("delay", [0, -5, timedelta(days=-1), 0.0004, None], ids=repr)
def test_no_delay_is_now(note: Any, delay: Any) -> None:
    assert note.using(delay=delay).enqueue(1).status() == "queued"


@pytest.mark.parametrize(("microsecond", "ms"), [(123_000, 123), (123_001, 124), (123_999, 124), (0, 0)])
def test_a_time_is_kept_to_the_millisecond_and_never_too_early(
    hand: Hand, note: Any, microsecond: int, ms: int
) -> None:
    soon = datetime.now(UTC).replace(microsecond=microsecond) + timedelta(days=30)
    job = note.using(run_at=soon).enqueue(1)
    assert hand.look(job).when == as_ms(soon)
    assert hand.look(job).when % 1000 == ms


def test_a_time_in_the_past_is_now(note: Any) -> None:
    assert note.using(run_at=datetime(2020, 1, 1, tzinfo=UTC)).enqueue(1).status() == "queued"
    assert note.using(run_at=datetime(1960, 1, 1, tzinfo=UTC)).enqueue(1).status() == "queued"


# -- in which order -----------------------------------------------------------------------------------


def test_first_in_first_out_also_of_many(hand: Hand, note: Any, ran: list[Any]) -> None:
    note.enqueue(0)
    note.enqueue_many([(i,) for i in range(1, 1201)])
    note.enqueue(1201)
    while hand.work(500):
        pass
    assert ran == list(range(1202))


def test_a_higher_priority_comes_first_and_at_front_before_all_of_its_priority(
    hand: Hand, note: Any, ran: list[Any]
) -> None:
    for priority in (0, -1000, 1000, -1, 1, 0):
        note.using(priority=priority).enqueue(priority)
    note.using(at_front=True).enqueue("front")
    hand.later(0.001)
    note.using(at_front=True).enqueue("front of the front")
    note.using(at_front=True, priority=1).enqueue("front of 1")
    hand.work()
    assert ran == [1000, "front of 1", 1, "front of the front", "front", 0, 0, -1, -1000]


def test_what_became_due_earlier_is_first(hand: Hand, note: Any, ran: list[Any]) -> None:
    note.using(delay=20).enqueue("second")
    note.using(delay=10).enqueue("first")
    note.using(delay=20, priority=1).enqueue("urgent")
    hand.later(30)
    note.enqueue("third")
    hand.work()
    assert ran == ["urgent", "first", "second", "third"]


# -- for how long -------------------------------------------------------------------------------------


def test_a_job_that_nobody_started_in_time_expires(hand: Hand, note: Any, ran: list[Any]) -> None:
    late, in_time = note.using(expires=10).enqueue(1), note.using(expires=timedelta(minutes=1)).enqueue(2)
    hand.later(10)
    hand.work()
    assert (late.status(), ran) == ("expired", [2])
    with pytest.raises(JobExpired, match=f"job {late.id} expired: not started in time"):
        late.result(timeout=0)
    assert in_time.status() == "done"


def test_expiry_counts_from_the_put_also_for_a_delayed_job(hand: Hand, note: Any, ran: list[Any]) -> None:
    job = note.using(expires=10, delay=20).enqueue(1)
    hand.later(20)
    hand.work()
    assert (job.status(), ran) == ("expired", [])


# -- keys and unique names ----------------------------------------------------------------------------


def test_jobs_of_one_key_run_one_at_a_time_in_their_order(hand: Hand, note: Any) -> None:
    keyed = note.using(key=lambda value: f"account:{value[0]}")
    jobs = [keyed.enqueue(value) for value in ("a1", "a2", "b1", "a3")]
    assert [job.status() for job in jobs] == ["queued", "waiting", "queued", "waiting"]
    assert [run.args[0] for run in hand.take()] == ["a1", "b1"]
    assert [job.status() for job in jobs] == ["running", "waiting", "running", "waiting"]


@pytest.mark.parametrize(("on_failure", "second"), [("hold", "waiting"), ("skip", "queued")])
def test_a_job_that_failed_holds_its_key_or_lets_the_next_one_pass(app: Holdfast, on_failure: Any, second: str) -> None:
    @app.task(backoff=60, key="k", on_failure=on_failure)
    def fail() -> None:
        raise ValueError

    jobs = [fail.enqueue(), fail.enqueue()]
    Hand(app).work(1)
    assert [job.status() for job in jobs] == ["scheduled", second]


def test_a_unique_name_brings_the_job_that_has_it(hand: Hand, note: Any) -> None:
    first = note.using(unique="report").enqueue(1)
    second = note.using(unique="report").enqueue(2)
    assert (first.new, second.new) == (True, False)
    assert second == first
    hand.work()
    assert note.using(unique="report").enqueue(3).new


def test_unique_may_be_the_task_with_its_arguments(app: Holdfast, note: Any) -> None:
    @app.task(unique=True)
    def other(value: Any, more: int = 0) -> None: ...

    unique = note.using(unique=True)
    jobs = [unique.enqueue(1), unique.enqueue(1), unique.enqueue(2), unique.enqueue("1")]
    assert [job.new for job in jobs] == [True, False, True, True]
    others = [other.enqueue(1), other.enqueue(value=1), other.enqueue(1, 5), other.enqueue(1, more=5)]
    assert [job.new for job in others] == [True, False, True, False]


def test_a_unique_name_may_be_made_of_the_arguments(note: Any) -> None:
    by_length = note.using(unique=lambda value: str(len(value)))
    assert [by_length.enqueue(value).new for value in ("aa", "bb", "c")] == [True, False, True]


def test_of_many_with_one_unique_name_the_first_one_stays(note: Any) -> None:
    jobs = note.using(unique=lambda value: value[0]).enqueue_many([("a1",), ("a2",), ("b1",)])
    assert [job.new for job in jobs] == [True, False, True]
    assert jobs[1].id == jobs[0].id


def test_jobs_of_one_key_meet_in_one_partition(server: Any) -> None:
    with Holdfast(server.url, partitions={"default": 16}) as app:

        @app.task(key=lambda value: f"k{value % 5}")
        def keyed(value: int) -> None: ...

        jobs = keyed.enqueue_many([(i,) for i in range(100)])
        places = {i % 5: {job._store.partition for job in jobs[i % 5 :: 5]} for i in range(100)}
        assert {len(places[k]) for k in places} == {1}
        assert {job.status() for job in jobs[:5]} == {"queued"}
        assert {job.status() for job in jobs[5:]} == {"waiting"}
        assert {app.job(job.id) for job in jobs} == set(jobs)
        with pytest.raises(OptionError, match="several partitions: take key or unique, not both"):
            keyed.using(unique="u").enqueue(1)


def test_many_are_put_into_all_partitions_though_none_is_sure(server: Any) -> None:
    settings: Any = {"partitions": {"default": 2}, "durability": "replica", "timeout": 1}
    with Holdfast(server.url, **settings) as app:

        @app.task
        def task(n: int) -> None: ...

        for enqueue_many in (task.enqueue_many, lambda calls: asyncio.run(task.aenqueue_many(calls))):
            with pytest.raises(DurabilityUncertain) as caught:
                enqueue_many([(n,) for n in range(20)])
            assert {app.job(id).status() for id in caught.value.ids} == {"queued"}
            assert len(set(caught.value.ids)) == 20


@pytest.mark.parametrize("name", ["", "x" * 513, "a\nb", "a\0b", 5, b"k", "\ud800"])
@pytest.mark.parametrize("what", ["key", "unique"])
def test_names_are_printable_text(note: Any, what: Any, name: Any) -> None:
    for named in (name, lambda value: name):
        with pytest.raises(OptionError, match=f"{what} must be 1 to 512 printable characters, not "):
            note.using(**{what: named}).enqueue(1)


def test_a_name_that_cannot_be_made_says_why(note: Any) -> None:
    with pytest.raises(OptionError, match="key cannot be made of these arguments: KeyError: 'user'"):
        note.using(key=lambda value: value["user"]).enqueue({})
    with pytest.raises(OptionError, match=r"unique cannot be made of these arguments: TypeError: .*takes 0 positional"):
        note.using(unique=lambda: "x").enqueue(1)


# -- options that cannot be ---------------------------------------------------------------------------

DURATION = "a number of seconds up to five years or a timedelta"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"delay": "5"}, f"delay must be {DURATION}, not '5'"),
        ({"delay": float("nan")}, f"delay must be {DURATION}, not nan"),
        ({"delay": 1e12}, "delay must be"),
        ({"delay": True}, "delay must be"),
        ({"delay": 1, "run_at": datetime.now(UTC)}, "delay and run_at exclude each other"),
        ({"run_at": datetime(2030, 1, 1)}, "run_at must be a datetime with a time zone, not datetime"),
        ({"run_at": 1_700_000_000}, "run_at must be a datetime with a time zone, not 1700000000"),
        ({"run_at": datetime(2500, 1, 1, tzinfo=UTC)}, "run_at must be within five years from now, not 2500-01-01T"),
        ({"expires": -1}, "expires must not be negative: -1"),
        ({"priority": 1001}, "priority must be a number from -1000 to 1000, not 1001"),
        ({"priority": 0.5}, "priority must be a whole number from -1000 to 1000, not 0.5"),
        ({"priority": True}, "priority must be"),
        ({"priority": "high"}, "priority must be"),
        ({"queue": ""}, "a queue's name must be 1 to 100 letters, digits or any of"),
        ({"queue": "a b"}, "a queue's name must be"),
        ({"queue": "{x}"}, "a queue's name must be"),
        ({"queue": None}, "a queue's name must be"),
        ({"on_failure": "pass"}, "on_failure must be 'hold' or 'skip', not 'pass'"),
        ({"retries": -1}, "retries must be a number from 0 to"),
        ({"retries": 2.5}, "retries must be a whole number from 0 to"),
        ({"timeout": -1}, "timeout must not be negative: -1"),
        ({"hard_timeout": timedelta(seconds=-1)}, "hard_timeout must not be negative"),
        ({"result_ttl": "1h"}, f"result_ttl must be {DURATION}, not '1h'"),
        ({"result_ttl": -0.5}, "result_ttl must not be negative"),
        ({"prioritty": 1}, r"there is no option 'prioritty' \(did you mean 'priority'\?\); there are: queue, delay"),
        ({"countdown": 1}, "there is no option 'countdown'; there are: queue, "),
        ({"backoff": 5}, "there is no option 'backoff'; there are: "),
    ],
)
def test_an_option_that_cannot_be_is_refused_at_once(app: Holdfast, options: Any, said: str) -> None:
    def function() -> None: ...

    with pytest.raises(OptionError, match=said):
        app.task(function).using(**options)
    if "backoff" not in options:
        with pytest.raises(OptionError, match=said):
            app.task(**options)(function)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"backof": 5}, "did you mean 'backoff'"),
        ({"backoff": "soon"}, "backoff must be seconds, a list of seconds or a callable, not 'soon'"),
        ({"backoff": []}, "backoff must be"),
        ({"name": ""}, "a task's name must be 1 to 200 printable characters, not ''"),
        ({"name": "x" * 201}, "a task's name must be"),
        ({"name": "a\nb"}, "a task's name must be"),
        ({"retries": None}, "retries must be"),
    ],
    ids=repr,
)
def test_an_option_of_the_task_that_cannot_be_is_refused_at_once(app: Holdfast, options: Any, said: str) -> None:
    def task() -> None: ...

    with pytest.raises(OptionError, match=said):
        app.task(**options)(task)
    assert app.tasks == {}


def test_what_using_says_is_added_up_and_leaves_the_task_alone(app: Holdfast, note: Any) -> None:
    low = note.using(queue="low", priority=5)
    both: Job[None] = low.using(priority=6).enqueue(1)
    assert both.queue == "low"
    assert note.placing.queue == "default"
    assert (low.placing.priority, low.using(priority=6).placing) == (5, low.using(priority=6, queue="low").placing)


def test_one_job_may_have_other_limits_than_its_task(app: Holdfast) -> None:
    @app.task(retries=3, timeout=10, result_ttl=5)
    def task() -> int:
        return 1

    hand = Hand(app)
    task.using(retries=0, timeout=timedelta(seconds=1), hard_timeout=2, result_ttl=60).enqueue()
    task.enqueue()
    own, plain = hand.take()
    assert (own.soft_limit_s, own.hard_limit_s, plain.soft_limit_s, plain.hard_limit_s) == (1, 2, 10, 40)
    assert (own.failed(ValueError()).verdict, plain.failed(ValueError()).verdict) == ("dead", "retry")
    assert (own.ended(1).ttl_ms, plain.ended(1).ttl_ms) == (60_000, 5000)


def test_the_same_options_hold_for_aenqueue(app: Holdfast, note: Any) -> None:
    async def put() -> list[Any]:
        async with app:
            job = await note.using(delay=60, queue="slow").aenqueue(1)
            many = await note.using(key="k").aenqueue_many([(1,), note.bind(value=2)])
            return [job.queue, await job.astatus(), *[await job.astatus() for job in many]]

    assert asyncio.run(put()) == ["slow", "scheduled", "queued", "waiting"]
