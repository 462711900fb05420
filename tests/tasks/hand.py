"""A worker without threads, which works when a test tells it to: the same source, the same verbs, no waiting."""

from __future__ import annotations

import asyncio
from typing import Any

from holdfast import Holdfast
from holdfast.engine.model import Look
from holdfast.ids import new_token
from holdfast.runtime.feeds import Feed
from holdfast.tasks.job import Job
from holdfast.tasks.source import Run
from holdfast.work import Outcome


class Refused:
    """An entry that is not to be run, with the reason."""

    def __init__(self, entry: bytes, hold: bytes) -> None:
        self.entry = entry
        self.hold = hold


class Hand:
    """One worker on one partition.

    Example:
        >>> hand = Hand(app)
        >>> hand.work()          # claim, run and commit whatever is ready; answers the outcomes
    """

    def __init__(self, app: Holdfast, queue: str = "default", index: int = 0) -> None:
        self.client = app.client
        self.store = app.client.store_at(queue, index)
        self.source = app.source()
        self.feed = Feed(0, self.store, new_token())
        self.client.run(self.store.renew(600_000, [self.feed.token], enlist=True))

    def take(self, limit: int = 100, alone: bool = False) -> list[Any]:
        """Claim; a `Run` each, or what is not to be run with its `Outcome`."""
        claimed = self.client.run(self.feed.claim(limit, alone))
        opened: list[Any] = []
        for row in zip(claimed.ids, claimed.fences, claimed.envelopes, claimed.marks, strict=True):
            work = self.source.open(self.store.partition, *row, claimed.now)
            opened.append((Refused(row[0], row[1]), work) if isinstance(work, Outcome) else work)
        self.feed.take(work for work in opened if isinstance(work, Run))
        return opened

    def work(self, limit: int = 100) -> list[Outcome]:
        """Claim, run, commit."""
        ended = [opened if isinstance(opened, tuple) else (opened, outcome_of(opened)) for opened in self.take(limit)]
        self.commit(ended)
        return [outcome for _, outcome in ended]

    def commit(self, ended: list[tuple[Any, Outcome]]) -> None:
        """Make these ends known."""
        for call in self.feed.commits(ended):
            self.client.run(call)
        self.feed.let_go(ended)

    def tell(self) -> None:
        """Tell the store what running jobs say of themselves."""
        for call in self.feed.notes(list(self.source.said)):
            self.client.run(call)
        self.source.said.clear()

    def later(self, seconds: float) -> None:
        """Let the server's clock run ahead."""
        with self.client._the_pool().link() as link:
            link.command("HINCRBY", self.store.partition.key("meta"), "skew", int(seconds * 1000))

    def look(self, job: Job[Any]) -> Look:
        """Where a job is."""
        return self.client.run(self.store.look(job.id))


def outcome_of(run: Run) -> Outcome:
    """Run it here and now."""
    token = run.enter()
    try:
        called = run.call(*run.args, **run.kwargs)
        value = asyncio.run(called) if run.is_async else called
    except Exception as error:
        return run.failed(error)
    finally:
        run.leave(token)
    return run.ended(value)
