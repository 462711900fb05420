"""Two clocks, told apart by name. Their one rule: no decision about a job is ever taken by a clock of a client.

`wall_ms` is for what people read and for the ids of jobs; `mono_s` is for waiting. What a lease, a delay or an expiry
means is decided by the server's own time, inside the scripts.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

mono_s = time.monotonic


def wall_ms() -> int:
    """Milliseconds since 1970 by this machine's clock."""
    return time.time_ns() // 1_000_000


def as_datetime(ms: float) -> datetime:
    """A point in time as the server stores it, as an aware datetime in UTC."""
    return datetime.fromtimestamp(ms / 1000, UTC)


def as_ms(when: datetime) -> int:
    """An aware datetime as milliseconds since 1970; rounded up, so that nothing is ever due too early."""
    whole, rest = divmod(when - datetime(1970, 1, 1, tzinfo=UTC), timedelta(milliseconds=1))
    return whole + (1 if rest else 0)
