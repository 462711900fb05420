"""`holdfast server`: the embedded server by hand. Its one rule: looking at it never starts it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.errors import EmbeddedError

if TYPE_CHECKING:
    from holdfast.server import Embedded, Status

_data = click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    default=".holdfast",
    show_default=True,
    help="The server's data directory.",
)


@click.group()
def server() -> None:
    """The server that runs when no URL is set.

    It starts by itself with the first process that needs it, and ends with the last one.
    """


@server.command()
@_data
def start(data: Path) -> None:
    """Start it, if need be, and let it stay when nobody uses it."""
    from holdfast.server import Embedded

    with _plainly():
        embedded = Embedded.join(data)
        embedded.keep()
        embedded.leave()
        click.echo(embedded.banner())
    click.echo(f"{'Started' if embedded.started else 'It was running'}; it stays until `holdfast server stop`.")


@server.command()
@_data
@click.option("--yes", is_flag=True, help="Stop it although other processes use it.")
def stop(data: Path, yes: bool) -> None:
    """End it. Its data is kept."""
    with _plainly():
        found = _find(data)
        if found is None:
            click.echo(f"No server runs over {data}.")
            return
        users = found.status().users
        if users != [] and not yes:
            _confirm(users)
        found.stop()
    click.echo(f"Stopped. The data stays in {data}.")
    if users:
        click.echo("Those who used it go on as soon as somebody starts it again.")


@server.command()
@_data
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def status(data: Path, as_json: bool) -> None:
    """Show where it is, who uses it and how it does; the exit code is 1 if none runs."""
    with _plainly():
        found = _find(data)
        state = found.status() if found else None
    if as_json:
        facts = asdict(state) if state else {"data": str(data.resolve())}
        click.echo(json.dumps({"running": state is not None, **facts}))
    elif state:
        for name, value in _lines(state):
            click.echo(f"{name:8} {value}")
    else:
        click.echo(f"No server runs over {data}.")
    sys.exit(0 if state else 1)


def _find(data: Path) -> Embedded | None:
    from holdfast.server import Embedded

    return Embedded.find(data)


def _confirm(users: list[int] | None) -> None:
    if users is None:
        text = "Other processes may be using it"
    else:
        named = ", ".join(map(str, users))
        text = f"{len(users)} other process{'es use' if len(users) > 1 else ' uses'} it (pid {named})"
    text += ": their calls will wait and then fail until it is started again."
    if not sys.stdin.isatty():
        raise click.ClickException(f"{text} Say --yes to stop it nevertheless.")
    click.confirm(f"{text} Stop it?", abort=True)


def _lines(state: Status) -> Iterator[tuple[str, str]]:
    yield "url", state.url
    yield "pid", str(state.pid or "unknown")
    if state.answers:
        yield "version", f"{state.version}, up for {state.uptime_s} s{', loading its data' if state.loading else ''}"
        yield "memory", f"{_mib(state.memory_bytes)} of {_mib(state.memory_limit_bytes)}"
        yield "aof", _aof(state)
    else:
        yield "state", "does not answer"
    yield "data", state.data
    users = "unknown" if state.users is None else ", ".join(map(str, state.users)) or "nobody"
    yield "users", users + ("; stays without them" if state.kept else "")


def _aof(state: Status) -> str:
    if not state.aof_enabled:
        return "off: nothing is kept"
    rewriting = ", being rewritten" if state.aof_rewriting else ""
    return (
        f"on, {_mib(state.aof_bytes)}{rewriting}, last write {state.aof_last_write}, "
        f"last rewrite {state.aof_last_rewrite}"
    )


def _mib(count: int) -> str:
    return f"{count / (1 << 20):.1f} MiB"


@contextmanager
def _plainly() -> Iterator[None]:
    """An error of this machine is a message, not a traceback."""
    try:
        yield
    except EmbeddedError as error:
        raise click.ClickException(str(error)) from None
