"""The partitions as a child sees them: what it holds of each, and whom to ask for more. Their one rule: queues come in
the order of their rank, the partitions of one queue take turns.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from holdfast.clock import mono_s
from holdfast.engine.keys import Partition
from holdfast.engine.model import Claimed, Ended, Note, Settlement
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
        #: What is in hand, by its id.
        self.held: dict[bytes, Work] = {}
        #: Whether a claim may bring something; the first one finds out.
        self.is_hungry = True
        #: Whether somebody has said, since it was asked last, that it may have something.
        self.has_news = False
        #: Whether its last claim brought as many as were asked for; only then is it asked before it has answered.
        self.has_plenty = False
        #: Whether others wait that must each run alone.
        self.has_suspects = False
        #: When the first scheduled entry is due, by this machine's monotonic clock.
        self.due_s = float("inf")
        self.has_outgoing = False
        self._number = 0

    def wake(self) -> None:
        """It may have something."""
        self.is_hungry = self.has_news = True

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
        calls += [
            self.store.finish(self.token, self._next(), plain[start : start + MOST])
            for start in range(0, len(plain), MOST)
        ]
        return calls

    def notes(self, works: Iterable[Work]) -> list[Call[Any]]:
        """The calls that tell the store what these say of themselves, as far as they are still in hand."""
        notes = [Note(work.entry, work.hold, work.note()) for work in works if self.held.get(work.entry) is work]
        return [self.store.note(self.token, notes[start : start + MOST]) for start in range(0, len(notes), MOST)]

    def let_go(self, ended: Iterable[tuple[Work, Outcome]]) -> None:
        """The store knows: they are not in hand any more."""
        for work, _ in ended:
            self.held.pop(work.entry, None)

    def claim(self, limit: int, alone: bool) -> Call[Claimed]:
        """The call that asks for more."""
        self.has_news = False
        return self.store.claim(self.token, limit, alone)

    def answered(self, claimed: Claimed, limit: int) -> None:
        """What the answer to a claim of so many says beside the entries."""
        self.has_suspects = claimed.suspects > 0
        self.has_plenty = len(claimed.ids) == limit
        # The claim may have been there before whatever the news are about.
        self.is_hungry = bool(claimed.ids) or self.has_news
        if claimed.next_due >= 0:
            self.due_s = mono_s() + max(claimed.next_due - claimed.now, 0) / 1000

    def pass_on(self) -> Call[Claimed]:
        """The call that rings for somebody else."""
        return self.store.claim(self.token, 0)

    def recall(self) -> Call[Claimed]:
        """The call that asks what is in hand."""
        return self.store.recall(self.token)

    def release(self, works: Iterable[Work]) -> list[Call[Any]]:
        """The calls that give these back, unstarted."""
        by_hold: dict[bytes, list[bytes]] = {}
        for work in works:
            by_hold.setdefault(work.hold, []).append(work.entry)
        return [
            self.store.release(self.token, self._next(), hold, ids[start : start + MOST])
            for hold, ids in by_hold.items()
            for start in range(0, len(ids), MOST)
        ]

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
                outcome.record, outcome.note, born_here, elsewhere,
            ),
        )  # fmt: skip


class Feeds:
    """All of them, in ranks.

    Example:
        >>> feeds = Feeds(token)
        >>> feeds.add([Store(Partition("app", "mail"))])
        >>> feeds.hungry()
    """

    def __init__(self, token: str) -> None:
        self._token = token
        self._all: list[Feed] = []
        self._ranks: list[deque[Feed]] = []
        self._by_bell: dict[str, Feed] = {}

    def __iter__(self) -> Iterator[Feed]:
        return iter(self._all)

    def __getitem__(self, index: int) -> Feed:
        return self._all[index]

    def add(self, stores: Sequence[Store]) -> None:
        """Another queue, to be asked after those that are here."""
        rank = [Feed(len(self._all) + i, store, self._token) for i, store in enumerate(stores)]
        self._all += rank
        self._ranks.append(deque(rank))
        self._by_bell.update({bell(feed.store.partition, self._token): feed for feed in rank})

    def add_queue(self, queue: str, count: int) -> None:
        """A queue that was not known when this child began."""
        namespace = self._all[0].store.partition.namespace
        self.add([Store(Partition(namespace, queue, index)) for index in range(count)])

    @property
    def bells(self) -> Collection[str]:
        """The channels on which this child is told that there is work."""
        return self._by_bell.keys()

    @property
    def wishes(self) -> Collection[str]:
        """The channels on which it is told what somebody cancelled."""
        return [wishes(feed.store.partition) for feed in self._all]

    def rung(self, channel: str) -> Feed:
        """Whose bell this is; there may be work again."""
        feed = self._by_bell[channel]
        feed.wake()
        return feed

    @property
    def in_hand(self) -> int:
        """How many jobs this child holds."""
        return sum(len(feed.held) for feed in self._all)

    @property
    def next_due_s(self) -> float:
        """When the first scheduled entry is due."""
        return min((feed.due_s for feed in self._all), default=float("inf"))

    @property
    def are_hungry(self) -> bool:
        """Whether a claim may bring something anywhere."""
        return any(feed.is_hungry for feed in self._all)

    def hungry(self, besides: Collection[Feed] = ()) -> Feed | None:
        """Whom to ask next; some do not come into question."""
        for rank in self._ranks:
            for _ in range(len(rank)):
                feed = rank[0]
                rank.rotate(-1)
                if feed.is_hungry and feed not in besides:
                    return feed
        return None

    def suspicious(self) -> Feed | None:
        """Where somebody waits who must run alone."""
        return next((feed for feed in self._all if feed.has_suspects), None)

    def wake(self) -> None:
        """There may be work anywhere."""
        for feed in self._all:
            feed.wake()

    def wake_due(self, now_s: float) -> None:
        """There is work where something was scheduled for now."""
        for feed in self._all:
            if feed.due_s <= now_s:
                feed.due_s = float("inf")
                feed.wake()

    def find(self, id: bytes) -> Work | None:
        """What is in hand under this id."""
        return next((feed.held[id] for feed in self._all if id in feed.held), None)

    def parted(self, pairs: Sequence[tuple[Any, Outcome]]) -> list[tuple[Feed, Sequence[tuple[Any, Outcome]]]]:
        """Works with their outcomes, by where they came from."""
        if len(self._all) == 1:
            return [(self._all[0], pairs)] if pairs else []
        parts: dict[int, list[tuple[Any, Outcome]]] = {}
        for pair in pairs:
            parts.setdefault(pair[0].feed, []).append(pair)
        return [(self._all[index], part) for index, part in parts.items()]
