"""The only loop of a child that asks for work. One turn: commit what ended, claim what fits, hand it over.

Its one rule: what ended and what is claimed travel in one round trip, and the next ones are on their way before what
the last one brought is opened: so the disk, the server, this loop and the threads all work at the same time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from holdfast.clock import mono_s
from holdfast.engine.model import Claimed
from holdfast.engine.store import Store
from holdfast.errors import Cancelled, HoldfastError, Unavailable
from holdfast.events import emit, warn
from holdfast.runtime.executor import Executor
from holdfast.runtime.feeds import Feed, Feeds
from holdfast.runtime.pace import MOST, PATIENCE_S, Pace
from holdfast.runtime.relay import relay
from holdfast.runtime.senses import Heard, Senses
from holdfast.runtime.slots import Slots
from holdfast.settings import WorkerSettings
from holdfast.wire.answer import available
from holdfast.wire.call import Call
from holdfast.wire.connect import Address
from holdfast.wire.sync import Link
from holdfast.work import PLAIN, Outcome, Source, Work

#: The net below the bells: should one be lost, work waits this long at most.
POLL_S = 1.0
#: While there is enough to run, ends are gathered for this long before they are committed.
LINGER_S = 0.002
#: What jobs say of themselves is fetched this often at the most.
NOTE_S = 0.2
#: So many turns may be under way: while one waits for the disk, the next one is at the server already.
TURNS = 2
#: A claim asks for this many at the most: a share for each turn, one to open and one to run.
SHARE = MOST // (TURNS + 2)
#: So many jobs are opened before the next turn is sent: it would take longer than they do.
FEW = 20
#: Jobs that are interrupted at the end of a stop have this long to clean up.
UNWIND_S = 1.0
#: How long this child makes itself empty for a job that must run alone, and how long it lets others come first then.
DRAIN_S, DRAIN_PAUSE_S = 1.0, 5.0

Pair = tuple[Any, Outcome]


class Gone(Exception):
    """This child was taken for dead; nothing that it holds is its own any more."""


class Refused:
    """An entry that is not to be run, on its way back."""

    __slots__ = ("entry", "feed", "hold")

    def __init__(self, feed: int, entry: bytes, hold: bytes) -> None:
        self.feed = feed
        self.entry = entry
        self.hold = hold


class Claim(NamedTuple):
    """Whom to ask, for how many, and whether for one that must run alone."""

    feed: Feed
    limit: int
    alone: bool = False


class Turn(NamedTuple):
    """What travels together: what has ended, by where it came from, and a claim."""

    parts: list[tuple[Feed, Sequence[Pair]]]
    commits: list[Call[Any]]
    claim: Claim | None

    def and_then(self, later: Iterable[Turn]) -> Turn:
        """What these commit as well, in one turn that claims nothing."""
        turns = (self, *later)
        return Turn([part for turn in turns for part in turn.parts], [c for turn in turns for c in turn.commits], None)


class Fetcher:
    """Feeds the threads of one child.

    Example:
        >>> Fetcher(address, token, [[store]], app.source(), settings, Slots(105), control, 0.0).run()
    """

    def __init__(
        self, address: Address, token: str, ranks: Sequence[Sequence[Store]], source: Source,
        settings: WorkerSettings, slots: Slots, control: int, async_share: float,
    ) -> None:  # fmt: skip
        self._link = Link(address)
        #: For what must not wait for the turns that are under way.
        self._aside = Link(address)
        self._senses = Senses(address, control)
        self._feeds = Feeds(token)
        for rank in ranks:
            self._feeds.add(rank)
        self._listen()
        self._source = source
        source.wake = self._senses.wake
        self._note_s = 0.0
        self._settings = settings
        self._executor = Executor(settings, slots, self._report, async_share)
        self._pace = Pace()
        self._ended: deque[Pair] = deque()
        self._refused: list[Pair] = []
        self._uncommitted: list[Pair] = []
        self._commit_s = 0.0
        #: The oldest first.
        self._under_way: deque[Turn] = deque()
        #: How many jobs a claim has brought that are not opened yet.
        self._arriving = 0
        self._handed_s = 0.0
        self._alone = False
        self._drain_from_s = 0.0
        self._poll_s = mono_s() + POLL_S
        self._recall_s = float("inf")
        self._stop_s = float("inf")
        self._is_stopping = False
        self._is_abandoning = False
        self._has_abandoned = False

    # -- the loop ---------------------------------------------------------------------------------

    def run(self) -> None:
        """Work until told to stop, or in a drain until nothing is left."""
        # Whoever claims must hear already that somebody cancels.
        self._heed(self._senses.wait(0.0, for_ends=False))
        has_sent = False
        while not self._is_over():
            arrived = None if has_sent and len(self._under_way) < TURNS else self._arrive()
            if arrived and self._arriving <= FEW:
                self._open(*arrived)
                arrived = None
            self._collect()
            has_sent = self._send()
            if arrived:
                self._open(*arrived)
            if self._under_way:
                self._heed(self._senses.wait(0.0, for_ends=False))
            elif not self._is_over():
                self._wait()
            self._look_at_the_clock()
        for closable in (self._link, self._aside, self._senses):
            closable.close()

    def stop(self, timeout_s: float) -> None:
        """Take nothing new, give back what has not started, end when the rest has ended or the time is over."""
        self._is_stopping = True
        self._stop_s = min(self._stop_s, mono_s() + timeout_s)
        self._senses.poke()

    @property
    def in_hand(self) -> int:
        """How many jobs this child holds."""
        return self._feeds.in_hand + self._arriving

    def _is_over(self) -> bool:
        is_done = self._settings.drain and not (self._feeds.are_hungry or self._feeds.suspicious())
        if self._is_stopping or is_done:
            in_hand = self.in_hand and not self._has_abandoned
            return not (in_hand or self._uncommitted or self._refused or self._under_way)
        return False

    def _send(self) -> bool:
        """Send the next turn, if there is one; what has ended may wait for the answers that are on their way."""
        # What became of the turns before is asked first.
        if self._recall_s <= mono_s() or (self._under_way and not self._link.is_connected):
            return False
        claim = self._next_claim()
        if not claim and (self._under_way or not (self._is_time_to_commit() or self._is_time_for_notes())):
            return False
        parts = self._feeds.parted(self._uncommitted)
        self._uncommitted = []
        # Before what ends, so that nothing is noted of what has.
        commits = self._notes() if self._is_time_for_notes() else []
        commits += [call for feed, part in parts for call in feed.commits(part)]
        calls: list[Call[Any]] = list(commits)
        if claim:
            calls.append(claim.feed.claim(claim.limit, claim.alone))
            self._alone = claim.alone
        self._under_way.append(Turn(parts, commits, claim))
        # Whoever waits for the answers will miss them, and ask again before anything else is sent.
        with suppress(Unavailable):
            self._link.send(calls)
        return True

    def _arrive(self) -> tuple[Feed, Claimed] | None:
        """The answers to the oldest turn; what its claim brought is yet to be opened."""
        if not self._under_way:
            return None
        turn = self._under_way.popleft()
        try:
            answers = available(self._link.receive())
        except Unavailable as error:
            warn("server.away", error=error)
            turn = turn.and_then(self._under_way)
            self._under_way.clear()
            answers = self._insist(turn.commits)
        for feed, part in turn.parts:
            feed.let_go(part)
        if self._settings.drain and turn.parts:
            # What has ended may have left something behind: whoever stood in line, or what it brought.
            self._feeds.wake()
        self._note_lost(answers[: len(turn.commits)])
        self._relay(turn.parts)
        return self._note(turn.claim, answers[-1]) if turn.claim else None

    def _collect(self) -> None:
        """Take note of what has ended."""
        works: list[Pair] = []
        ended = self._ended
        try:
            while len(works) < MOST:
                works.append(ended.popleft())
        except IndexError:
            pass
        if works:
            now = mono_s()
            self._executor.ended([work for work, _ in works])
            self._pace.note(len(works), now)
            if self._executor.is_empty:
                self._pace.rest(now)
        if self._is_abandoning:
            # What our own interruption made of a job is no failure of it.
            self._give_back([work for work, outcome in works if outcome.verdict != "done"])
            works = [pair for pair in works if pair[1].verdict == "done"]
        if self._refused:
            works += self._refused
            self._refused = []
        if works and not self._uncommitted:
            self._commit_s = mono_s() + LINGER_S
        self._uncommitted += works

    def _is_time_to_commit(self) -> bool:
        """While there is enough to run, ends wait for others, so that fewer calls carry them."""
        is_time = not self._executor.waiting or self._is_stopping or self._commit_s <= mono_s()
        return is_time and bool(self._uncommitted)

    def _is_time_for_notes(self) -> bool:
        return bool(self._source.said) and self._note_s <= mono_s()

    def _notes(self) -> list[Call[Any]]:
        self._note_s = mono_s() + NOTE_S
        said = self._source.said
        leaving = {work.entry for turn in self._under_way for _, part in turn.parts for work, _ in part}
        works = [work for work in (said.popleft() for _ in range(len(said))) if work.entry not in leaving]
        return [call for feed in self._feeds for call in feed.notes(w for w in works if w.feed == feed.index)]

    # -- claiming ---------------------------------------------------------------------------------

    def _claims(self) -> list[Claim]:
        """Those that are under way."""
        return [turn.claim for turn in self._under_way if turn.claim]

    def _next_claim(self) -> Claim | None:
        if self._is_stopping:
            return None
        claims = self._claims()
        coming = sum(claim.limit for claim in claims)
        in_hand = self.in_hand + coming
        if self._alone and in_hand:
            return None
        suspicious = self._feeds.suspicious()
        if suspicious is not None:
            now = mono_s()
            if not in_hand:
                return Claim(suspicious, 1, alone=True)
            if self._drain_from_s + DRAIN_S + DRAIN_PAUSE_S < now:
                self._drain_from_s = now
            if now < self._drain_from_s + DRAIN_S:
                return None
        ahead = self._pace.ahead
        room = min(self._executor.room(ahead) - self._arriving - coming, SHARE)
        if room < max(1, min(ahead // 2, SHARE)):
            return None
        feed = self._feeds.hungry(besides=[claim.feed for claim in claims if not claim.feed.has_plenty])
        return None if feed is None else Claim(feed, room)

    def _note(self, claim: Claim, claimed: Claimed | HoldfastError) -> tuple[Feed, Claimed] | None:
        """What the answer to a claim says beside the entries, if it brings any."""
        feed = claim.feed
        if isinstance(claimed, HoldfastError):
            warn("claim.failed", partition=feed.store.partition, error=claimed)
            feed.is_hungry = False
            return None
        if claimed.word == "gone":
            raise Gone
        feed.answered(claimed, claim.limit)
        if not claimed.ids:
            if feed.has_news:
                self._answer(feed)
            return None
        self._arriving = len(claimed.ids)
        return feed, claimed

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
        self._pace.begin(self._handed_s)
        feed.take(works)
        self._arriving = 0
        if self._is_stopping:
            self._give_back(works)
        else:
            self._executor.hand_over(works)

    def _report(self, work: Work, outcome: Outcome) -> None:
        """A thread says that a job has ended."""
        self._ended.append((work, outcome))
        self._senses.wake()

    def _note_lost(self, answers: Iterable[Any]) -> None:
        for answer in answers:
            if isinstance(answer, HoldfastError):
                warn("commit.failed", error=answer)
            elif answer == "lost":
                warn("job.lost", reason="somebody else had taken it over")
            elif isinstance(answer, tuple) and answer:
                warn("job.lost", ids=",".join(answer), reason="somebody else had taken them over")

    def _relay(self, parts: Sequence[tuple[Feed, Sequence[Pair]]]) -> None:
        for feed, _ in parts:
            if feed.has_outgoing:
                feed.has_outgoing = False
                try:
                    relay(self._aside, feed.store)
                except Unavailable as error:
                    # It stays in the outbox, and the supervisors look there as well.
                    warn("outbox.waits", partition=feed.store.partition, error=error)

    # -- when the server was away -----------------------------------------------------------------

    def _insist(self, commits: Sequence[Call[Any]]) -> list[Any]:
        """Repeat what may not have arrived, then ask what this child holds: a claim's answer may be lost."""
        answers = self._repeat(self._link, commits)
        self._recall_all()
        emit("server.back")
        self._senses.reconnect()
        self._recall_s = mono_s() + self._link.address.timeout_s
        return answers

    def _repeat(self, link: Link, calls: Sequence[Call[Any]]) -> list[Any]:
        """Run calls until they are answered, however long the server is away; only a stop ends it."""
        while True:
            try:
                return link.run_each(calls) if calls else []
            except Unavailable as error:
                warn("server.away", error=error)
                self._heed(self._senses.control())
                if mono_s() > self._stop_s + UNWIND_S:
                    raise

    def _recall_all(self) -> None:
        recalled = self._repeat(self._link, [feed.recall() for feed in self._feeds])
        for feed, held in zip(self._feeds, recalled, strict=True):
            self._recall(feed, held)

    def _recall(self, feed: Feed, held: Claimed | HoldfastError) -> None:
        if isinstance(held, HoldfastError):
            warn("recall.failed", partition=feed.store.partition, error=held)
            return
        if held.word == "gone":
            raise Gone
        known = {work.entry for work, _ in (*self._refused, *self._uncommitted)}
        unknown = [i for i, entry in enumerate(held.ids) if entry not in feed.held and entry not in known]
        self._open(
            feed,
            held._replace(
                ids=[held.ids[i] for i in unknown],
                fences=[held.fences[i] for i in unknown],
                envelopes=[held.envelopes[i] for i in unknown],
                marks=[held.marks[i] for i in unknown],
            ),
        )
        feed.wake()

    # -- waiting ----------------------------------------------------------------------------------

    def _wait(self) -> None:
        """Until something happens, or should be looked at."""
        now = mono_s()
        next_s = min(self._poll_s, self._stop_s, self._recall_s, self._feeds.next_due_s)
        if self._executor.waiting:
            next_s = min(next_s, now + PATIENCE_S / 2)
        if self._refused:
            next_s = now
        if self._source.said:
            next_s = min(next_s, self._note_s)
        if self._uncommitted:
            self._heed(self._senses.wait(max(min(next_s, self._commit_s) - now, 0.0), for_ends=False))
        else:
            self._heed(self._senses.wait(max(next_s - now, 0.0), for_ends=True, has_ends=self._ended))

    def _listen(self) -> None:
        self._senses.listen(self._feeds.bells, "bell")
        self._senses.listen(self._feeds.wishes, "wish")

    def _heed(self, heard: Iterable[Heard]) -> None:
        for word, rest in heard:
            match word:
                case "bell":
                    self._answer(self._feeds.rung(rest))
                case "wish" | "cancel":
                    self._cancel(rest)
                case "stop":
                    self.stop(float(rest))
                case "feed":
                    queue, count = rest.split()
                    self._feeds.add_queue(queue, int(count))
                    self._listen()
                case "anew":
                    self._feeds.wake()

    def _answer(self, feed: Feed) -> None:
        """Somebody rang: come, or pass it on; where a claim is under way, its answer decides."""
        is_asked = any(claim.feed is feed for claim in self._claims())
        if not is_asked and self._next_claim() is None:
            with suppress(Unavailable):
                self._aside.run(feed.pass_on())

    def _cancel(self, id: str) -> None:
        """Somebody wants this job to stop."""
        work = self._feeds.find(id.encode())
        if work is not None and not work.wish:
            work.wish = True
            self._executor.interrupt(work, Cancelled)

    def _look_at_the_clock(self) -> None:
        now = mono_s()
        if self._recall_s <= now and not self._under_way:
            # A claim whose connection broke may have arrived after all, behind the first recall.
            self._recall_s = float("inf")
            self._recall_all()
        self._feeds.wake_due(now)
        if self._poll_s <= now and not self._settings.drain:
            self._poll_s = now + POLL_S
            self._feeds.wake()
        if self._executor.waiting:
            self._mind_the_waiting(now)
        if self._stop_s <= now:
            self._abandon(now)

    # -- giving back ------------------------------------------------------------------------------

    def _mind_the_waiting(self, now: float) -> None:
        """What would wait here for long goes back, so that a neighbour may have it."""
        if self._is_stopping:
            self._give_back(self._executor.take_back(MOST))
        elif self._handed_s + PATIENCE_S <= now:
            self._pace.note(0, now)
            self._give_back(self._executor.take_back(self._executor.waiting - self._pace.patience))

    def _abandon(self, now: float) -> None:
        """Time is up: interrupt what runs. What does not heed it ends with this process, and the supervisor gives it
        back when it can run no more.
        """
        if self._is_abandoning:
            self._has_abandoned = True
            return
        self._is_abandoning = True
        self._stop_s = now + UNWIND_S
        self._executor.interrupt(None, Cancelled)

    def _give_back(self, works: Sequence[Work]) -> None:
        for feed, part in self._feeds.parted([(work, PLAIN) for work in works]):
            self._repeat(self._aside, feed.release([work for work, _ in part]))
            feed.let_go(part)
