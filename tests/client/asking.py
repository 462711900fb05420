"""What tests of the client put, and what they ask the server about it."""

from __future__ import annotations

from typing import Any

from holdfast.engine.model import Entry, Options, packed_options
from holdfast.ids import new_id
from holdfast.wire.sync import Link


def entry(**options: Any) -> Entry:
    """A new entry."""
    return Entry(new_id(), b"{}", packed_options(Options(**options)))


def calls_of(link: Link, command: str) -> int:
    """How often the server was asked this."""
    stats = link.command("INFO", "commandstats").decode()
    line = next((line for line in stats.splitlines() if line.startswith(f"cmdstat_{command}:")), "calls=0,")
    return int(line.partition("calls=")[2].partition(",")[0])


def clients_of(link: Link) -> int:
    """How many connections the server has."""
    return len(link.command("CLIENT", "LIST").splitlines())
