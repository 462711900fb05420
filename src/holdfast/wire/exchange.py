"""What the server says on its own, for all tasks of one event loop over one connection.

Its one rule: whoever listens is woken too often rather than once too little; after an outage everybody looks again.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from holdfast.errors import Unavailable
from holdfast.wire.connect import Address, failure
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
        # How many confirmations are still to come: the last one counts, another may stand before an UNSUBSCRIBE.
        self._awaited: Counter[str] = Counter()
        self._fault: BaseException | None = None

    @asynccontextmanager
    async def listening(self, channel: str) -> AsyncIterator[Callable[[float], Awaitable[bool]]]:
        """Listen; from here on nothing is missed. Gives a function that waits for the next message."""
        event = asyncio.Event()
        self._listeners[channel].add(event)
        subscription: asyncio.Event | None = None

        async def heard(timeout_s: float) -> bool:
            nonlocal subscription
            known, subscription = subscription, await self._subscribe(channel)
            if subscription is not known:
                # What was said in between is lost: look.
                event.clear()
                return True
            try:
                async with asyncio.timeout(max(timeout_s, 0)):
                    await event.wait()
            except TimeoutError:
                return False
            # If it was an outage that woke it, whoever looks now must have been heard to listen before.
            subscription = await self._subscribe(channel)
            event.clear()
            return True

        try:
            subscription = await self._subscribe(channel)
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
        await self._hang_up(None)

    async def _subscribe(self, channel: str) -> asyncio.Event:
        """The subscription that holds now, as an event of its own."""
        async with self._connecting:
            if self._connection is None:
                await self._connect()
            confirmed = self._confirmed.get(channel)
            if confirmed is None:
                confirmed = self._confirmed[channel] = asyncio.Event()
                self._awaited[channel] += 1
                self._say("SUBSCRIBE", channel)
        try:
            async with asyncio.timeout(self.address.timeout_s):
                await confirmed.wait()
        except TimeoutError as error:
            await self.close()
            raise failure(error, self.address.url) from None
        # An outage has woken everybody; a refusal would be the same the next time.
        if self._fault is not None and not isinstance(self._fault, Unavailable):
            raise self._fault
        return confirmed

    async def _connect(self) -> None:
        self._connection = await self._open()
        self._fault = None
        self._reader = asyncio.create_task(self._read_on(self._connection))

    async def _open(self) -> AsyncConnection:
        """A connection; a server that is away has as long to come back as a call may take."""
        pauses = Pauses(self.address.timeout_s)
        while True:
            try:
                return await self.address.open_async()
            except Unavailable:
                pause = pauses.next()
                if pause is None:
                    raise
            await asyncio.sleep(pause)

    def _say(self, word: str, channel: str) -> None:
        if self._connection is not None:
            with suppress(ConnectionError):  # whoever reads there says so
                say(self._connection, pack((word, channel)))

    async def _read_on(self, connection: AsyncConnection) -> None:
        try:
            while True:
                kind, channel, *_ = await connection.read_response(disable_decoding=True)
                name = channel.decode() if channel else ""
                if kind == b"message":
                    self._wake(name)
                elif kind == b"subscribe":
                    self._confirm(name)
        except Exception as error:
            await self._hang_up(failure(error, self.address.url))

    def _confirm(self, channel: str) -> None:
        self._awaited[channel] -= 1
        if not self._awaited[channel]:
            del self._awaited[channel]
            if channel in self._confirmed:
                self._confirmed[channel].set()

    async def _hang_up(self, fault: BaseException | None) -> None:
        connection, self._connection = self._connection, None
        self._fault = fault
        for confirmed in self._confirmed.values():
            confirmed.set()
        self._confirmed.clear()
        self._awaited.clear()
        for channel in list(self._listeners):
            self._wake(channel)
        if connection is not None:
            await connection.disconnect(nowait=True)

    def _wake(self, channel: str) -> None:
        for event in self._listeners.get(channel, ()):
            event.set()
