"""Works for the rooms of the runtime: a call, and what became of it."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from inspect import iscoroutinefunction
from typing import Any

from holdfast.engine.keys import Partition
from holdfast.work import Outcome
from lifecycle.play import PATIENCE_S

HERE = Partition("test", "q")
_numbers = itertools.count()


@dataclass(eq=False)
class Try:
    """One run of one function."""

    call: Callable[..., Any]
    args: Sequence[Any] = ()
    soft_limit_s: float = 0.0
    hard_limit_s: float = 0.0
    feed: int = 0
    hold: bytes = b"1"
    entry: bytes = field(default_factory=lambda: b"%020d" % next(_numbers))
    partition: Partition = HERE
    deadline_s: float = 0.0
    wish: bool = False
    kwargs: dict[str, Any] = field(default_factory=dict)

    @property
    def is_async(self) -> bool:
        return iscoroutinefunction(self.call)

    def enter(self) -> Any:
        return None

    def leave(self, token: Any) -> None:
        return None

    def note(self) -> bytes:
        return b""

    def ended(self, value: Any) -> Outcome:
        return Outcome(record=repr(value).encode())

    def failed(self, error: BaseException) -> Outcome:
        return Outcome("retry", error=f"{type(error).__name__}: {error}")


class Ends:
    """Hears of the ends of works, from whatever thread."""

    def __init__(self) -> None:
        self._heard: dict[int, Outcome] = {}
        self._more = threading.Condition()
        self.order: list[Any] = []

    def __call__(self, work: Any, outcome: Outcome) -> None:
        with self._more:
            assert id(work) not in self._heard, "it ended twice"
            self._heard[id(work)] = outcome
            self.order.append(work)
            self._more.notify_all()

    def of(self, *works: Any) -> list[Outcome]:
        """How these ended, as soon as all have."""
        with self._more:
            assert self._more.wait_for(lambda: all(id(work) in self._heard for work in works), PATIENCE_S)
        return [self._heard[id(work)] for work in works]

    def __len__(self) -> int:
        return len(self._heard)
