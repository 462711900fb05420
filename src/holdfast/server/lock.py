"""Locks between processes, by flock. Their one rule: a lock dies with its holder, so nobody ever breaks one.

Each lock is an open file description of its own: it excludes other threads of this process like other processes, and
it is let go when its last descriptor is closed, also by `kill -9`. A fork copies descriptors; so a forked child
closes at once all that are not meant to be shared with it.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

_private: set[int] = set()
#: No fork may fall between the opening of a descriptor and its entry in the set; nor into the start of a process, whose
#: starter waits until every copy of a pipe is closed, while the child that has one might wait for the starter.
no_fork = threading.RLock()


class Held:
    """A lock that was taken; closing it lets it go, unless another process has the descriptor as well."""

    def __init__(self, path: Path, *, shared: bool) -> None:
        with no_fork:
            self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            if not shared:
                _private.add(self.fd)

    def close(self) -> None:
        """Let go; the first call does it."""
        with no_fork:
            fd, self.fd = self.fd, -1
            if fd >= 0:
                _private.discard(fd)
                os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def take(path: Path, *, shared: bool = False) -> Held | None:
    """Take the lock on *path* now, or return None if somebody has it.

    A *shared* one is shared with others of its kind, and with the children that this process forks.

    Example:
        >>> held = take(directory / "lock")
        >>> if held:
        ...     with held:
        ...         ...
    """
    import fcntl  # Windows has none, and is told so before it gets here

    held = Held(path, shared=shared)
    try:
        fcntl.flock(held.fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        held.close()
        return None
    except BaseException:
        held.close()
        raise
    return held


def holders(path: Path) -> list[int] | None:
    """The processes we may look into that have this file open, or None where the system does not tell."""
    processes = Path("/proc")
    if not (processes / "self" / "fd").exists():
        return None
    if not path.exists():
        return []
    wanted = path.stat()
    pids = sorted(int(entry.name) for entry in processes.iterdir() if entry.name.isdigit())
    return [pid for pid in pids if _has_open(pid, wanted)]


def _has_open(pid: int, wanted: os.stat_result) -> bool:
    try:
        return any(_is(descriptor, wanted) for descriptor in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False  # it has ended, or belongs to somebody else


def _is(descriptor: Path, wanted: os.stat_result) -> bool:
    try:
        return os.path.samestat(descriptor.stat(), wanted)
    except OSError:
        return False  # closed meanwhile


def _close_private() -> None:
    for fd in _private:
        os.close(fd)
    _private.clear()
    no_fork.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=no_fork.acquire, after_in_parent=no_fork.release, after_in_child=_close_private)
