"""When to try again. Its one rule: pure functions; nothing here knows a clock or a server."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from holdfast.errors import OptionError
from holdfast.tasks.ends import limit

#: Seconds, or a timedelta.
Pause = float | timedelta
Backoff = Pause | Sequence[Pause] | Callable[[int], Pause]


def default_backoff(count: int) -> float:
    """Sidekiq's formula: about 20 s after the first failure, three weeks for all 25 retries together."""
    return count**4 + 15 + random.uniform(0, 30) * (count + 1)  # noqa: S311 - spreading load, no secret


def backoff_from(option: Any) -> Callable[[int], Pause]:
    """The function for `backoff=`: a number of seconds, a list of them (the last repeats), or a callable."""
    if option is None:
        return default_backoff
    if callable(option):
        made: Callable[[int], Pause] = option
        return made
    if isinstance(option, Sequence) and not isinstance(option, str) and option:
        delays = [limit("backoff", delay) for delay in option]
        return lambda count: delays[min(count, len(delays) - 1)]
    if isinstance(option, int | float | timedelta):
        delay = limit("backoff", option)
        return lambda count: delay  # noqa: ARG005 - every count waits the same
    raise OptionError(f"backoff must be seconds, a list of seconds or a callable, not {option!r}")


def delay_ms(backoff: Callable[[int], Pause], count: int) -> int:
    """How long to wait after failure number *count* (0 for the first); a broken callable waits as long as ours."""
    try:
        delay = limit("backoff", backoff(count))
    except Exception:
        delay = default_backoff(count)
    return int(delay * 1000)
