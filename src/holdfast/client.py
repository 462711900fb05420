"""What an application may ask of the store, from threads and from event loops. Its one rule: puts that meet travel
together, and none of them is answered before the store has answered it.
"""

from __future__ import annotations

import asyncio
import atexit
import threading
import weakref
from collections import deque
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import cycle
from os import register_at_fork
from typing import Any, TypeVar

from holdfast.clock import mono_s
from holdfast.engine.keys import Partition, partition_of
from holdfast.engine.model import Entry, Look
from holdfast.engine.store import Registry, Store
from holdfast.engine.wakeup import end
from holdfast.errors import DurabilityUncertain, HoldfastError, Unavailable
from holdfast.server import Embedded
from holdfast.settings import Settings
from holdfast.wire.aio import AsyncLink
from holdfast.wire.call import Call
from holdfast.wire.connect import Address
from holdfast.wire.durable import Tail, tail_for
from holdfast.wire.exchange import Exchange
from holdfast.wire.repeat import Pauses, Sender
from holdfast.wire.sync import Ear, Link, Pool

T = TypeVar("T")

#: How many entries one call may bring.
CHUNK = 500
#: Whoever waits for an end looks again this often, should a message be lost.
WATCH_S = 20.0
OVER = frozenset({"ended", "dead", "broken", "gone"})


class Letter:
    """Entries of one caller on their way to one partition."""

    __slots__ = ("answer", "done", "entries", "error", "store")

    def __init__(self, store: Store, entries: Sequence[Entry]) -> None:
        self.store = store
        self.entries = entries
        self.answer: list[str] = []
        self.error: BaseException | None = None
        self.done = False

    def deliver(self, answer: list[str], error: BaseException | None = None) -> None:
        """The store has answered."""
        self.answer, self.error, self.done = answer, error, True


class Client:
    """The store of one application.

    Example:
        >>> client = Client(Settings(url="redis://127.0.0.1:6379"))
        >>> client.put(client.place("mail", id), [Entry(id, envelope)])
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.registry = Registry(settings.namespace)
        self._address: Address | None = None
        self._embedded: Embedded | None = None
        self._joining = threading.Lock()
        self._stores: dict[tuple[str, int], Store] = {}
        self._start_empty()
        _clients.add(self)

    def _start_empty(self) -> None:
        """No connections yet: at the beginning, and again in a forked child, where the parent's are not ours."""
        self._joining = threading.Lock()
        self._postbox: Postbox | None = None
        self._pool: Pool | None = None
        self._ears: deque[Ear] = deque()
        self._loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, LoopSide] = weakref.WeakKeyDictionary()
        self._announced: set[str] = set()

    # -- where the store is -----------------------------------------------------------------------

    @property
    def address(self) -> Address:
        """The server's address; without a URL the embedded server is started now, if it does not run."""
        return self._address or self._join()

    @property
    def embedded(self) -> Embedded | None:
        """The embedded server, if this application uses it and has asked it for something."""
        return self._embedded

    def _join(self) -> Address:
        with self._joining:
            if self._address is None:
                self._address = self._find()
            return self._address

    def _find(self) -> Address:
        settings = self.settings
        if settings.url:
            return Address(settings.url, settings.timeout_s)
        self._embedded = Embedded.join(settings.data)
        atexit.register(self._embedded.leave)
        return Address(self._embedded.url, settings.timeout_s, self._embedded.heal)

    def store_at(self, queue: str, index: int) -> Store:
        """The verbs of a partition."""
        store = self._stores.get((queue, index))
        if store is None:
            partition = Partition(self.settings.namespace, queue, index)
            store = self._stores.setdefault((queue, index), Store(partition))
        return store

    def place(self, queue: str, key: str) -> Store:
        """The verbs of the partition where entries with this key or id belong."""
        return self.store_at(queue, partition_of(key, self.settings.partitions.get(queue, 1)))

    def partitions(self, queue: str) -> list[Partition]:
        """All partitions of a queue."""
        count = self.settings.partitions.get(queue, 1)
        return [Partition(self.settings.namespace, queue, index) for index in range(count)]

    @property
    def tail(self) -> Tail | None:
        """What travels behind a put so that its answer says how durable it is."""
        durability = self.settings.durability
        return tail_for(durability, self.settings.timeout_s) if self.settings.url else None

    # -- from threads -----------------------------------------------------------------------------

    def run(self, call: Call[T]) -> T:
        """Run a call."""
        return self._the_pool().run(call)

    def run_many(self, calls: Sequence[Call[Any]]) -> list[Any]:
        """Run calls in one round trip."""
        with self._the_pool().link() as link:
            return link.run_many(calls)

    def put(self, store: Store, entries: Sequence[Entry]) -> list[str]:
        """Bring entries; answers '' or the id that stands in the way, for each."""
        self.announce(store.partition.queue)
        return self._box().put(store, entries)

    def put_many(self, store: Store, entries: Sequence[Entry]) -> list[str]:
        """Bring any number of entries, in chunks of `CHUNK`; each chunk whole or not at all."""
        self.announce(store.partition.queue)
        return self._box().put_stream(store, entries)

    def announce(self, queue: str) -> None:
        """Make a queue known to whoever wants to see all of them."""
        if queue not in self._announced:
            self.run(self.registry.add_queue(queue, self.settings.partitions.get(queue, 1)))
            self._announced.add(queue)

    def wait(self, store: Store, id: str, timeout_s: float | None) -> Look:
        """Where an entry is when it has ended, or when the time is over."""
        look = self.run(store.look(id))
        if look.place in OVER or timeout_s == 0:
            return look
        deadline = None if timeout_s is None else mono_s() + timeout_s
        with self._listening(end(store.partition, id)) as ear:
            while True:
                look = self.run(store.look(id, int(WATCH_S * 2000)))
                pause = WATCH_S if deadline is None else min(WATCH_S, deadline - mono_s())
                if look.place in OVER or pause <= 0:
                    return look
                try:
                    ear.hear(pause)
                except Unavailable:
                    self._listen(ear, end(store.partition, id))

    @contextmanager
    def _listening(self, channel: str) -> Iterator[Ear]:
        ear = self._ears.pop() if self._ears else Ear(self.address)
        try:
            self._listen(ear, channel)
            yield ear
            ear.ignore(channel)
        except BaseException:
            ear.close()
            raise
        self._ears.append(ear)

    def _listen(self, ear: Ear, channel: str) -> None:
        """Listen; a server that is away has as long to come back as a call may take."""
        pauses = Pauses(self.address.timeout_s)
        while True:
            try:
                return ear.listen(channel)
            except Unavailable:
                if not pauses.sleep():
                    raise

    def _the_pool(self) -> Pool:
        if self._pool is None:
            self._pool = Pool(self.address)
        return self._pool

    def _box(self) -> Postbox:
        if self._postbox is None:
            address = self.address
            with self._joining:
                self._postbox = self._postbox or Postbox(address, self.tail)
        return self._postbox

    # -- from event loops -------------------------------------------------------------------------

    async def arun(self, call: Call[T]) -> T:
        """Run a call."""
        return await (await self._side()).link.run(call)

    async def arun_many(self, calls: Sequence[Call[Any]]) -> list[Any]:
        """Run calls in one round trip."""
        return await (await self._side()).link.run_many(calls)

    async def aput(self, store: Store, entries: Sequence[Entry]) -> list[str]:
        """Bring entries; answers '' or the id that stands in the way, for each."""
        queue = store.partition.queue
        if queue not in self._announced:
            await self.arun(self.registry.add_queue(queue, self.settings.partitions.get(queue, 1)))
            self._announced.add(queue)
        return await (await self._side()).put(Letter(store, entries))

    async def aput_many(self, store: Store, entries: Sequence[Entry]) -> list[str]:
        """Bring any number of entries, in chunks of `CHUNK`; each chunk whole or not at all."""
        answer: list[str] = []
        doubt = ""
        for i in range(0, len(entries), CHUNK):
            try:
                answer += await self.aput(store, entries[i : i + CHUNK])
            except DurabilityUncertain as error:
                doubt = error.doubt
        if doubt:
            raise _uncertain(doubt, entries)
        return answer

    async def await_end(self, store: Store, id: str, timeout_s: float | None) -> Look:
        """Where an entry is when it has ended, or when the time is over."""
        look = await self.arun(store.look(id))
        if look.place in OVER or timeout_s == 0:
            return look
        deadline = None if timeout_s is None else mono_s() + timeout_s
        exchange = (await self._side()).exchange
        async with exchange.listening(end(store.partition, id)) as heard:
            while True:
                look = await self.arun(store.look(id, int(WATCH_S * 2000)))
                pause = WATCH_S if deadline is None else min(WATCH_S, deadline - mono_s())
                if look.place in OVER or pause <= 0:
                    return look
                await heard(pause)

    async def _side(self) -> LoopSide:
        loop = asyncio.get_running_loop()
        side = self._loops.get(loop)
        if side is None:
            # To start the embedded server takes a while; the loop shall not stand still for it.
            if self._address is None:
                await asyncio.to_thread(self._join)
            side = self._loops.setdefault(loop, LoopSide(self.address, self.tail))
            await side.stay()
        return side

    async def aclose(self) -> None:
        """Hang up what this event loop uses; it does so by itself at the end of `asyncio.run`."""
        side = self._loops.pop(asyncio.get_running_loop(), None)
        if side is not None:
            await side.close()

    def close(self) -> None:
        """Hang up, and leave the embedded server; the last to leave shuts it down."""
        for closable in (self._postbox, self._pool, *self._ears):
            if closable is not None:
                closable.close()
        self._start_empty()
        embedded, self._embedded, self._address = self._embedded, None, None
        if embedded is not None:
            atexit.unregister(embedded.leave)
            embedded.leave()


class Postbox:
    """Puts of threads: who finds the line free sends for all who wait for it."""

    def __init__(self, address: Address, tail: Tail | None) -> None:
        self._link = Link(address)
        # A repeated put must not have been overtaken by a later one under the same name: two may be under way at once.
        self._senders = (Sender(), Sender())
        self._tail = tail
        self._turn = threading.Lock()
        self._letters: deque[Letter] = deque()

    def put(self, store: Store, entries: Sequence[Entry]) -> list[str]:
        """Bring entries to one partition."""
        letter = Letter(store, entries)
        self._letters.append(letter)
        try:
            with self._turn:
                while not letter.done:
                    # Nobody has it if whoever took it was interrupted before sending: then it is ours to send again.
                    self._send(_take(self._letters) or [letter])
        except BaseException:
            # Whoever is interrupted while it waits leaves nothing behind that a later put would send.
            with suppress(ValueError):
                self._letters.remove(letter)
            raise
        if letter.error is not None:
            raise letter.error
        return letter.answer

    def put_stream(self, store: Store, entries: Sequence[Entry]) -> list[str]:
        """Bring any number of entries to one partition; the next chunk is packed while the last one travels."""
        if not entries:
            return []
        *chunks, last = [entries[i : i + CHUNK] for i in range(0, len(entries), CHUNK)]
        with self._turn:
            try:
                answer = self._put_chunks(store, chunks)
            except BaseException:
                # What is still under way shall not be taken for the answer to something else.
                self._link.close()
                raise
            # The last one asks how durable it is, and so are those before it.
            letter = Letter(store, last)
            self._send([letter])
        if isinstance(letter.error, DurabilityUncertain):
            raise _uncertain(letter.error.doubt, entries)
        if letter.error is not None:
            raise letter.error
        return answer + letter.answer

    def close(self) -> None:
        """Hang up."""
        self._link.close()

    def _put_chunks(self, store: Store, chunks: Sequence[Sequence[Entry]]) -> list[str]:
        answer: list[str] = []
        under_way: deque[Call[list[str]]] = deque()
        for chunk, sender in zip(chunks, cycle(self._senders), strict=False):
            call = store.put(sender.name, sender.next(), chunk)
            # What has options may have a key, whose order two calls under way at once could change.
            while under_way and (len(under_way) == len(self._senders) or any(e.options for e in chunk)):
                answer += self._link.conclude(under_way.popleft())
            # What cannot be sent now is sent again when it is concluded.
            with suppress(Unavailable):
                self._link.send((call,))
            under_way.append(call)
        while under_way:
            answer += self._link.conclude(under_way.popleft())
        return answer

    def _send(self, letters: list[Letter]) -> None:
        try:
            parts = _parts(letters)
            answers = self._link.run_each(_calls(parts, self._link.sender), self._tail.packed if self._tail else b"")
            _deliver(parts, answers, self._tail, self._link.last_tail)
        except BaseException as error:
            if not _undelivered(letters, error):
                raise


class LoopSide:
    """What one event loop uses of a client: a link, an exchange, and the puts of its tasks."""

    def __init__(self, address: Address, tail: Tail | None) -> None:
        self.link = AsyncLink(address)
        self.exchange = Exchange(address)
        self._putter = AsyncLink(address)
        self._tail = tail
        self._letters: deque[Letter] = deque()
        self._sending: asyncio.Task[None] | None = None
        self._stay: AsyncGenerator[None] | None = None

    async def put(self, letter: Letter) -> list[str]:
        """Send it with all others of this turn of the loop."""
        self._letters.append(letter)
        if self._sending is None:
            self._sending = asyncio.create_task(self._send_all())
        # Whoever gives up waiting must not stop what the others wait for.
        while not letter.done:
            await asyncio.shield(self._sending or asyncio.sleep(0))
        if letter.error is not None:
            raise letter.error
        return letter.answer

    async def stay(self) -> None:
        """Hang up when the event loop ends, if nobody closes it before."""
        if self._stay is None:
            self._stay = self._until_the_end()
            await anext(self._stay)

    async def close(self) -> None:
        """Hang up, after what is under way."""
        if self._stay is not None:
            await self._stay.aclose()

    async def _until_the_end(self) -> AsyncGenerator[None]:
        # A loop that ends closes all generators that were begun in it: there is no other way to hear of it.
        try:
            yield
        finally:
            if self._sending is not None:
                await asyncio.gather(self._sending, return_exceptions=True)
            await self.exchange.close()
            await self.link.close()
            await self._putter.close()

    async def _send_all(self) -> None:
        try:
            while self._letters:
                await self._send(_take(self._letters))
        finally:
            self._sending = None

    async def _send(self, letters: list[Letter]) -> None:
        try:
            parts = _parts(letters)
            calls = _calls(parts, self._putter.sender)
            answers = await self._putter.run_each(calls, self._tail.packed if self._tail else b"")
            _deliver(parts, answers, self._tail, self._putter.last_tail)
        except BaseException as error:
            if not _undelivered(letters, error):
                raise


def _take(letters: deque[Letter]) -> list[Letter]:
    """The oldest letters, as many as may travel together."""
    taken: list[Letter] = []
    count = 0
    while letters and (not taken or count + len(letters[0].entries) <= CHUNK):
        taken.append(letters.popleft())
        count += len(taken[-1].entries)
    return taken


def _parts(letters: list[Letter]) -> list[list[Letter]]:
    """Those that go to the same partition together."""
    if len(letters) == 1:
        return [letters]
    parts: dict[Store, list[Letter]] = {}
    for letter in letters:
        parts.setdefault(letter.store, []).append(letter)
    return list(parts.values())


def _calls(parts: list[list[Letter]], sender: Sender) -> list[Call[list[str]]]:
    """One call for each partition."""
    return [
        part[0].store.put(sender.name, sender.next(), [entry for letter in part for entry in letter.entries])
        for part in parts
    ]


def _deliver(
    parts: list[list[Letter]], answers: list[list[str] | HoldfastError], tail: Tail | None, tail_reply: Any
) -> None:
    doubt = tail.doubt(tail_reply) if tail else ""
    for part, answer in zip(parts, answers, strict=True):
        if isinstance(answer, HoldfastError):
            # What one partition refuses has nothing to do with the others.
            _undelivered(part, answer)
            continue
        start = 0
        for letter in part:
            end = start + len(letter.entries)
            letter.deliver(answer[start:end], _uncertain(doubt, letter.entries) if doubt else None)
            start = end


def _uncertain(doubt: str, entries: Sequence[Entry]) -> DurabilityUncertain:
    return DurabilityUncertain(doubt, [entry.id for entry in entries])


def _undelivered(letters: list[Letter], error: BaseException) -> bool:
    """Everybody who waits learns of it, whatever it is; whether it is a matter between them and the store."""
    is_known = isinstance(error, HoldfastError)
    told = error if is_known else Unavailable(f"the put was interrupted: {error!r}")
    for letter in letters:
        letter.deliver([], told)
    return is_known


_clients: weakref.WeakSet[Client] = weakref.WeakSet()
#: What the event loops of the parent use: in a child it must not even be collected, which would say goodbye to them.
_of_the_parent: list[object] = []


def _forget_connections() -> None:
    for client in _clients:
        _of_the_parent.append(client._loops)  # noqa: SLF001 - our own
        client._start_empty()  # noqa: SLF001 - our own


register_at_fork(after_in_child=_forget_connections)
