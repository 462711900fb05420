"""What the tests of the wire need: a network that can fail, and what the server has got through it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.engine.store import VERBS
from holdfast.wire.script import load
from holdfast.wire.sync import Link
from proxy import Proxy
from servers import Server


@pytest.fixture(params=["tcp", "unix"])
def proxy(server: Server, link: Link, request: pytest.FixtureRequest) -> Iterator[Proxy]:
    """In front of the emptied server, which knows all scripts: the first call is not one more than meant."""
    link.commands(*(("SCRIPT", "LOAD", load("holdfast.engine", verb).source) for verb in VERBS))
    with Proxy(server, unix=request.param == "unix") as proxy:
        yield proxy


@pytest.fixture
def far(proxy: Proxy) -> Iterator[Link]:
    """A link through that network."""
    link = Link(proxy.address)
    yield link
    link.close()
