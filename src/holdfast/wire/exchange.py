"""What the server says on its own, for all tasks of one event loop over one connection.

Its one rule: whoever listens is woken too often rather than once too little; after an outage everybody looks again.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from holdfast.wire.connect import OUTAGES, Address, outage
from holdfast.wire.library import AsyncConnection, pack, say
from holdfast.wire.repeat import Pauses


class Exchange:
    """Channels and who listens on them.

    Example:
        >>> async with exchange.listening("news") as heard:
        ...     await heard(timeout_s=1.0)
    """

    def __init__(self, address: Address) -> None:
        self.address = address
        self._connection: AsyncConnection | None = None
        self._reader: asyncio.Task[None] | None = None
        self._connecting = asyncio.Lock()
        self._listeners: defaultdict[str, set[asyncio.Event]] = defaultdict(set)
        self._confirmed: dict[str, asyncio.Event] = {}

    @asynccontextmanager
    async def listening(self, channel: str) -> AsyncIterator[Callable[[float], Awaitable[bool]]]:
        """Listen; from here on nothing is missed. Gives a function that waits for the next message."""
        event = asyncio.Event()
        self._listeners[channel].add(event)

        async def heard(timeout_s: float) -> bool:
            await self._subscribe(channel)
            try:
                async with asyncio.timeout(max(timeout_s, 0)):
                    await event.wait()
            except TimeoutError:
                return False
            event.clear()
            return True

        try:
            await self._subscribe(channel)
            yield heard
        finally:
            self._listeners[channel].discard(event)
            if not self._listeners[channel]:
                del self._listeners[channel]
                self._confirmed.pop(channel, None)
                self._say("UNSUBSCRIBE", channel)

    async def close(self) -> None:
        """Hang up."""
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)
        await self._hang_up()

    async def _subscribe(self, channel: str) -> None:
        async with self._connecting:
            await self._connect()
            confirmed = self._confirmed.get(channel)
            if confirmed is None:
                confirmed = self._confirmed[channel] = asyncio.Event()
                self._say("SUBSCRIBE", channel)
        await confirmed.wait()

    async def _connect(self) -> None:
        if self._connection is not None:
            return
        self._connection = await self._open()
        # Whoever waits does so for as long as it likes.
        self._connection.socket_timeout = None
        self._reader = asyncio.create_task(self._read_on(self._connection))

    async def _open(self) -> AsyncConnection:
        """A connection; a server that is away has as long to come back as a call may take."""
        pauses = Pauses(self.address.timeout_s)
        while True:
            try:
                return await self.address.open_async()
            except OUTAGES as error:
                pause = pauses.next()
                if pause is None:
                    raise outage(error, self.address.url) from None
            await asyncio.sleep(pause)

    def _say(self, word: str, channel: str) -> None:
        if self._connection is not None:
            say(self._connection, pack((word, channel)))

    async def _read_on(self, connection: AsyncConnection) -> None:
        try:
            while True:
                kind, channel, *_ = await connection.read_response(disable_decoding=True)
                name = channel.decode() if channel else ""
                if kind == b"message":
                    self._wake(name)
                elif kind == b"subscribe" and name in self._confirmed:
                    self._confirmed[name].set()
        except OUTAGES:
            await self._hang_up()

    async def _hang_up(self) -> None:
        connection, self._connection = self._connection, None
        for confirmed in self._confirmed.values():
            confirmed.set()
        self._confirmed.clear()
        for channel in list(self._listeners):
            self._wake(channel)
        if connection is not None:
            await connection.disconnect(nowait=True)

    def _wake(self, channel: str) -> None:
        for event in self._listeners.get(channel, ()):
            event.set()
