"""The application: what a user makes once and hangs tasks on. Its one rule: it touches no server until it must."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, Unpack, overload

from holdfast.client import Client
from holdfast.codec import decoder
from holdfast.engine.keys import checked_name
from holdfast.engine.model import Look
from holdfast.engine.store import Store
from holdfast.errors import OptionError, UnknownTask, did_you_mean
from holdfast.settings import Durability, Settings, url_from_env
from holdfast.tasks.definition import Definition, name_of
from holdfast.tasks.job import Job, not_found
from holdfast.tasks.retry import Backoff
from holdfast.tasks.source import TaskSource
from holdfast.tasks.task import Placing as _Placing
from holdfast.tasks.task import Task, Using, replaced

P = ParamSpec("P")
R = TypeVar("R")


class TaskOptions(Using, total=False):
    """The options of `@app.task(...)`: those of `using(...)`, and what a task is."""

    name: str
    backoff: Backoff | None


class Holdfast:
    """An application.

    Example:
        >>> app = Holdfast()
        >>> @app.task(retries=3)
        ... def greet(name: str) -> str:
        ...     return f"hello {name}"
        >>> greet.enqueue("Ada").result(timeout=5)
        'hello Ada'

    Without *url* (or HOLDFAST_URL, REDIS_URL, VALKEY_URL) it runs its own durable server, with its data in *data*.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        namespace: str = "app",
        data: str | Path = ".holdfast",
        durability: Durability = "server",
        timeout: float = 5.0,
        max_payload: int = 1 << 20,
        partitions: Mapping[str, int] | None = None,
    ) -> None:
        checked_name(namespace, "namespace")
        for queue in partitions or ():
            checked_name(queue, "a queue's name")
        self.settings = Settings(
            url=url_from_env() if url is None else url,
            namespace=namespace,
            data=Path(data),
            durability=durability,
            timeout_s=timeout,
            max_payload=max_payload,
            partitions=dict(partitions or {}),
        )
        self.client = Client(self.settings)
        self.tasks: dict[str, Task[Any, Any, Any]] = {}

    @overload
    def task(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Task[P, R, Coroutine[Any, Any, R]]: ...

    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R, R]: ...

    @overload
    def task(self, /, **options: Unpack[TaskOptions]) -> TaskMaker: ...

    def task(self, function: Callable[..., Any] | None = None, /, **options: Unpack[TaskOptions]) -> Any:
        """Make a task of a function: bare, or with options.

        *retries* (25), *backoff* (seconds, a list of them, or a callable of the retry count), *timeout* (raises
        `TimeLimit` inside the job), *hard_timeout* (ends its process; 30 s after *timeout*), *result_ttl* (an hour,
        nothing for `-> None`), *name*; and everything that `using(...)` takes, such as *queue*, *key* or *priority*.
        """
        maker = TaskMaker(self, dict(options))
        return maker if function is None else maker(function)

    def task_named(self, name: str) -> Task[..., Any, Any]:
        """The task whose jobs lie in the store under this name; `UnknownTask` if there is none."""
        if name not in self.tasks:
            raise UnknownTask(f"there is no task {name!r}{did_you_mean(name, self.tasks)}")
        return self.tasks[name]

    def job(self, id: str) -> Job[Any]:
        """The job with this id, wherever it is; `JobNotFound` if there is no trace of it."""
        stores = self._stores(self.client.run(self.client.registry.queues()))
        return self._found(id, stores, self.client.run_many([store.look(id) for store in stores]))

    async def ajob(self, id: str) -> Job[Any]:
        """The same, awaited."""
        stores = self._stores(await self.client.arun(self.client.registry.queues()))
        return self._found(id, stores, await self.client.arun_many([store.look(id) for store in stores]))

    def source(self) -> TaskSource:
        """What a worker needs to run the jobs of this application's tasks."""
        return TaskSource({name: task.definition for name, task in self.tasks.items()}, self.settings.max_payload)

    def close(self) -> None:
        """Hang up, and leave the embedded server; the last to leave shuts it down."""
        self.client.close()

    async def aclose(self) -> None:
        """Hang up what this event loop uses; what threads use stays, until `close`."""
        await self.client.aclose()

    async def __aenter__(self) -> Holdfast:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()
        await asyncio.to_thread(self.close)

    def __enter__(self) -> Holdfast:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _stores(self, known: Mapping[str, int]) -> list[Store]:
        """Every place where a job may be; what came by an inbox alone is in a queue that only its tasks name."""
        ours = self.settings.partitions
        queues = {task.placing.queue: 1 for task in self.tasks.values()} | dict(known)
        return [
            self.client.store_at(queue, index)
            for queue, count in queues.items()
            for index in range(max(count, ours.get(queue, 1)))
        ]

    def _found(self, id: str, stores: Sequence[Store], looks: Sequence[Look]) -> Job[Any]:
        for store, look in zip(stores, looks, strict=True):
            if look.place != "gone":
                return Job(self.client, store, id, lambda: decoder(Any), known=False)
        raise not_found(id)

    def __repr__(self) -> str:
        return f"<Holdfast {self.settings.namespace!r} with {len(self.tasks)} tasks>"


class TaskMaker:
    """`@app.task(...)` with its options, waiting for the function."""

    _OF_THE_TASK = ("retries", "backoff", "timeout", "hard_timeout", "result_ttl")

    def __init__(self, app: Holdfast, options: dict[str, Any]) -> None:
        self._app = app
        self._name: str | None = options.pop("name", None)
        self._task_options = {name: options.pop(name) for name in self._OF_THE_TASK if name in options}
        self._placing = replaced(_Placing(), options, also=("name", *self._OF_THE_TASK))

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Task[P, R, Coroutine[Any, Any, R]]: ...

    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R, R]: ...

    def __call__(self, function: Callable[..., Any], /) -> Any:
        """Make the task."""
        definition = Definition(name_of(function) if self._name is None else self._name, function, **self._task_options)
        known = self._app.tasks.get(definition.name)
        if known is not None and not _same(known.definition.function, function):
            raise OptionError(f"there is a task {definition.name!r} already: give one of them another name")
        task: Task[Any, Any, Any] = Task(self._app.client, definition, self._placing)
        self._app.tasks[definition.name] = task
        return task


def _same(one: Callable[..., Any], other: Callable[..., Any]) -> bool:
    """Whether this is the same function again, as when `hello.py` runs as `__main__` and is imported as `hello`.

    A function that closes over something is another one each time it is made.
    """
    first, second = inspect.unwrap(one), inspect.unwrap(other)
    if first is second:
        return True
    if not (inspect.isfunction(first) and inspect.isfunction(second)) or first.__closure__ or second.__closure__:
        return False
    return first.__code__.co_filename == second.__code__.co_filename and first.__qualname__ == second.__qualname__
