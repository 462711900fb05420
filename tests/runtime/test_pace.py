from __future__ import annotations

import pytest

from holdfast.runtime.pace import AHEAD_S, MOST, PATIENCE_S, Pace


def paced(jobs: int, seconds: float, start: float = 0.0) -> Pace:
    pace = Pace()
    pace.begin(start)
    pace.note(jobs, start + seconds)
    return pace


def test_who_knows_nothing_takes_nothing_ahead() -> None:
    assert Pace().ahead == 0


@pytest.mark.parametrize(("jobs", "seconds"), [(100, 0.01), (1000, 0.1), (5, 0.0005)])
def test_as_many_wait_as_end_within_the_time_ahead(jobs: int, seconds: float) -> None:
    assert paced(jobs, seconds).ahead == pytest.approx(jobs / seconds * AHEAD_S, abs=1)


def test_a_job_of_a_second_has_none_waiting_behind_it() -> None:
    assert paced(1, 1.0).ahead == 0


def test_there_is_a_most() -> None:
    assert paced(10_000_000, 0.01).ahead == MOST


def test_time_without_work_does_not_count() -> None:
    pace = paced(100, 0.01)
    pace.rest(0.01)
    pace.begin(3600.0)
    pace.note(100, 3600.01)
    assert pace.ahead == pytest.approx(10_000 * AHEAD_S, abs=1)


def test_a_few_ends_are_no_rate_yet() -> None:
    pace = paced(100, 0.01)
    pace.note(1, 0.010001)
    assert pace.ahead == pytest.approx(10_000 * AHEAD_S, abs=1)


def test_without_ends_the_rate_falls_as_time_goes_by() -> None:
    pace = paced(100, 0.01)
    pace.note(0, 0.01 + PATIENCE_S)
    assert (pace.ahead, pace.patience) == (0, 0)


def test_patience_is_for_what_starts_before_it_is_over() -> None:
    assert paced(100, 1.0).patience == pytest.approx(100 * PATIENCE_S)
