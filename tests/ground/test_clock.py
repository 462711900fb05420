"""Points in time to the millisecond, never too early."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from holdfast.clock import as_datetime, as_ms

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("microseconds", "ms"),
    [(0, 0), (1, 1), (999, 1), (1000, 1), (1001, 2), (1_500_000, 1500), (-1, 0), (-999, 0), (-1000, -1), (-1001, -1)],
)
def test_a_point_in_time_is_rounded_up(microseconds: int, ms: int) -> None:
    assert as_ms(EPOCH + timedelta(microseconds=microseconds)) == ms


def test_every_millisecond_of_a_second_is_itself() -> None:
    # Floating point would make some of these one too much or too little.
    start = 1_790_000_000_000
    assert [as_ms(as_datetime(start + i)) for i in range(1000)] == [start + i for i in range(1000)]


def test_a_time_zone_changes_nothing() -> None:
    there = datetime(2026, 7, 1, 14, 0, tzinfo=ZoneInfo("Europe/Berlin"))
    assert as_ms(there) == as_ms(datetime(2026, 7, 1, 12, 0, tzinfo=UTC))
    assert as_ms(there) == as_ms(there.astimezone(timezone(timedelta(hours=-9, minutes=-30))))


@pytest.mark.parametrize(("fold", "hour"), [(0, 0), (1, 1)])
def test_the_hour_that_is_there_twice_is_told_apart(fold: int, hour: int) -> None:
    there = datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=fold)
    assert as_datetime(as_ms(there)) == datetime(2026, 10, 25, hour, 30, tzinfo=UTC)
