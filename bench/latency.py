"""How long an idle worker takes to start a job, and how late a scheduled one starts."""

from __future__ import annotations

import random
import time
from datetime import UTC, datetime, timedelta

from bench.figure import Figure, at_most, percentile, shown
from bench.place import DURABLE, application, worker

SAMPLES = 100
#: After this long without work a worker has nothing under way any more.
IDLE_S = 0.005


def figures(rounds: int) -> list[Figure]:
    """Milliseconds, with fsync on every commit."""
    with application(*DURABLE) as (app, server), worker(server):
        task, scheduled = app.tasks["bench.jobs.started_after"], app.tasks["bench.jobs.late"]
        waits: list[float] = []
        for _ in range(SAMPLES * rounds):
            waits.append(task.enqueue(time.monotonic_ns()).result(timeout=5) / 1e6)
            time.sleep(IDLE_S)
        late: list[float] = []
        for _ in range(rounds):
            start = datetime.now(UTC) + timedelta(seconds=0.2)
            dues = [start + timedelta(milliseconds=random.randrange(1000)) for _ in range(SAMPLES)]
            jobs = [scheduled.using(run_at=due).enqueue(due.timestamp() * 1000) for due in dues]
            late += [job.result(timeout=10) for job in jobs]
    return [
        at_most("idle worker, enqueue to first line, p50", percentile(waits, 0.5), "ms", 1),
        at_most("idle worker, enqueue to first line, p99", percentile(waits, 0.99), "ms", 3),
        shown("scheduled job, lateness, p50", late, "ms"),
        at_most("scheduled job, lateness, p99", percentile(late, 0.99), "ms", 10),
    ]
