"""No-op tasks through a whole worker, with fsync on every commit, beside the bare loop and beside no persistence."""

from __future__ import annotations

import time
from contextlib import ExitStack

from bench import bare
from bench.figure import Figure, at_least, in_turns, shown
from bench.place import DURABLE, application, done, until, worker
from holdfast import Holdfast
from holdfast.engine.keys import Partition
from holdfast.engine.store import Store

COUNT = 100_000


def work_off(app: Holdfast, store: Store, count: int) -> float:
    """Fill a paused queue and let it go; jobs a second until the last one is committed."""
    client = app.client
    client.run(store.pause(True))
    before = done(app, store)
    client.put_many(store, bare.entries(count))
    client.run(store.pause(False))
    start = time.perf_counter()
    until(lambda: done(app, store) == before + count)
    return count / (time.perf_counter() - start)


def figures(rounds: int) -> list[Figure]:
    """Throughput of one worker process with five threads."""
    own = Store(Partition("bare", "default"))
    with ExitStack() as stack:
        durable, server = stack.enter_context(application(*DURABLE))
        plain, plain_server = stack.enter_context(application())
        stack.enter_context(worker(server))
        stack.enter_context(worker(plain_server))
        store = durable.client.store_at("default", 0)
        least, limit, fsync, none = in_turns(
            2 * rounds,
            lambda: bare.pop_all(server, COUNT),
            lambda: bare.work_all(server, own, COUNT),
            lambda: work_off(durable, store, COUNT),
            lambda: work_off(plain, store, COUNT),
        )
    return [
        shown("least possible loop, a list and a hash, fsync", least, "jobs/s"),
        shown("bare loop, our scripts, fsync", limit, "jobs/s", "least possible loop", least),
        at_least("no-op tasks, 1 process, 5 threads, fsync", fsync, limit, "jobs/s", "bare loop, our scripts", 0.6),
        at_least("the same, against no persistence", fsync, none, "jobs/s", "no persistence", 0.9),
    ]
