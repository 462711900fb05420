"""`holdfast audit`: is everything that was put still in exactly one place?"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from holdfast.cli.store import store_options

if TYPE_CHECKING:
    from holdfast.admin.audit import Report
    from holdfast.client import Client

_PLACES = ("ready", "later", "line", "held", "suspects", "dead", "broken")
_ENDS = ("done", "cancelled", "expired", "trimmed")


@click.command()
@store_options
def audit(client: Client, as_json: bool) -> None:
    """Check the store's invariants while everything goes on.

    Looks at every job and every key of every queue; the exit code is 1 if anything is wrong.
    """
    from holdfast.admin.audit import audit

    reports = audit(client)
    if as_json:
        click.echo(json.dumps([asdict(report) for report in reports]))
    else:
        _show(reports)
    sys.exit(0 if all(report.is_sound for report in reports) else 1)


def _show(reports: Sequence[Report]) -> None:
    for report in reports:
        numbers = report.numbers
        places = ", ".join(f"{numbers[name]:,} {name}" for name in _PLACES if numbers.get(name)) or "nothing in it"
        ends = ", ".join(f"{numbers[name]:,} {name}" for name in _ENDS if numbers.get(name)) or "nothing"
        click.echo(f"{report.partition}: {report.checked:,} jobs checked: {places}; ended so far: {ends}")
        for problem in report.problems:
            click.secho(f"  {problem}", fg="red")
    count = sum(len(report.problems) for report in reports)
    if not reports:
        click.echo("No queue is known here.")
    elif count:
        click.echo(f"{count} problem{'s' if count > 1 else ''}. Please report this with the lines above.")
    else:
        click.echo("Every invariant is kept.")
