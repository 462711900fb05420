"""The whole exception tree. Each class says when you meet it and what to do.

Its one rule: whose fault it is, is the type: `UsageError` is the caller's, `Unavailable` the store's, `EmbeddedError`
this machine's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """What to add to an error about a word that is not known: ' (did you mean ...?)', or nothing."""
    from difflib import get_close_matches

    close = get_close_matches(word, known, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


class HoldfastError(Exception):
    """The root of every error this package raises on purpose."""


# -- the caller's ---------------------------------------------------------------------------------


class UsageError(HoldfastError, ValueError):
    """Something was called with what it cannot take; nothing was sent anywhere."""


class OptionError(UsageError):
    """An option that does not exist, or a value outside its range."""


class ArgumentError(UsageError):
    """Arguments of a task that do not fit its signature; the message carries the path of what is wrong."""


class PayloadError(UsageError):
    """A value that JSON cannot carry, nested too deep, or too large."""


class UnknownTask(UsageError):
    """A task name that this application does not register."""


class JobNotFound(HoldfastError, LookupError):
    """No trace of a job: it never existed, or it ended and its result was not kept or has expired."""


# -- the answers to `job.result()` ----------------------------------------------------------------


class JobEnded(HoldfastError):
    """The job ended without a result."""

    def __init__(self, id: str, reason: str) -> None:
        super().__init__(f"job {id} {self.word}: {reason}" if reason else f"job {id} {self.word}")
        self.id = id
        self.reason = reason

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.id, self.reason)

    word = "ended"


class JobDead(JobEnded):
    """The job failed until its retries were used up, or killed its process too often. `revive` brings it back."""

    word = "is dead"


class JobCancelled(JobEnded):
    """The job was cancelled, by its caller or by itself."""

    word = "was cancelled"


class JobExpired(JobEnded):
    """The job was not started before its expiry."""

    word = "expired"


class ResultTimeout(HoldfastError, TimeoutError):
    """The job did not end within the time that the caller wanted to wait. It goes on."""


# -- inside a job ---------------------------------------------------------------------------------


class TimeLimit(HoldfastError, TimeoutError):
    """Raised inside a job that is over its soft time limit."""


class Cancelled(HoldfastError):
    """Raised inside a job that somebody cancelled while it ran."""


# -- the store's ----------------------------------------------------------------------------------


class Unavailable(HoldfastError, ConnectionError):
    """The server cannot be reached or does not answer in time. What was sent may or may not have happened."""


class QueueFull(HoldfastError):
    """The server is out of memory and refuses new jobs. Workers go on; nothing was put."""


class DurabilityUncertain(HoldfastError):
    """The jobs were put, but fewer copies than asked for confirmed it in time. `ids` are those of all of them."""

    def __init__(self, doubt: str, ids: Sequence[str]) -> None:
        super().__init__(f"{doubt}; put: {', '.join(ids[:10])}{', ...' if len(ids) > 10 else ''}")
        self.doubt = doubt
        self.ids = tuple(ids)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.doubt, self.ids)


class ServerError(HoldfastError):
    """The server answered with an error that no call of ours should meet; please report it."""


# -- this machine's -------------------------------------------------------------------------------


class EmbeddedError(HoldfastError):
    """The embedded server cannot run here; the message says why, and what to do."""
