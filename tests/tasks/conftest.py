"""Two ways to run jobs: by hand in this process, or in a real worker that all tests of a process share."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from holdfast import Holdfast
from servers import Server
from tasks.hand import Hand

RUN = "from holdfast.cli.main import main; main()"


@pytest.fixture
def app(server: Server) -> Iterator[Holdfast]:
    """An application on the emptied server."""
    app = Holdfast(server.url, namespace="test")
    yield app
    app.close()


@pytest.fixture
def hand(app: Holdfast) -> Hand:
    """A worker of its default queue; it knows the tasks that the test has made by the time it works."""
    return Hand(app)


@pytest.fixture(scope="session")
def shop() -> Iterator[ModuleType]:
    """The module `tasks.shop` with its application, on a server of its own, and a real worker that serves it.

    All tests of a process share it, so they must not empty it, and tell their jobs apart by their ids.
    """
    server = Server()
    environment = os.environ | {
        "HOLDFAST_URL": server.url,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    with (server.directory / "worker.log").open("ab") as log:
        worker = subprocess.Popen(
            [sys.executable, "-c", RUN, "worker", "tasks.shop:app", "--processes", "1", "--threads", "4"],
            env=environment,
            cwd=Path(__file__).parent.parent,
            stdout=log,
            stderr=log,
        )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOLDFAST_URL", server.url)
        shop = importlib.import_module("tasks.shop")
    yield shop
    shop.app.close()
    worker.send_signal(signal.SIGTERM)
    code = worker.wait(30)
    said = (server.directory / "worker.log").read_text()
    server.close()
    assert code == 0, said
