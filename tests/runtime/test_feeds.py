"""What a child holds of each partition, and whom it asks for more."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.clock import mono_s
from holdfast.engine.keys import Partition
from holdfast.engine.model import Claimed, Entry
from holdfast.engine.store import MOST, Store
from holdfast.runtime.executor import Executor
from holdfast.runtime.feeds import Feeds
from holdfast.runtime.slots import Slots
from holdfast.settings import WorkerSettings
from holdfast.work import PLAIN, Outcome
from runtime.works import HERE, Ends, Try


def feeds_of(**queues: int) -> Feeds:
    feeds = Feeds("token")
    for queue, count in queues.items():
        feeds.add([Store(Partition("test", queue, index)) for index in range(count)])
    return feeds


def works(count: int, feed: int = 0, hold: bytes = b"1") -> list[Any]:
    return [Try(int, feed=feed, hold=hold) for _ in range(count)]


def asked(feeds: Feeds, times: int) -> list[str]:
    return [str(feed.store.partition) if (feed := feeds.hungry()) else "" for _ in range(times)]


# -- whom to ask ----------------------------------------------------------------------------------


def test_the_first_queue_is_asked_as_long_as_it_may_have_something() -> None:
    feeds = feeds_of(high=1, low=1)
    assert asked(feeds, 2) == ["test/high/0"] * 2
    feeds[0].is_hungry = False
    assert asked(feeds, 2) == ["test/low/0"] * 2
    feeds[1].is_hungry = False
    assert asked(feeds, 1) == [""]
    assert not feeds.are_hungry


def test_partitions_of_one_queue_take_turns() -> None:
    assert asked(feeds_of(wide=3), 4) == ["test/wide/0", "test/wide/1", "test/wide/2", "test/wide/0"]


def test_who_is_passed_over_keeps_its_turn_and_the_others_theirs() -> None:
    feeds = feeds_of(high=2, low=1)
    assert feeds.hungry(besides=[feeds[0]]) is feeds[1]
    assert feeds.hungry(besides=[feeds[0], feeds[1]]) is feeds[2]
    assert asked(feeds, 2) == ["test/high/0", "test/high/1"]
    assert feeds.hungry(besides=list(feeds)) is None


def test_a_bell_makes_its_partition_hungry_again_and_no_other() -> None:
    feeds = feeds_of(high=1, low=1)
    for feed in feeds:
        feed.is_hungry = False
    bell = next(bell for bell in feeds.bells if "low" in bell)
    assert feeds.rung(bell) is feeds[1]
    assert asked(feeds, 1) == ["test/low/0"]


def claimed(count: int = 0, suspects: int = 0, next_due: int = -1) -> Claimed:
    ids = [b"%d" % i for i in range(count)]
    return Claimed("claimed", 1000, suspects=suspects, next_due=next_due, ids=ids)


@pytest.mark.parametrize(("count", "hungry", "plenty"), [(0, False, False), (1, True, False), (5, True, True)])
def test_who_has_nothing_is_not_asked_again_and_who_has_plenty_may_be_at_once(
    count: int, hungry: bool, plenty: bool
) -> None:
    feed = feeds_of(q=1)[0]
    feed.claim(5, alone=False)
    feed.answered(claimed(count), 5)
    assert (feed.is_hungry, feed.has_plenty) == (hungry, plenty)


def test_a_claim_that_finds_nothing_says_nothing_of_what_came_behind_it() -> None:
    feeds = feeds_of(q=1)
    feed, bell = feeds[0], next(iter(feeds.bells))
    feed.claim(5, alone=False)
    feeds.rung(bell)
    feed.answered(claimed(), 5)
    assert feed.is_hungry
    feed.claim(5, alone=False)
    feed.answered(claimed(), 5)
    assert not feed.is_hungry


def test_the_answer_to_a_second_claim_counts_although_the_first_one_found_nothing() -> None:
    feed = feeds_of(q=1)[0]
    for _ in range(2):
        feed.claim(5, alone=False)
    feed.answered(claimed(), 5)
    feed.answered(claimed(1, suspects=2), 5)
    assert feed.is_hungry
    assert feed.has_suspects


def test_what_is_due_next_is_known_from_an_empty_answer() -> None:
    feed = feeds_of(q=1)[0]
    before = mono_s()
    feed.answered(claimed(next_due=1250), 5)
    assert before + 0.25 <= feed.due_s <= mono_s() + 0.25


def test_a_queue_that_is_added_later_comes_last_and_is_hungry() -> None:
    feeds = feeds_of(high=1)
    feeds[0].is_hungry = False
    feeds.add_queue("new", 2)
    assert asked(feeds, 3) == ["test/new/0", "test/new/1", "test/new/0"]
    assert len(feeds.bells) == 3


def test_what_is_due_wakes_its_partition_once() -> None:
    feeds = feeds_of(a=1, b=1)
    for feed in feeds:
        feed.is_hungry = False
    feeds[0].due_s, feeds[1].due_s = 5.0, 9.0
    assert feeds.next_due_s == 5.0
    feeds.wake_due(5.0)
    assert [feed.is_hungry for feed in feeds] == [True, False]
    assert feeds.next_due_s == 9.0


# -- what is committed ----------------------------------------------------------------------------


def test_plain_ends_travel_in_one_call_and_any_other_in_its_own() -> None:
    feed = feeds_of(q=1)[0]
    plain, kept, failed, bearing = works(4)
    ends = [
        (plain, PLAIN),
        (kept, Outcome(ttl_ms=9, record=b"1")),
        (failed, Outcome("retry")),
        (bearing, Outcome(born=[(HERE, Entry("child", b"{}"))])),
    ]
    assert [call.name for call in feed.commits(ends)] == ["settle", "settle", "finish"]


def test_a_call_finishes_a_thousand_at_the_most() -> None:
    calls = feeds_of(q=1)[0].commits([(work, PLAIN) for work in works(2 * MOST + 1)])
    assert [call.name for call in calls] == ["finish"] * 3


def test_calls_are_numbered_upwards() -> None:
    feed = feeds_of(q=1)[0]
    calls = feed.commits([(work, Outcome("retry")) for work in works(3)]) + feed.release(works(1))
    assert [call.args[1] for call in calls] == [1, 2, 3, 4]


def test_only_what_belongs_elsewhere_goes_through_the_outbox() -> None:
    feed = feeds_of(q=1)[0]
    feed.commits([(works(1)[0], Outcome(born=[(HERE, Entry("child", b"{}"))]))])
    assert not feed.has_outgoing
    feed.commits([(works(1)[0], Outcome(born=[(Partition("test", "q", 1), Entry("child", b"{}"))]))])
    assert feed.has_outgoing


def test_what_is_released_is_sorted_by_its_fence() -> None:
    mixed = works(2, hold=b"1") + works(1, hold=b"2") + works(1, hold=b"1")
    calls = feeds_of(q=1)[0].release(mixed)
    assert [call.args[2:] for call in calls] == [
        (b"1", mixed[0].entry, mixed[1].entry, mixed[3].entry), (b"2", mixed[2].entry)
    ]  # fmt: skip


def test_ends_are_parted_by_where_their_works_came_from() -> None:
    feeds = feeds_of(a=1, b=2)
    first, second, third = works(1, feed=0) + works(1, feed=2) + works(1, feed=0)
    parts = feeds.parted([(first, PLAIN), (second, PLAIN), (third, PLAIN)])
    assert [(feed.index, [work for work, _ in part]) for feed, part in parts] == [(0, [first, third]), (2, [second])]


def test_a_work_is_in_hand_from_its_taking_to_its_letting_go() -> None:
    feeds = feeds_of(a=1, b=1)
    work = works(1, feed=1)[0]
    feeds[1].take([work])
    assert (feeds.in_hand, feeds.find(work.entry)) == (1, work)
    feeds[1].let_go([(work, PLAIN)])
    assert (feeds.in_hand, feeds.find(work.entry)) == (0, None)


# -- the executor ---------------------------------------------------------------------------------


async def nothing() -> None:
    return None


def an_executor(async_share: float) -> Executor:
    return Executor(WorkerSettings(threads=4, async_slots=10), Slots(14), Ends(), async_share)


@pytest.mark.parametrize(("share", "room"), [(0.0, 4), (1.0, 10), (0.5, 8)])
def test_there_is_room_for_what_has_come_lately(share: float, room: int) -> None:
    assert an_executor(share).room(ahead=0) == room


def test_what_runs_takes_room_until_it_has_ended() -> None:
    ends = Ends()
    executor = Executor(WorkerSettings(threads=4, async_slots=10), Slots(14), ends, 0.0)
    some = works(3)
    executor.hand_over(some)
    ends.of(*some)
    # Only the fetcher knows whether an end has been taken note of.
    assert (executor.room(ahead=0), executor.is_empty) == (1, False)
    executor.ended(some)
    assert (executor.room(ahead=0), executor.is_empty) == (4, True)


def test_there_is_never_less_than_no_room() -> None:
    executor = an_executor(0.0)
    executor.hand_over(works(50))
    assert executor.room(ahead=0) == 0


def test_the_room_follows_the_kind_of_jobs_that_come() -> None:
    executor = an_executor(0.0)
    for _ in range(5):
        some = [Try(nothing) for _ in range(20)]
        executor.hand_over(some)
        executor.ended(some)
    assert executor.room(ahead=0) == 10
