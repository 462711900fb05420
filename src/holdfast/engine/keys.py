"""Every key of the protocol. Its one rule: all of one partition has one hash tag, so one slot of a cluster.

The prefix of a partition is `hf:{<namespace>/<queue>/<index>}:`; behind it stand the names below.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass

from holdfast.errors import OptionError

#: What lives where: name -> (type, content). An auxiliary key without an owner has a time to live.
CONTENT = {
    "ready": ("zset", "id -> order; who may be claimed now, the lowest order first, ties by id"),
    "later": ("zset", "id -> due in ms; who waits for a time: scheduled, or between two attempts"),
    "suspects": ("zset", "id -> order; who was held when a worker vanished, and is claimed alone"),
    "dead": ("zset", "id -> when; who failed too often: the morgue"),
    "broken": ("zset", "id -> when; what no worker could read: the quarantine"),
    "jobs": ("hash", "id -> envelope, for every entry that is present"),
    "marks": ("hash", "id -> 'failures crashes expires order flags', for those that have any"),
    "errors": ("hash", "id -> the last error, for those that had one"),
    "notes": ("hash", "id -> what it says of itself: how far it is, its log; as long as the entry is there"),
    "keyed": (
        "hash",
        "id -> key, of those that hold the lock of their key or will take it when they are due",
    ),
    "locks": ("hash", "key -> id of the one that may run"),
    "line": ("zset", "<key> NUL <place> NUL <id>, all with score 0; who waits behind a key"),
    "waits": ("hash", "id -> its member in line"),
    "unique": ("hash", "unique name -> id of the entry that has it"),
    "uniques": ("hash", "id -> its unique name"),
    "cancels": ("hash", "id -> record, of running entries that somebody cancelled"),
    "watched": ("zset", "id -> until when somebody waits for its end"),
    "workers": ("zset", "token -> end of its lease in ms"),
    "calls": ("hash", "token -> number of its last call"),
    "idle": ("zset", "token -> since when it waits for work"),
    "inbox": ("list", "envelopes from programs that only know LPUSH"),
    "outbox": ("zset", "<place> NUL <partition> NUL <entries> -> place; what must reach another partition"),
    "cron": ("hash", "schedule -> its last tick"),
    "meta": ("hash", "clock, fence, lined, outgoing, paused, and the counters put, done, cancelled, ..."),
    "held": ("hash", "held:<token>: id -> 'fence order', with ' s' behind it for a suspect"),
    "sender": (
        "string",
        "sender:<name>: the number of its last put; an hour, or for ever for a partition's outbox",
    ),
    "result": ("string", "result:<id>: how it ended, as long as its result is kept"),
}

_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,100}")
QUEUES = "hf:{%s}:queues"
PRESENCE = "hf:{%s}:workers"


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition of one queue.

    Example:
        >>> Partition("app", "mail").key("ready")
        'hf:{app/mail/0}:ready'
    """

    namespace: str
    queue: str
    index: int = 0

    def __str__(self) -> str:
        return f"{self.namespace}/{self.queue}/{self.index}"

    @classmethod
    def parse(cls, text: str) -> Partition:
        """The partition whose name this is."""
        namespace, queue, index = text.rsplit("/", 2)
        return cls(namespace, queue, int(index))

    def key(self, name: str, owner: str = "") -> str:
        """The key of this name; *owner* is the token, sender or id that it belongs to."""
        return f"hf:{{{self}}}:{name}:{owner}" if owner else f"hf:{{{self}}}:{name}"


def partition_of(text: str, partitions: int) -> int:
    """Which partition a key or an id belongs to."""
    return zlib.crc32(text.encode()) % partitions if partitions > 1 else 0


def checked_name(name: str, what: str) -> str:
    """A name that may stand in a key, or an error that says what may."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise OptionError(f"{what} must be 1 to 100 letters, digits or any of _ . : -, not {name!r}")
    return name
