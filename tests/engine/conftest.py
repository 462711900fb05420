"""What every test of a verb needs: the keyspace of one partition, and ears on it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engine.keyspace import Bells, Keyspace
from holdfast.engine.store import Store
from holdfast.wire.sync import Link
from servers import Server


@pytest.fixture
def keyspace(link: Link, store: Store) -> Keyspace:
    """The partition of `store`, empty."""
    return Keyspace(link, store)


@pytest.fixture
def bells(server: Server, store: Store) -> Iterator[Bells]:
    """Ears on that partition."""
    bells = Bells(server.address, store)
    yield bells
    bells.close()
