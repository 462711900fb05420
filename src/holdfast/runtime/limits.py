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
            return work.failed(explained(error, work))
        return work.ended(value)

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
                deadlines = [(seat.deadline_s, seat) for seat in self._seats if seat.deadline_s]
                now = mono_s()
                for deadline_s, seat in deadlines:
                    work = seat.work
                    if deadline_s <= now and work is not None:
                        seat.interrupt(work, TimeLimit)
                self._next_s = min((d for d, _ in deadlines if d > now), default=float("inf"))
                # Whoever sets a deadline after this look and before the wait waits for our lock to say so.
                self._earlier.wait(None if self._next_s == float("inf") else self._next_s - now)


def explained(error: BaseException, work: Work) -> BaseException:
    """An interruption with the words that it could not carry into the other thread."""
    if type(error) is TimeLimit and not error.args:
        return TimeLimit(f"over its limit of {work.soft_limit_s:g} s").with_traceback(error.__traceback__)
    if type(error) is Cancelled and not error.args:
        return Cancelled("cancelled while it ran").with_traceback(error.__traceback__)
    return error
