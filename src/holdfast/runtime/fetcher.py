"""The only loop of a child that asks for work. One turn: commit what ended, claim what fits, hand it over.

Its one rule: what ended and what is claimed travel in one round trip, and while it travels the threads go on with what
is here already.
"""

from __future__ import annotations

import os
import select
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

from holdfast.clock import mono_s
from holdfast.engine.keys import Partition
from holdfast.engine.model import Claimed
from holdfast.engine.store import Store
from holdfast.errors import Cancelled, HoldfastError, Unavailable
from holdfast.events import emit, warn
from holdfast.runtime.executor import Executor
from holdfast.runtime.feed import Feed
from holdfast.runtime.pace import MOST, PATIENCE_S, Pace
from holdfast.runtime.relay import relay
from holdfast.runtime.slots import Slots
from holdfast.settings import WorkerSettings
from holdfast.wire.call import Call
from holdfast.wire.connect import Address
from holdfast.wire.sync import Ear, Link
from holdfast.work import Outcome, Source, Work

#: The net below the bells: should one be lost, work waits this long at most.
POLL_S = 1.0
#: While there is enough to run, ends are gathered for this long before they are committed.
LINGER_S = 0.002
#: Jobs that are interrupted at the end of a stop have this long to clean up.
UNWIND_S = 1.0
#: How long this child makes itself empty for a job that must run alone, and how long it lets others come first then.
DRAIN_S, DRAIN_PAUSE_S = 1.0, 5.0


class Gone(Exception):  # noqa: N818 - no error: others have taken over what this child held
    """This child was taken for dead; nothing that it holds is its own any more."""


class Refused:
    """An entry that is not to be run, on its way back."""

    __slots__ = ("entry", "feed", "hold")

    def __init__(self, feed: int, entry: bytes, hold: bytes) -> None:
        self.feed = feed
        self.entry = entry
        self.hold = hold


class Fetcher:
    """Feeds the threads of one child."""

    def __init__(
        self, address: Address, token: str, ranks: Sequence[Sequence[Store]], source: Source,
        settings: WorkerSettings, slots: Slots, control: int, async_share: float,
    ) -> None:  # fmt: skip
        self._link = Link(address)
        self._ear = Ear(address)
        self._token = token
        self._ranks: list[deque[Feed]] = []
        self._feeds: list[Feed] = []
        self._by_bell: dict[str, Feed] = {}
        for rank in ranks:
            self._add_rank(rank)
        self._source = source
        self._settings = settings
        self._executor = Executor(settings, slots, self._report, async_share)
        self._pace = Pace()
        self._handed_s = 0.0
        self._ended: deque[tuple[Any, Outcome]] = deque()
        self._refused: list[tuple[Any, Outcome]] = []
        self._asleep = False
        self._control = control
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        self._is_listening = False
        self._alone = False
        self._drain_from_s = 0.0
        self._poll_s = mono_s() + POLL_S
        self._stop_s = float("inf")
        self._is_stopping = False
        self._is_abandoning = False

    # -- the loop ---------------------------------------------------------------------------------

    def run(self) -> None:
        """Work until told to stop, or in a drain until nothing is left."""
        while not self._is_over():
            ended = self._collect()
            claim = self._next_claim()
            if claim is None and ended and self._executor.waiting and not self._is_stopping:
                self._wait(LINGER_S, for_ends=False)
                ended += self._collect()
                claim = self._next_claim()
            if ended or claim:
                self._turn(ended, claim)
            else:
                self._wait(self._pause())
            self._look_at_the_clock()
        self._link.close()
        self._ear.close()

    def _add_rank(self, stores: Sequence[Store]) -> None:
        """Another queue, to be asked after those that are here."""
        first = len(self._feeds)
        feeds = [Feed(first + i, store, self._token) for i, store in enumerate(stores)]
        self._ranks.append(deque(feeds))
        self._feeds += feeds
        self._by_bell.update((feed.bell, feed) for feed in feeds)
        self._is_listening = False

    def stop(self, timeout_s: float) -> None:
        """Take nothing new, give back what has not started, end when the rest has ended or the time is over."""
        self._is_stopping = True
        self._stop_s = min(self._stop_s, mono_s() + timeout_s)

    @property
    def in_hand(self) -> int:
        """How many jobs this child holds."""
        return sum(len(feed.held) for feed in self._feeds)

    def _is_over(self) -> bool:
        if self._is_stopping or (self._settings.drain and not any(feed.is_hungry for feed in self._feeds)):
            return not self.in_hand and not self._refused
        return False

    def _turn(self, ended: list[tuple[Any, Outcome]], claim: tuple[Feed, int, bool] | None) -> None:
        groups = self._by_feed(ended)
        commits = [call for feed, part in groups for call in feed.commits(part)]
        calls: list[Call[Any]] = list(commits)
        if claim is not None:
            feed, limit, alone = claim
            calls.append(feed.store.claim(feed.token, limit, alone))
        try:
            self._link.send(calls)
            answers = self._link.receive()
        except Unavailable as error:
            warn("server.away", error=error)
            answers = self._insist(commits)
            claim = None
        for feed_, part in groups:
            feed_.let_go(part)
        self._note_lost(answers[: len(commits)])
        if claim is not None:
            self._accept(claim[0], answers[-1], claim[1], alone=claim[2])
        self._pace.note(len(ended), mono_s())
        self._relay()

    def _collect(self) -> list[tuple[Any, Outcome]]:
        """What has ended since the last turn."""
        works: list[tuple[Any, Outcome]] = []
        ended = self._ended
        try:
            while len(works) < MOST:
                works.append(ended.popleft())
        except IndexError:
            pass
        if works:
            self._executor.ended([work for work, _ in works])
        if self._is_abandoning:
            # What our own interruption made of a job is no failure of it.
            self._give_back([work for work, outcome in works if outcome.verdict != "done"])
            works = [pair for pair in works if pair[1].verdict == "done"]
        if self._refused:
            works += self._refused
            self._refused = []
        return works

    def _by_feed(self, ended: list[tuple[Any, Outcome]]) -> list[tuple[Feed, list[tuple[Any, Outcome]]]]:
        if len(self._feeds) == 1:
            return [(self._feeds[0], ended)] if ended else []
        groups: dict[int, list[tuple[Any, Outcome]]] = {}
        for pair in ended:
            groups.setdefault(pair[0].feed, []).append(pair)
        return [(self._feeds[index], part) for index, part in groups.items()]

    # -- claiming ---------------------------------------------------------------------------------

    def _next_claim(self) -> tuple[Feed, int, bool] | None:
        """Whom to ask, for how many, and whether for one that must run alone."""
        if self._is_stopping:
            return None
        if self._alone:
            if self.in_hand:
                return None
            self._alone = False
        suspects = next((feed for feed in self._feeds if feed.has_suspects), None)
        if suspects is not None:
            now = mono_s()
            if not self.in_hand:
                return suspects, 1, True
            if self._drain_from_s + DRAIN_S + DRAIN_PAUSE_S < now:
                self._drain_from_s = now
            if now < self._drain_from_s + DRAIN_S:
                return None
        ahead = self._pace.ahead
        room = min(self._executor.room(ahead), MOST)
        if room < max(1, ahead // 2):
            return None
        feed = self._hungry_feed()
        return None if feed is None else (feed, room, False)

    def _hungry_feed(self) -> Feed | None:
        for rank in self._ranks:
            for _ in range(len(rank)):
                feed = rank[0]
                # The partitions of one queue take turns; queues do not.
                rank.rotate(-1)
                if feed.is_hungry:
                    return feed
        return None

    def _accept(self, feed: Feed, claimed: Claimed | HoldfastError, limit: int, *, alone: bool = False) -> None:
        if isinstance(claimed, HoldfastError):
            warn("claim.failed", partition=feed.store.partition, error=claimed)
            feed.is_hungry = False
            return
        if claimed.word == "gone":
            raise Gone
        if claimed.word == "paused":
            feed.is_hungry = False
            return
        feed.has_suspects = claimed.suspects > 0
        if not claimed.ids:
            feed.is_hungry = False
            if claimed.next_due >= 0:
                feed.due_s = mono_s() + max(claimed.next_due - claimed.now, 0) / 1000
            return
        self._alone = alone
        self._open(feed, claimed)

    def _open(self, feed: Feed, claimed: Claimed) -> None:
        works: list[Work] = []
        partition, now, index = feed.store.partition, claimed.now, feed.index
        open_ = self._source.open
        columns = zip(claimed.ids, claimed.fences, claimed.envelopes, claimed.marks, strict=True)
        for entry, hold, envelope, marks in columns:
            work = open_(partition, entry, hold, envelope, marks, now)
            if isinstance(work, Outcome):
                self._refused.append((Refused(index, entry, hold), work))
            else:
                work.feed = index
                works.append(work)
        self._handed_s = mono_s()
        if not self.in_hand:
            self._pace.begin(self._handed_s)
        feed.take(works)
        self._executor.hand_over(works)

    def _report(self, work: Work, outcome: Outcome) -> None:
        """A thread says that a job has ended."""
        self._ended.append((work, outcome))
        if self._asleep:
            self._asleep = False
            os.write(self._wake_write, b".")

    def _note_lost(self, answers: Iterable[Any]) -> None:
        for answer in answers:
            if isinstance(answer, HoldfastError):
                warn("commit.failed", error=answer)
            elif answer == "lost":
                warn("job.lost", reason="somebody else had taken it over")
            elif isinstance(answer, tuple) and answer:
                warn("job.lost", ids=",".join(answer), reason="somebody else had taken them over")

    # -- when the server was away -----------------------------------------------------------------

    def _insist(self, commits: Sequence[Call[Any]]) -> list[Any]:
        """Repeat what may not have arrived, then ask what this child holds: a claim's answer may be lost."""
        while True:
            try:
                answers = self._link.run_many(commits) if commits else []
                for feed in self._feeds:
                    self._recall(feed)
            except Unavailable as error:
                warn("server.away", error=error)
                self._hear_control()
                if mono_s() > self._stop_s + UNWIND_S:
                    raise
            else:
                emit("server.back")
                self._is_listening = False
                return answers

    def _recall(self, feed: Feed) -> None:
        held = self._link.run(feed.store.recall(feed.token))
        if held.word == "gone":
            raise Gone
        unknown = [i for i, entry in enumerate(held.ids) if entry not in feed.held]
        known = {work.entry for work, _ in self._refused}
        unknown = [i for i in unknown if held.ids[i] not in known]
        self._open(
            feed,
            held._replace(
                ids=[held.ids[i] for i in unknown],
                fences=[held.fences[i] for i in unknown],
                envelopes=[held.envelopes[i] for i in unknown],
                marks=[held.marks[i] for i in unknown],
            ),
        )
        feed.is_hungry = True

    # -- waiting ----------------------------------------------------------------------------------

    def _pause(self) -> float:
        """How long nothing will happen that nobody tells us."""
        now = mono_s()
        next_s = min(self._poll_s, self._stop_s, *(feed.due_s for feed in self._feeds))
        if self._executor.waiting:
            next_s = min(next_s, now + PATIENCE_S / 2)
        return max(next_s - now, 0.0)

    def _wait(self, timeout_s: float, *, for_ends: bool = True) -> None:
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(self._wake_read, select.POLLIN)
        ear = self._listening_ear()
        if ear >= 0:
            poll.register(ear, select.POLLIN)
        self._asleep = for_ends
        if for_ends and self._ended:
            timeout_s = 0.0
        # Rounded up: a scheduled job must not make this loop spin through the last millisecond.
        ready = {fd for fd, _ in poll.poll(int(timeout_s * 1000) + 1 if timeout_s else 0)}
        self._asleep = False
        if self._wake_read in ready:
            os.read(self._wake_read, 4096)
        if self._control in ready:
            self._hear_control()
        if ear in ready:
            self._hear_bells()

    def _listening_ear(self) -> int:
        try:
            if not self._is_listening:
                self._ear.close()
                self._ear.listen(*self._by_bell, *(feed.wishes for feed in self._feeds))
                self._is_listening = True
                self._get_hungry()
            return self._ear.fileno()
        except Unavailable:
            return -1

    def _hear_bells(self) -> None:
        try:
            while (message := self._ear.hear(0)) is not None:
                channel, text = message
                feed = self._by_bell.get(channel)
                if feed is None:
                    self.cancel(text)
                else:
                    self._rung(feed)
        except Unavailable:
            self._is_listening = False

    def _rung(self, feed: Feed) -> None:
        feed.is_hungry = True
        if not self._is_stopping and self._next_claim() is None:
            # No room: another worker shall have it.
            self._link.run(feed.store.claim(feed.token, 0))

    def _hear_control(self) -> None:
        if not select.select([self._control], [], [], 0)[0]:
            return
        said = os.read(self._control, 65536)
        if not said:
            # The supervisor is gone, and with it whoever renews our lease.
            os._exit(1)
        for line in said.decode().splitlines():
            word, _, rest = line.partition(" ")
            if word == "stop":
                self.stop(float(rest))
            elif word == "cancel":
                self.cancel(rest)
            elif word == "feed":
                queue, count = rest.split()
                namespace = self._feeds[0].store.partition.namespace
                self._add_rank([Store(Partition(namespace, queue, index)) for index in range(int(count))])

    def cancel(self, id: str) -> None:
        """Somebody wants this job to stop."""
        for feed in self._feeds:
            work = feed.held.get(id.encode())
            if work is not None and not work.wish:
                work.wish = True
                self._executor.interrupt(work, Cancelled)

    def _get_hungry(self) -> None:
        for feed in self._feeds:
            feed.is_hungry = True

    def _look_at_the_clock(self) -> None:
        now = mono_s()
        for feed in self._feeds:
            if feed.due_s <= now:
                feed.due_s = float("inf")
                feed.is_hungry = True
        if self._poll_s <= now and not self._settings.drain:
            self._poll_s = now + POLL_S
            self._get_hungry()
        if self._executor.waiting:
            self._mind_the_waiting(now)
        if self._stop_s <= now:
            self._abandon(now)

    def _mind_the_waiting(self, now: float) -> None:
        """What would wait here for long goes back, so that a neighbour may have it."""
        if self._is_stopping:
            self._give_back(self._executor.take_back(MOST))
        elif self._handed_s + PATIENCE_S <= now:
            self._pace.note(0, now)
            self._give_back(self._executor.take_back(self._executor.waiting - self._pace.patience))

    def _abandon(self, now: float) -> None:
        """Time is up: interrupt what runs, and give back what does not heed it."""
        if not self._is_abandoning:
            self._is_abandoning = True
            self._stop_s = now + UNWIND_S
            self._executor.interrupt(None, Cancelled)
            return
        for feed in self._feeds:
            self._give_back(list(feed.held.values()))

    def _give_back(self, works: list[Work]) -> None:
        for feed in self._feeds:
            own = [work for work in works if work.feed == feed.index]
            for start in range(0, len(own), MOST):
                part = own[start : start + MOST]
                self._link.run_many(feed.release(part))
                for work in part:
                    feed.held.pop(work.entry, None)

    def _relay(self) -> None:
        for feed in self._feeds:
            if feed.has_outgoing:
                try:
                    feed.has_outgoing = not relay(self._link, feed.store)
                except Unavailable:
                    # It stays in the outbox; the supervisor looks there as well.
                    feed.has_outgoing = False
