"""One client and many threads: their puts travel together, and each gets its own answer or its own error."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from client.asking import calls_of, clients_of, entry
from holdfast.client import CHUNK, Client
from holdfast.engine.model import Entry
from holdfast.engine.store import Store
from holdfast.errors import DurabilityUncertain, HoldfastError, QueueFull, ServerError, Unavailable
from holdfast.ids import new_id, new_ids
from holdfast.settings import Settings
from holdfast.wire.sync import Link
from servers import DURABLE, Server


@contextmanager
def while_the_line_is_busy(client: Client, waiting: int) -> Iterator[None]:
    """What is put in here by threads has to wait until the end, when as many letters are there."""
    box = client._box()
    with box._turn:
        yield
        while len(box._letters) < waiting:
            time.sleep(0.001)


def test_puts_that_meet_travel_together(client: Client, store: Store, link: Link) -> None:
    client.put(store, [entry()])
    entries = [entry() for _ in range(40)]
    before = calls_of(link, "evalsha")
    with ThreadPoolExecutor(40) as threads:
        with while_the_line_is_busy(client, 40):
            answers = [threads.submit(client.put, store, [each]) for each in entries]
        assert [answer.result() for answer in answers] == [[""]] * 40
    assert calls_of(link, "evalsha") - before == 1
    assert client.run(store.size("ready")) == 41


def test_no_call_brings_more_than_a_chunk(client: Client, store: Store, link: Link) -> None:
    client.put(store, [entry()])
    before = calls_of(link, "evalsha")
    with ThreadPoolExecutor(3) as threads:
        with while_the_line_is_busy(client, 3):
            answers = [threads.submit(client.put, store, [entry() for _ in range(CHUNK - 1)]) for _ in range(3)]
        assert all(len(answer.result()) == CHUNK - 1 for answer in answers)
    assert calls_of(link, "evalsha") - before == 3


def test_each_gets_its_own_answer(client: Client, store: Store) -> None:
    first = entry(unique="taken")
    client.put(store, [first])
    with ThreadPoolExecutor(9) as threads:
        with while_the_line_is_busy(client, 9):
            blocked = [threads.submit(client.put, store, [entry(unique="taken")]) for _ in range(3)]
            mixed = [threads.submit(client.put, store, [entry(), entry(unique="taken"), entry()]) for _ in range(3)]
            free = [threads.submit(client.put, client.store_at("other", i), [entry()]) for i in range(3)]
        assert [answer.result() for answer in blocked] == [[first.id]] * 3
        assert [answer.result() for answer in mixed] == [["", first.id, ""]] * 3
        assert [answer.result() for answer in free] == [[""]] * 3


def test_what_one_partition_refuses_has_nothing_to_do_with_the_others(client: Client, store: Store) -> None:
    odd = Entry(new_id(), b"{}", b'{"no such option": 1}')
    for queue in ("mail", "other"):
        client.announce(queue)
    with ThreadPoolExecutor(2) as threads:
        with while_the_line_is_busy(client, 2):
            refused = threads.submit(client.put, client.store_at("other", 0), [odd])
            taken = threads.submit(client.put, store, [entry()])
        assert taken.result() == [""]
        with pytest.raises(ServerError, match="no such option"):
            refused.result()


def test_any_number_of_threads_lose_and_double_nothing(client: Client) -> None:
    def put(i: int) -> list[str]:
        made = []
        for n in range(40):
            each = [entry() for _ in range(1 + (i + n) % 3)]
            target = client.store_at(f"q{(i + n) % 3}", 0)
            assert client.put(target, each) == [""] * len(each)
            made += [e.id for e in each]
        return made

    with ThreadPoolExecutor(8) as threads:
        ids = [id for part in threads.map(put, range(8)) for id in part]
    found = [id for q in range(3) for id in client.run(client.store_at(f"q{q}", 0).page("ready", 0, 10_000))]
    assert sorted(found) == sorted(ids)


def test_many_are_put_in_their_order_however_many(client: Client, store: Store) -> None:
    ids = new_ids(CHUNK * 3 + 7)
    assert client.put_many(store, [Entry(id, b"{}") for id in ids]) == [""] * len(ids)
    assert list(client.run(store.page("ready", 0, 10_000))) == ids
    assert client.put_many(store, []) == []


def test_one_who_is_interrupted_while_waiting_leaves_nothing_behind(client: Client, store: Store) -> None:
    class Interrupted(Exception):
        pass

    class Turn:
        def __enter__(self) -> None:
            raise Interrupted

        def __exit__(self, *_: object) -> None: ...

    client.put(store, [entry()])
    box = client._box()
    turn, box._turn = box._turn, Turn()  # type: ignore[assignment]
    with pytest.raises(Interrupted):
        client.put(store, [entry()])
    box._turn = turn
    client.put(store, [entry()])
    assert client.run(store.size("ready")) == 2


# -- closing and forking ------------------------------------------------------------------------------


def test_a_closed_client_has_hung_up_and_may_be_used_again(client: Client, store: Store, link: Link) -> None:
    before = clients_of(link)
    client.put(store, [entry()])
    client.run(store.size("ready"))
    client.wait(store, new_id(), 0)
    assert clients_of(link) > before
    client.close()
    client.close()
    assert clients_of(link) == before
    client.put(store, [entry()])
    assert client.run(store.size("ready")) == 2


def in_child(do: Any) -> str:
    """What it says, in a fork of this process."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            said = str(do())
        except BaseException as error:
            said = repr(error)
        os.write(write, said.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        said = pipe.read()
    os.waitpid(pid, 0)
    return said


def test_a_forked_child_uses_connections_of_its_own(client: Client, store: Store, link: Link) -> None:
    def of_child() -> list[str]:
        result = client.put(store, [entry()])
        client.run(store.size("ready"))
        return result

    client.put(store, [entry()])
    for _ in range(3):
        assert in_child(of_child) == "['']"
        assert client.put(store, [entry()]) == [""]
    assert client.run(store.size("ready")) == 7


def test_a_child_that_was_forked_while_others_put_is_not_stuck(client: Client, store: Store) -> None:
    client.put(store, [entry()])
    with client._box()._turn, client._joining:
        assert in_child(lambda: client.put(store, [entry()])) == "['']"
    assert client.put(store, [entry()]) == [""]


# -- when the server cannot ---------------------------------------------------------------------------


def test_without_a_server_one_is_told_so_in_time() -> None:
    client = Client(Settings(url="unix:///nowhere/at/all.sock", timeout_s=0.2))
    began = time.monotonic()
    with pytest.raises(Unavailable, match=r"no answer from unix:///nowhere/at/all.sock: ") as caught:
        client.put(client.store_at("mail", 0), [entry()])
    assert isinstance(caught.value, ConnectionError)
    assert time.monotonic() - began < 5
    client.close()


def test_a_password_is_not_told_to_anybody() -> None:
    client = Client(Settings(url="redis://user:secret@127.0.0.1:1/0", timeout_s=0.05))
    with pytest.raises(Unavailable) as caught:
        client.run(client.registry.queues())
    assert "secret" not in str(caught.value)
    assert "redis://user:***@127.0.0.1:1/0" in str(caught.value)


@pytest.mark.parametrize("url", ["127.0.0.1:6379", "http://:secret@x", "redis://x:y:z", "not a url"])
def test_what_is_no_url_is_said_to_be_none(url: str) -> None:
    client = Client(Settings(url=url, timeout_s=0.05))
    with pytest.raises(HoldfastError) as caught:
        client.run(client.registry.queues())
    assert "secret" not in str(caught.value)


def test_out_of_memory_pushes_back_on_producers_and_on_nobody_else(client: Client, store: Store, link: Link) -> None:
    held = entry()
    client.put(store, [held])
    client.run(store.renew(60_000, ["w"], enlist=True))
    link.command("CONFIG", "SET", "maxmemory", "1")
    try:
        with pytest.raises(QueueFull, match="the server is out of memory and takes no more jobs: "):
            client.put(store, [entry()])
        with pytest.raises(QueueFull):
            client.put_many(store, [entry() for _ in range(CHUNK + 1)])
        assert client.run(store.claim("w", 10)).ids == [held.id.encode()]
    finally:
        link.command("CONFIG", "SET", "maxmemory", "0")
    assert client.put(store, [entry()]) == [""]


@pytest.mark.parametrize(
    ("durability", "said"),
    [
        ("replica", "the copy on a replica was not confirmed in time; "),
        ("fsync", "the server cannot confirm the write to the server's disk: "),
    ],
)
def test_whoever_asked_for_more_copies_than_there_are_is_told_what_was_put(
    server: Server, durability: Any, said: str
) -> None:
    client = Client(Settings(url=server.url, timeout_s=1, durability=durability))
    store = client.store_at("mail", 0)
    one, many = entry(), [entry() for _ in range(CHUNK + 1)]
    with pytest.raises(DurabilityUncertain, match=f"{said}.*put: {one.id}$") as caught:
        client.put(store, [one])
    assert caught.value.ids == (one.id,)
    with pytest.raises(DurabilityUncertain) as caught:
        client.put_many(store, many)
    assert caught.value.ids == tuple(each.id for each in many)
    assert client.run(store.size("ready")) == 1 + len(many)
    client.close()


def test_each_of_those_who_met_is_told_of_its_own(server: Server) -> None:
    client = Client(Settings(url=server.url, timeout_s=1, durability="replica"))
    store = client.store_at("mail", 0)
    client.announce("mail")
    entries = [entry() for _ in range(5)]
    with ThreadPoolExecutor(5) as threads:
        with while_the_line_is_busy(client, 5):
            answers = [threads.submit(client.put, store, [each]) for each in entries]
        told = [answer.exception() for answer in answers]
    assert [error.ids for error in told if isinstance(error, DurabilityUncertain)] == [(e.id,) for e in entries]
    client.close()


@pytest.fixture(scope="module")
def durable() -> Iterator[Server]:
    server = Server(*DURABLE)
    yield server
    server.close()


def test_what_is_on_the_disk_is_certain(durable: Server) -> None:
    client = Client(Settings(url=durable.url, durability="fsync"))
    assert client.put(client.store_at("mail", 0), [entry()]) == [""]
    client.close()


def test_a_put_outlives_a_restart_of_the_server_and_is_there_once(durable: Server) -> None:
    client = Client(Settings(url=durable.url, timeout_s=20))
    store = client.store_at("restart", 0)
    client.put(store, [entry()])
    durable.kill()
    with ThreadPoolExecutor(4) as threads:
        answers: list[Future[list[str]]] = [threads.submit(client.put, store, [entry()]) for _ in range(4)]
        durable.start()
        assert [answer.result() for answer in answers] == [[""]] * 4
    assert client.run(store.size("ready")) == 5
    client.close()


def test_one_who_waits_for_an_end_outlives_a_restart_as_well(durable: Server) -> None:
    client = Client(Settings(url=durable.url, timeout_s=20))
    store = client.store_at("waiting", 0)
    each = entry()
    client.put(store, [each])
    link = Link(durable.address)
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(client.wait, store, each.id, 60)
        while link.command("ZSCORE", store.partition.key("watched"), each.id) is None:
            time.sleep(0.001)
        durable.restart()
        link.close()
        while not link_heard(link, store, each.id):
            time.sleep(0.001)
        client.run(store.cancel([each.id], b"R", 60_000))
        assert waiting.result().place == "ended"
    link.close()
    client.close()


def link_heard(link: Link, store: Store, id: str) -> bool:
    """Whether somebody listens for the end of this entry."""
    return bool(link.command("PUBSUB", "NUMSUB", f"{store.partition.key('watched')}:{id}")[1])


def test_threads_wait_each_on_an_ear_of_its_own_and_ears_are_used_again(client: Client, store: Store) -> None:
    entries = [entry() for _ in range(3)]
    client.put(store, entries)
    gate = threading.Barrier(4)

    def wait(each: Entry) -> str:
        gate.wait()
        return client.wait(store, each.id, 0.01).place

    for _ in range(2):
        with ThreadPoolExecutor(3) as threads:
            waiting = [threads.submit(wait, each) for each in entries]
            gate.wait()
            assert [each.result() for each in waiting] == ["queued"] * 3
        assert 1 <= len(client._ears) <= 3
