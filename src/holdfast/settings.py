"""What may be tuned, with its unit in its name, checked once. Its one rule: nobody else reads the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from holdfast.errors import OptionError

Durability = Literal["server", "fsync", "replica"]
URL_VARIABLES = ("HOLDFAST_URL", "REDIS_URL", "VALKEY_URL")


@dataclass(frozen=True, slots=True)
class Settings:
    """What an application says about its store.

    Example:
        >>> Settings(url="redis://127.0.0.1:6379/0", namespace="shop", partitions={"mail": 4})
    """

    #: Where the server is; '' for the embedded one.
    url: str = ""
    #: What stands before every queue's name in the keys, so that several applications may share a server.
    namespace: str = "app"
    #: Where the embedded server keeps its data.
    data: Path = Path(".holdfast")
    #: What must have happened to a new job on an outside server before `enqueue` returns.
    durability: Durability = "server"
    #: How long a call may take, with all its repetitions.
    timeout_s: float = 5.0
    #: The largest envelope or result in bytes.
    max_payload: int = 1 << 20
    #: Queues that are spread over more than one partition.
    partitions: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.durability not in get_args(Durability):
            raise OptionError(f"durability must be one of {get_args(Durability)}, not {self.durability!r}")
        in_range("timeout", self.timeout_s, 0.05, 3600)
        whole("max_payload", self.max_payload, 1024, 64 << 20)
        for queue, count in self.partitions.items():
            whole(f"partitions[{queue!r}]", count, 1, 1024)


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """What a worker is told on its command line."""

    queues: tuple[str, ...] = ()
    processes: int = 1
    threads: int = 5
    async_slots: int = 100
    #: How long a worker may be silent before others take its jobs.
    lease_s: float = 15.0
    #: How long running jobs may go on after the first signal to stop.
    stop_timeout_s: float = 25.0
    #: How many times a job may kill its process before it is buried.
    max_crashes: int = 3
    #: End when nothing is left to do.
    drain: bool = False

    def __post_init__(self) -> None:
        whole("processes", self.processes, 1, 256)
        whole("threads", self.threads, 1, 1000)
        whole("async_slots", self.async_slots, 1, 10_000)
        in_range("lease_s", self.lease_s, 0.2, 3600)
        in_range("stop_timeout_s", self.stop_timeout_s, 0, 86_400)
        whole("max_crashes", self.max_crashes, 1, 1000)


def url_from_env() -> str:
    """The server's URL from the environment, or ''."""
    return next((os.environ[name] for name in URL_VARIABLES if os.environ.get(name)), "")


def whole(name: str, value: int, low: int, high: int) -> None:
    """Refuse what is no whole number, or outside its range."""
    if not isinstance(value, int):
        raise OptionError(f"{name} must be a whole number from {low} to {high}, not {value!r}")
    in_range(name, value, low, high)


def in_range(name: str, value: float, low: float, high: float) -> None:
    """Refuse a number that is none, or outside its range."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise OptionError(f"{name} must be a number from {low} to {high}, not {value!r}")
