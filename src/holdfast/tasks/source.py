"""What a worker makes of an entry. Its one rule: whatever is wrong with one entry stays with that entry."""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from holdfast.clock import mono_s
from holdfast.codec import encode
from holdfast.engine.keys import Partition
from holdfast.engine.model import FRESH, Entry, Marks
from holdfast.errors import ArgumentError, Cancelled, OptionError, PayloadError
from holdfast.tasks.current import running
from holdfast.tasks.definition import Definition
from holdfast.tasks.ends import Cancel, End, Retry, Snooze
from holdfast.tasks.envelope import Envelope, done_record, ended_record, open_envelope
from holdfast.tasks.retry import delay_ms
from holdfast.work import PLAIN, Outcome

#: How long a cancelled or expired job is known to whoever asks.
ENDED_TTL_MS = 3_600_000
MAX_ERROR = 8192


class Run:
    """One attempt of one job; what `current_job()` returns inside of it."""

    __slots__ = (
        "args", "born", "call", "deadline_s", "entry", "envelope", "feed", "hard_limit_s", "hold", "is_async", "kwargs",
        "marks", "max_bytes", "partition", "soft_limit_s", "task", "wish",
    )  # fmt: skip

    def __init__(
        self, partition: Partition, entry: bytes, hold: bytes, marks: Marks, task: Definition, envelope: Envelope,
        args: Sequence[Any], kwargs: dict[str, Any], max_bytes: int,
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
        self.max_bytes = max_bytes
        self.feed = 0
        self.deadline_s = 0.0
        self.wish = False
        self.born: list[tuple[Partition, Entry]] | None = None

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

    # -- for the worker ---------------------------------------------------------------------------

    def enter(self) -> Any:
        """The code that runs now is this job's; answers what `leave` wants."""
        return running.set(self)

    def leave(self, token: Any) -> None:
        """It is over."""
        running.reset(token)

    def spawn(self, partition: Partition, entry: Entry) -> None:
        """Bring this entry in the step that finishes this job."""
        if self.born is None:
            self.born = []
        self.born.append((partition, entry))

    def ended(self, value: Any) -> Outcome:
        """The function returned."""
        if isinstance(value, End):
            return self.failed(value)
        ttl_ms = self._ttl_ms
        if not ttl_ms:
            return PLAIN if self.born is None else Outcome(born=self.born)
        try:
            result = encode(value, "the result")
            if len(result) > self.max_bytes:
                raise PayloadError(f"the result has {len(result):,} bytes, {self.max_bytes:,} are allowed")
        except PayloadError as error:
            # The work is done: to do it again would not make its result any more JSON.
            return Outcome("dead", error=described(error))
        return Outcome(ttl_ms=ttl_ms, record=done_record(result), born=self.born or ())

    def failed(self, error: BaseException) -> Outcome:
        """The function raised, or returned one of our ends."""
        if isinstance(error, Snooze):
            return Outcome("snooze", delay_ms=int(error.delay_s * 1000))
        if isinstance(error, Cancel):
            return Outcome("cancelled", ttl_ms=ENDED_TTL_MS, record=ended_record("cancelled", error.reason))
        if isinstance(error, Cancelled) and self.wish:
            return Outcome("cancelled", ttl_ms=ENDED_TTL_MS, record=ended_record("cancelled", str(error)))
        text = described(error)
        failures = self.marks.failures
        retries = self.task.retries if self.envelope.retries is None else self.envelope.retries
        if failures >= retries:
            return Outcome("dead", error=text)
        if isinstance(error, Retry) and error.delay_s is not None:
            return Outcome("retry", delay_ms=int(error.delay_s * 1000), error=text)
        return Outcome("retry", delay_ms=delay_ms(self.task.delays, failures), error=text)

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
                return _broken(f"unknown task {opened.task!r}")
            args, kwargs = task.signature.decode(opened.args, opened.kwargs)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            return _broken(f"not an envelope: {error}")
        except (ArgumentError, OptionError) as error:
            return _broken(str(error))
        except Exception as error:  # a validator of the user's may raise anything
            return _broken(described(error))
        return Run(partition, id, fence, known, task, opened, args, kwargs, self.max_bytes)


def described(error: BaseException) -> str:
    """An error as it is kept: its type and message, then where it happened; no values of variables."""
    head = f"{type(error).__name__}: {_text_of(error)}"
    frames = "".join(traceback.format_tb(error.__traceback__)[-20:])
    return f"{head[: MAX_ERROR // 2]}\n{frames[-MAX_ERROR // 2 :]}".rstrip()


def _text_of(error: BaseException) -> str:
    try:
        return str(error).encode(errors="replace").decode()
    except Exception as broken:
        return f"(its text cannot be had: {type(broken).__name__})"


def _unrun(verdict: Any, reason: str) -> Outcome:
    return Outcome(verdict, ttl_ms=ENDED_TTL_MS, record=ended_record(verdict, reason))


def _broken(reason: str) -> Outcome:
    return Outcome("broken", error=reason)
