"""One partition as a child sees it: its verbs, what this child holds of it, and whether to ask it for more."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from holdfast.engine.model import Ended, Settlement
from holdfast.engine.store import MOST, Store, pack_entries
from holdfast.engine.wakeup import bell, wishes
from holdfast.wire.call import Call
from holdfast.work import PLAIN, Outcome, Work


class Feed:
    """A partition that this child is fed from."""

    def __init__(self, index: int, store: Store, token: str) -> None:
        self.index = index
        self.store = store
        self.token = token
        self.bell = bell(store.partition, token)
        self.wishes = wishes(store.partition)
        #: What is in hand, by its id.
        self.held: dict[bytes, Work] = {}
        #: Whether a claim may bring something; the first one finds out.
        self.is_hungry = True
        #: Whether others wait that must each run alone.
        self.has_suspects = False
        #: When the first scheduled entry is due, by this machine's monotonic clock.
        self.due_s = float("inf")
        self.has_outgoing = False
        self._number = 0

    def take(self, works: Iterable[Work]) -> None:
        """These are in hand now."""
        self.held.update((work.entry, work) for work in works)

    def commits(self, ended: Sequence[tuple[Work, Outcome]]) -> list[Call[Any]]:
        """The calls that make these ends known to the store."""
        plain: list[Ended] = []
        calls: list[Call[Any]] = []
        for work, outcome in ended:
            if outcome is PLAIN:
                plain.append(Ended(work.entry, work.hold))
            elif outcome.verdict == "done" and not outcome.born:
                plain.append(Ended(work.entry, work.hold, outcome.ttl_ms, outcome.record))
            else:
                calls.append(self._settle(work, outcome))
        for start in range(0, len(plain), MOST):
            calls.append(self.store.finish(self.token, self._next(), plain[start : start + MOST]))
        return calls

    def let_go(self, ended: Iterable[tuple[Work, Outcome]]) -> None:
        """The store knows: they are not in hand any more."""
        for work, _ in ended:
            self.held.pop(work.entry, None)

    def release(self, works: Iterable[Work]) -> list[Call[Any]]:
        """The calls that give these back, unstarted."""
        by_hold: dict[bytes, list[bytes]] = {}
        for work in works:
            by_hold.setdefault(work.hold, []).append(work.entry)
        return [self.store.release(self.token, self._next(), hold, ids) for hold, ids in by_hold.items()]

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _settle(self, work: Work, outcome: Outcome) -> Call[Any]:
        here = self.store.partition
        born_here = [entry for partition, entry in outcome.born if partition == here]
        elsewhere = [(str(p), pack_entries([entry])) for p, entry in outcome.born if p != here]
        self.has_outgoing = self.has_outgoing or bool(elsewhere)
        return self.store.settle(
            self.token,
            self._next(),
            Settlement(
                work.entry, work.hold, outcome.verdict, outcome.delay_ms, outcome.error, outcome.ttl_ms,
                outcome.record, born_here, elsewhere,
            ),
        )  # fmt: skip
