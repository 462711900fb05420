"""Servers and workers to measure. Its one rule: whoever started a process ends it, by its pid."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.servers import DURABLE, Server

from holdfast import Holdfast
from holdfast.engine.store import Store

__all__ = ["DURABLE", "Server", "application", "until", "worker"]


@contextmanager
def application(*options: str) -> Iterator[tuple[Holdfast, Server]]:
    """The application of `jobs` on a server of its own with these options."""
    from bench.jobs import app as jobs

    server = Server(*options)
    try:
        with Holdfast(server.url) as app:
            # The same definitions on another store.
            for name, task in jobs.tasks.items():
                app.task(name=name)(task.definition.function)
            yield app, server
    finally:
        server.close()


@contextmanager
def worker(server: Server, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """A worker at rest: one child of five threads unless *options* say otherwise."""
    command = [
        str(Path(sys.executable).with_name("holdfast")),
        "worker",
        "bench.jobs:app",
        "--processes",
        "1",
        *options,
    ]
    environment = os.environ | {"HOLDFAST_URL": server.url}
    log = (server.directory / "worker.log").open("wb")
    process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        until(lambda: process.poll() is not None or b"child.ready" in (server.directory / "worker.log").read_bytes())
        if process.poll() is not None:
            raise RuntimeError((server.directory / "worker.log").read_text())
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
        log.close()


def done(app: Holdfast, store: Store) -> int:
    """How many jobs of this partition have ended well."""
    return int(app.client.run(store.meta()).get("done", 0))


def until(what: Callable[[], Any], pause_s: float = 0.002, timeout_s: float = 60.0) -> None:
    """Look again and again; a thing that never happens is an error."""
    deadline = time.monotonic() + timeout_s
    while not what():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not happen within {timeout_s} s")
        time.sleep(pause_s)
