"""The limits: loops that do the same work of the server with the same client, and nothing else."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import cycle

from tests.servers import Server

from holdfast.engine.model import Claimed, Ended, Entry
from holdfast.engine.store import Store
from holdfast.ids import new_ids
from holdfast.wire.call import Plain
from holdfast.wire.repeat import Sender
from holdfast.wire.sync import Link

BATCH = 500
#: The next batch travels while this one is taken apart.
UNDER_WAY = 2

CLAIM = b"""#!lua
local popped = redis.call('LPOP', KEYS[1], ARGV[1])
if not popped then return {} end
local fields = {}
for i, job in ipairs(popped) do
  fields[i * 2 - 1] = job
  fields[i * 2] = ''
end
redis.call('HSET', KEYS[2], unpack(fields))
return popped
"""
FINISH = b"""#!lua
return redis.call('HINCRBY', KEYS[2], 'done', redis.call('HDEL', KEYS[1], unpack(ARGV)))
"""


def entries(count: int, envelope: bytes = b'{"task":"bench.jobs.noop"}') -> list[Entry]:
    """The same job many times."""
    return [Entry(id, envelope) for id in new_ids(count)]


def put_all(link: Link, store: Store, new: Sequence[Entry]) -> float:
    """Put entries in calls of `BATCH`; seconds."""
    # As in the client: one that is sent again must not have been overtaken under its own name.
    senders = cycle([Sender() for _ in range(UNDER_WAY)])
    start = time.perf_counter()
    for i in range(0, len(new), BATCH):
        if i >= UNDER_WAY * BATCH:
            link.receive()
        sender = next(senders)
        link.send((store.put(sender.name, sender.next(), new[i : i + BATCH]),))
    for _ in range(min(UNDER_WAY, -(-len(new) // BATCH))):
        link.receive()
    return time.perf_counter() - start


def work_all(server: Server, store: Store, count: int) -> float:
    """Claim and finish *count* entries with the scripts of the engine; jobs a second."""
    link = Link(server.address)
    put_all(link, store, entries(count))
    token = "bare"
    link.run(store.renew(60_000, [token], enlist=True))
    number = finished = 0
    start = time.perf_counter()
    link.send((store.claim(token, BATCH),))
    link.send((store.claim(token, BATCH),))
    while finished < count:
        *_, claimed = link.receive()
        calls: list = []
        if claimed.ids:
            number += 1
            calls.append(store.finish(token, number, _ended(claimed)))
            finished += len(claimed.ids)
        calls.append(store.claim(token, BATCH))
        link.send(calls)
    for _ in range(UNDER_WAY):
        link.receive()
    took = time.perf_counter() - start
    link.run(store.sweep(token, "left", max_crashes=3, error=""))
    link.close()
    return count / took


def _ended(claimed: Claimed) -> list[Ended]:
    return [Ended(id, fence) for id, fence in zip(claimed.ids, claimed.fences, strict=True)]


def pop_all(server: Server, count: int) -> float:
    """The least that a queue can do that knows who holds what: a list, a hash of what is held; jobs a second."""
    link = Link(server.address)
    jobs = [entry.id + entry.envelope.decode() for entry in entries(count)]
    for i in range(0, count, BATCH):
        link.command("RPUSH", "{bare}:ready", *jobs[i : i + BATCH])
    claim = Plain(("EVALSHA", link.command("SCRIPT", "LOAD", CLAIM), 2, "{bare}:ready", "{bare}:held", BATCH), list)
    finish = ("EVALSHA", link.command("SCRIPT", "LOAD", FINISH), 2, "{bare}:held", "{bare}:count")
    left = count
    start = time.perf_counter()
    for _ in range(UNDER_WAY):
        link.send((claim,))
    while left:
        popped = link.receive()[-1]
        left -= len(popped)
        link.send((Plain((*finish, *popped), int), claim) if popped else (claim,))
    for _ in range(UNDER_WAY):
        link.receive()
    took = time.perf_counter() - start
    link.command("DEL", "{bare}:held", "{bare}:ready", "{bare}:count")
    link.close()
    return count / took
