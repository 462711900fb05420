"""Is everything that was put still in exactly one place? Its one rule: only what is wrong twice is wrong.

One call of the auditor sees one moment, but a partition takes many: a worker that appears in between holds entries that
the next call knows nothing of. So whatever looks wrong is looked at again, with the workers of that moment.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from holdfast.client import Client
from holdfast.engine.keys import CONTENT
from holdfast.engine.model import Audit
from holdfast.engine.store import Store

#: Ids a call, beside at most as many tokens.
CHUNK = 500
LOOKS = 3
PLACES = ("ready", "later", "suspects", "dead", "broken")
HASHES = ("jobs", "marks", "errors", "notes", "keyed", "waits", "uniques", "cancels")


@dataclass
class Report:
    """What an audit found in one partition."""

    partition: str
    checked: int = 0
    numbers: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        """Whether every invariant is kept."""
        return not self.problems


def audit(client: Client) -> list[Report]:
    """Check every entry and every key of every queue, while all goes on.

    Example:
        >>> all(report.is_sound for report in audit(app.client))
        True
    """
    queues = client.run(client.registry.queues())
    stores = [client.store_at(queue, index) for queue, count in sorted(queues.items()) for index in range(count)]
    return [_Auditor(client, store).report() for store in stores]


class _Auditor:
    """The audit of one partition."""

    def __init__(self, client: Client, store: Store) -> None:
        self._client = client
        self._store = store

    def report(self) -> Report:
        report = Report(str(self._store.partition))
        all_ids = self._ids()
        while ids := list(islice(all_ids, CHUNK)):
            report.checked += len(ids)
            report.problems += self._look(ids).problems
        last = self._look(())
        report.numbers = last.numbers
        report.problems += last.problems
        report.problems += self._stray_keys()
        report.problems = list(dict.fromkeys(report.problems))
        return report

    def _look(self, ids: Sequence[str]) -> Audit:
        """The problems that stay when one looks again."""
        run, store = self._client.run, self._store
        for _ in range(LOOKS):
            audit = run(store.audit(list(run(store.tokens())), ids))
            if not audit.problems:
                break
        return audit

    def _ids(self) -> Iterator[str]:
        """Every id that anything in the partition speaks of, once."""
        seen: set[str] = set()
        for page in self._pages():
            fresh = [id for id in page if id not in seen]
            seen.update(fresh)
            yield from fresh

    def _pages(self) -> Iterator[Sequence[str]]:
        for name in HASHES:
            cursor, page = self._client.run(self._store.scan(name))
            yield page
            while cursor:
                cursor, page = self._client.run(self._store.scan(name, cursor))
                yield page
        for name in PLACES:
            start = 0
            while page := list(self._client.run(self._store.page(name, start, CHUNK))):
                yield page
                start += CHUNK

    def _stray_keys(self) -> list[str]:
        """I7: every key has an owner, or an end."""
        names = set(self._names())
        for _ in range(LOOKS - 1):
            if not self._strays(names):
                break
            names &= set(self._names())
        return self._strays(names)

    def _names(self) -> Iterator[str]:
        cursor = -1
        while cursor:
            cursor, page = self._client.run(self._store.keys(max(cursor, 0)))
            yield from page

    def _strays(self, names: set[str]) -> list[str]:
        tokens = set(self._client.run(self._store.tokens()))
        unknown = [name for name in names if name.partition(":")[0] not in CONTENT]
        orphans = [name for name in names if name.startswith("held:") and name.partition(":")[2] not in tokens]
        mortal = sorted(name for name in names if name.startswith(("result:", "sender:")) and ":outbox:" not in name)
        calls: list[Any] = [self._store.expiry(name) for name in mortal]
        eternal = [name for name, ms in zip(mortal, self._client.run_many(calls), strict=True) if ms == -1]
        return [
            *(f"I7 {name}: no key of the protocol" for name in unknown),
            *(f"I7 {name}: its worker is not known any more" for name in orphans),
            *(f"I7 {name}: has no time to live" for name in eternal),
        ]
