"""What an application puts over a network that fails: each entry once, and each answer its own."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast.client import CHUNK, Client, Letter
from holdfast.engine.model import Entry
from holdfast.engine.store import Store
from holdfast.errors import DurabilityUncertain
from holdfast.settings import Durability, Settings
from holdfast.wire.sync import Link
from proxy import Proxy
from servers import DURABLE, Server


@pytest.fixture
def client(proxy: Proxy) -> Iterator[Client]:
    client = Client(Settings(url=proxy.url, namespace="test"))
    yield client
    client.close()


def many(count: int) -> list[Entry]:
    return [Entry(f"e{i:05d}", b"E") for i in range(count)]


@pytest.mark.parametrize("before", range(4))
@pytest.mark.parametrize("fault", ["cut_before", "cut_after"])
def test_of_many_chunks_each_is_put_once_whichever_is_lost(
    proxy: Proxy, client: Client, link: Link, fault: str, before: int
) -> None:
    store = client.store_at("q", 0)
    client.put(store, [Entry("first", b"E")])
    proxy.let_pass("put", before)
    getattr(proxy, fault)("put")
    assert client.put_many(store, many(4 * CHUNK)) == [""] * 4 * CHUNK
    assert link.run(store.meta())["put"] == str(4 * CHUNK + 1)


@pytest.mark.parametrize("fault", ["cut_before", "cut_after"])
def test_puts_of_threads_that_meet_are_lost_and_sent_again_together(
    proxy: Proxy, client: Client, link: Link, store: Store, fault: str
) -> None:
    for _ in range(2):
        proxy.let_pass("put", 1)
        getattr(proxy, fault)("put")

    def bring(entry: Entry) -> list[str]:
        return client.put(store, [entry])

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(bring, many(60))) == [[""]] * 60
    assert link.run(store.meta())["put"] == "60"


def test_a_put_that_somebody_took_along_and_never_sent_is_sent(
    client: Client, link: Link, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A time limit may interrupt a thread between any two of its steps, also with what others put in its hands."""
    met = threading.Event()

    def take(letters: deque[Letter]) -> list[Letter]:
        monkeypatch.undo()
        met.set()
        while len(letters) < 2:
            pass
        letters.clear()
        raise KeyboardInterrupt

    monkeypatch.setattr("holdfast.client._take", take)
    with ThreadPoolExecutor(2) as threads:
        interrupted = threads.submit(client.put, store, [Entry("a", b"E")])
        met.wait()
        assert client.put(store, [Entry("b", b"E")]) == [""]
        assert isinstance(interrupted.exception(), KeyboardInterrupt)
    assert link.run(store.page("ready", 0, 9)).keys() == {"b"}


@pytest.mark.parametrize("fault", ["cut_before", "cut_after"])
def test_puts_of_tasks_that_meet_are_lost_and_sent_again_together(
    proxy: Proxy, client: Client, link: Link, store: Store, fault: str
) -> None:
    async def bring() -> list[list[str]]:
        try:
            first = await asyncio.gather(*(client.aput(store, [entry]) for entry in many(60)[:30]))
            getattr(proxy, fault)("put")
            return first + await asyncio.gather(*(client.aput(store, [entry]) for entry in many(60)[30:]))
        finally:
            await client.aclose()

    assert asyncio.run(bring()) == [[""]] * 60
    assert link.run(store.meta())["put"] == "60"


def test_a_task_that_gives_up_waiting_stops_nobody_else_s_put(
    proxy: Proxy, client: Client, link: Link, store: Store
) -> None:
    async def bring() -> list[str]:
        try:
            await client.aput(store, [Entry("zero", b"E")])
            held = proxy.hold("put")
            impatient = asyncio.create_task(client.aput(store, [Entry("one", b"E")]))
            patient = asyncio.create_task(client.aput(store, [Entry("two", b"E")]))
            await asyncio.to_thread(held.arrived.wait)
            impatient.cancel()
            held.go.set()
            answer = await patient
            assert impatient.cancelled()
            return answer
        finally:
            await client.aclose()

    assert asyncio.run(bring()) == [""]
    assert link.run(store.size("ready")) == 3


# -- how sure a put is ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def durable() -> Iterator[Server]:
    """A server with a log, and no replica."""
    server = Server(*DURABLE)
    yield server
    server.close()


def put_with(durability: Durability, server: Server, entry: str, timeout_s: float = 0.5) -> list[str]:
    client = Client(Settings(url=server.url, namespace="test", durability=durability, timeout_s=timeout_s))
    try:
        return client.put(client.store_at("q", 0), [Entry(entry, b"E")])
    finally:
        client.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_put_waits_for_the_disk(durable: Server) -> None:
    assert put_with("fsync", durable, "a") == [""]


def test_a_put_that_no_replica_has_is_uncertain(durable: Server, store: Store) -> None:
    with pytest.raises(DurabilityUncertain, match="the copy on a replica was not confirmed") as raised:
        put_with("replica", durable, "b")
    assert raised.value.ids == ("b",)
    link = Link(durable.address)
    assert link.run(store.look("b")).place == "queued"
    link.close()


def test_a_put_on_a_server_without_a_log_is_uncertain(server: Server) -> None:
    with pytest.raises(DurabilityUncertain, match="disk"):
        put_with("fsync", server, "c")


def test_a_put_that_a_replica_has_is_sure(durable: Server) -> None:
    port = free_port()
    link = Link(durable.address)
    link.commands(["CONFIG", "SET", "port", port], ["CONFIG", "SET", "repl-diskless-sync-delay", 0])
    link.close()
    replica = Server("--replicaof", "127.0.0.1", str(port))
    try:
        assert put_with("replica", durable, "g", timeout_s=30.0) == [""]
    finally:
        replica.close()


def test_a_repeated_put_waits_for_the_disk_as_well(durable: Server) -> None:
    """Its data was written on a connection that is gone; so it writes something, and waits for that."""
    with Proxy(durable) as proxy:
        client = Client(Settings(url=proxy.url, namespace="test", durability="fsync"))
        store = client.store_at("q", 0)
        client.put(store, [Entry("d", b"E")])
        proxy.cut_after("put")
        assert client.put(store, [Entry("e", b"E")]) == [""]
        assert proxy.seen[-2:] == ["put", "WAITAOF"]
        client.close()
