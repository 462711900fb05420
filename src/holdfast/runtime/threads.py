"""Runs `def` jobs, one a thread. Its one rule: nothing that a job does ends its thread.

Jobs wait in one deque and idle threads in another: handing over a batch of short jobs costs one wake-up, not one a job
(a queue from the standard library wakes a thread for each).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

from holdfast.clock import mono_s
from holdfast.runtime.limits import Seat, Watch
from holdfast.runtime.slots import Slots
from holdfast.work import Outcome, Work

#: Tells the fetcher that a work has ended.
Report = Callable[[Work, Outcome], None]


class Threads:
    """A fixed number of threads."""

    def __init__(self, count: int, slots: Slots, report: Report) -> None:
        self._slots = slots
        self._report = report
        self._todo: deque[Work] = deque()
        self._parked: deque[threading.Lock] = deque()
        self._seats = [Seat() for _ in range(count)]
        self._watch = Watch(self._seats)
        for slot in range(count):
            threading.Thread(target=self._work_on, args=(slot,), name=f"jobs-{slot}", daemon=True).start()

    @property
    def waiting(self) -> int:
        """How many jobs no thread has taken yet."""
        return len(self._todo)

    def hand_over(self, works: Sequence[Work]) -> None:
        """Run these, in this order as far as threads are free."""
        self._todo.extend(works)
        self._wake()

    def take_back(self, count: int) -> list[Work]:
        """Up to *count* jobs that have not started, the newest first."""
        return taken_from(self._todo, count)

    def interrupt(self, work: Work | None, error: type[BaseException]) -> None:
        """Raise this inside the job, or inside all of them."""
        for seat in self._seats:
            seat.interrupt(work, error)

    def _wake(self) -> None:
        try:
            self._parked.pop().release()
        except IndexError:
            return

    def _work_on(self, slot: int) -> None:
        todo, parked = self._todo, self._parked
        seat = self._seats[slot]
        seat.thread = threading.get_ident()
        gate = threading.Lock()
        gate.acquire()
        while True:
            try:
                work = todo.popleft()
            except IndexError:
                parked.append(gate)
                if todo:
                    # It came between the look and the parking; whoever is woken takes it.
                    self._wake()
                gate.acquire()
                continue
            if todo and parked:
                self._wake()
            hard_limit_s, soft_limit_s = work.hard_limit_s, work.soft_limit_s
            self._slots.enter(slot, work.entry, work.feed, mono_s() + hard_limit_s if hard_limit_s else 0.0)
            token = work.enter()
            if soft_limit_s:
                work.deadline_s = mono_s() + soft_limit_s
                self._watch.expect(seat, work.deadline_s)
            outcome = seat.run(work)
            work.leave(token)
            self._slots.leave(slot)
            self._report(work, outcome)


def taken_from(todo: deque[Work], count: int) -> list[Work]:
    """Up to *count* from the right end, while others take from the left."""
    taken: list[Work] = []
    try:
        while len(taken) < count:
            taken.append(todo.pop())
    except IndexError:
        pass
    return taken
