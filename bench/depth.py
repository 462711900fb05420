"""Whether a long queue is a slow one: the same number of jobs, off a queue of a million and off one of ten thousand."""

from __future__ import annotations

import time

from bench import bare
from bench.figure import Figure, at_least, in_turns, shown
from bench.place import DURABLE, application, done, until, worker
from holdfast import Holdfast

SHALLOW, DEEP = 10_000, 1_000_000
MEASURED, WARM = 100_000, 10_000
#: The server would rewrite its log after the puts, at some time while the jobs run: that is another figure.
OPTIONS = (*DURABLE, "--auto-aof-rewrite-percentage", "0")


def figures(rounds: int) -> list[Figure]:
    """No-op tasks a second with fsync, with so many others behind them."""
    few, many = in_turns(2 * rounds, lambda: _fresh(SHALLOW), lambda: _fresh(DEEP))
    with application(*OPTIONS) as (app, server), worker(server):

        def worn(behind: int) -> float:
            rate = _rate(app, behind)
            server.flush()
            return rate

        worn_few, worn_many = in_turns(min(rounds, 3), lambda: worn(SHALLOW), lambda: worn(DEEP))
    return [
        at_least("a million queued instead of 10,000", many, few, "jobs/s", "10,000 queued", 0.9),
        shown("the same, memory filled and emptied before", worn_many, "jobs/s", "10,000 queued", worn_few),
    ]


def _fresh(behind: int) -> float:
    with application(*OPTIONS) as (app, server), worker(server):
        return _rate(app, behind)


def _rate(app: Holdfast, behind: int) -> float:
    client = app.client
    store = client.store_at("default", 0)
    client.run(store.pause(True))
    start = done(app, store)
    client.put_many(store, bare.entries(WARM + MEASURED + behind))
    client.run(store.pause(False))
    until(lambda: done(app, store) >= start + WARM, pause_s=0.0005)
    warm, warm_s = done(app, store), time.perf_counter()
    until(lambda: done(app, store) >= start + WARM + MEASURED, pause_s=0.0005)
    count, took = done(app, store) - warm, time.perf_counter() - warm_s
    client.run(store.pause(True))
    return count / took
