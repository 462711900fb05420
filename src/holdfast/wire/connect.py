"""From a URL to a connection. Its one rule: the library may never send anything a second time on its own.

redis-py re-sends what timed out, up to ten times, also a claim. We repeat calls ourselves, under the same number.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import redis
import redis.asyncio.connection as aio
import redis.connection as sync
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.exceptions import ClusterDownError, OutOfMemoryError, ReadOnlyError, TryAgainError
from redis.retry import Retry

from holdfast.errors import HoldfastError, OptionError, QueueFull, ServerError, Unavailable
from holdfast.wire.library import AsyncConnection, Connection

_OUTAGES = (redis.ConnectionError, redis.TimeoutError, OSError)
# Replies of a server that is on its way up, down or to another role, or has no disk: asking again is right.
# The library takes the first word away where it knows it, and makes a class of it.
_UNABLE = (ReadOnlyError, ClusterDownError, TryAgainError)
_UNABLE_WORDS = ("NOREPLICAS", "MISCONF", "BUSY ")
_FORM = (
    "Such are redis://user:password@host:6379/0, rediss:// for TLS, and unix:///run/valkey.sock; what is special in a "
    "password is written as %XX."
)
_SECRET = re.compile(r"(?<=[?&]password=)[^&]*")


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
        except Unavailable:
            if self.heal is None:
                raise
        self.heal()
        return self._open()

    async def open_async(self) -> AsyncConnection:
        """The same for an event loop."""
        try:
            return await self._open_async()
        except Unavailable:
            if self.heal is None:
                raise
        await asyncio.to_thread(self.heal)
        return await self._open_async()

    def _open(self) -> Connection:
        connection: Connection = self._made(sync, Retry(NoBackoff(), 0), self.timeout_s)
        try:
            connection.connect()
        except BaseException as error:
            connection.disconnect()
            raise failure(error, self.url) from None
        return connection

    async def _open_async(self) -> AsyncConnection:
        # With a timeout of its own the library writes inside of `wait_for`, which in Python 3.11 forgets a cancellation
        # that comes together with its result.
        connection: AsyncConnection = self._made(aio, AsyncRetry(NoBackoff(), 0), None)
        try:
            async with asyncio.timeout(self.timeout_s):
                await connection.connect()
        except BaseException as error:
            # The library closes what was refused, and leaves open what was cancelled.
            await connection.disconnect(nowait=True)
            raise failure(error, self.url) from None
        return connection

    def _made(self, library: Any, retry: Any, socket_timeout_s: float | None) -> Any:
        try:
            options = library.parse_url(self.url)
            kind = options.pop("connection_class", library.Connection)
            ours = {
                "protocol": 2,
                "socket_timeout": socket_timeout_s,
                "socket_connect_timeout": self.timeout_s,
                "health_check_interval": 0,
                "retry": retry,
            }
            return kind(**{**options, **ours})
        except (TypeError, ValueError):
            raise OptionError(f"not a server's URL: {redacted(self.url)!r}. {_FORM}") from None


def failure(error: BaseException, url: str) -> BaseException:
    """What was raised instead of an answer: of the library as ours, without the password; of others as it is."""
    # The library for event loops wraps every refusal of its first words in an outage.
    cause = error.__cause__ if isinstance(error, redis.ConnectionError) else None
    for what in (error, cause):
        if isinstance(what, redis.AuthenticationError | redis.ResponseError):
            return refusal(what)
    if isinstance(error, _OUTAGES) and not isinstance(error, HoldfastError):
        return Unavailable(f"no answer from {redacted(url)}: {str(error) or type(error).__name__}")
    if isinstance(error, redis.RedisError):
        return ServerError(f"what answers at {redacted(url)} is no such server: {error}")
    return error


def refusal(error: redis.RedisError) -> HoldfastError:
    """The server's error reply as ours."""
    text = str(error)
    if isinstance(error, OutOfMemoryError):
        return QueueFull(f"the server is out of memory and takes no more jobs: {text}")
    if isinstance(error, redis.AuthenticationError):
        return ServerError(f"the server does not let us in: {text}")
    if isinstance(error, _UNABLE) or text.startswith(_UNABLE_WORDS):
        return Unavailable(f"the server cannot do it now: {text}")
    return ServerError(text)


def redacted(url: str) -> str:
    """The URL without its password, for messages.

    Example:
        >>> redacted("redis://me:secret@db:6379/0")
        'redis://me:***@db:6379/0'
    """
    url = _SECRET.sub("***", url)
    head, at, tail = url.rpartition("@")
    scheme, sep, rest = head.partition("://")
    user, colon, _ = rest.partition(":")
    return f"{scheme}{sep}{user}:***@{tail}" if at and colon else url
