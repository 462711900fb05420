"""The driver for an event loop: the same conversations as in `sync`, awaited.

Its one rule: a conversation that was cancelled half-way leaves no connection behind that somebody else could use.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any, TypeVar

import redis
from hiredis import pack_command
from redis.asyncio.connection import Connection

from holdfast.errors import Unavailable
from holdfast.wire.call import Arg, Call
from holdfast.wire.connect import OUTAGES, Address, outage, refusal
from holdfast.wire.repeat import Pauses, Sender

T = TypeVar("T")


class AsyncLink:
    """One connection of one event loop; its callers take turns.

    Example:
        >>> link = AsyncLink(Address("unix:///run/holdfast/v.sock"))
        >>> await link.run(store.look(id))
    """

    def __init__(self, address: Address) -> None:
        self.address = address
        self.sender = Sender()
        self.last_tail: Any = None
        self._connection: Connection | None = None
        self._turn = asyncio.Lock()

    async def run(self, call: Call[T], tail: bytes = b"") -> T:
        """Run one call, again and again with the same number until it is answered or time is up."""
        pauses = Pauses(self.address.timeout_s)
        async with self._turn:
            while True:
                try:
                    return await self._run_once(call, tail)
                except Unavailable:
                    pause = pauses.next()
                    if pause is None:
                        raise
                await asyncio.sleep(pause)

    async def close(self) -> None:
        """Hang up."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.disconnect(nowait=True)

    async def _run_once(self, call: Call[T], tail: bytes) -> T:
        reply = await self._converse(call.packed(), tail)
        if isinstance(reply, redis.exceptions.NoScriptError):
            reply = await self._converse(call.packed_whole(), tail)
        if isinstance(reply, redis.ResponseError):
            raise refusal(reply)
        return call.decode(reply)

    async def _converse(self, packed: bytes, tail: bytes) -> Any:
        try:
            connection = await self._connect()
            await connection.send_packed_command(packed + tail, check_health=False)
            reply = await _read(connection)
            self.last_tail = await _read(connection) if tail else None
            return reply
        except OUTAGES as error:
            await self.close()
            raise outage(error, self.address.url) from None
        except BaseException:
            await self.close()
            raise

    async def _connect(self) -> Connection:
        if self._connection is None:
            self._connection = await self.address.open_async()
        return self._connection


class AsyncEar:
    """A connection that listens on channels; for one task at a time."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._connection: Connection | None = None
        self._heard: deque[tuple[str, str]] = deque()

    async def listen(self, *channels: str) -> None:
        """Subscribe, and return when the server has confirmed it: from then on nothing is missed."""
        await self._change("SUBSCRIBE", channels)

    async def ignore(self, *channels: str) -> None:
        """Unsubscribe."""
        await self._change("UNSUBSCRIBE", channels)

    async def hear(self, timeout_s: float) -> tuple[str, str] | None:
        """The next message, or None when the time is over."""
        if self._heard:
            return self._heard.popleft()
        connection = await self._connect()
        try:
            async with asyncio.timeout(max(timeout_s, 0)):
                while not self._heard:
                    self._note(await connection.read_response(disable_decoding=True, timeout=None))
        except TimeoutError:
            # The read may have been cut in the middle of a message.
            await self.close()
            return None
        except OUTAGES as error:
            await self.close()
            raise outage(error, self.address.url) from None
        except BaseException:
            await self.close()
            raise
        return self._heard.popleft()

    async def close(self) -> None:
        """Hang up; a listener that comes back must listen anew."""
        connection, self._connection = self._connection, None
        self._heard.clear()
        if connection is not None:
            await connection.disconnect(nowait=True)

    async def _change(self, word: str, channels: Sequence[str]) -> None:
        try:
            connection = await self._connect()
            args: tuple[Arg, ...] = (word, *channels)
            await connection.send_packed_command(pack_command(args), check_health=False)
            confirmed = 0
            while confirmed < len(channels):
                reply = await connection.read_response(disable_decoding=True)
                confirmed += reply[0].decode().upper() == word
                self._note(reply)
        except OUTAGES as error:
            await self.close()
            raise outage(error, self.address.url) from None
        except BaseException:
            await self.close()
            raise

    def _note(self, reply: list[bytes]) -> None:
        if reply[0] == b"message":
            self._heard.append((reply[1].decode(), reply[2].decode()))

    async def _connect(self) -> Connection:
        if self._connection is None:
            try:
                # A listener waits for as long as it likes: the patience of the address is not for it.
                self._connection = await self.address.open_async()
                self._connection.socket_timeout = None
            except OUTAGES as error:
                raise outage(error, self.address.url) from None
        return self._connection


async def _read(connection: Connection) -> Any:
    try:
        return await connection.read_response(disable_decoding=True)
    except redis.ResponseError as error:
        return error
