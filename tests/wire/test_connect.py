"""From a URL to a connection: what is refused, what is healed, and what is never shown."""

from __future__ import annotations

import asyncio
import socket
import threading

import pytest

from holdfast.engine.store import Store
from holdfast.errors import OptionError, ServerError, Unavailable
from holdfast.wire.aio import AsyncLink
from holdfast.wire.call import Call
from holdfast.wire.connect import Address, redacted
from holdfast.wire.sync import Link, Pool
from proxy import Proxy
from servers import Server


def connect(address: Address, way: str) -> None:
    """Connect, as a thread's link does or as an event loop's, and hang up."""
    if way == "thread":
        address.open().disconnect()
        return

    async def run() -> None:
        connection = await address.open_async()
        await connection.disconnect(nowait=True)

    asyncio.run(run())


both_ways = pytest.mark.parametrize("way", ["thread", "loop"])


@both_ways
@pytest.mark.parametrize(
    "url",
    [
        "http://host", "host:6379", "", "redis://host:port", "redis://:top/secret@host", "redis://h?db=x",
        "redis://h/0?no_such_option=1", "rediss://h?max_connections=3",
    ],
)  # fmt: skip
def test_what_is_no_url_of_a_server_is_refused_with_an_example(url: str, way: str) -> None:
    with pytest.raises(OptionError, match=r"not a server's URL.*redis://user:password@host") as raised:
        connect(Address(url), way)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://db:6379/0", "redis://db:6379/0"),
        ("redis://me:secret@db:6379/0", "redis://me:***@db:6379/0"),
        ("redis://:secret@db", "redis://:***@db"),
        ("rediss://me:se@cret@db", "rediss://me:***@db"),
        ("redis://me@db", "redis://me@db"),
        ("unix:///run/a@b:c/v.sock", "unix:///run/a@b:c/v.sock"),
        ("unix://me:secret@/run/v.sock?db=2", "unix://me:***@/run/v.sock?db=2"),
        ("redis://db?password=secret&db=1", "redis://db?password=***&db=1"),
        ("redis://db?db=1&password=secret", "redis://db?db=1&password=***"),
    ],
)
def test_a_password_is_never_shown(url: str, shown: str) -> None:
    assert redacted(url) == shown


@both_ways
def test_a_password_is_not_shown_when_nobody_answers(way: str) -> None:
    with pytest.raises(Unavailable, match=r"redis://me:\*\*\*@127\.0\.0\.1:1") as raised:
        connect(Address("redis://me:secret@127.0.0.1:1", 0.2), way)
    assert "secret" not in str(raised.value)
    assert raised.value.__cause__ is None


@both_ways
def test_our_patience_goes_before_that_of_the_url(proxy: Proxy, way: str) -> None:
    connect(Address(f"{proxy.url}?socket_timeout=99&health_check_interval=1&retry_on_timeout=yes"), way)


# -- a server that does not want us ---------------------------------------------------------------


@both_ways
def test_a_wrong_password_is_a_refusal_that_nobody_heals(server: Server, way: str) -> None:
    address = Address(server.url.replace("unix://", "unix://me:wrong@"), heal=lambda: pytest.fail("there is no outage"))
    with pytest.raises(ServerError, match="does not let us in"):
        connect(address, way)


@both_ways
def test_a_missing_password_is_a_refusal_and_not_an_outage(link: Link, store: Store, way: str) -> None:
    """It is not tried again until the time is over."""
    link.command("CONFIG", "SET", "requirepass", "secret")
    try:
        with pytest.raises(ServerError, match="does not let us in"):
            ask(link.address, store.size("ready"), way)
    finally:
        link.command("CONFIG", "SET", "requirepass", "")
    assert ask(link.address, store.size("ready"), way) == 0


def ask(address: Address, call: Call[int], way: str) -> int:
    """Run one call, as a thread does or as an event loop does."""
    if way == "thread":
        pool = Pool(address)
        try:
            return pool.run(call)
        finally:
            pool.close()

    async def run() -> int:
        link = AsyncLink(address)
        try:
            return await link.run(call)
        finally:
            await link.close()

    return asyncio.run(run())


@both_ways
def test_a_database_that_does_not_exist_is_a_refusal(server: Server, way: str) -> None:
    with pytest.raises(ServerError, match="out of range"):
        connect(Address(f"{server.url}?db=99"), way)


@both_ways
def test_who_speaks_another_protocol_is_no_server(way: str) -> None:
    with Stranger(b"HTTP/1.1 400 Bad Request\r\n\r\n") as url, pytest.raises(ServerError, match="is no such server"):
        connect(Address(f"{url}?db=1"), way)


class Stranger:
    """Somebody who listens, and says the same to everybody."""

    def __init__(self, words: bytes) -> None:
        self._words = words
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._answer)

    def _answer(self) -> None:
        client, _ = self._listener.accept()
        with client:
            client.sendall(self._words)
            while client.recv(4096):
                pass

    def __enter__(self) -> str:
        self._thread.start()
        return f"redis://127.0.0.1:{self._listener.getsockname()[1]}"

    def __exit__(self, *error: object) -> None:
        self._thread.join()
        self._listener.close()


# -- healing --------------------------------------------------------------------------------------


@both_ways
def test_what_is_down_is_healed_once_and_connected_to(way: str) -> None:
    server = Server()
    healed = []

    def heal() -> None:
        healed.append(threading.current_thread() is threading.main_thread())
        server.start()

    try:
        server.kill()
        connect(Address(server.url, heal=heal), way)
    finally:
        server.close()
    # An event loop does not stand still for it.
    assert healed == [way == "thread"]


@both_ways
def test_what_cannot_be_healed_is_an_outage(way: str) -> None:
    healed = []
    with pytest.raises(Unavailable):
        connect(Address("unix:///nowhere/at/all.sock", heal=lambda: healed.append(1)), way)
    assert healed == [1]


@both_ways
def test_a_call_is_repeated_after_the_server_was_healed(store: Store, way: str) -> None:
    server = Server("--appendonly", "yes", "--appendfsync", "always")
    address = Address(server.url, heal=server.start)
    try:
        if way == "thread":
            link = Link(address)
            link.run(store.size("ready"))
            server.kill()
            assert link.run(store.size("ready")) == 0
            link.close()
        else:
            asyncio.run(ask_twice(address, store, server))
    finally:
        server.close()


async def ask_twice(address: Address, store: Store, server: Server) -> None:
    link = AsyncLink(address)
    await link.run(store.size("ready"))
    server.kill()
    assert await link.run(store.size("ready")) == 0
    await link.close()
