"""The auditor walks every partition and finds what one call of the script cannot see."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.admin.audit import CHUNK, audit
from holdfast.client import Client
from holdfast.engine.keys import Partition
from holdfast.engine.model import Entry, Options, packed_options
from holdfast.ids import new_ids
from holdfast.settings import Settings
from holdfast.wire.sync import Link
from servers import Server


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    client = Client(Settings(url=server.url, partitions={"wide": 3}))
    yield client
    client.close()


def fill(client: Client, queue: str, count: int, options: Options | None = None) -> list[str]:
    ids = new_ids(count)
    packed = packed_options(options) if options else b""
    for id in ids:
        client.put(client.place(queue, id), [Entry(id, b"{}", packed)])
    return ids


def test_an_empty_store_is_sound(client: Client) -> None:
    assert audit(client) == []


def test_every_partition_of_every_queue_is_looked_at(client: Client) -> None:
    fill(client, "narrow", 5)
    fill(client, "wide", 30, Options(delay=60_000))
    reports = audit(client)
    assert [report.partition for report in reports] == ["app/narrow/0", "app/wide/0", "app/wide/1", "app/wide/2"]
    assert all(report.is_sound for report in reports)
    assert sum(report.checked for report in reports) == 35
    assert sum(report.numbers["later"] for report in reports) == 30


def test_more_entries_than_one_call_takes(client: Client) -> None:
    store = client.store_at("mail", 0)
    client.put_many(store, [Entry(id, b"{}") for id in new_ids(2 * CHUNK + 7)])
    (report,) = audit(client)
    assert report.is_sound
    assert report.checked == 2 * CHUNK + 7


def test_what_workers_hold_is_in_its_place(client: Client) -> None:
    fill(client, "mail", 10)
    store = client.store_at("mail", 0)
    client.run(store.renew(60_000, ["w1", "w2"], enlist=True))
    client.run(store.claim("w1", 3))
    client.run(store.claim("w2", 2))
    (report,) = audit(client)
    assert report.is_sound
    assert report.numbers["held"] == 5


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (["ZREM", "ready", "ID"], "I1 ID: has an envelope, is in: "),
        (["ZADD", "later", "5", "ID"], "I1 ID: has an envelope, is in: later, ready"),
        (["HDEL", "jobs", "ID"], "I1 ID: has not an envelope, is in: ready"),
        (["ZADD", "ready", "1", "ghost"], "I1 ghost: has not an envelope, is in: ready"),
        (["HSET", "marks", "ghost", "1 0 - - -"], "I7 ghost: has left something in marks"),
        (["HSET", "held:nobody", "ID", "5 1"], "I7 held:nobody: its worker is not known any more"),
        (["SET", "result:ID", "{}"], "I7 result:ID: has no time to live"),
        (["SET", "sender:me", "1"], "I7 sender:me: has no time to live"),
        (["SET", "scratch", "1"], "I7 scratch: no key of the protocol"),
        (["HINCRBY", "meta", "put", "1"], "I4 put 3, but 0 ended and 2 are present"),
    ],
)
def test_each_damage_is_found(client: Client, link: Link, damage: list[str], problem: str) -> None:
    first, _ = fill(client, "mail", 2)
    verb, key, *rest = damage
    named = [text.replace("ID", first) for text in (key, *rest)]
    link.command(verb, Partition("app", "mail").key(named[0]), *named[1:])
    (report,) = audit(client)
    assert not report.is_sound
    assert problem.replace("ID", first) in report.problems


def test_the_memory_of_an_outbox_lives_for_ever(client: Client, link: Link) -> None:
    fill(client, "mail", 1)
    link.command("SET", Partition("app", "mail").key("sender", "outbox:app/other/0"), 1)
    (report,) = audit(client)
    assert report.is_sound
