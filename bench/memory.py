"""What a queued job costs the server, and a worker at rest its machine."""

from __future__ import annotations

from pathlib import Path

from tests.servers import Server

from bench.figure import Figure, at_most
from bench.place import application, until, worker
from holdfast.wire.sync import Link

JOBS = 100_000


def figures(rounds: int) -> list[Figure]:
    """Bytes a job; megabytes of a supervisor and its child."""
    del rounds
    with application() as (app, server):
        app.tasks["bench.jobs.label"].enqueue(0, "so that all keys exist")
        before = _used(server)
        app.tasks["bench.jobs.label"].enqueue_many([(n, "twenty characters are") for n in range(JOBS)])
        bytes_a_job = (_used(server) - before) / JOBS
    with application() as (app, server), worker(server) as process:
        app.tasks["bench.jobs.started_after"].enqueue(0).result(timeout=5)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        until(lambda: children.read_text().split())
        pids = [process.pid, *map(int, children.read_text().split())]
        megabytes = sum(map(_pss_kib, pids)) * 1024 / 1e6
    return [
        at_most("memory a queued job (an int and 21 characters)", bytes_a_job, "bytes", 350),
        at_most(f"supervisor and {len(pids) - 1} child at rest (PSS)", megabytes, "MB", 60),
    ]


def _used(server: Server) -> int:
    link = Link(server.address)
    lines = link.command("INFO", "memory").decode().splitlines()
    link.close()
    return int(next(line for line in lines if line.startswith("used_memory:")).partition(":")[2])


def _pss_kib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("Pss:")).split()[1])
