"""What has started in a child, in memory that outlives it. Its one rule: a slot is written before the job's first line
and cleared after its last, so that after a crash the supervisor knows who was running and who only waited.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from typing import NamedTuple

# When it must end (monotonic seconds, 0 for never), the id, which partition, and last, when all else is written, 1.
_SLOT = struct.Struct("<d20sHB")
_FLAG = _SLOT.size - 1


class Started(NamedTuple):
    """A job that was running."""

    id: str
    feed: int
    deadline_s: float


class Slots:
    """A table in memory shared by the supervisor and one child."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._table = mmap.mmap(-1, max(count, 1) * _SLOT.size)

    def enter(self, slot: int, entry: bytes, feed: int, deadline_s: float) -> None:
        """A job starts."""
        _SLOT.pack_into(self._table, slot * _SLOT.size, deadline_s, entry, feed, 1)

    def leave(self, slot: int) -> None:
        """It is over."""
        self._table[slot * _SLOT.size + _FLAG] = 0

    def started(self) -> Iterator[Started]:
        """Every job that is running now."""
        for slot in range(self.count):
            deadline_s, entry, feed, flag = _SLOT.unpack_from(self._table, slot * _SLOT.size)
            if flag:
                yield Started(entry.rstrip(b"\0").decode(errors="replace"), feed, deadline_s)

    def clear(self) -> None:
        """Nothing runs: a new child takes over."""
        self._table[:] = bytes(len(self._table))

    def close(self) -> None:
        """Give the memory back."""
        self._table.close()
