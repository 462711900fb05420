"""How long after the death of a child its jobs run again."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from pathlib import Path

from bench.figure import Figure, at_most, shown
from bench.place import DURABLE, application, until, worker

JOBS = 5


def figures(rounds: int) -> list[Figure]:
    """Seconds from the `kill -9` to the first line of each job's next run: the first one, and the last of all."""
    firsts: list[float] = []
    lasts: list[float] = []
    with application(*DURABLE) as (app, server), worker(server):
        for _ in range(rounds):
            with tempfile.TemporaryDirectory(prefix="hf-") as directory:
                started = _kill_and_wait(app.tasks["bench.jobs.cling"], Path(directory))
            firsts.append(min(started))
            lasts.append(max(started))
    return [
        shown("child killed, its first job runs again after", firsts, "s"),
        at_most(f"child killed, all {JOBS} that ran do so after", max(lasts), "s", 0.2),
    ]


def _kill_and_wait(task, directory: Path) -> list[float]:
    jobs = task.enqueue_many([(str(directory), f"job{i}") for i in range(JOBS)])
    until(lambda: len(list(directory.glob("*-0"))) == JOBS)
    _, pid = next(directory.glob("*-0")).read_text().split()
    killed_ns = time.monotonic_ns()
    os.kill(int(pid), signal.SIGKILL)
    until(lambda: len(list(directory.glob("*-1"))) == JOBS)
    for job in jobs:
        job.result(timeout=5)
    return [(int(path.read_text().split()[0]) - killed_ns) / 1e9 for path in directory.glob("*-1")]
