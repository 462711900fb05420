"""From a URL to a connection. Its one rule: the library may never send anything a second time on its own.

redis-py re-sends what timed out, up to ten times, also a claim. We repeat calls ourselves, under the same number.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import redis
import redis.asyncio.connection as aio
import redis.connection as sync
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

from holdfast.errors import HoldfastError, OptionError, QueueFull, ServerError, Unavailable
from holdfast.wire.library import AsyncConnection, Connection

# Replies of a server that is on its way up, down or to another role, or has no disk: asking again is right.
_UNABLE = ("LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "NOREPLICAS", "READONLY", "MISCONF", "BUSY ")
OUTAGES = (redis.ConnectionError, redis.TimeoutError, OSError)


@dataclass(frozen=True, slots=True)
class Address:
    """Where the server is and how long to wait for it; `heal` is called when nobody answers there."""

    url: str
    timeout_s: float = 5.0
    heal: Callable[[], None] | None = None

    def within(self, timeout_s: float) -> Address:
        """The same place with another patience."""
        return replace(self, timeout_s=timeout_s)

    def open(self) -> Connection:
        """A connected connection of our own; nobody else's pool sees it."""
        try:
            return self._open()
        except OUTAGES:
            if self.heal is None:
                raise
        self.heal()
        return self._open()

    async def open_async(self) -> AsyncConnection:
        """The same for an event loop."""
        try:
            return await self._open_async()
        except OUTAGES:
            if self.heal is None:
                raise
        await asyncio.to_thread(self.heal)
        return await self._open_async()

    def _open(self) -> Connection:
        options = _parsed(sync.parse_url, self.url)
        kind = options.pop("connection_class", sync.Connection)
        connection: Connection = kind(**options, **self._common(), retry=Retry(NoBackoff(), 0))
        connection.connect()
        return connection

    async def _open_async(self) -> AsyncConnection:
        options = _parsed(aio.parse_url, self.url)
        kind = options.pop("connection_class", aio.Connection)
        connection: AsyncConnection = kind(**options, **self._common(), retry=AsyncRetry(NoBackoff(), 0))
        await connection.connect()
        return connection

    def _common(self) -> dict[str, Any]:
        return {
            "protocol": 2,
            "socket_timeout": self.timeout_s,
            "socket_connect_timeout": self.timeout_s,
            "health_check_interval": 0,
        }


def _parsed(parse: Any, url: str) -> dict[str, Any]:
    try:
        return dict(parse(url))
    except ValueError as error:
        raise OptionError(f"not a server's URL: {redacted(url)!r} ({error})") from None


def outage(error: BaseException, url: str) -> Unavailable:
    """The library's word for 'cannot reach it' as ours, without the password."""
    return Unavailable(f"no answer from {redacted(url)}: {str(error) or type(error).__name__}")


def refusal(error: redis.ResponseError) -> HoldfastError:
    """The server's error reply as ours; its first word is the server's code, which redis-py keeps for itself."""
    text = str(error)
    if isinstance(error, redis.exceptions.OutOfMemoryError) or text.startswith("OOM"):
        return QueueFull(f"the server is out of memory and takes no more jobs: {text}")
    if isinstance(error, redis.exceptions.AuthenticationError):
        return ServerError(f"the server does not let us in: {text}")
    if isinstance(error, redis.exceptions.ReadOnlyError) or text.startswith(_UNABLE):
        return Unavailable(f"the server cannot do it now: {text}")
    return ServerError(text)


def redacted(url: str) -> str:
    """The URL without its password, for messages."""
    head, at, tail = url.rpartition("@")
    if not at:
        return url
    scheme, sep, rest = head.partition("://")
    user = rest.partition(":")[0]
    return f"{scheme}{sep}{user}:***@{tail}" if ":" in rest else url
