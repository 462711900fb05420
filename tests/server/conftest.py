"""An embedded server of a test's own: its data, its sockets, and nobody left behind."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from shutil import rmtree

import pytest

from holdfast.server import process
from holdfast.server.lock import holders
from holdfast.server.place import Place


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A data directory that does not exist yet; sockets lie in a runtime directory of this test."""
    runtime = tempfile.mkdtemp(prefix="hf-")
    monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
    directory = tmp_path / "project" / ".holdfast"
    yield directory
    end_server(directory)
    rmtree(runtime, ignore_errors=True)


def end_server(directory: Path) -> None:
    """End by its pid whatever still serves this directory."""
    place = Place(directory)
    while place.alive.exists() and not process.gone(place):
        for pid in set(holders(place.alive) or ()) - {os.getpid()}:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)
