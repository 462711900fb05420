"""A client on the emptied server, and the partition that its tests put into."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.client import Client
from holdfast.engine.store import Store
from holdfast.settings import Settings
from servers import Server


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    client = Client(Settings(url=server.url, timeout_s=10))
    yield client
    client.close()


@pytest.fixture
def store(client: Client) -> Store:
    return client.store_at("mail", 0)
