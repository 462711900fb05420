"""What tests of the command line need."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from shutil import rmtree

import pytest


@pytest.fixture
def short_runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A runtime directory of this test's own, with a short path for the embedded server's socket."""
    runtime = tempfile.mkdtemp(prefix="hf-")
    monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
    yield
    rmtree(runtime, ignore_errors=True)
