"""What a task may end with besides a value and an error. Its one rule: raising and returning one are the same."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from holdfast.errors import OptionError

#: Longer delays are mistakes: milliseconds taken for seconds, or a date for a duration.
MAX_DELAY_S = 5 * 366 * 86_400


class End(Exception):
    """The root of the three."""


class Retry(End):
    """Run this job again, after *delay* seconds or its task's backoff; counts as a failed attempt.

    Example:
        >>> raise Retry(delay=30, reason="the bank is closed")
    """

    delay_s: float | None = None

    def __init__(self, delay: float | timedelta | None = None, reason: str = "") -> None:
        super().__init__(reason or "asked to be retried")
        self.delay_s = None if delay is None else seconds("delay", delay)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.delay_s, str(self))


class Snooze(End):
    """Run this job again after *delay* seconds; does not count as an attempt."""

    delay_s: float = 0.0

    def __init__(self, delay: float | timedelta) -> None:
        super().__init__("snoozed")
        self.delay_s = seconds("delay", delay)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.delay_s,)


class Cancel(End):
    """Do not run this job again; it ends as cancelled, for this reason."""

    reason: str = ""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


def end_of(value: Any) -> BaseException | None:
    """The end that a task has returned, also when it returned only its class; None for any other value."""
    if isinstance(value, End):
        return value
    if isinstance(value, type) and issubclass(value, End):
        try:
            return value()
        except TypeError as error:
            return error
    return None


def seconds(name: str, value: float | timedelta) -> float:
    """How long to wait, in seconds, or `OptionError`; what lies in the past is now."""
    number = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(number, bool) or not isinstance(number, int | float) or not number <= MAX_DELAY_S:
        raise OptionError(f"{name} must be a number of seconds up to five years or a timedelta, not {value!r}")
    return max(float(number), 0.0)


def limit(name: str, value: float | timedelta) -> float:
    """How long something may take or last, in seconds; less than nothing is a mistake."""
    number = seconds(name, value)
    if (value.total_seconds() if isinstance(value, timedelta) else value) < 0:
        raise OptionError(f"{name} must not be negative: {value!r}")
    return number
