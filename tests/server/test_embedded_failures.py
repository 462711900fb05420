"""What people are told when the server cannot run, and that it is not tried in circles."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.errors import EmbeddedError
from holdfast.server import Embedded
from holdfast.server.find import find_binary
from holdfast.server.lock import holders
from holdfast.wire.sync import Link
from server.crowd import is_running
from server.joiner import Joiner


def aof(data: Path) -> Path:
    (file,) = data.glob("appendonlydir/*.incr.aof")
    return file


def command(embedded: Embedded, *words: str) -> object:
    link = Link.open(embedded.url)
    try:
        return link.command(*words)
    finally:
        link.close()


def write(data: Path, *keys: str) -> list[int]:
    """Set each key and return how long the log was after each; nobody runs when this returns."""
    embedded = Embedded.join(data)
    sizes = []
    for key in keys:
        command(embedded, "SET", key, "value")
        sizes.append(aof(data).stat().st_size)
    embedded.leave()
    return sizes


def starts(data: Path) -> int:
    return (data / "server.log").read_text().count("just started")


# -- damaged data ---------------------------------------------------------------------------------


def test_an_incomplete_end_of_the_log_is_dropped_and_reported(data: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What a power cut left of the last write was never acknowledged; how much it was is said."""
    _, kept, whole = write(data, "a", "b", "c")
    os.truncate(aof(data), whole - 3)
    embedded = Embedded.join(data)
    assert [command(embedded, "GET", key) for key in "abc"] == [b"value", b"value", None]
    dropped = whole - 3 - kept
    assert f"server.truncated file={aof(data).name} dropped_bytes={dropped}" in caplog.text
    caplog.clear()
    os.kill(embedded.status().pid or 0, signal.SIGKILL)
    embedded.heal()
    assert caplog.text == "", "once"
    embedded.leave()


def test_an_incomplete_transaction_is_dropped_as_a_whole(data: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A step is visible whole or not at all, also after a power cut in the middle of it."""
    (kept,) = write(data, "a")
    embedded = Embedded.join(data)
    command(embedded, "EVAL", "redis.call('SET', 'b', 1) redis.call('SET', 'c', 1)", "0")
    embedded.leave()
    whole = aof(data).stat().st_size
    os.truncate(aof(data), whole - 3)
    embedded = Embedded.join(data)
    assert [command(embedded, "EXISTS", key) for key in "abc"] == [1, 0, 0]
    (said,) = [record for record in caplog.messages if "server.truncated" in record]
    assert kept <= whole - 3 - int(said.rpartition("=")[2]) < whole - 3
    embedded.leave()


def damage(data: Path, at: int) -> bytes:
    """Overwrite the beginning of a command; what the log was."""
    before = aof(data).read_bytes()
    assert before[at : at + 1] == b"*"
    aof(data).write_bytes(before[:at] + b"XX" + before[at + 2 :])
    return before


def test_a_damaged_log_is_left_as_it_is_and_explained(data: Path) -> None:
    first, _, _ = write(data, "a", "b", "c")
    damage(data, first)
    damaged = aof(data).read_bytes()
    with pytest.raises(EmbeddedError) as told:
        Embedded.join(data)
    text = str(told.value)
    assert "ended with exit code 1" in text
    assert "Bad file format" in text, "its last words"
    assert "Copy the directory away first" in text
    assert aof(data).read_bytes() == damaged
    assert holders(data / "alive") == []
    assert holders(data / "users") == []


def test_a_damaged_log_is_tried_once_a_call(data: Path) -> None:
    first, _ = write(data, "a", "b")
    embedded = Embedded.join(data)
    damage(data, first)
    os.kill(embedded.status().pid or 0, signal.SIGKILL)
    for tries in (1, 2):
        before = starts(data)
        with pytest.raises(EmbeddedError, match="The data is damaged"):
            embedded.heal()
        assert starts(data) == before + 1, tries
    embedded.leave()


def test_the_advice_for_a_damaged_log_works(data: Path, tmp_path: Path) -> None:
    first, _, _ = write(data, "a", "b", "c")
    damage(data, first)
    with pytest.raises(EmbeddedError, match="valkey-check-aof --fix") as told:
        Embedded.join(data)
    link_to, fix = str(told.value).split("`")[1::2][-2:]
    subprocess.run(link_to.split(), cwd=tmp_path, check=True)
    subprocess.run(fix.split(), cwd=tmp_path, check=True, input=b"y\n", capture_output=True)
    embedded = Embedded.join(data)
    assert [command(embedded, "GET", key) for key in "abc"] == [b"value", None, None]
    embedded.leave()


@pytest.mark.parametrize("file", ["*.base.rdb", "*.manifest"])
def test_what_no_tool_repairs_is_explained_without_one(data: Path, file: str) -> None:
    write(data, "a")
    (damaged,) = data.glob(f"appendonlydir/{file}")
    damaged.write_bytes(b"JUNK" + damaged.read_bytes()[4:])
    with pytest.raises(EmbeddedError, match=r"The data is damaged.* backup") as told:
        Embedded.join(data)
    assert "--fix" not in str(told.value).rpartition("The data is damaged")[2]


def test_data_of_a_newer_server_is_explained(data: Path) -> None:
    write(data, "a")
    (base,) = data.glob("appendonlydir/*.base.rdb")
    base.write_bytes(b"VALKEY999" + base.read_bytes()[9:])
    record = data / "server.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), "version": "99.1.0"}))
    for _ in range(2):
        with pytest.raises(EmbeddedError, match=r"newer server than \d.*last that ran here was 99\.1\.0"):
            Embedded.join(data)


# -- no room --------------------------------------------------------------------------------------


def test_a_server_that_may_not_write_ends_and_says_why_and_loses_nothing(data: Path) -> None:
    """With fsync before each answer, a server that cannot write ends itself; it is not started in circles."""
    with Joiner(data, "limit=200000") as joiner:
        assert joiner.do("join")["started"]
        told = joiner.do("fill")
        assert told["error"] == "EmbeddedError"
        assert "could not write" in told["text"]
        assert "Can't recover from AOF write error" in told["text"]
        assert "free some space" in told["text"]
        assert 20 < told["written"] < 60
        assert starts(data) <= 3
    # Ten seconds later, with room again.
    settled = (data / "server.json").stat().st_mtime - 10
    os.utime(data / "server.json", (settled, settled))
    embedded = Embedded.join(data)
    assert int(str(command(embedded, "DBSIZE"))) >= told["written"]
    embedded.leave()


def small_disk(megabytes: str, mount: Path) -> tuple[str, ...]:
    """What to put before a command so that it sees a disk of that size there, and nobody else does."""
    flags = ["--mount"] if os.geteuid() == 0 else ["--mount", "--map-root-user"]
    prefix = (
        "unshare", *flags, "sh", "-c",
        f'mount -t tmpfs -o mode=700,size={megabytes} tmpfs "{mount}" && exec "$@"', "sh",
    )  # fmt: skip
    if not shutil.which("unshare") or subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no mounts of one's own here")
    return prefix


def test_a_full_disk_is_told_before_anything_is_started(data: Path) -> None:
    data.mkdir(parents=True)
    with Joiner(data, prefix=small_disk("512k", data)) as joiner:
        told = joiner.do("join")
        assert told["error"] == "EmbeddedError"
        assert "No space left on device" in told["text"]
        assert "free some space" in told["text"]


def test_a_disk_that_fills_up_is_told_to_whoever_writes(data: Path) -> None:
    data.mkdir(parents=True)
    with Joiner(data, prefix=small_disk("3m", data)) as joiner:
        assert joiner.do("join")["started"]
        told = joiner.do("fill")
        assert told["error"] == "EmbeddedError"
        assert "free some space" in told["text"]
        assert told["written"] > 100


# -- a binary with a will of its own --------------------------------------------------------------


def binary(directory: Path, body: str) -> str:
    """A valkey-server that says its version, but runs *body* in place of the server."""
    file = directory / "valkey-server"
    file.write_text(f'#!/bin/sh\n[ "$1" = --version ] && exec {find_binary()} --version\n{body}\n')
    file.chmod(0o755)
    return str(file)


def test_a_server_that_ends_at_once_is_quoted(data: Path, tmp_path: Path) -> None:
    with pytest.raises(EmbeddedError, match="ended with exit code 3 when it was started") as told:
        Embedded.join(data, binary=binary(tmp_path, "echo one; echo 'the reason' >&2; exit 3"))
    assert "    one\n    the reason\n" in str(told.value)
    assert str(data / "server.log") in str(told.value)


def test_a_server_that_dies_by_a_signal_is_told_so(data: Path, tmp_path: Path) -> None:
    with pytest.raises(EmbeddedError, match=r"ended by signal 11 when it was started\. Its last words: none"):
        Embedded.join(data, binary=binary(tmp_path, "kill -SEGV $$"))


def test_a_server_that_never_answers_is_ended(data: Path, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    with pytest.raises(EmbeddedError, match="was started, but did not answer in"):
        Embedded.join(data, patience_s=0.3, binary=binary(tmp_path, f"echo $$ > {pid}; exec sleep 60"))
    assert not is_running(int(pid.read_text()))
    Embedded.join(data).leave()


def test_a_server_too_old_for_its_configuration_is_told_so(data: Path, tmp_path: Path) -> None:
    old = binary(tmp_path, f'exec {find_binary()} "$@" --no-such-option yes')
    with pytest.raises(EmbeddedError, match=r"does not understand its configuration\. Use Valkey 7\.2"):
        Embedded.join(data, binary=old)


def test_an_interrupted_start_leaves_no_server(data: Path, tmp_path: Path) -> None:
    """Ctrl-C while it starts: nobody would be there to end it."""
    pid = tmp_path / "pid"
    code = (
        "import sys; from pathlib import Path; from holdfast.server import Embedded;"
        "Embedded.join(Path(sys.argv[1]), binary=sys.argv[2])"
    )
    slow = binary(tmp_path, f"echo $$ > {pid}.new; mv {pid}.new {pid}; exec sleep 60")
    with subprocess.Popen([sys.executable, "-c", code, str(data), slow], stderr=subprocess.PIPE) as starter:
        while not pid.exists():
            assert starter.poll() is None
        starter.send_signal(signal.SIGINT)
        assert b"KeyboardInterrupt" in starter.communicate()[1]
    assert not is_running(int(pid.read_text()))
