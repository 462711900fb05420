"""Both kinds of places where jobs run, as the fetcher sees them. Its one rule: it counts what the fetcher handed over,
so that nobody has to ask a thread how it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.runtime.loop import Loop
from holdfast.runtime.slots import Slots
from holdfast.runtime.threads import Report, Threads
from holdfast.settings import WorkerSettings
from holdfast.work import Work


class Executor:
    """Threads for `def` jobs, a loop for `async def` ones; each is started when its first job comes."""

    def __init__(self, settings: WorkerSettings, slots: Slots, report: Report, async_share: float) -> None:
        self._settings = settings
        self._slots = slots
        self._report = report
        self._threads: Threads | None = None
        self._loop: Loop | None = None
        self._in_threads = 0
        self._in_loop = 0
        # Which part of the jobs has been async lately: what the next claim brings cannot be chosen.
        self._async_share = async_share

    @property
    def waiting(self) -> int:
        """How many jobs nobody has taken yet."""
        return (self._threads.waiting if self._threads else 0) + (self._loop.waiting if self._loop else 0)

    @property
    def is_empty(self) -> bool:
        """Whether nothing runs or waits here."""
        return not (self._in_threads or self._in_loop)

    def room(self, ahead: int) -> int:
        """How many more jobs to claim, if *ahead* of them may wait."""
        threads = self._settings.threads + ahead - self._in_threads
        slots = self._settings.async_slots + ahead - self._in_loop
        share = self._async_share
        if share < 0.01:
            return max(threads, 0)
        if share > 0.99:
            return max(slots, 0)
        if self._in_threads > self._settings.threads + ahead:
            return 0
        return max(min(int(threads / (1 - share)), int(slots / share)), 0)

    def hand_over(self, works: Sequence[Work]) -> None:
        """Run these."""
        if not works:
            return
        waiting = [work for work in works if work.is_async]
        direct = works if not waiting else [work for work in works if not work.is_async]
        self._async_share += (len(waiting) / len(works) - self._async_share) * min(1.0, len(works) / 20)
        if direct:
            self._in_threads += len(direct)
            self._the_threads().hand_over(direct)
        if waiting:
            self._in_loop += len(waiting)
            self._the_loop().hand_over(waiting)

    def ended(self, works: Sequence[Work]) -> None:
        """These are over, or were taken back."""
        in_loop = sum(work.is_async for work in works)
        self._in_loop -= in_loop
        self._in_threads -= len(works) - in_loop

    def take_back(self, count: int) -> list[Work]:
        """Up to *count* jobs that have not started, the newest first."""
        taken = self._threads.take_back(count) if self._threads else []
        if self._loop and len(taken) < count:
            taken += self._loop.take_back(count - len(taken))
        self.ended(taken)
        return taken

    def interrupt(self, work: Work | None, error: type[BaseException]) -> None:
        """Raise this inside the job, or inside all of them."""
        if self._threads and (work is None or not work.is_async):
            self._threads.interrupt(work, error)
        if self._loop and (work is None or work.is_async):
            self._loop.interrupt(work, error)

    def _the_threads(self) -> Threads:
        if self._threads is None:
            self._threads = Threads(self._settings.threads, self._slots, self._report)
        return self._threads

    def _the_loop(self) -> Loop:
        if self._loop is None:
            first, count = self._settings.threads, self._settings.async_slots
            self._loop = Loop(self._slots, first, count, self._report)
        return self._loop
