"""Where the time of a no-op job goes: each stage of its way alone, in microseconds a job."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from statistics import median

import hiredis

from bench import bare
from bench.figure import Figure, shown
from bench.jobs import app as jobs
from bench.place import DURABLE, Server
from holdfast.engine.keys import Partition
from holdfast.engine.model import Claimed, Ended
from holdfast.engine.store import Store
from holdfast.runtime.feeds import Feed
from holdfast.runtime.slots import Slots
from holdfast.runtime.threads import Threads
from holdfast.wire.sync import Link
from holdfast.work import PLAIN, Work

BATCHES = 100
HERE = Partition("where", "default")


def figures(rounds: int) -> list[Figure]:
    """The server's part by its own clock, ours by ours; what overlaps with what is not seen here."""
    rows: dict[str, list[float]] = {}
    server = Server(*DURABLE)
    try:
        for _ in range(rounds + 1):
            for name, value in {**_server(server), **_ours(), **_not_on_the_way()}.items():
                rows.setdefault(name, []).append(value)
    finally:
        server.close()
    return [shown(name, values[1:], "µs") for name, values in rows.items()]


def _server(server: Server) -> dict[str, float]:
    link, store = Link(server.address), Store(HERE)
    link.command("FLUSHALL")
    link.run(store.renew(60_000, ["where"], enlist=True))
    new = bare.entries(BATCHES * bare.BATCH)
    claims: list[Claimed] = []

    def claim_all() -> None:
        claims.extend(link.run(store.claim("where", bare.BATCH)) for _ in range(BATCHES))

    def finish_all() -> None:
        for number, claimed in enumerate(claims, 1):
            link.run(store.finish("where", number, _ended(claimed)))

    spent = {
        "server: put": _busy(link, lambda: bare.put_all(link, store, new)),
        "server: claim": _busy(link, claim_all),
        "server: finish": _busy(link, finish_all),
    }
    link.close()
    return {name: us / len(new) for name, us in spent.items()}


def _busy(link: Link, what: Callable[[], object]) -> float:
    """How long scripts ran in the server meanwhile, in µs by its own clock; fsync is not in it."""
    link.command("CONFIG", "RESETSTAT")
    what()
    stats = link.command("INFO", "commandstats").decode()
    lines = [line for line in stats.splitlines() if line.startswith(("cmdstat_evalsha:", "cmdstat_eval:"))]
    return sum(float(line.partition("usec=")[2].partition(",")[0]) for line in lines)


def _ours() -> dict[str, float]:
    store = Store(HERE)
    ids = [entry.id.encode() for entry in bare.entries(bare.BATCH)]
    reply = [b"claimed", 1, 2, -1, 0, ids, [b'{"task":"bench.jobs.noop"}'] * len(ids), []]
    raw, claimed = _resp(reply), store.claim("t", 1).decode(reply)
    source = jobs.source()
    feed = Feed(0, store, "t")

    def parse() -> None:
        reader = hiredis.Reader()
        reader.feed(raw)
        store.claim("t", 1).decode(reader.gets())

    def open_all() -> list[Work]:
        columns = zip(claimed.ids, claimed.fences, claimed.envelopes, claimed.marks, strict=True)
        return [source.open(HERE, *row, claimed.now) for row in columns]

    works = open_all()
    pairs = [(work, PLAIN) for work in works]
    return {
        "ours: take the reply of the claim apart": _each(parse),
        "ours: open the envelopes, find tasks, decode arguments": _each(open_all),
        "ours: run in five threads, report the ends": _threads(works),
        "ours: note what is held and let it go": _each(lambda: (feed.take(works), feed.let_go(pairs))),
        "ours: make the call of the finish": _each(lambda: [call.packed() for call in feed.commits(pairs)]),
    }


def _not_on_the_way() -> dict[str, float]:
    """What Python offers for the same purpose, for nothing at all in place of a job."""
    todo: SimpleQueue[None] = SimpleQueue()

    def queue() -> None:
        for _ in range(bare.BATCH):
            todo.put(None)
        for _ in range(bare.BATCH):
            todo.get()

    async def nothing() -> None:
        return

    async def tasks() -> None:
        await asyncio.gather(*(asyncio.create_task(nothing()) for _ in range(bare.BATCH)))

    async def executor() -> None:
        loop = asyncio.get_running_loop()
        await asyncio.gather(*(loop.run_in_executor(pool, int) for _ in range(bare.BATCH)))

    with ThreadPoolExecutor(5) as pool:
        return {
            "not used: SimpleQueue, put and get": _each(queue),
            "not used: asyncio.create_task": _each(lambda: asyncio.run(tasks())),
            "not used: ThreadPoolExecutor.submit": _each(lambda: list(pool.map(lambda _: None, range(bare.BATCH)))),
            "not used: loop.run_in_executor": _each(lambda: asyncio.run(executor())),
        }


def _threads(works: Sequence[Work]) -> float:
    """With all that a thread does for a job: slot, context, limits, report."""
    ended: deque[object] = deque()
    done = threading.Event()

    def report(work: Work, outcome: object) -> None:
        ended.append((work, outcome))
        if len(ended) == len(works):
            done.set()

    threads = Threads(5, Slots(5), report)

    def run() -> None:
        ended.clear()
        done.clear()
        threads.hand_over(works)
        done.wait()

    return _each(run)


def _each(what: Callable[[], object]) -> float:
    times = []
    for _ in range(20):
        start = time.perf_counter()
        what()
        times.append(time.perf_counter() - start)
    return median(times) / bare.BATCH * 1e6


def _ended(claimed: Claimed) -> list[Ended]:
    return [Ended(id, fence) for id, fence in zip(claimed.ids, claimed.fences, strict=True)]


def _resp(value: object) -> bytes:
    """A reply as it comes over the wire."""
    if isinstance(value, int):
        return b":%d\r\n" % value
    if isinstance(value, bytes):
        return b"$%d\r\n%b\r\n" % (len(value), value)
    assert isinstance(value, list)
    return b"*%d\r\n%b" % (len(value), b"".join(map(_resp, value)))
