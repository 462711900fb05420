"""What the tests of the wire need: a network that can fail, and what the server has got through it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.wire.sync import Link
from proxy import Proxy
from servers import Server


@pytest.fixture(params=["tcp", "unix"])
def proxy(server: Server, request: pytest.FixtureRequest) -> Iterator[Proxy]:
    """In front of the emptied server."""
    with Proxy(server, unix=request.param == "unix") as proxy:
        yield proxy


@pytest.fixture
def far(proxy: Proxy) -> Iterator[Link]:
    """A link through that network."""
    link = Link(proxy.address)
    yield link
    link.close()
