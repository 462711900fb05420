"""When a job that failed runs again."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from holdfast.errors import OptionError
from holdfast.tasks.ends import MAX_DELAY_S, Retry, Snooze
from holdfast.tasks.retry import backoff_from, default_backoff, delay_ms


@pytest.mark.parametrize("count", [0, 1, 5, 24])
def test_the_default_is_the_count_to_the_fourth_and_some_chance(count: int) -> None:
    least = count**4 + 15
    delays = [default_backoff(count) for _ in range(200)]
    assert all(least <= delay <= least + 30 * (count + 1) for delay in delays)
    assert len(set(delays)) > 100


def test_all_25_retries_together_take_about_three_weeks() -> None:
    assert 20 < sum(default_backoff(count) for count in range(25)) / 86_400 < 21


@pytest.mark.parametrize(
    ("option", "delays"),
    [
        (7, [7, 7, 7]),
        (0, [0, 0, 0]),
        (0.25, [0.25, 0.25, 0.25]),
        ([1, 2], [1, 2, 2]),
        ((5,), [5, 5, 5]),
        (lambda count: 10 * count, [0, 10, 20]),
        (timedelta(minutes=1), [60, 60, 60]),
        ([timedelta(seconds=1), 2], [1, 2, 2]),
    ],
)
def test_a_backoff_of_ones_own(option: Any, delays: list[float]) -> None:
    assert [delay_ms(backoff_from(option), count) for count in range(3)] == [int(d * 1000) for d in delays]


@pytest.mark.parametrize(
    "option", ["5", [], "12", {1: 2}, [1, "2"], [None], object(), True, float("nan"), 1e12, -1, [-1]]
)
def test_what_is_no_backoff_is_refused(option: Any) -> None:
    with pytest.raises(OptionError, match="backoff"):
        backoff_from(option)


def broken(count: int) -> float:
    raise LookupError(count)


@pytest.mark.parametrize(
    "backoff",
    [
        broken,
        lambda count: "soon",
        lambda count: None,
        lambda count: -1,
        lambda count: float("nan"),
        lambda count: 1e12,
    ],
)
def test_a_broken_callable_waits_as_long_as_ours(backoff: Any) -> None:
    assert 15_000 <= delay_ms(backoff_from(backoff), 0) <= 45_000


def test_a_callable_may_say_a_timedelta() -> None:
    assert delay_ms(backoff_from(lambda count: timedelta(seconds=count)), 3) == 3000


@pytest.mark.parametrize("make", [Retry, Snooze])
@pytest.mark.parametrize("delay", ["5", float("nan"), float("inf"), MAX_DELAY_S + 1, True, [1]])
def test_a_delay_is_a_number_of_seconds_or_a_timedelta(make: Any, delay: Any) -> None:
    with pytest.raises(OptionError, match="delay must be a number of seconds up to five years or a timedelta"):
        make(delay)


def test_a_delay_in_the_past_is_now() -> None:
    assert (Retry(-5).delay_s, Snooze(timedelta(days=-1)).delay_s, Retry().delay_s) == (0.0, 0.0, None)
