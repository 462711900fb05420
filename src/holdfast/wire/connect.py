"""From a URL to a connection. Its one rule: the library may never send anything a second time on its own.

redis-py re-sends what timed out, up to ten times, also a claim. We repeat calls ourselves, under the same number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import redis
from redis.asyncio.connection import Connection as AsyncConnection
from redis.asyncio.connection import parse_url as parse_async_url
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.connection import Connection, parse_url
from redis.retry import Retry

from holdfast.errors import OptionError, QueueFull, ServerError, Unavailable

OUTAGES = (redis.ConnectionError, redis.TimeoutError, OSError)


@dataclass(frozen=True, slots=True)
class Address:
    """Where the server is and how long to wait for it."""

    url: str
    timeout_s: float = 5.0

    def open(self) -> Connection:
        """A connected connection of our own; nobody else's pool sees it."""
        options = _parsed(parse_url, self.url)
        kind = options.pop("connection_class", Connection)
        connection: Connection = kind(**options, **self._common(), retry=Retry(NoBackoff(), 0))
        connection.connect()
        return connection

    async def open_async(self) -> AsyncConnection:
        """The same for an event loop."""
        options = _parsed(parse_async_url, self.url)
        kind = options.pop("connection_class", AsyncConnection)
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
        raise OptionError(f"not a server's URL: {url!r} ({error})") from None


def outage(error: BaseException, url: str) -> Unavailable:
    """The library's word for 'cannot reach it' as ours, without the password."""
    return Unavailable(f"no answer from {redacted(url)}: {str(error) or type(error).__name__}")


def refusal(error: redis.ResponseError) -> ServerError | QueueFull:
    """The server's error reply as ours; its first word is the server's code."""
    text = str(error)
    code = getattr(error, "status_code", None)
    if code and not text.startswith(code):
        text = f"{code} {text}"
    if text.startswith("OOM") or "OOM" in text.split("script")[0][:20]:
        return QueueFull(f"the server is out of memory and takes no more jobs: {text}")
    return ServerError(text)


def redacted(url: str) -> str:
    """The URL without its password, for messages."""
    head, at, tail = url.rpartition("@")
    if not at:
        return url
    scheme, sep, rest = head.partition("://")
    user = rest.partition(":")[0]
    return f"{scheme}{sep}{user}:***@{tail}" if ":" in rest else url
