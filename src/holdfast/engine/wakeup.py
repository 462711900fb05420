"""The channels on which the server speaks by itself. Its one rule: a message carries no job, it says: look."""

from __future__ import annotations

from holdfast.engine.keys import Partition


def bell(partition: Partition, token: str) -> str:
    """Rung when there is work for this idle worker."""
    return f"{partition.key('idle')}:{token}"


def end(partition: Partition, id: str) -> str:
    """Rung when this entry has ended."""
    return f"{partition.key('watched')}:{id}"


def wishes(partition: Partition) -> str:
    """Says which running entry somebody cancelled."""
    return partition.key("cancels")
