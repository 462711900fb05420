"""The run that is going on here. Its one rule: what a job does to the store waits for its end, and is part of it."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

from holdfast.errors import UsageError

if TYPE_CHECKING:
    from holdfast.tasks.source import Run

running: ContextVar[Run | None] = ContextVar("holdfast_run", default=None)


def current_job() -> Run | None:
    """The job that this code runs in, None outside of one.

    Example:
        >>> current_job().fence     # a number that grows with each claim, for the user's own store
    """
    return running.get()


def required(what: str) -> Run:
    """The current run, or an error that says what was tried outside of one."""
    run = running.get()
    if run is None:
        raise UsageError(f"{what} works only inside a running job")
    return run
