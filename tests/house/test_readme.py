"""The README's example, as its reader carries it out: copied, and run in two terminals."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from shutil import rmtree

import pytest

README = (Path(__file__).parents[2] / "README.md").read_text()


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[dict[str, str]]:
    """An environment without a URL, and with a runtime directory whose path is short enough for a socket."""
    runtime = tempfile.mkdtemp(prefix="hf-")
    urls = ("HOLDFAST_URL", "REDIS_URL", "VALKEY_URL")
    environment = {name: value for name, value in os.environ.items() if name not in urls}
    yield environment | {"XDG_RUNTIME_DIR": runtime, "PATH": f"{Path(sys.executable).parent}:{environment['PATH']}"}
    rmtree(runtime, ignore_errors=True)


def test_hello_works_by_copy_and_paste(tmp_path: Path, terminal: dict[str, str]) -> None:
    code = re.search(r"```python\n# hello.py\n(.*?)```", README, re.DOTALL)
    assert code is not None
    assert len([line for line in code[1].splitlines() if line.strip()]) <= 20
    (tmp_path / "hello.py").write_text(code[1])
    for command in ("python hello.py ", "holdfast worker hello:app "):
        assert command in README
    hello = subprocess.Popen(["python", "hello.py"], cwd=tmp_path, env=terminal, stdout=subprocess.PIPE, text=True)
    worker = subprocess.Popen(
        ["holdfast", "worker", "hello:app"], cwd=tmp_path, env=terminal, stdout=subprocess.PIPE, text=True
    )
    said, _ = hello.communicate(timeout=60)
    assert (said, hello.returncode) == ("Hello, Ada!\n", 0)
    assert worker.stdout is not None
    assert worker.stdout.readline() == "fetching https://example.org\n"
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(timeout=60) == 0
    worker.stdout.close()
    # The last to leave has taken the server along.
    assert not list(Path(terminal["XDG_RUNTIME_DIR"]).rglob("*.sock"))
    assert (tmp_path / ".holdfast" / ".gitignore").exists()
