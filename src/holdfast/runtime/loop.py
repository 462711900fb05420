"""Runs `async def` jobs, all in one event loop. Its one rule: the loop is the jobs' own; nothing of ours blocks it."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Sequence

from holdfast.clock import mono_s
from holdfast.errors import Cancelled, TimeLimit
from holdfast.runtime.limits import failure, success
from holdfast.runtime.slots import Slots
from holdfast.runtime.threads import Report, taken_from
from holdfast.work import Outcome, Work


class Loop:
    """An event loop in a thread of its own."""

    def __init__(self, slots: Slots, first_slot: int, count: int, report: Report) -> None:
        self.count = count
        self._slots = slots
        self._free = deque(range(first_slot, first_slot + count))
        self._report = report
        self._todo: deque[Work] = deque()
        self._tasks: dict[asyncio.Task[None], Work] = {}
        self._why: dict[Work, type[BaseException]] = {}
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="jobs-loop", daemon=True).start()

    @property
    def waiting(self) -> int:
        """How many jobs have no slot yet."""
        return len(self._todo)

    def hand_over(self, works: Sequence[Work]) -> None:
        """Run these."""
        self._todo.extend(works)
        self._loop.call_soon_threadsafe(self._start)

    def take_back(self, count: int) -> list[Work]:
        """Up to *count* jobs that have not started, the newest first."""
        return taken_from(self._todo, count)

    def interrupt(self, work: Work | None, error: type[BaseException]) -> None:
        """Cancel the job's task, or all of them; inside it looks like this error."""
        self._loop.call_soon_threadsafe(self._interrupt, work, error)

    def _interrupt(self, work: Work | None, error: type[BaseException]) -> None:
        for task, running in list(self._tasks.items()):
            if work is None or running is work:
                self._why.setdefault(running, error)
                # Not before its first step: a task that is cancelled before it began never says that it has ended.
                self._loop.call_soon(task.cancel)

    def _start(self) -> None:
        while self._free and self._todo:
            try:
                work = self._todo.popleft()
            except IndexError:
                return
            task = self._loop.create_task(self._run(work, self._free.popleft()))
            self._tasks[task] = work
            task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._why.pop(self._tasks.pop(task), None)

    async def _run(self, work: Work, slot: int) -> None:
        hard_limit_s, soft_limit_s = work.hard_limit_s, work.soft_limit_s
        self._slots.enter(slot, work.entry, work.feed, mono_s() + hard_limit_s if hard_limit_s else 0.0)
        work.enter()
        timer = None
        if soft_limit_s:
            work.deadline_s = mono_s() + soft_limit_s
            timer = self._loop.call_later(soft_limit_s, self._interrupt, work, TimeLimit)
        outcome = await self._outcome(work)
        if timer is not None:
            timer.cancel()
        self._slots.leave(slot)
        self._free.append(slot)
        self._report(work, outcome)
        self._start()

    async def _outcome(self, work: Work) -> Outcome:
        if work.wish:
            return failure(work, Cancelled("cancelled before it started"))
        try:
            value = await work.call(*work.args, **work.kwargs)
        except BaseException as error:
            why = self._why.get(work)
            if why is not None and isinstance(error, asyncio.CancelledError):
                return failure(work, why())
            return failure(work, error)
        return success(work, value)
