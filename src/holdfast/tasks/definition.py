"""A task as its decorator described it. Its one rule: every option is checked here, once, before anything is put."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

from holdfast.errors import OptionError
from holdfast.settings import whole
from holdfast.tasks.ends import limit
from holdfast.tasks.retry import Backoff, Pause, backoff_from
from holdfast.tasks.signature import Signature

RESULT_TTL_S = 3600.0
#: A job that does not heed its soft limit is ended with its process after this much more.
HARD_AFTER_SOFT_S = 30.0


@dataclass(frozen=True)
class Definition:
    """What a task is: its function, and how its jobs are run."""

    name: str
    function: Callable[..., Any]
    retries: int = 25
    backoff: Backoff | None = None
    timeout: float | timedelta | None = None
    hard_timeout: float | timedelta | None = None
    result_ttl: float | timedelta | None = None

    def __post_init__(self) -> None:
        checked_name_of_task(self.name)
        whole("retries", self.retries, 0, 1_000_000)
        # Each of these says what is wrong with what it is made of.
        _ = self.signature, self.delays, self.soft_limit_s, self.hard_limit_s
        if self.result_ttl is not None:
            limit("result_ttl", self.result_ttl)
        if inspect.isgeneratorfunction(self.function) or inspect.isasyncgenfunction(self.function):
            raise OptionError(f"{self.name}() is a generator: a task returns its result, it does not yield it")

    @cached_property
    def signature(self) -> Signature:
        """The parameters as JSON."""
        return Signature(self.function)

    @cached_property
    def is_async(self) -> bool:
        """Whether the function is `async def`."""
        return inspect.iscoroutinefunction(self.function)

    @cached_property
    def delays(self) -> Callable[[int], Pause]:
        """How long to wait after each failure."""
        return backoff_from(self.backoff)

    @cached_property
    def soft_limit_s(self) -> float:
        """After how long `TimeLimit` is raised inside the job; 0 for never."""
        return 0.0 if self.timeout is None else limit("timeout", self.timeout)

    @cached_property
    def hard_limit_s(self) -> float:
        """After how long the process of the job is ended; 0 for never."""
        if self.hard_timeout is not None:
            return limit("hard_timeout", self.hard_timeout)
        return self.soft_limit_s and self.soft_limit_s + HARD_AFTER_SOFT_S

    @cached_property
    def result_ttl_ms(self) -> int:
        """How long a result is kept; 0 for not at all."""
        if self.result_ttl is not None:
            return int(limit("result_ttl", self.result_ttl) * 1000)
        return 0 if self.signature.returns_nothing else int(RESULT_TTL_S * 1000)


def checked_name_of_task(name: str) -> str:
    """A task's name that may stand in an envelope and in a log line."""
    if not isinstance(name, str) or not name.isprintable() or not 0 < len(name) <= 200:
        raise OptionError(f"a task's name must be 1 to 200 printable characters, not {name!r}")
    return name


def name_of(function: Callable[..., Any]) -> str:
    """`module.function`, with the name that a worker will import in place of `__main__`."""
    qualname: str = getattr(function, "__qualname__", "")
    if not qualname or not callable(function) or inspect.isclass(function):
        raise OptionError(f"a task is made from a function, not from {function!r}")
    if "<lambda>" in qualname:
        raise OptionError("a lambda has no name that a worker could find: use def, or task(name=...)")
    module = function.__module__
    # Inside of a function that builds an application, the name of that function is enough.
    path = qualname.replace("<locals>.", "")
    return f"{_main_module(qualname) if module == '__main__' else module}.{path}"


def _main_module(qualname: str) -> str:
    main = sys.modules["__main__"]
    if main.__spec__ is not None:
        return main.__spec__.name.removesuffix(".__main__")
    file = getattr(main, "__file__", None)
    if file is None or not Path(file).is_file():
        raise OptionError(
            f"{qualname}() is defined in an interactive session, where no worker can import it:"
            " put it into a file, or give it a name of its own with task(name=...)"
        )
    path = Path(file).resolve()
    here = Path.cwd()
    parts = path.relative_to(here).parts if path.is_relative_to(here) else (path.name,)
    return ".".join([*parts[:-1], path.stem])
