"""What a step brought to other partitions leaves its outbox. Its one rule: oldest first, and nothing overtakes what
could not be delivered, so that the receiver may recognise a repetition by a number alone.
"""

from __future__ import annotations

from holdfast.engine.keys import Partition
from holdfast.engine.store import Registry, Store, unpack_entries
from holdfast.errors import HoldfastError
from holdfast.events import warn
from holdfast.wire.sync import Link

BATCH = 100


def relay(link: Link, store: Store) -> bool:
    """Deliver what lies in the outbox of a partition; False if something has to wait."""
    delivered: list[int] = []
    stuck: set[str] = set()
    place = 0
    while True:
        outgoing = link.run(store.relay(BATCH, delivered, place))
        if not outgoing:
            return not stuck
        delivered = []
        for place, name, packed in outgoing:
            if name not in stuck and not _deliver(link, store, place, name, packed):
                stuck.add(name)
            if name not in stuck:
                delivered.append(place)


def _deliver(link: Link, store: Store, place: int, name: str, packed: bytes) -> bool:
    target = Partition.parse(name)
    try:
        link.run(Registry(target.namespace).add_queue_if_new(target.queue, target.index + 1))
        link.run(Store(target).put(f"outbox:{store.partition}", place, unpack_entries(packed), keep_ms=0))
    except HoldfastError as error:
        warn("outbox.stuck", partition=store.partition, target=name, error=error)
        return False
    return True
