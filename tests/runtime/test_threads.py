"""Threads and limits: nothing that a job does ends its thread, and no interruption reaches the next job."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.clock import mono_s
from holdfast.errors import Cancelled, TimeLimit
from holdfast.runtime.limits import NOT_YET_S, Seat, Watch
from holdfast.runtime.slots import Slots
from holdfast.runtime.threads import Threads
from lifecycle.play import PATIENCE_S, until
from runtime.works import Ends, Try


@pytest.fixture
def ends() -> Ends:
    return Ends()


@pytest.fixture(autouse=True)
def _switching_all_the_time() -> Iterator[None]:
    """Threads that take turns this often meet in every possible way."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


def gated(gate: threading.Event) -> str:
    while not gate.is_set():
        time.sleep(0.001)
    return "through"


def test_works_run_and_their_values_come_back(ends: Ends) -> None:
    threads = Threads(3, Slots(3), ends)
    works = [Try(lambda i=i: i * i) for i in range(100)]
    threads.hand_over(works)
    assert [outcome.record for outcome in ends.of(*works)] == [b"%d" % (i * i) for i in range(100)]
    assert threads.waiting == 0


def test_one_thread_keeps_their_order(ends: Ends) -> None:
    works = [Try(int) for _ in range(500)]
    threads = Threads(1, Slots(1), ends)
    for start in range(0, 500, 50):
        threads.hand_over(works[start : start + 50])
    ends.of(*works)
    assert ends.order == works


def test_as_many_run_at_once_as_there_are_threads(ends: Ends) -> None:
    together = threading.Barrier(4)
    works = [Try(lambda: together.wait(30)) for _ in range(4)]
    Threads(4, Slots(4), ends).hand_over(works)
    assert {outcome.verdict for outcome in ends.of(*works)} == {"done"}


def test_every_idle_thread_is_woken_again_and_again(ends: Ends) -> None:
    threads = Threads(4, Slots(4), ends)
    for _ in range(300):
        together = threading.Barrier(4)
        works = [Try(lambda together=together: together.wait(30)) for _ in range(4)]
        threads.hand_over(works)
        assert {outcome.verdict for outcome in ends.of(*works)} == {"done"}


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit, MemoryError, RecursionError])
def test_nothing_that_is_raised_ends_a_thread(ends: Ends, error: type[BaseException]) -> None:
    def fail() -> None:
        raise error

    threads = Threads(1, Slots(1), ends)
    works = [Try(fail), Try(int)]
    threads.hand_over(works)
    assert [outcome.verdict for outcome in ends.of(*works)] == ["retry", "done"]


def test_what_waits_can_be_taken_back_the_newest_first(ends: Ends) -> None:
    gate = threading.Event()
    slots = Slots(1)
    threads = Threads(1, slots, ends)
    running, *waiting = works = [Try(gated, (gate,)) for _ in range(4)]
    threads.hand_over(works)
    until(lambda: list(slots.started()), "start")
    assert threads.waiting == 3
    assert threads.take_back(2) == waiting[:0:-1]
    assert threads.take_back(9) == waiting[:1]
    gate.set()
    assert ends.of(running)[0].verdict == "done"
    assert len(ends) == 1


def test_a_slot_is_taken_while_a_work_runs_and_free_when_its_end_is_reported() -> None:
    slots = Slots(1)
    seen: list[list[str]] = []
    reported = threading.Event()

    def report(work: Any, outcome: Any) -> None:
        seen.append([job.id for job in slots.started()])
        reported.set()

    work = Try(lambda: seen.append([job.id for job in slots.started()]))
    Threads(1, slots, report).hand_over([work])
    assert reported.wait(30)
    assert seen == [[work.entry.decode()], []]


@pytest.mark.parametrize("error", [Cancelled, TimeLimit])
def test_a_running_work_is_interrupted_and_no_other(ends: Ends, error: type[BaseException]) -> None:
    gate = threading.Event()
    slots = Slots(2)
    threads = Threads(2, slots, ends)
    works = [Try(gated, (gate,)) for _ in range(2)]
    threads.hand_over(works)
    until(lambda: len(list(slots.started())) == 2, "start")
    until(lambda: all(seat.work for seat in threads._seats), "call")
    threads.interrupt(works[0], error)
    assert ends.of(works[0])[0].error.startswith(error.__name__)
    gate.set()
    assert ends.of(works[1])[0].verdict == "done"


def test_a_work_with_a_wish_is_never_called(ends: Ends) -> None:
    called = threading.Event()
    work = Try(called.set, wish=True)
    Threads(1, Slots(1), ends).hand_over([work])
    assert ends.of(work)[0].error == "Cancelled: cancelled before it started"
    assert not called.is_set()


def test_an_interruption_never_reaches_the_next_work(ends: Ends) -> None:
    """Thousands of short works, and somebody who interrupts every other one wherever it happens to be."""
    threads = Threads(2, Slots(2), ends)
    over = threading.Event()
    targets: set[Any] = set()
    hit: list[Any] = []
    escaped = 0

    def interrupt() -> None:
        while not over.is_set():
            for seat in threads._seats:
                work = seat.work
                if work is not None and work.args[0]:
                    targets.add(work)
                    seat.interrupt(work, Cancelled)

    hunters = [threading.Thread(target=interrupt) for _ in range(2)]
    for hunter in hunters:
        hunter.start()
    try:
        until_s = mono_s() + PATIENCE_S
        # It is no test before some were hit, and some had ended when it struck.
        while len(hit) < 60 or escaped < 1000:
            works = [Try(short, (i % 2 == 0, i % 40)) for i in range(200)]
            threads.hand_over(works)
            failed = [work for work, outcome in zip(works, ends.of(*works), strict=True) if outcome.verdict != "done"]
            assert all(work.args[0] for work in failed)
            assert targets.issuperset(failed)
            hit += failed
            escaped += len(works) - len(failed)
            assert mono_s() < until_s, (len(hit), escaped)
    finally:
        over.set()
        for hunter in hunters:
            hunter.join()


def short(is_target: bool, length: int) -> int:
    return sum(i for i in range(length))


def test_a_soft_limit_hits_whoever_is_over_it_and_nobody_else(ends: Ends) -> None:
    threads = Threads(4, Slots(4), ends)
    never = threading.Event()
    dice = random.Random(1)
    works = [
        Try(gated, (never,), soft_limit_s=dice.uniform(0.001, 0.02)) if i % 20 == 0 else Try(int, soft_limit_s=60)
        for i in range(2000)
    ]
    for start in range(0, len(works), 100):
        threads.hand_over(works[start : start + 100])
    for work, outcome in zip(works, ends.of(*works), strict=True):
        limited = work.soft_limit_s < 1
        assert outcome.error == (f"TimeLimit: over its limit of {work.soft_limit_s:g} s" if limited else "")


def test_a_limit_that_is_over_before_the_work_begins_is_not_forgotten() -> None:
    seat = Seat()
    watch = Watch([seat])
    watch.expect(seat, mono_s() - 1)
    seat.thread = threading.get_ident()
    time.sleep(5 * NOT_YET_S)
    outcome = seat.run(Try(gated, (threading.Event(),), soft_limit_s=1.0))
    assert outcome.error.startswith("TimeLimit")


def test_a_deadline_is_never_taken_for_that_of_a_later_work(ends: Ends) -> None:
    """Works that end just at their limit, each followed by one that has all the time."""
    threads = Threads(1, Slots(1), ends)

    def until_the_limit(limit_s: float) -> None:
        over_s = mono_s() + limit_s
        while mono_s() < over_s:
            pass

    works: list[Try] = []
    for _ in range(300):
        works += [Try(until_the_limit, (0.001,), soft_limit_s=0.001), Try(sum, (range(2000),), soft_limit_s=60)]
    threads.hand_over(works)
    assert {outcome.verdict for outcome in ends.of(*works)[1::2]} == {"done"}
