"""The seam between faces and the runtime. Its one rule: a face says what an entry is and what its end means; the
runtime claims, runs and commits, and knows of neither tasks nor lanes nor flows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from holdfast.engine.keys import Partition
from holdfast.engine.model import Entry, Verdict


class Outcome(NamedTuple):
    """How a run ended, and everything its step commits."""

    verdict: Verdict = "done"
    delay_ms: int = 0
    error: str = ""
    ttl_ms: int = 0
    record: bytes = b""
    note: bytes = b""
    born: Sequence[tuple[Partition, Entry]] = ()


#: The end of most jobs: success, and nothing to keep.
PLAIN = Outcome()


class Work(Protocol):
    """One entry in hand: a call to make, and what each of its ends means."""

    partition: Partition
    entry: bytes
    hold: bytes
    call: Callable[..., Any]
    args: Sequence[Any]
    kwargs: dict[str, Any]
    is_async: bool
    soft_limit_s: float
    hard_limit_s: float
    #: Set by the runtime: which of its feeds it came from, when its soft limit is over, whether somebody cancelled it.
    feed: int
    deadline_s: float
    wish: bool

    def enter(self) -> Any:
        """The code that runs now is this entry's; answers what `leave` wants."""

    def leave(self, token: Any) -> None:
        """It is over."""

    def ended(self, value: Any) -> Outcome:
        """The call returned."""

    def failed(self, error: BaseException) -> Outcome:
        """The call raised."""

    def note(self) -> bytes:
        """What it says of itself at this moment, for whoever asks how it is."""


class Source(Protocol):
    """What a face makes of the entries of its queues."""

    #: Works that have said something since they were last asked for their note.
    said: deque[Work]
    #: Set by the runtime: what to call when there is one more of them.
    wake: Callable[[], None]

    def open(
        self, partition: Partition, id: bytes, fence: bytes, envelope: bytes | None, marks: bytes | None, now: int
    ) -> Work | Outcome:
        """An entry as it was handed over; an outcome when it is not to be run: expired, cancelled, unreadable."""
