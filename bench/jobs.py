"""The jobs that are measured. HOLDFAST_URL says where."""

from __future__ import annotations

import os
import time
from pathlib import Path

from holdfast import Holdfast, current_job

app = Holdfast()


@app.task
def noop() -> None:
    """Nothing: what is left is what a job costs."""


@app.task
def label(number: int, text: str) -> None:
    """A job as most are: an int and a short text."""


@app.task
def started_after(sent_ns: int) -> int:
    """Nanoseconds from the enqueue to this line; CLOCK_MONOTONIC is the same in all processes."""
    return time.monotonic_ns() - sent_ns


@app.task
def late(due_ms: float) -> float:
    """Milliseconds from when it should start to this line."""
    return time.time() * 1000 - due_ms


@app.task
def cling(directory: str, name: str) -> None:
    """Says when it starts; the first time it stays until its process is killed."""
    run = current_job()
    assert run is not None
    attempt = len(list(Path(directory).glob(f"{name}-*")))
    started = Path(directory, f"{name}-{attempt}")
    # Whoever sees the file shall find the time in it.
    started.with_suffix(".part").write_text(f"{time.monotonic_ns()} {os.getpid()}")
    started.with_suffix(".part").rename(started)
    if attempt == 0:
        time.sleep(60)
