"""Ears of threads and exchanges of event loops: from the moment they listen, nothing is missed unnoticed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

import pytest

from holdfast.errors import ServerError, Unavailable
from holdfast.wire.connect import Address
from holdfast.wire.exchange import Exchange
from holdfast.wire.sync import Ear, Link
from proxy import Proxy
from servers import Server

T = TypeVar("T")


@pytest.fixture
def ear(proxy: Proxy) -> Iterator[Ear]:
    ear = Ear(proxy.address)
    yield ear
    ear.close()


def say(link: Link, channel: str, text: str = "") -> int:
    heard: int = link.command("PUBLISH", channel, text)
    return heard


# -- ears -----------------------------------------------------------------------------------------


def test_an_ear_hears_what_is_said_from_then_on(ear: Ear, link: Link) -> None:
    say(link, "news", "before")
    ear.listen("news", "gossip")
    assert say(link, "news", "one") == say(link, "gossip", "two") == 1
    assert [ear.hear(10), ear.hear(10)] == [("news", "one"), ("gossip", "two")]
    assert ear.hear(0) is None


def test_what_was_said_while_it_asked_for_more_is_not_lost(ear: Ear, link: Link) -> None:
    ear.listen("news")
    say(link, "news", "one")
    ear.listen("gossip")
    say(link, "gossip", "two")
    ear.ignore("gossip")
    assert say(link, "gossip", "three") == 0
    assert [ear.hear(10), ear.hear(10), ear.hear(0)] == [("news", "one"), ("gossip", "two"), None]


def test_an_ear_that_is_cut_off_says_so(ear: Ear, proxy: Proxy) -> None:
    ear.listen("news")
    proxy.cut_all()
    with pytest.raises(Unavailable):
        ear.hear(10)


def test_an_ear_listens_anew_after_it_was_cut_off(ear: Ear, proxy: Proxy, link: Link) -> None:
    ear.listen("news")
    proxy.cut_all()
    with pytest.raises(Unavailable):
        ear.hear(10)
    ear.listen("news")
    assert say(link, "news", "again") == 1
    assert ear.hear(10) == ("news", "again")


def test_an_ear_that_may_not_listen_is_told(server: Server, link: Link) -> None:
    with_password(link, "deaf", "secret", "resetchannels")
    ear = Ear(Address(server.url.replace("unix://", "unix://deaf:secret@")))
    with pytest.raises(ServerError, match="permission"):
        ear.listen("news")
    ear.close()


def with_password(link: Link, user: str, password: str, *rules: str) -> None:
    link.command("ACL", "SETUSER", user, "reset", "on", f">{password}", "~*", "+@all", *rules)


# -- exchanges ------------------------------------------------------------------------------------


def exchanging(address: Address, talk: Callable[[Exchange], Awaitable[T]]) -> T:
    async def run() -> T:
        exchange = Exchange(address)
        try:
            return await talk(exchange)
        finally:
            await exchange.close()

    return asyncio.run(run())


async def said(link: Link, channel: str) -> int:
    return await asyncio.to_thread(say, link, channel)


def test_every_listener_of_a_channel_is_woken_once(proxy: Proxy, link: Link) -> None:
    async def talk(exchange: Exchange) -> list[bool]:
        async with exchange.listening("news") as one, exchange.listening("news") as two:
            assert await said(link, "news") == 1
            return [await one(10), await two(10), await one(0), await two(0)]

    assert exchanging(proxy.address, talk) == [True, True, False, False]


def test_a_listener_that_leaves_takes_nothing_from_the_others(proxy: Proxy, link: Link) -> None:
    async def talk(exchange: Exchange) -> bool:
        async with exchange.listening("news") as stays:
            async with exchange.listening("news"):
                pass
            assert await said(link, "news") == 1
            return await stays(10)

    assert exchanging(proxy.address, talk)


def test_a_channel_that_nobody_listens_to_any_more_is_left(proxy: Proxy, link: Link) -> None:
    async def talk(exchange: Exchange) -> None:
        async with exchange.listening("news"):
            pass
        # One conversation: what is confirmed after it was said after it.
        async with exchange.listening("gossip"):
            assert await said(link, "news") == 0

    exchanging(proxy.address, talk)


def test_who_comes_while_another_leaves_is_confirmed_by_its_own_subscription(proxy: Proxy, link: Link) -> None:
    """Of the first subscription only the confirmation is left; it must not be taken for that of the second."""

    async def talk(exchange: Exchange) -> bool:
        async with exchange.listening("other"):
            first = asyncio.create_task(enter(exchange))
            await asyncio.sleep(0)
            assert exchange._awaited["news"] == 1
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)
            async with exchange.listening("news") as heard:
                assert await said(link, "news") == 1
                return await heard(10)

    assert exchanging(proxy.address, talk)


async def enter(exchange: Exchange) -> None:
    async with exchange.listening("news"):
        pass


def test_an_outage_wakes_everybody_who_then_hears_again(proxy: Proxy, link: Link) -> None:
    async def talk(exchange: Exchange) -> None:
        async with exchange.listening("news") as one, exchange.listening("gossip") as two:
            proxy.cut_all()
            assert [await one(10), await two(10)] == [True, True]
            assert [await one(0), await two(0)] == [False, False]
            assert await said(link, "news") == 1
            assert await one(10)

    exchanging(proxy.address, talk)


def test_who_may_not_listen_is_told(server: Server, link: Link) -> None:
    with_password(link, "deaf", "secret", "resetchannels")

    async def talk(exchange: Exchange) -> None:
        with pytest.raises(ServerError, match="permission"):
            await enter(exchange)

    exchanging(Address(server.url.replace("unix://", "unix://deaf:secret@")), talk)


def test_a_server_that_never_confirms_is_an_outage(proxy: Proxy) -> None:
    async def talk(exchange: Exchange) -> None:
        proxy.swallow_reply("SUBSCRIBE")
        with pytest.raises(Unavailable):
            await enter(exchange)
        await enter(exchange)

    exchanging(proxy.address.within(0.3), talk)
