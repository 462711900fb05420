"""What a run says and brings while it goes on. Its one rule: most jobs say nothing, and pay nothing for it.

What it brings is there when it ends, as part of its end. What it says travels to the store with the worker's next turn,
so to say something costs a job no round trip, and to say it a thousand times costs the store one write.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from holdfast.codec import carried
from holdfast.engine.keys import Partition
from holdfast.engine.model import Entry
from holdfast.settings import in_range
from holdfast.tasks.current import running

#: Of a job's log the last lines are kept, as long as they are not larger together than this.
MOST_LINES, MOST_CHARACTERS = 100, 16_384
MAX_LINE, MAX_TEXT = 1000, 200


class Progress(NamedTuple):
    """How far a running job is, by its own word: from 0 to 1."""

    share: float
    text: str = ""


class Line(NamedTuple):
    """One line of a job's log."""

    at: datetime
    level: str
    text: str


class Note(msgspec.Struct, omit_defaults=True):
    """What a job says of itself, as it lies in the store."""

    progress: Progress | None = None
    log: list[Line] = []


open_note = msgspec.json.Decoder(Note).decode
_encode = msgspec.json.Encoder().encode


class Step:
    """What one run has said and brought so far; its threads may speak at once."""

    __slots__ = ("_lines", "_lock", "_progress", "_room", "born", "is_waiting")

    def __init__(self) -> None:
        self.born: list[tuple[Partition, Entry]] = []
        #: Whether something was said that the worker has not fetched yet.
        self.is_waiting = False
        self._lock = threading.Lock()
        self._progress: Progress | None = None
        self._lines: deque[Line] = deque()
        self._room = MOST_CHARACTERS

    def say(self, share: float, text: str) -> None:
        """How far it is."""
        in_range("progress", share, 0, 1)
        self._progress = Progress(float(share), _cut(text, MAX_TEXT))

    def log(self, text: str, level: str) -> None:
        """One more line; the oldest ones make room."""
        line = Line(datetime.now(UTC), _cut(level, MAX_TEXT), _cut(text, MAX_LINE))
        with self._lock:
            self._lines.append(line)
            self._room -= len(line.text)
            while self._room < 0 or len(self._lines) > MOST_LINES:
                self._room += len(self._lines.popleft().text)

    def note(self) -> bytes:
        """All of it, for whoever asks how the job is while it runs."""
        with self._lock:
            self.is_waiting = False
            return _encode(Note(self._progress, list(self._lines)))

    def remains(self) -> bytes:
        """What stays of it after the run; b'' for nothing. A run that is over is no longer on its way anywhere."""
        lines = self.lines()
        return _encode(Note(log=lines)) if lines else b""

    def lines(self) -> list[Line]:
        """The log; a thread that the job has left behind may still speak."""
        with self._lock:
            return list(self._lines)


class Capture(logging.Handler):
    """Writes whatever a job logs into the job's own log as well.

    Example:
        >>> logging.getLogger().addHandler(Capture())
    """

    def emit(self, record: logging.LogRecord) -> None:
        """One more line, if a job runs here."""
        run = running.get()
        if run is not None:
            run.log(self.format(record), record.levelname)


def _cut(text: str, most: int) -> str:
    """Text that JSON can carry, not longer than this."""
    plain = carried(text)
    return plain if len(plain) <= most else f"{plain[: most - 1]}…"
