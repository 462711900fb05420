"""`python -m bench [NAME ...] [--rounds N] [--json FILE]`: measure, and say what holds."""

from __future__ import annotations

import json
import os
import platform
import sys
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

import click

from bench.figure import Figure

NAMES = ("noop", "depth", "enqueue", "latency", "recovery", "memory", "where")
HEADS = ("figure", "value", "unit", "beside", "ratio", "must", "")


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(NAMES))
@click.option("--rounds", default=5, show_default=True, help="Rounds of each comparison; the median counts.")
@click.option("--json", "path", type=click.Path(dir_okay=False, path_type=Path), help="Write the figures there, too.")
def main(names: tuple[str, ...], rounds: int, path: Path | None) -> None:
    """Measure these figures, or all; the exit code is 1 if one of them misses what it must reach."""
    print(f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}, {rounds} rounds\n")
    found: list[Figure] = []
    for name in names or NAMES:
        found += import_module(f"bench.{name}").figures(rounds)
        print(f"{name}: measured", file=sys.stderr)
    _print_table([HEADS, *(figure.row() for figure in found)])
    if path:
        path.write_text(json.dumps([asdict(figure) for figure in found], indent=1))
    sys.exit(any(figure.holds is False for figure in found))


def _print_table(rows: list[tuple[str, ...]]) -> None:
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEADS))]
    for row in rows:
        print("  ".join(cell.rjust(width) if i in {1, 4} else cell.ljust(width) for i, (cell, width) in
                        enumerate(zip(row, widths, strict=True))).rstrip())  # fmt: skip


if __name__ == "__main__":
    main()
