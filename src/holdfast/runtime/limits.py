"""Interrupting a job in a thread. Its one rule: an exception that was meant for one job never reaches the next one.

Python can raise an exception in another thread at its next bytecode. What hangs in C code does not notice; for that
there are hard limits, which end the process.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence

from holdfast.clock import mono_s
from holdfast.errors import Cancelled, TimeLimit
from holdfast.work import Outcome, Work

_set_exception = ctypes.pythonapi.PyThreadState_SetAsyncExc
_set_exception.argtypes = (ctypes.c_ulong, ctypes.py_object)
_drop_exception = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p)(
    ("PyThreadState_SetAsyncExc", ctypes.pythonapi)
)


#: When to look again at a job that is over its limit before it has begun.
NOT_YET_S = 0.001


class Seat:
    """Where one thread runs one job after the other, and where others can reach the one that runs."""

    __slots__ = ("_interrupted", "_lock", "deadline_s", "thread", "work")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._interrupted = False
        self.thread = 0
        self.work: Work | None = None
        self.deadline_s = 0.0

    def run(self, work: Work) -> Outcome:
        """Make the call of a work; its outcome, even when an interruption strikes just behind the job."""
        try:
            try:
                # Whoever cancels makes the wish and looks for the seat; so this takes the seat and looks for the wish.
                self.work = work
                if work.wish:
                    raise Cancelled("cancelled before it started")
                value = work.call(*work.args, **work.kwargs)
            finally:
                self._end()
        except BaseException as error:
            # An interruption may strike inside `_end`, but no second one can be on its way.
            self._end()
            return failure(work, error)
        return success(work, value)

    def interrupt(self, work: Work | None, error: type[BaseException]) -> None:
        """Raise this in the job that runs here, if it is this one (None: whichever); from any other thread."""
        with self._lock:
            if self.work is not None and (work is None or self.work is work) and not self._interrupted:
                self._interrupted = True
                _set_exception(self.thread, error)

    def _end(self) -> None:
        with self._lock:
            self.work = None
            self.deadline_s = 0.0
            if self._interrupted:
                self._interrupted = False
                _drop_exception(self.thread, None)


class Watch:
    """Raises `TimeLimit` in whatever is over its soft limit; one thread, started when the first limit is met."""

    def __init__(self, seats: Sequence[Seat]) -> None:
        self._seats = seats
        self._earlier = threading.Condition()
        self._next_s = float("inf")
        self._thread: threading.Thread | None = None

    def expect(self, seat: Seat, deadline_s: float) -> None:
        """The job that is about to run on this seat has until then."""
        seat.deadline_s = deadline_s
        if deadline_s < self._next_s or self._thread is None:
            with self._earlier:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._look, name="limits", daemon=True)
                    self._thread.start()
                self._earlier.notify()

    def _look(self) -> None:
        with self._earlier:
            while True:
                # Whoever sets a deadline from now on waits for our lock to say so, whether this look sees it or not.
                self._next_s = float("inf")
                now = mono_s()
                self._next_s = min(self._look_at(seat, now) for seat in self._seats)
                self._earlier.wait(None if self._next_s == float("inf") else self._next_s - now)

    def _look_at(self, seat: Seat, now: float) -> float:
        """Interrupt what is over its limit; when to look again."""
        # In this order: then a deadline is never taken for that of a job that came later.
        work = seat.work
        deadline_s = seat.deadline_s
        if not deadline_s:
            return float("inf")
        if deadline_s > now:
            return deadline_s
        if work is None:
            return now + NOT_YET_S
        seat.interrupt(work, TimeLimit)
        return float("inf")


def success(work: Work, value: object) -> Outcome:
    """The outcome of a call that returned."""
    try:
        return work.ended(value)
    except Exception as error:
        return failure(work, error)


def failure(work: Work, error: BaseException) -> Outcome:
    """The outcome of a call that raised. Whatever is odd about the error, there is one."""
    try:
        return work.failed(explained(error, work))
    except Exception as worse:
        return Outcome("dead", error=f"{type(error).__name__}, and then {type(worse).__name__} when it was looked at")


def explained(error: BaseException, work: Work) -> BaseException:
    """An interruption with the words that it could not carry into the other thread."""
    if type(error) is TimeLimit and not error.args:
        return TimeLimit(f"over its limit of {work.soft_limit_s:g} s").with_traceback(error.__traceback__)
    if type(error) is Cancelled and not error.args:
        return Cancelled("cancelled while it ran").with_traceback(error.__traceback__)
    return error
