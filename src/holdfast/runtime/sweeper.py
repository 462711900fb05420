"""Takes back what workers held that have died or fallen silent.

Its one rule: any number of workers may sweep at the same time; the scripts see to it that each entry moves once.
"""

from __future__ import annotations

from typing import NamedTuple

from holdfast.engine.store import Store
from holdfast.events import emit
from holdfast.wire.sync import Link


class Sweep(NamedTuple):
    """Whose entries are taken back, why, and who of them may have been at fault."""

    token: str
    cause: str
    culprits: tuple[str, ...] = ()
    error: str = ""


def take_back(link: Link, store: Store, sweep: Sweep, max_crashes: int) -> int:
    """Sweep one partition; how many entries came back."""
    count = 0
    error = f"poison: {sweep.error or 'its worker vanished'}, {max_crashes} times"
    call = store.sweep(sweep.token, sweep.cause, max_crashes=max_crashes, error=error, culprits=sweep.culprits)
    while True:
        swept = link.run(call)
        count += swept.given_back + swept.buried
        if swept.word != "swept" or not swept.remaining:
            break
    if count:
        emit("swept", partition=store.partition, token=sweep.token, cause=sweep.cause, entries=count)
    return count


def sweep_silent(link: Link, store: Store, now_ms: int, max_crashes: int) -> list[str]:
    """Take back what everybody held whose lease is over by the server's clock; whose it was."""
    silent = [token for token, lease_ms in link.run(store.tokens()).items() if lease_ms < now_ms]
    for token in silent:
        take_back(link, store, Sweep(token, "silent"), max_crashes)
    return silent
