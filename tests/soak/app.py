"""The application of the storm: what each run did is written to a file that no kill -9 of a process can take back."""

from __future__ import annotations

import asyncio
import os
import time
from functools import cache
from pathlib import Path
from typing import Any

from holdfast import Holdfast, current_job

LEAVES = ("default", "other", "wide")
PARTITIONS = {"wide": 4}


@cache
def _journal(pid: int) -> int:
    path = Path(os.environ["HOLDFAST_TEST_STAGE"]) / f"journal-{pid}"
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def note(event: str, tag: str) -> None:
    """One line in one write: whole or not there."""
    run = current_job()
    assert run is not None
    pid = os.getpid()
    line = f"{event} {run.id} {run.attempt} {run.fence} {pid} {time.monotonic_ns()} {run.name} {tag}\n"
    os.write(_journal(pid), line.encode())


def build(url: str | None = None) -> Holdfast:
    app = Holdfast(url, partitions=PARTITIONS, timeout=10)

    @app.task(name="work")
    def work(tag: str, seconds: float = 0.0) -> str:
        note("start", tag)
        time.sleep(seconds)
        note("end", tag)
        return tag

    @app.task(name="work_async")
    async def work_async(tag: str, seconds: float = 0.0) -> str:
        note("start", tag)
        await asyncio.sleep(seconds)
        note("end", tag)
        return tag

    @app.task(name="flaky", backoff=[0, 0.05, 0.2])
    def flaky(tag: str) -> None:
        run: Any = current_job()
        note("start", tag)
        if run.attempt <= 2:
            note("fail", tag)
            raise RuntimeError("not yet")
        note("end", tag)

    @app.task(name="mother")
    def mother(tag: str) -> None:
        note("start", tag)
        for queue in LEAVES:
            work.using(queue=queue).spawn(f"{tag}>{queue}")
        note("end", tag)

    return app


app = build()
