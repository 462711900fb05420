"""A function that can be enqueued. Its one rule: options are said apart from the function's own arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property, update_wrapper
from hashlib import blake2b
from typing import Any, Generic, Literal, ParamSpec, TypedDict, TypeVar, Unpack

import msgspec

from holdfast.client import Client
from holdfast.clock import as_ms, wall_ms
from holdfast.engine.keys import checked_name
from holdfast.engine.model import Entry, Options, packed_options
from holdfast.engine.store import Store
from holdfast.errors import ArgumentError, DurabilityUncertain, OptionError, PayloadError, did_you_mean
from holdfast.ids import new_id, new_ids
from holdfast.settings import whole
from holdfast.tasks.current import required
from holdfast.tasks.definition import Definition
from holdfast.tasks.ends import MAX_DELAY_S, limit, seconds
from holdfast.tasks.envelope import head, seal, tail
from holdfast.tasks.job import Decode, Job, Jobs

P = ParamSpec("P")
R = TypeVar("R")
#: What calling the function gives: R itself, or a coroutine of it.
C = TypeVar("C")

Named = str | Callable[..., str]
MAX_NAME = 512
_NO_KWARGS: dict[str, Any] = {}


class Using(TypedDict, total=False):
    """The options of `using(...)`; `app.task(...)` takes them as well."""

    queue: str
    delay: float | timedelta | None
    run_at: datetime | None
    expires: float | timedelta | None
    priority: int
    at_front: bool
    key: Named | None
    unique: Named | Literal[True] | None
    on_failure: Literal["hold", "skip"]
    retries: int | None
    timeout: float | timedelta | None
    hard_timeout: float | timedelta | None
    result_ttl: float | timedelta | None


@dataclass(frozen=True)
class Placing:
    """How a job takes its place: what `using(...)` may say."""

    queue: str = "default"
    delay: float | timedelta | None = None
    run_at: datetime | None = None
    expires: float | timedelta | None = None
    priority: int = 0
    at_front: bool = False
    key: Named | None = None
    unique: Named | Literal[True] | None = None
    on_failure: Literal["hold", "skip"] = "hold"
    retries: int | None = None
    timeout: float | timedelta | None = None
    hard_timeout: float | timedelta | None = None
    result_ttl: float | timedelta | None = None

    def __post_init__(self) -> None:
        checked_name(self.queue, "a queue's name")
        # Two digits beyond this the order of jobs would no longer fit into a number of the store.
        whole("priority", self.priority, -1000, 1000)
        if self.delay is not None and self.run_at is not None:
            raise OptionError("delay and run_at exclude each other")
        if self.on_failure not in ("hold", "skip"):
            raise OptionError(f"on_failure must be 'hold' or 'skip', not {self.on_failure!r}")
        _ = self.options, self.overrides

    @cached_property
    def options(self) -> Options:
        """What the store needs to know; key and unique name come with the arguments."""
        return Options(
            delay=0 if self.delay is None else round(seconds("delay", self.delay) * 1000),
            at=0 if self.run_at is None else _instant(self.run_at),
            ttl=0 if self.expires is None else max(1, round(limit("expires", self.expires) * 1000)),
            priority=self.priority,
            front=bool(self.at_front),
            skip=self.on_failure == "skip",
        )

    @cached_property
    def overrides(self) -> dict[str, float]:
        """What this job has otherwise than its task."""
        said: dict[str, float] = {}
        if self.retries is not None:
            whole("retries", self.retries, 0, 1_000_000)
            said["retries"] = self.retries
        for name in ("timeout", "hard_timeout", "result_ttl"):
            value = getattr(self, name)
            if value is not None:
                said[name] = limit(name, value)
        return said


class Bound:
    """Arguments for one job, with names: what `bind` returns and `enqueue_many` takes."""

    __slots__ = ("args", "kwargs")

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.args = args
        self.kwargs = kwargs


class Task(Generic[P, R, C]):
    """A task: still the plain function when it is called, a job when it is enqueued.

    Example:
        >>> @app.task
        ... def add(a: int, b: int) -> int:
        ...     return a + b
        >>> add(1, 2)
        3
        >>> add.enqueue(1, 2).result(timeout=5)
        3
        >>> add.using(delay=60, queue="low").enqueue(1, b=2)
        <Job 05hq0h1bg0000f3k9a2c in low>
    """

    def __init__(self, client: Client, definition: Definition, placing: Placing) -> None:
        update_wrapper(self, definition.function)
        self._client = client
        self.definition = definition
        self.placing = placing
        self._head = head(definition.name)
        self._tail = tail(placing.overrides)
        self._options = packed_options(placing.options)
        # Where all jobs of this task belong, unless their arguments or ids decide.
        is_plain = placing.key is None and placing.unique is None
        is_whole = client.settings.partitions.get(placing.queue, 1) == 1
        self._only_store = client.store_at(placing.queue, 0) if is_plain and is_whole else None

    @property
    def name(self) -> str:
        """The name under which the jobs of this task lie in the store."""
        return self.definition.name

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> C:
        """The plain function."""
        result: C = self.definition.function(*args, **kwargs)
        return result

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """Put a job; when this returns, it cannot be lost any more."""
        store, entry = self._entry(new_id(), args, kwargs)
        return self._job(store, entry.id, self._client.put(store, (entry,))[0])

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """The same, awaited."""
        store, entry = self._entry(new_id(), args, kwargs)
        return self._job(store, entry.id, (await self._client.aput(store, (entry,)))[0])

    def enqueue_many(self, calls: Iterable[tuple[Any, ...] | Bound]) -> Jobs[R]:
        """Put a job for each tuple of arguments; nothing is put if any of them does not fit.

        Example:
            >>> add.enqueue_many([(1, 2), add.bind(3, b=4)])
            <2 jobs>
        """
        stores, entries = self._entries(calls)
        others: dict[str, str] = {}
        doubts: list[DurabilityUncertain] = []
        for store, group in _by_store(stores, entries):
            with _gathered(doubts):
                others.update(_obstacles(group, self._client.put_many(store, group)))
        _raise_all(doubts)
        return Jobs(self._job, stores, [entry.id for entry in entries], others)

    async def aenqueue_many(self, calls: Iterable[tuple[Any, ...] | Bound]) -> Jobs[R]:
        """The same, awaited."""
        stores, entries = self._entries(calls)
        others: dict[str, str] = {}
        doubts: list[DurabilityUncertain] = []
        for store, group in _by_store(stores, entries):
            with _gathered(doubts):
                others.update(_obstacles(group, await self._client.aput_many(store, group)))
        _raise_all(doubts)
        return Jobs(self._job, stores, [entry.id for entry in entries], others)

    def spawn(self, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """Put a job in the step that finishes the current one: it is never there if the current one fails."""
        store, entry = self._entry(new_id(), args, kwargs)
        required("spawn").spawn(store.partition, entry)
        return self._job(store, entry.id, "")

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> Bound:
        """Arguments for `enqueue_many`, by position and by name."""
        return Bound(args, kwargs)

    def using(self, **options: Unpack[Using]) -> Task[P, R, C]:
        """The same task with other options for its jobs: delay, run_at, queue, priority, key, at_front, ..."""
        return Task(self._client, self.definition, replaced(self.placing, dict(options)))

    def __reduce__(self) -> str:
        # As a function is pickled: by the place where it can be imported.
        return self.definition.function.__qualname__

    def __repr__(self) -> str:
        return f"<Task {self.name}>"

    def _entries(self, calls: Iterable[tuple[Any, ...] | Bound]) -> tuple[list[Store], list[Entry]]:
        given = list(calls)
        stores: list[Store] = []
        entries: list[Entry] = []
        for id, call in zip(new_ids(len(given)), given, strict=True):
            try:
                args, kwargs = (call, _NO_KWARGS) if type(call) is tuple else _parts(call)
                store, entry = self._entry(id, args, kwargs)
            except (ArgumentError, PayloadError) as error:
                raise type(error)(f"[{len(entries)}]: {error}") from None
            stores.append(store)
            entries.append(entry)
        return stores, entries

    def _entry(self, id: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Store, Entry]:
        try:
            packed, packed_kwargs = self.definition.signature.encode(args, kwargs)
        except ArgumentError as error:
            raise ArgumentError(f"{error}{self._misplaced(kwargs)}") from None
        client, placing = self._client, self.placing
        envelope = seal(self._head, packed, packed_kwargs, self._tail, client.settings.max_payload)
        if self._only_store is not None:
            return self._only_store, Entry(id, envelope, self._options)
        if placing.key is None and placing.unique is None:
            return client.place(placing.queue, id), Entry(id, envelope, self._options)
        key = _named("key", placing.key, args, kwargs)
        if placing.unique is True:
            unique = f"{self.name}:{blake2b(packed + b'|' + packed_kwargs, digest_size=16).hexdigest()}"
        else:
            unique = _named("unique", placing.unique, args, kwargs)
        if key and unique and client.settings.partitions.get(placing.queue, 1) > 1:
            raise OptionError(f"the queue {placing.queue!r} has several partitions: take key or unique, not both")
        options = msgspec.structs.replace(placing.options, key=key, unique=unique)
        # Entries of one name must meet in one partition, or they would not know of each other.
        return client.place(placing.queue, key or unique), Entry(id, envelope, packed_options(options))

    def _misplaced(self, kwargs: dict[str, Any]) -> str:
        """A hint, if what was given by name could be an option."""
        takes = self.definition.signature.takes
        options = [name for name in kwargs if name in Placing.__dataclass_fields__ and not takes(name)]
        return f"; options go elsewhere: using({options[0]}=...).enqueue(...)" if options else ""

    def _job(self, store: Store, id: str, other: str) -> Job[R]:
        return Job(self._client, store, other or id, self._decoder, known=True, new=not other or other == id)

    def _decoder(self) -> Decode:
        return self._decode_result

    @cached_property
    def _decode_result(self) -> Decode:
        return self.definition.signature.decode_result()


def replaced(placing: Placing, options: dict[str, Any], also: tuple[str, ...] = ()) -> Placing:
    """A placing with other options, or `OptionError` that names those that exist (and *also* those)."""
    unknown = options.keys() - Placing.__dataclass_fields__.keys()
    if unknown:
        known = list(dict.fromkeys((*Placing.__dataclass_fields__, *also)))
        first = min(unknown)
        raise OptionError(f"there is no option {first!r}{did_you_mean(first, known)}; there are: {', '.join(known)}")
    return replace(placing, **options)


def _named(what: str, name: Named | bool | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """A key or a unique name: as it was given, or as a callable makes it of the job's arguments."""
    if name is None:
        return ""
    try:
        made = name(*args, **kwargs) if callable(name) else name
    except Exception as error:
        raise OptionError(f"{what} cannot be made of these arguments: {type(error).__name__}: {error}") from error
    if not isinstance(made, str) or not made.isprintable() or not 0 < len(made) <= MAX_NAME:
        raise OptionError(f"{what} must be 1 to {MAX_NAME} printable characters, not {made!r}")
    return made


def _instant(when: datetime) -> int:
    if not isinstance(when, datetime) or when.tzinfo is None:
        raise OptionError(f"run_at must be a datetime with a time zone, not {when!r}")
    at = as_ms(when)
    if at - wall_ms() > MAX_DELAY_S * 1000:
        raise OptionError(f"run_at must be within five years from now, not {when.isoformat()}")
    return max(at, 1)


def _parts(call: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(call, Bound):
        return call.args, call.kwargs
    if isinstance(call, tuple | list):
        return tuple(call), _NO_KWARGS
    raise ArgumentError(f"each job needs a tuple of its arguments or bind(...), not {call!r}")


def _by_store(stores: Sequence[Store], entries: Sequence[Entry]) -> Iterable[tuple[Store, Sequence[Entry]]]:
    if len(set(stores)) == 1:
        return [(stores[0], entries)]
    groups: dict[Store, list[Entry]] = {}
    for store, entry in zip(stores, entries, strict=True):
        groups.setdefault(store, []).append(entry)
    return groups.items()


@contextmanager
def _gathered(doubts: list[DurabilityUncertain]) -> Iterator[None]:
    """What was put and is not sure is no reason to leave the rest."""
    try:
        yield
    except DurabilityUncertain as error:
        doubts.append(error)


def _raise_all(doubts: Sequence[DurabilityUncertain]) -> None:
    if doubts:
        raise DurabilityUncertain(doubts[0].doubt, [id for error in doubts for id in error.ids])


def _obstacles(entries: Sequence[Entry], answers: Sequence[str]) -> dict[str, str]:
    return {entry.id: other for entry, other in zip(entries, answers, strict=True) if other}
