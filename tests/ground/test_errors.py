"""The errors: which is which, and that each survives a journey between processes."""

from __future__ import annotations

import copy
import pickle

import pytest

import holdfast
from holdfast import DurabilityUncertain, HoldfastError, JobCancelled, JobDead, JobExpired, Retry, Snooze
from holdfast.errors import did_you_mean

ERRORS = [error for error in vars(holdfast).values() if isinstance(error, type) and issubclass(error, HoldfastError)]
MADE = [
    JobDead("id", "why"),
    JobCancelled("id", ""),
    JobExpired("id", "late"),
    DurabilityUncertain("no copy", ["a", "b"]),
    Retry(delay=5, reason="closed"),
    Retry(),
    Snooze(7),
    holdfast.Cancel("no need"),
    *[error("what") for error in ERRORS if not issubclass(error, holdfast.JobEnded | DurabilityUncertain)],
]


@pytest.mark.parametrize("error", MADE, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("travelled", [lambda e: pickle.loads(pickle.dumps(e)), copy.copy], ids=["pickled", "copied"])
def test_an_error_arrives_as_it_was(error: BaseException, travelled: object) -> None:
    assert callable(travelled)
    arrived = travelled(error)
    assert type(arrived) is type(error)
    assert str(arrived) == str(error)
    assert vars(arrived) == vars(error)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)
def test_each_says_when_one_meets_it(error: type[HoldfastError]) -> None:
    assert error.__doc__
    assert error.__doc__ != HoldfastError.__doc__ or error is HoldfastError


def test_they_are_what_python_would_call_them() -> None:
    assert issubclass(holdfast.UsageError, ValueError)
    assert issubclass(holdfast.JobNotFound, LookupError)
    assert issubclass(holdfast.ResultTimeout, TimeoutError)
    assert issubclass(holdfast.TimeLimit, TimeoutError)
    assert issubclass(holdfast.Unavailable, ConnectionError)


def test_of_many_uncertain_ids_the_first_are_shown() -> None:
    error = DurabilityUncertain("no copy", [str(i) for i in range(12)])
    assert str(error) == "no copy; put: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ..."
    assert error.ids == tuple(str(i) for i in range(12))


def test_a_word_that_is_close_is_suggested() -> None:
    assert did_you_mean("dealy", ["queue", "delay"]) == " (did you mean 'delay'?)"
    assert did_you_mean("x", ["queue", "delay"]) == ""
    assert did_you_mean("x", []) == ""
