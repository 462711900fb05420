"""Fixtures that every test may use. The server is real; each test gets it empty."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.engine.keys import Partition
from holdfast.engine.store import Store
from holdfast.wire.sync import Link
from servers import Server


@pytest.fixture(scope="session")
def shared_server() -> Iterator[Server]:
    """One server for all tests of a test process; it writes nothing to disk."""
    server = Server()
    yield server
    server.close()


@pytest.fixture
def server(shared_server: Server) -> Server:
    """The shared server, emptied."""
    shared_server.flush()
    return shared_server


@pytest.fixture
def link(server: Server) -> Iterator[Link]:
    """A connection to the emptied server."""
    link = Link(server.address)
    yield link
    link.close()


@pytest.fixture
def store() -> Store:
    """The verbs of a partition."""
    return Store(Partition("test", "q"))
