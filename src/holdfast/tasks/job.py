"""What `enqueue` returns: a handle to one job, wherever it is. Its one rule: it holds no state, it asks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Generic, NoReturn, TypeVar, overload

import msgspec

from holdfast.client import Client
from holdfast.engine.model import Look
from holdfast.engine.store import Store
from holdfast.errors import JobCancelled, JobDead, JobExpired, JobNotFound, PayloadError, ResultTimeout
from holdfast.tasks.ends import seconds
from holdfast.tasks.envelope import ended_record, open_record
from holdfast.tasks.source import ENDED_TTL_MS
from holdfast.tasks.step import Line, Progress, open_note
from holdfast.wire.call import Call

R = TypeVar("R")
Decode = Callable[[bytes | msgspec.Raw], Any]


class Job(Generic[R]):
    """One job.

    Example:
        >>> job = add.enqueue(1, 2)
        >>> job.status()
        'queued'
        >>> job.result(timeout=5)
        3
    """

    __slots__ = ("_client", "_decode", "_known", "_store", "id", "new")

    def __init__(
        self, client: Client, store: Store, id: str, decode: Callable[[], Decode], *, known: bool, new: bool = True
    ) -> None:
        self._client = client
        self._store = store
        self._decode = decode
        # Whoever put a job knows that it was there: if no trace is left of it, it is done and kept no result.
        self._known = known
        self.id = id
        #: False when a job with the same unique name was there already: then this is that one.
        self.new = new

    @property
    def queue(self) -> str:
        """The queue that the job is in."""
        return self._store.partition.queue

    def status(self) -> str:
        """scheduled, queued, waiting (behind its key), running, done, dead, cancelled or expired."""
        return self._status(self._client.run(self._store.look(self.id)))

    async def astatus(self) -> str:
        """The same, awaited."""
        return self._status(await self._client.arun(self._store.look(self.id)))

    def result(self, timeout: float | timedelta | None = None) -> R:
        """What the job returned, as soon as it has; at most *timeout* seconds from now.

        Raises `JobDead`, `JobCancelled` or `JobExpired` if it ended without a result, `ResultTimeout` if it goes on.
        """
        return self._value(self._client.wait(self._store, self.id, _seconds(timeout)), timeout)

    async def aresult(self, timeout: float | timedelta | None = None) -> R:  # noqa: ASYNC109 - the public contract
        """The same, awaited."""
        return self._value(await self._client.await_end(self._store, self.id, _seconds(timeout)), timeout)

    def cancel(self, reason: str = "") -> bool:
        """Keep the job from running, or ask it to stop if it runs; whether there was anything left to cancel."""
        return self._client.run(self._cancel(reason)) != ["gone"]

    async def acancel(self, reason: str = "") -> bool:
        """The same, awaited."""
        return await self._client.arun(self._cancel(reason)) != ["gone"]

    def revive(self) -> bool:
        """Bring it back from the dead with all its retries; whether it was dead."""
        return self._client.run(self._store.revive([self.id])) == ["revived"]

    async def arevive(self) -> bool:
        """The same, awaited."""
        return await self._client.arun(self._store.revive([self.id])) == ["revived"]

    def progress(self) -> Progress | None:
        """How far it is by its own word, while it runs and if it has said so.

        Example:
            >>> job.progress()
            Progress(share=0.4, text='4 of 10 pages')
        """
        return _progress(self._client.run(self._store.look(self.id)))

    async def aprogress(self) -> Progress | None:
        """The same, awaited."""
        return _progress(await self._client.arun(self._store.look(self.id)))

    def logs(self) -> list[Line]:
        """What its last run has logged; a hundred lines at most, as long as the job or its result is there."""
        return _log(self._client.run(self._store.look(self.id)))

    async def alogs(self) -> list[Line]:
        """The same, awaited."""
        return _log(await self._client.arun(self._store.look(self.id)))

    def __repr__(self) -> str:
        return f"<Job {self.id} in {self.queue}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Job) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)

    def _cancel(self, reason: str) -> Call[list[str]]:
        return self._store.cancel([self.id], ended_record("cancelled", reason), ENDED_TTL_MS)

    def _status(self, look: Look) -> str:
        if look.place == "ended":
            return open_record(look.record).status
        if look.place == "gone":
            self._check_known()
            return "done"
        return _word(look)

    def _value(self, look: Look, timeout: float | timedelta | None) -> R:
        if look.place == "ended":
            record = open_record(look.record)
            if record.status != "done":
                raise_end(self.id, record.status, record.reason)
            return self._decoded(record.result)
        if look.place == "gone":
            self._check_known()
            return None  # type: ignore[return-value] # a task that returns nothing keeps nothing
        if look.place in ("dead", "broken"):
            raise JobDead(self.id, look.error.partition("\n")[0])
        raise ResultTimeout(f"job {self.id} is still {_word(look)} after {_seconds(timeout) or 0:g} s; it goes on")

    def _decoded(self, result: msgspec.Raw) -> R:
        try:
            value: R = self._decode()(result)
        except msgspec.ValidationError as error:
            raise PayloadError(f"job {self.id} returned what its task's annotation does not say: {error}") from None
        return value

    def _check_known(self) -> None:
        if not self._known:
            raise not_found(self.id)


class Jobs(Sequence[Job[R]]):
    """Many jobs, in the order in which they were put.

    A million of them are a million ids: a handle is made when it is asked for.
    """

    __slots__ = ("_ids", "_make", "_others", "_stores")

    def __init__(
        self, make: Callable[[Store, str, str], Job[R]], stores: Sequence[Store], ids: Sequence[str],
        others: Mapping[str, str],
    ) -> None:  # fmt: skip
        self._make = make
        self._stores = stores
        self._ids = ids
        # The ids that stood in the way of some: a job with the same unique name.
        self._others = others

    def __len__(self) -> int:
        return len(self._ids)

    @overload
    def __getitem__(self, index: int) -> Job[R]: ...

    @overload
    def __getitem__(self, index: slice) -> Jobs[R]: ...

    def __getitem__(self, index: int | slice) -> Job[R] | Jobs[R]:
        if isinstance(index, slice):
            return Jobs(self._make, self._stores[index], self._ids[index], self._others)
        id = self._ids[index]
        return self._make(self._stores[index], id, self._others.get(id, ""))

    def __add__(self, other: Iterable[Job[R]]) -> list[Job[R]]:
        return [*self, *other]

    def __repr__(self) -> str:
        return f"<{len(self)} jobs>"


def not_found(id: str) -> JobNotFound:
    """The error for a job of which there is no trace."""
    return JobNotFound(
        f"there is no job {id:.60}: it never existed, or it ended and no result is kept of it (any more)"
    )


def raise_end(id: str, status: str, reason: str) -> NoReturn:
    """The error for a job that ended without a result."""
    raise {"cancelled": JobCancelled, "expired": JobExpired}.get(status, JobDead)(id, reason)


def _progress(look: Look) -> Progress | None:
    # What it said before it was interrupted is not where it is now.
    return open_note(look.note).progress if look.note and look.place == "running" else None


def _log(look: Look) -> list[Line]:
    if look.record:
        return open_record(look.record).log
    return open_note(look.note).log if look.note else []


def _word(look: Look) -> str:
    # What no worker can read is dead to its user; the quarantine is the operator's.
    return "dead" if look.place == "broken" else look.place


def _seconds(timeout: float | timedelta | None) -> float | None:
    return None if timeout is None else seconds("timeout", timeout)
