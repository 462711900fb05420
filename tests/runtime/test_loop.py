"""The loop of async jobs."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from holdfast.errors import Cancelled, TimeLimit
from holdfast.runtime.loop import Loop
from holdfast.runtime.slots import Slots
from lifecycle.play import until
from runtime.works import Ends, Try


@pytest.fixture
def ends() -> Ends:
    return Ends()


def a_loop(ends: Ends, count: int = 10, slots: Slots | None = None) -> Loop:
    return Loop(slots or Slots(count), 0, count, ends)


async def gated(gate: threading.Event) -> str:
    while not gate.is_set():  # noqa: ASYNC110 - it is set from another thread
        await asyncio.sleep(0.001)
    return "through"


async def value(given: Any) -> Any:
    return given


def test_works_run_and_their_values_come_back(ends: Ends) -> None:
    works = [Try(value, (i,)) for i in range(500)]
    a_loop(ends).hand_over(works)
    assert [outcome.record for outcome in ends.of(*works)] == [b"%d" % i for i in range(500)]


def test_as_many_run_at_once_as_there_are_slots(ends: Ends) -> None:
    slots = Slots(3)
    gate = threading.Event()
    works = [Try(gated, (gate,)) for _ in range(5)]
    loop = a_loop(ends, 3, slots)
    loop.hand_over(works)
    until(lambda: len(list(slots.started())) == 3, "start")
    assert loop.waiting == 2
    gate.set()
    ends.of(*works)
    assert list(slots.started()) == []


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError, StopIteration])
def test_nothing_that_is_raised_ends_the_loop(ends: Ends, error: type[BaseException]) -> None:
    async def fail() -> None:
        raise error

    works = [Try(fail), Try(value, (1,))]
    loop = a_loop(ends, 1)
    loop.hand_over(works)
    assert [outcome.verdict for outcome in ends.of(*works)] == ["retry", "done"]


def test_what_waits_can_be_taken_back_the_newest_first(ends: Ends) -> None:
    gate = threading.Event()
    slots = Slots(1)
    loop = a_loop(ends, 1, slots)
    running, *waiting = works = [Try(gated, (gate,)) for _ in range(4)]
    loop.hand_over(works)
    until(lambda: list(slots.started()), "start")
    assert loop.take_back(2) == waiting[:0:-1]
    assert loop.take_back(9) == waiting[:1]
    gate.set()
    ends.of(running)
    assert len(ends) == 1


@pytest.mark.parametrize("error", [Cancelled, TimeLimit])
def test_a_running_work_is_interrupted_and_no_other(ends: Ends, error: type[BaseException]) -> None:
    gate = threading.Event()
    slots = Slots(2)
    loop = a_loop(ends, 2, slots)
    works = [Try(gated, (gate,)) for _ in range(2)]
    loop.hand_over(works)
    until(lambda: len(list(slots.started())) == 2, "start")
    loop.interrupt(works[0], error)
    assert ends.of(works[0])[0].error.startswith(error.__name__)
    gate.set()
    assert ends.of(works[1])[0].verdict == "done"


def test_a_work_that_is_interrupted_in_the_moment_of_its_start_ends_all_the_same(ends: Ends) -> None:
    loop = a_loop(ends, 10)
    never = threading.Event()
    for _ in range(200):
        works = [Try(gated, (never,)) for _ in range(5)]
        loop.hand_over(works)
        for work in works:
            work.wish = True
            loop.interrupt(work, Cancelled)
        assert {outcome.error.partition(":")[0] for outcome in ends.of(*works)} == {"Cancelled"}
    until(lambda: not loop._why, "forgotten reasons")


def test_all_can_be_interrupted(ends: Ends) -> None:
    slots = Slots(5)
    loop = a_loop(ends, 5, slots)
    works = [Try(gated, (threading.Event(),)) for _ in range(5)]
    loop.hand_over(works)
    until(lambda: len(list(slots.started())) == 5, "start")
    loop.interrupt(None, Cancelled)
    assert {outcome.error for outcome in ends.of(*works)} == {"Cancelled: cancelled while it ran"}


def test_a_soft_limit_interrupts(ends: Ends) -> None:
    work = Try(gated, (threading.Event(),), soft_limit_s=0.05)
    a_loop(ends).hand_over([work])
    assert ends.of(work)[0].error == "TimeLimit: over its limit of 0.05 s"


def test_a_limit_does_not_outlive_its_work(ends: Ends) -> None:
    loop = a_loop(ends, 1)
    gate = threading.Event()
    first, second = Try(value, (1,), soft_limit_s=0.05), Try(gated, (gate,))
    loop.hand_over([first, second])
    ends.of(first)
    probe = Try(asyncio.sleep, (0.1,))
    gate.set()
    loop.hand_over([probe])
    assert {outcome.verdict for outcome in ends.of(second, probe)} == {"done"}


def test_a_cancellation_of_its_own_making_is_not_taken_for_ours(ends: Ends) -> None:
    async def cancels_itself() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(1)

    work = Try(cancels_itself)
    a_loop(ends).hand_over([work])
    assert ends.of(work)[0].error.startswith("CancelledError")
