"""The driver for an event loop: the same conversations as in `sync`, awaited.

Its one rule: a conversation that was cancelled half-way leaves no connection behind that somebody else could use.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, TypeVar

import redis
from redis.exceptions import NoScriptError

from holdfast.errors import Unavailable
from holdfast.wire.answer import all_or_raise, available, decoded
from holdfast.wire.call import Call
from holdfast.wire.connect import Address, failure
from holdfast.wire.library import AsyncConnection, say
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
        self._connection: AsyncConnection | None = None
        self._turn = asyncio.Lock()

    async def run(self, call: Call[T], tail: bytes = b"") -> T:
        """Run one call, again and again with the same number until it is answered or time is up."""
        answer: T = (await self.run_many((call,), tail))[0]
        return answer

    async def run_many(self, calls: Sequence[Call[Any]], tail: bytes = b"") -> list[Any]:
        """Run several calls in one round trip, as `Link.run_many` does."""
        return all_or_raise(await self.run_each(calls, tail))

    async def run_each(self, calls: Sequence[Call[Any]], tail: bytes = b"") -> list[Any]:
        """The same, but where a call failed, its error stands in its place."""
        pauses = Pauses(self.address.timeout_s)
        async with self._turn:
            while True:
                try:
                    return await self._run_once(calls, tail)
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

    async def _run_once(self, calls: Sequence[Call[Any]], tail: bytes) -> list[Any]:
        replies = await self._converse([call.packed() for call in calls], tail)
        forgotten = [i for i, reply in enumerate(replies) if isinstance(reply, NoScriptError)]
        if forgotten:
            whole = await self._converse([calls[i].packed_whole() for i in forgotten], tail)
            for i, reply in zip(forgotten, whole, strict=True):
                replies[i] = reply
        return available(decoded(calls, replies))

    async def _converse(self, packed: Sequence[bytes], tail: bytes) -> list[Any]:
        try:
            connection = await self._connect()
            async with asyncio.timeout(self.address.timeout_s):
                await say(connection, b"".join(packed) + tail).drain()
                replies = [await _read(connection) for _ in packed]
                self.last_tail = await _read(connection) if tail else None
            return replies
        except BaseException as error:
            await self.close()
            raise failure(error, self.address.url) from None

    async def _connect(self) -> AsyncConnection:
        if self._connection is None:
            self._connection = await self.address.open_async()
        return self._connection


async def _read(connection: AsyncConnection) -> Any:
    try:
        return await connection.read_response(disable_decoding=True)
    except redis.ResponseError as error:
        return error
