"""The command line's front door. Its one rule: a verb imports what it needs when it runs, so that help is instant."""

from __future__ import annotations

import click

from holdfast.cli.audit import audit
from holdfast.cli.server import server
from holdfast.cli.worker import worker


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="holdfast")
def main() -> None:
    """Background jobs on Valkey and Redis that are never lost."""


main.add_command(audit)
main.add_command(server)
main.add_command(worker)
