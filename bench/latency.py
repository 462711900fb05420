"""How long an idle worker takes to start a job, and how late a scheduled one starts."""

from __future__ import annotations

import random
import time
from datetime import UTC, datetime, timedelta

from bench.figure import Figure, at_most, percentile, shown
from bench.place import DURABLE, Server, application, worker
from holdfast import Holdfast
from holdfast.wire.sync import Link

SAMPLES = 100
#: After this long without work a worker has nothing under way any more.
IDLE_S = 0.005


def starts(app: Holdfast, count: int) -> list[float]:
    """Milliseconds from `enqueue` to the first line of the function."""
    task = app.tasks["bench.jobs.started_after"]
    waits: list[float] = []
    for _ in range(count):
        job = task.enqueue(time.monotonic_ns())
        # Whoever asks for the result at once writes, too, and comes between. And the worker shall be idle again.
        time.sleep(IDLE_S)
        waits.append(job.result(timeout=5) / 1e6)
    return waits


def writes(server: Server, count: int) -> list[float]:
    """Milliseconds that the server takes for two writes, of which the second waits for the first."""
    link = Link(server.address)
    waits: list[float] = []
    for _ in range(count):
        time.sleep(IDLE_S)
        start_s = time.perf_counter()
        link.command("SET", "bench", "1")
        link.command("SET", "bench", "2")
        waits.append((time.perf_counter() - start_s) * 1e3)
    link.close()
    return waits


def lateness(app: Holdfast, rounds: int) -> list[float]:
    """Milliseconds behind the time for which jobs were scheduled."""
    task = app.tasks["bench.jobs.late"]
    late: list[float] = []
    for _ in range(rounds):
        start = datetime.now(UTC) + timedelta(seconds=0.2)
        dues = [start + timedelta(milliseconds=random.randrange(1000)) for _ in range(SAMPLES)]
        jobs = [task.using(run_at=due).enqueue(due.timestamp() * 1000) for due in dues]
        late += [job.result(timeout=10) for job in jobs]
    return late


def figures(rounds: int) -> list[Figure]:
    """Milliseconds of one job alone."""
    count = SAMPLES * rounds
    with application() as (app, server), worker(server):
        plain = starts(app, count)
    with application(*DURABLE) as (app, server), worker(server):
        fsync, limit, late = starts(app, count), writes(server, count), lateness(app, rounds)
    return [
        at_most("idle worker, enqueue to first line, no fsync, p50", percentile(plain, 0.5), "ms", 1),
        at_most("idle worker, enqueue to first line, no fsync, p99", percentile(plain, 0.99), "ms", 3),
        shown("two writes, one after the other, fsync, p50", limit, "ms"),
        shown("idle worker, enqueue to first line, fsync, p50", fsync, "ms"),
        at_most("idle worker, enqueue to first line, fsync, p99", percentile(fsync, 0.99), "ms", 3),
        shown("scheduled job, lateness, fsync, p50", late, "ms"),
        at_most("scheduled job, lateness, fsync, p99", percentile(late, 0.99), "ms", 10),
    ]
