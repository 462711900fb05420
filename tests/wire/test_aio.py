"""A link of an event loop over a network that fails, and under tasks that change their minds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from holdfast.engine.model import Ended, Entry, Settlement
from holdfast.engine.store import Store
from holdfast.errors import ServerError, Unavailable
from holdfast.wire.aio import AsyncLink
from holdfast.wire.call import Call
from holdfast.wire.connect import Address
from holdfast.wire.sync import Link
from proxy import Proxy

T = TypeVar("T")


def over(proxy: Proxy, talk: Callable[[AsyncLink], Awaitable[T]], timeout_s: float = 5.0) -> T:
    """Run this with a link through the network, in a loop of its own."""

    async def run() -> T:
        far = AsyncLink(proxy.address.within(timeout_s))
        try:
            return await talk(far)
        finally:
            await far.close()

    return asyncio.run(run())


def put(far: AsyncLink, store: Store, *ids: str) -> Call[list[str]]:
    return store.put(far.sender.name, far.sender.next(), [Entry(id, b"E") for id in ids])


@pytest.mark.parametrize("fault", ["cut_before", "cut_after"])
def test_a_lost_call_is_repeated_and_applied_once(proxy: Proxy, link: Link, store: Store, fault: str) -> None:
    getattr(proxy, fault)("put")
    assert over(proxy, lambda far: far.run(put(far, store, "a"))) == [""]
    assert link.run(store.meta())["put"] == "1"


@pytest.mark.parametrize(("fault", "word"), [("cut_before", "retry"), ("cut_after", "again")])
def test_a_lost_end_is_repeated_and_applied_once(proxy: Proxy, link: Link, store: Store, fault: str, word: str) -> None:
    link.run(store.renew(60_000, ["w"], enlist=True))
    link.run(store.put("me", 1, [Entry("a", b"A"), Entry("b", b"B")]))
    fence = link.run(store.claim("w", 2)).fences[0]
    getattr(proxy, fault)("settle")
    calls: list[Call[Any]] = [
        store.settle("w", 1, Settlement(b"b", fence, "retry")),
        store.finish("w", 2, [Ended(b"a", fence)]),
    ]
    assert over(proxy, lambda far: far.run_many(calls)) == [word, ()]
    meta = link.run(store.meta())
    assert (meta["retried"], meta["done"]) == ("1", "1")


def test_scripts_that_were_forgotten_are_said_in_full(proxy: Proxy, link: Link, store: Store) -> None:
    link.command("SCRIPT", "FLUSH")

    async def talk(far: AsyncLink) -> list[Any]:
        return await far.run_many([put(far, store, "a"), store.size("dead"), store.look("a")])

    refused, dead, look = over(proxy, talk)
    assert (refused, dead, look.place) == ([""], 0, "queued")
    assert proxy.connections == 1


def test_tasks_take_turns_and_each_gets_its_own_answer(proxy: Proxy, link: Link, store: Store) -> None:
    async def talk(far: AsyncLink) -> list[Any]:
        return await asyncio.gather(
            *(far.run(put(far, store, f"e{i}") if i % 2 else store.size("later")) for i in range(40))
        )

    assert over(proxy, talk) == [[""] if i % 2 else 0 for i in range(40)]
    assert proxy.connections == 1


@pytest.mark.parametrize(
    "where",
    [
        "before it is sent",
        "while it is asked",
    ],
)
def test_a_cancelled_conversation_leaves_no_connection_that_another_could_use(
    proxy: Proxy, link: Link, store: Store, where: str
) -> None:
    """The answer to the cancelled call comes when the next call waits for its own."""

    async def talk(far: AsyncLink) -> tuple[Any, int]:
        await far.run(store.size("ready"))
        held = proxy.hold("put")
        task = asyncio.create_task(far.run(put(far, store, "a")))
        if where != "before it is sent":
            await asyncio.to_thread(held.arrived.wait)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()
        size = await far.run(store.size("dead"))
        held.go.set()
        if where == "before it is sent":
            await far.run(put(far, store, "b"))
        return size, await far.run(store.size("dead"))

    assert over(proxy, talk) == (0, 0)


def test_a_task_cancelled_at_any_moment_is_cancelled(proxy: Proxy, link: Link, store: Store) -> None:
    """At no step of the loop may a cancellation be swallowed."""

    async def talk(far: AsyncLink) -> None:
        for turns in range(30):
            task = asyncio.create_task(far.run(store.size("ready")))
            for _ in range(turns):
                await asyncio.sleep(0)
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                assert task.cancelled()
            assert await far.run(store.size("dead")) == 0

    over(proxy, talk)


def test_an_answer_that_does_not_come_in_time_is_an_outage(proxy: Proxy, link: Link, store: Store) -> None:
    proxy.swallow_reply("put")

    async def talk(far: AsyncLink) -> Any:
        with pytest.raises(Unavailable, match="no answer from"):
            await far.run(put(far, store, "a"))
        return await far.run(put(far, store, "a", "b"))

    assert over(proxy, talk, timeout_s=0.3) == ["a", ""]


def test_a_refusal_is_raised_and_the_connection_is_good(proxy: Proxy, store: Store) -> None:
    async def talk(far: AsyncLink) -> Any:
        with pytest.raises(ServerError, match="must be a whole number"):
            await far.run_many([Call(store._targets["pause"], list, ("no number",)), store.size("ready")])
        return await far.run(store.size("ready"))

    assert over(proxy, talk) == 0
    assert proxy.connections == 1


def test_nobody_there_is_said_in_time(store: Store) -> None:
    async def talk() -> None:
        far = AsyncLink(Address("redis://127.0.0.1:1", 0.2))
        with pytest.raises(Unavailable, match=r"no answer from redis://127\.0\.0\.1:1"):
            await far.run(store.size("ready"))

    asyncio.run(talk())
