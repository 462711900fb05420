"""No-op tasks through a whole worker, with fsync on every commit, beside the bare loop and beside the same without."""

from __future__ import annotations

import time
from contextlib import ExitStack
from functools import partial

from bench import bare
from bench.figure import Figure, at_least, in_turns, shown
from bench.place import DURABLE, application, done, until, worker
from holdfast import Holdfast
from holdfast.engine.keys import Partition
from holdfast.engine.store import Store

COUNT = 100_000
#: The same log, but no answer waits for the disk.
EVERY_SECOND = ("--appendonly", "yes", "--appendfsync", "everysec")


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


def one_round() -> list[list[float]]:
    """Each measure in turns, on servers and workers that have just started."""
    own = Store(Partition("bare", "default"))
    with ExitStack() as stack:
        places = [stack.enter_context(application(*options)) for options in (DURABLE, EVERY_SECOND, ())]
        for _, each in places:
            stack.enter_context(worker(each))
        server = places[0][1]
        store = places[0][0].client.store_at("default", 0)
        return in_turns(
            3,
            lambda: bare.pop_all(server, COUNT),
            lambda: bare.work_all(server, own, COUNT),
            *(partial(work_off, app, store, COUNT) for app, _ in places),
        )


def figures(rounds: int) -> list[Figure]:
    """Throughput of one worker process with five threads."""
    # Pairs of server and worker that lived through all rounds differed by up to a quarter, whatever was measured.
    least, limit, fsync, each_second, none = (
        [value for part in column for value in part]
        for column in zip(*(one_round() for _ in range(rounds)), strict=True)
    )
    return [
        shown("least possible loop, a list and a hash, fsync", least, "jobs/s"),
        shown("bare loop, our scripts, fsync", limit, "jobs/s", "least possible loop", least),
        at_least("no-op tasks, 1 process, 5 threads, fsync", fsync, limit, "jobs/s", "bare loop, our scripts", 0.6),
        at_least("the same, against no persistence", fsync, none, "jobs/s", "no persistence", 0.9),
        shown("the same, against fsync once a second", fsync, "jobs/s", "fsync once a second", each_second),
    ]
