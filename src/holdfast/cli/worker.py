"""`holdfast worker`: runs jobs until it is told to stop."""

from __future__ import annotations

import logging
import os
import sys

import click

from holdfast.cli.find import find_app


@click.command()
@click.argument("app")
@click.option("--queues", "-q", help="Serve these only, comma-separated, the first one first. [all known queues]")
@click.option("--processes", "-p", type=int, help="Child processes. [one a core]")
@click.option("--threads", "-t", type=int, default=5, show_default=True, help="Threads a child, for def tasks.")
@click.option("--async-slots", type=int, default=100, show_default=True, help="async def jobs at once, a child.")
@click.option("--lease", type=float, default=15.0, show_default=True, help="Seconds of silence until others take over.")
@click.option("--stop-timeout", type=float, default=25.0, show_default=True, help="Seconds for running jobs at a stop.")
@click.option("--max-crashes", type=int, default=3, show_default=True, help="Process deaths until a job is buried.")
@click.option("--drain", is_flag=True, help="End when nothing is left to do.")
@click.option("--verbose", "-v", is_flag=True, help="Say more.")
def worker(
    app: str, queues: str | None, processes: int | None, threads: int, async_slots: int, lease: float,
    stop_timeout: float, max_crashes: int, drain: bool, verbose: bool,
) -> None:  # fmt: skip
    """Run the jobs of APP (module:attribute).

    The first Ctrl-C or SIGTERM lets running jobs end and gives back the others; the second one does not wait.
    """
    from holdfast.errors import HoldfastError
    from holdfast.runtime.worker import run_worker
    from holdfast.settings import WorkerSettings

    logging.basicConfig(
        stream=sys.stderr,
        level=logging.DEBUG if verbose else logging.INFO,
        format="%(asctime)s %(process)d %(levelname)s %(message)s",
    )
    found = find_app(app)
    try:
        settings = WorkerSettings(
            queues=tuple(q.strip() for q in queues.split(",") if q.strip()) if queues else (),
            processes=processes or os.cpu_count() or 1,
            threads=threads,
            async_slots=async_slots,
            lease_s=lease,
            stop_timeout_s=stop_timeout,
            max_crashes=max_crashes,
            drain=drain,
        )
        with found:
            _greet(app, found, settings)
            run_worker(found, settings)
    except HoldfastError as error:
        raise click.ClickException(str(error)) from None


def _greet(place: str, app: object, settings: object) -> None:
    from holdfast.app import Holdfast
    from holdfast.settings import WorkerSettings
    from holdfast.wire.connect import redacted

    assert isinstance(app, Holdfast)  # noqa: S101 - for the type checker; find_app has seen to it
    assert isinstance(settings, WorkerSettings)  # noqa: S101
    address = app.client.address
    where = app.client.embedded.banner() if app.client.embedded else redacted(address.url)
    click.echo(f"holdfast worker {place} · {where}", err=True)
    click.echo(
        f"{_count(len(app.tasks), 'task')} · {_count(settings.processes, 'process', 'es')} of "
        f"{_count(settings.threads, 'thread')} · Ctrl-C to stop",
        err=True,
    )


def _count(number: int, noun: str, plural: str = "s") -> str:
    return f"{number} {noun}{'' if number == 1 else plural}"
