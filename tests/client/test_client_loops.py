"""One client and event loops: puts of one turn travel together, and whoever gives up disturbs nobody."""

from __future__ import annotations

import asyncio
import gc
import os
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from client.asking import calls_of, clients_of, entry
from holdfast.client import CHUNK, Client
from holdfast.engine.model import Entry
from holdfast.engine.store import Store
from holdfast.errors import DurabilityUncertain, QueueFull, ServerError, Unavailable
from holdfast.ids import new_id
from holdfast.settings import Settings
from holdfast.wire.aio import AsyncLink
from holdfast.wire.sync import Link
from servers import DURABLE, Server


def test_puts_of_one_turn_of_the_loop_travel_together(client: Client, store: Store, link: Link) -> None:
    async def put() -> None:
        await client.aput(store, [entry()])
        before = calls_of(link, "evalsha")
        answers = await asyncio.gather(*[client.aput(store, [entry()]) for _ in range(50)])
        assert answers == [[""]] * 50
        assert calls_of(link, "evalsha") - before == 1

    asyncio.run(put())
    assert client.run(store.size("ready")) == 51


def test_each_gets_its_own_answer_or_error(client: Client, store: Store) -> None:
    first = entry(unique="taken")
    odd = Entry(new_id(), b"{}", b'{"no such option": 1}')

    async def put() -> list[Any]:
        await client.aput(store, [first])
        await client.aput(client.store_at("other", 0), [entry()])
        return await asyncio.gather(
            client.aput(store, [entry(unique="taken")]),
            client.aput(store, [entry(), entry(unique="taken")]),
            client.aput(client.store_at("other", 0), [odd]),
            client.aput(client.store_at("third", 0), [entry()]),
            return_exceptions=True,
        )

    blocked, mixed, refused, free = asyncio.run(put())
    assert (blocked, mixed, free) == ([first.id], ["", first.id], [""])
    assert isinstance(refused, ServerError)


def test_one_who_gives_up_does_not_stop_what_others_wait_for(client: Client, store: Store) -> None:
    async def put() -> None:
        await client.aput(store, [entry()])
        tasks = [asyncio.create_task(client.aput(store, [entry()])) for _ in range(10)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        assert answers[1::2] == [[""]] * 5
        assert all(isinstance(answer, asyncio.CancelledError) for answer in answers[::2])
        # The connection is as good as before.
        assert await client.aput(store, [entry()]) == [""]

    asyncio.run(put())


def test_one_who_gives_up_a_look_does_not_get_its_answer_mixed_up(client: Client, store: Store) -> None:
    ours, theirs = entry(), entry(delay=60_000)

    async def look() -> None:
        await client.aput(store, [ours, theirs])
        for turns in range(6):
            task = asyncio.create_task(client.arun(store.look(theirs.id)))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert (await client.arun(store.look(ours.id))).place == "queued"

    asyncio.run(look())


def test_no_cancellation_is_forgotten_not_even_while_connecting(server: Server, store: Store) -> None:
    async def cancel_after(turns: int) -> bool:
        link = AsyncLink(server.address)
        task = asyncio.create_task(link.run(store.look("a")))
        for _ in range(turns):
            # A turn in which the loop looks at its sockets, which the server has had time to fill.
            time.sleep(0.0002)  # noqa: ASYNC251 - the loop shall be late
            await asyncio.sleep(0)
        is_over = not task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await link.close()
        return is_over or task.cancelled()

    async def cancel_everywhere() -> list[bool]:
        return [await cancel_after(turns) for turns in range(60)]

    assert all(asyncio.run(cancel_everywhere()))


def test_many_go_in_chunks_and_in_order(client: Client, store: Store) -> None:
    entries = [entry() for _ in range(CHUNK * 2 + 3)]

    async def put() -> list[str]:
        return await client.aput_many(store, entries)

    assert asyncio.run(put()) == [""] * len(entries)
    assert list(client.run(store.page("ready", 0, 10_000))) == [e.id for e in entries]


def test_a_loop_that_ends_hangs_up_by_itself(client: Client, store: Store, link: Link) -> None:
    async def use() -> None:
        await client.aput(store, [entry()])
        await client.await_end(store, new_id(), 0.01)
        await client.await_end(store, (await _put_one(client, store)).id, 0.01)

    before = clients_of(link)
    for _ in range(5):
        asyncio.run(use())
    gc.collect()
    client.close()
    # The server notices a moment later.
    while clients_of(link) > before:
        pass
    assert not client._loops


async def _put_one(client: Client, store: Store) -> Entry:
    each = entry()
    await client.aput(store, [each])
    return each


def test_what_is_closed_may_be_used_again(client: Client, store: Store) -> None:
    async def use() -> None:
        await client.aclose()
        for _ in range(3):
            await client.aput(store, [entry()])
            await client.aclose()
        await client.aclose()

    asyncio.run(use())
    assert client.run(store.size("ready")) == 3


def test_a_loop_and_threads_may_use_one_client(client: Client, store: Store) -> None:
    async def put() -> None:
        def from_a_thread() -> None:
            for _ in range(20):
                client.put(store, [entry()])

        threads = [asyncio.create_task(asyncio.to_thread(from_a_thread)) for _ in range(3)]
        for _ in range(20):
            await client.aput(store, [entry()])
        await asyncio.gather(*threads)

    asyncio.run(put())
    assert client.run(store.size("ready")) == 80


def test_a_fork_out_of_a_running_loop_leaves_the_loop_alone(client: Client, store: Store) -> None:
    async def put() -> None:
        await client.aput(store, [entry()])
        each = await _put_one(client, store)
        waiting = asyncio.create_task(client.await_end(store, each.id, 60))
        for _ in range(3):
            pid = os.fork()
            if pid == 0:
                client.put(store, [entry()])
                client.close()
                gc.collect()
                os._exit(0)
            assert await asyncio.to_thread(os.waitpid, pid, 0) == (pid, 0)
            assert await client.aput(store, [entry()]) == [""]
        while client.run(store.look(each.id)).place == "queued":
            await client.arun(store.cancel([each.id], b"R", 60_000))
        assert (await waiting).place == "ended"

    asyncio.run(put())
    assert client.run(store.size("ready")) == 7


# -- when the server cannot ---------------------------------------------------------------------------


def run(do: Callable[[], Awaitable[Any]]) -> Any:
    async def done() -> Any:
        return await do()

    return asyncio.run(done())


def test_without_a_server_one_is_told_so_in_time() -> None:
    client = Client(Settings(url="unix:///nowhere/at/all.sock", timeout_s=0.1))
    for ask in (
        lambda: client.aput(client.store_at("mail", 0), [entry()]),
        lambda: client.arun(client.registry.queues()),
        lambda: client.await_end(client.store_at("mail", 0), "x", 5),
    ):
        with pytest.raises(Unavailable, match=r"no answer from unix:///nowhere/at/all.sock: "):
            run(ask)


def test_out_of_memory_pushes_back(client: Client, store: Store, link: Link) -> None:
    client.announce("mail")
    link.command("CONFIG", "SET", "maxmemory", "1")
    try:
        with pytest.raises(QueueFull):
            run(lambda: client.aput(store, [entry()]))
    finally:
        link.command("CONFIG", "SET", "maxmemory", "0")
    assert run(lambda: client.aput(store, [entry()])) == [""]


def test_too_few_copies_are_told_to_each_with_its_own_ids(server: Server) -> None:
    client = Client(Settings(url=server.url, timeout_s=1, durability="replica"))
    entries = [entry() for _ in range(3)]

    async def put() -> list[Any]:
        puts = [client.aput(client.store_at("mail", 0), [each]) for each in entries]
        return await asyncio.gather(*puts, return_exceptions=True)

    told = asyncio.run(put())
    assert all(isinstance(error, DurabilityUncertain) for error in told)
    assert [error.ids for error in told] == [(each.id,) for each in entries]
    client.close()


def test_of_many_all_are_put_though_none_is_sure(server: Server) -> None:
    client = Client(Settings(url=server.url, timeout_s=1, durability="replica"))
    store = client.store_at("mail", 0)
    many = [entry() for _ in range(CHUNK + 1)]
    with pytest.raises(DurabilityUncertain) as caught:
        run(lambda: client.aput_many(store, many))
    assert caught.value.ids == tuple(each.id for each in many)
    assert client.run(store.size("ready")) == len(many)
    client.close()


def until_watched(link: Link, store: Store, each: Entry) -> None:
    while link.command("ZSCORE", store.partition.key("watched"), each.id) is None:
        pass
    link.close()


def test_a_put_and_a_wait_outlive_a_restart_of_the_server() -> None:
    server = Server(*DURABLE)
    client = Client(Settings(url=server.url, timeout_s=20))
    store = client.store_at("mail", 0)

    async def use() -> None:
        each = await _put_one(client, store)
        waiting = asyncio.create_task(client.await_end(store, each.id, 60))
        await asyncio.to_thread(until_watched, Link(server.address), store, each)
        server.kill()
        putting = asyncio.create_task(client.aput(store, [entry()]))
        await asyncio.to_thread(server.start)
        assert await putting == [""]
        await client.arun(store.cancel([each.id], b"R", 60_000))
        assert (await waiting).place == "ended"

    try:
        asyncio.run(use())
        assert client.run(store.size("ready")) == 1
    finally:
        client.close()
        server.close()
