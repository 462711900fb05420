"""What a worker makes of an entry. Its one rule: whatever is wrong with one entry stays with that entry."""

from __future__ import annotations

import traceback
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from holdfast.clock import mono_s
from holdfast.codec import carried, encode
from holdfast.engine.keys import Partition
from holdfast.engine.model import FRESH, Entry, Marks
from holdfast.errors import ArgumentError, Cancelled, OptionError, PayloadError, UsageError, did_you_mean
from holdfast.tasks.current import running
from holdfast.tasks.definition import Definition
from holdfast.tasks.ends import Cancel, Retry, Snooze, end_of
from holdfast.tasks.envelope import Envelope, done_record, ended_record, open_envelope
from holdfast.tasks.retry import delay_ms
from holdfast.tasks.step import Line, Step
from holdfast.work import PLAIN, Outcome, Work

#: How long a cancelled or expired job is known to whoever asks.
ENDED_TTL_MS = 3_600_000
MAX_ERROR = 8192
#: What a step brings travels in one call, which stops the server while it runs.
MOST_BORN = 1000


class Run:
    """One attempt of one job; what `current_job()` returns inside of it."""

    __slots__ = (
        "args", "call", "deadline_s", "entry", "envelope", "feed", "hard_limit_s", "hold", "is_async", "kwargs",
        "marks", "partition", "soft_limit_s", "source", "step", "task", "wish",
    )  # fmt: skip

    def __init__(
        self, partition: Partition, entry: bytes, hold: bytes, marks: Marks, task: Definition, envelope: Envelope,
        args: Sequence[Any], kwargs: dict[str, Any], source: TaskSource,
    ) -> None:  # fmt: skip
        self.partition = partition
        self.entry = entry
        self.hold = hold
        self.marks = marks
        self.task = task
        self.envelope = envelope
        self.call = task.function
        self.args = args
        self.kwargs = kwargs
        self.is_async = task.is_async
        self.soft_limit_s = task.soft_limit_s if envelope.timeout is None else envelope.timeout
        self.hard_limit_s = task.hard_limit_s if envelope.hard_timeout is None else envelope.hard_timeout
        self.source = source
        self.feed = 0
        self.deadline_s = 0.0
        self.wish = False
        #: What it has said and brought; nothing, for most.
        self.step: Step | None = None

    @property
    def id(self) -> str:
        """The job's id."""
        return self.entry.decode()

    @property
    def name(self) -> str:
        """The name of the job's task."""
        return self.task.name

    @property
    def attempt(self) -> int:
        """1 for the first run of this job; failures and crashes count, snoozes do not."""
        return self.marks.failures + self.marks.crashes + 1

    @property
    def fence(self) -> int:
        """A number that grows each time a job of this partition is handed out.

        Keep the highest one beside your own data and refuse writes that come with a lower one: then a worker that was
        paused for an hour cannot undo what its successor did.
        """
        return int(self.hold)

    @property
    def deadline(self) -> datetime | None:
        """When this run is over its soft limit; None without one."""
        if not self.deadline_s:
            return None
        return datetime.now(UTC) + timedelta(seconds=self.deadline_s - mono_s())

    def check_cancelled(self) -> None:
        """Raise `Cancelled` if somebody cancelled this job since it started."""
        if self.wish:
            raise Cancelled(f"job {self.id} was cancelled")

    def progress(self, share: float, text: str = "") -> None:
        """Say how far this job is, from 0 to 1; `job.progress()` shows it while the job runs.

        Example:
            >>> current_job().progress(0.4, "4 of 10 pages")
        """
        self._step().say(share, text)
        self._tell()

    def log(self, text: str, level: str = "INFO") -> None:
        """Add a line to this job's log; what it logs by `logging` in a worker gets there by itself.

        `job.logs()` shows the last hundred lines of its last run, for as long as the job or its result is there.
        """
        self._step().log(text, level)
        self._tell()

    # -- for the worker ---------------------------------------------------------------------------

    def enter(self) -> Any:
        """The code that runs now is this job's; answers what `leave` wants."""
        return running.set(self)

    def leave(self, token: Any) -> None:
        """It is over."""
        running.reset(token)

    def spawn(self, partition: Partition, entry: Entry) -> None:
        """Bring this entry in the step that finishes this job."""
        born = self._step().born
        if len(born) == MOST_BORN:
            raise UsageError(f"one step brings at most {MOST_BORN:,} jobs: spawn one that enqueues the rest")
        born.append((partition, entry))

    def note(self) -> bytes:
        """What it says of itself at this moment."""
        return self._step().note()

    def ended(self, value: Any) -> Outcome:
        """The function returned."""
        if value is not None and (end := end_of(value)) is not None:
            return self.failed(end)
        try:
            ttl_ms = self._ttl_ms
            if not ttl_ms:
                return PLAIN if self.step is None else Outcome(born=self.step.born)
            result = encode(value, "the result", self.task.signature.returns_known)
            if len(result) > self.source.max_bytes:
                raise PayloadError(f"the result has {len(result):,} bytes, {self.source.max_bytes:,} are allowed")
        except Exception as error:
            # The work is done: to do it again would not make its result any more JSON. A model of the user's may raise
            # anything here, and the thread of a worker must not end by it.
            return Outcome("dead", error=described(error), note=self._remains)
        if self.step is None:
            return Outcome(ttl_ms=ttl_ms, record=done_record(result))
        return Outcome(ttl_ms=ttl_ms, record=done_record(result, self._lines), born=self.step.born)

    def failed(self, error: BaseException) -> Outcome:
        """The function raised, or returned one of our ends."""
        if isinstance(error, Snooze):
            return Outcome("snooze", delay_ms=int(error.delay_s * 1000), note=self._remains)
        if isinstance(error, Cancel):
            return self._cancelled(error.reason)
        if isinstance(error, Cancelled) and self.wish:
            return self._cancelled(str(error))
        text = described(error)
        failures = self.marks.failures
        retries = self.task.retries if self.envelope.retries is None else self.envelope.retries
        if failures >= retries:
            return Outcome("dead", error=text, note=self._remains)
        if isinstance(error, Retry) and error.delay_s is not None:
            pause_ms = int(error.delay_s * 1000)
        else:
            pause_ms = delay_ms(self.task.delays, failures)
        return Outcome("retry", delay_ms=pause_ms, error=text, note=self._remains)

    def _cancelled(self, reason: str) -> Outcome:
        return Outcome("cancelled", ttl_ms=ENDED_TTL_MS, record=ended_record("cancelled", reason, self._lines))

    def _step(self) -> Step:
        if self.step is None:
            self.step = Step()
        return self.step

    def _tell(self) -> None:
        """Let the worker know that there is something to fetch, unless it knows already."""
        step = self._step()
        if not step.is_waiting:
            step.is_waiting = True
            self.source.said.append(self)
            self.source.wake()

    @property
    def _remains(self) -> bytes:
        return b"" if self.step is None else self.step.remains()

    @property
    def _lines(self) -> list[Line]:
        return [] if self.step is None else self.step.lines()

    @property
    def _ttl_ms(self) -> int:
        own = self.envelope.result_ttl
        return self.task.result_ttl_ms if own is None else int(own * 1000)


class TaskSource:
    """Entries of tasks.

    Example:
        >>> source = TaskSource(app.tasks, max_bytes=1 << 20)
        >>> work = source.open(partition, id, fence, envelope, marks, now)
    """

    def __init__(self, tasks: Mapping[str, Definition], max_bytes: int) -> None:
        self.tasks = tasks
        self.max_bytes = max_bytes
        self.said: deque[Work] = deque()
        self.wake: Callable[[], None] = _nobody

    def open(
        self, partition: Partition, id: bytes, fence: bytes, envelope: bytes | None, marks: bytes | None, now: int
    ) -> Run | Outcome:
        """One attempt, or the outcome of an entry that is not to be run."""
        known = Marks.parse(marks) if marks else FRESH
        if known.cancelled:
            return _unrun("cancelled", "cancelled before it started again")
        if known.expires and now >= known.expires:
            return _unrun("expired", "not started in time")
        try:
            opened = open_envelope(envelope or b"")
            task = self.tasks.get(opened.task)
            if task is None:
                return _broken(f"unknown task {opened.task!r:.300}{did_you_mean(opened.task, self.tasks)}")
            args, kwargs = task.signature.decode(opened.args, opened.kwargs)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            return _broken(f"not an envelope: {error}")
        except (ArgumentError, OptionError) as error:
            return _broken(str(error))
        except (Exception, SystemExit) as error:  # a validator of the user's may raise anything
            return _broken(described(error))
        return Run(partition, id, fence, known, task, opened, args, kwargs, self)


def described(error: BaseException) -> str:
    """An error as it is kept: its type and message, then where it happened; no values of variables."""
    head = f"{type(error).__name__}: {_text_of(error)}"
    frames = "".join(traceback.format_tb(error.__traceback__)[-20:])
    return carried(f"{head[: MAX_ERROR // 2]}\n{frames[-MAX_ERROR // 2 :]}".rstrip())


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException as broken:
        return f"(its text cannot be had: {type(broken).__name__})"


def _nobody() -> None:
    """Nobody waits for what jobs say, outside of a worker."""


def _unrun(verdict: Any, reason: str) -> Outcome:
    return Outcome(verdict, ttl_ms=ENDED_TTL_MS, record=ended_record(verdict, reason))


def _broken(reason: str) -> Outcome:
    return Outcome("broken", error=carried(reason[:MAX_ERROR]))
