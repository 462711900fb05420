"""What redis-py and hiredis have without types or without a public name, named once.

Its one rule: nothing here does anything but say what is there.
"""

from __future__ import annotations

import socket
from asyncio import StreamWriter
from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

import hiredis

Arg = str | bytes | int

#: The bytes of a command; its stub speaks of one argument.
pack = cast("Callable[[tuple[Arg, ...]], bytes]", hiredis.pack_command)


class Connection(Protocol):
    """A connection for threads."""

    _sock: socket.socket

    def connect(self) -> None:
        """Connect now."""

    def disconnect(self) -> None:
        """Hang up."""

    def send_packed_command(self, command: Sequence[bytes], check_health: bool) -> None:
        """Write."""

    def read_response(self, disable_decoding: bool) -> Any:
        """Read one reply; an error reply is raised."""

    def can_read(self, timeout: float) -> bool:
        """Whether there is something to read, now or in time."""


class AsyncConnection(Protocol):
    """A connection for an event loop."""

    _writer: StreamWriter | None

    async def connect(self) -> None:
        """Connect now."""

    async def disconnect(self, nowait: bool) -> None:
        """Hang up."""

    async def read_response(self, disable_decoding: bool) -> Any:
        """Read one reply; an error reply is raised."""


def descriptor(connection: Connection) -> int:
    """What to wait on for a reply."""
    return connection._sock.fileno()  # noqa: SLF001 - it has no public name


def say(connection: AsyncConnection, data: bytes) -> StreamWriter:
    """Write without waiting; answers what to drain.

    Its own way to write waits by `asyncio.wait_for`, which makes a task of it and, in Python 3.11, loses a
    cancellation that comes at the wrong moment.
    """
    writer = connection._writer  # noqa: SLF001 - it has no public name
    if writer is None:
        raise ConnectionError("the connection was closed")
    writer.write(data)
    return writer
