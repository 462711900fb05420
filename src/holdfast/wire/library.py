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
    socket_timeout: float | None

    async def connect(self) -> None:
        """Connect now."""

    async def disconnect(self, nowait: bool) -> None:
        """Hang up."""

    async def send_packed_command(self, command: Sequence[bytes], check_health: bool) -> None:
        """Write."""

    async def read_response(self, disable_decoding: bool) -> Any:
        """Read one reply; an error reply is raised."""


def descriptor(connection: Connection) -> int:
    """What to wait on for a reply."""
    return connection._sock.fileno()  # noqa: SLF001 - it has no public name


def say(connection: AsyncConnection, data: bytes) -> None:
    """Write without waiting, if it is still connected."""
    writer = connection._writer  # noqa: SLF001 - it has no other way
    if writer is not None:
        writer.write(data)
