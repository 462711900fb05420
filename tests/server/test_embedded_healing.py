"""A server that died is found and started again with all it had acknowledged."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from holdfast.errors import EmbeddedError, HoldfastError
from holdfast.server import Embedded
from holdfast.server.find import find_binary
from holdfast.server.lock import holders
from holdfast.wire.connect import Address
from holdfast.wire.sync import Link
from server.crowd import crowd, in_child, is_running


@pytest.fixture
def embedded(data: Path) -> Iterator[Embedded]:
    embedded = Embedded.join(data)
    yield embedded
    embedded.leave()


@pytest.fixture
def link(embedded: Embedded) -> Iterator[Link]:
    """A connection as clients have it: it heals what it cannot reach."""
    link = Link(Address(embedded.url, heal=embedded.heal))
    yield link
    link.close()


def pid_of(embedded: Embedded) -> int:
    pid = embedded.status().pid
    assert pid is not None
    return pid


def kill(embedded: Embedded) -> int:
    """End the server the hard way, and wait until it is gone."""
    pid = pid_of(embedded)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not is_running(pid), "the server is dead")
    return pid


def wait_until(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 20
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.005)


def starts(data: Path) -> int:
    return (data / "server.log").read_text().count("just started")


# -- after kill -9 --------------------------------------------------------------------------------


def test_the_very_first_write_survives(embedded: Embedded, link: Link) -> None:
    link.command("SET", "first", "1")
    link.close()
    killed = kill(embedded)
    assert link.command("GET", "first") == b"1"
    assert pid_of(embedded) != killed


def test_nothing_acknowledged_is_lost_wherever_the_kill_falls(embedded: Embedded, link: Link) -> None:
    """A writer counts on through three kills; each number it was told of is there."""
    acknowledged = 0
    enough = threading.Event()

    def write() -> None:
        nonlocal acknowledged
        while not enough.is_set():
            try:
                acknowledged = max(acknowledged, int(link.command("INCR", "n")))
            except HoldfastError:
                link.close()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(3):
            before = acknowledged
            wait_until(lambda floor=before: acknowledged > floor + 50, "writes go on")  # type: ignore[misc]
            os.kill(pid_of(embedded), signal.SIGKILL)
    finally:
        enough.set()
        writer.join()
    link.close()
    assert int(link.command("GET", "n")) >= acknowledged


def test_threads_that_heal_at_one_moment_start_one_server(embedded: Embedded, data: Path) -> None:
    kill(embedded)
    before = starts(data)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: embedded.heal(), range(8)))
    assert starts(data) == before + 1
    assert holders(data / "alive") == [pid_of(embedded)]


def test_forked_children_that_heal_at_one_moment_start_one_server(embedded: Embedded, data: Path) -> None:
    kill(embedded)
    before = starts(data)
    with crowd(5, begin=embedded.heal, tell=lambda _: pid_of(embedded), end=lambda _: None) as (_, told):
        assert told == [pid_of(embedded)] * 5
    assert starts(data) == before + 1
    assert embedded.status().answers, "it outlives the child that started it"


def test_a_child_forked_while_a_thread_heals_can_heal_as_well(embedded: Embedded) -> None:
    """No lock of the parent's other threads is left locked in the child."""
    for _ in range(5):
        kill(embedded)
        healer = threading.Thread(target=embedded.heal)
        healer.start()
        assert in_child(embedded.heal) == 0
        healer.join()


def test_what_answers_is_left_alone(embedded: Embedded, data: Path) -> None:
    pid = pid_of(embedded)
    for _ in range(20):
        embedded.heal()
    assert pid_of(embedded) == pid
    assert starts(data) == 1


def test_a_process_of_its_own_heals_for_all(embedded: Embedded, link: Link, data: Path) -> None:
    other = Embedded.join(data)
    link.command("SET", "k", "v")
    link.close()
    kill(embedded)
    other.heal()
    assert link.command("GET", "k") == b"v"
    other.leave()
    assert embedded.status().answers


# -- what a crash leaves behind -------------------------------------------------------------------


def test_a_stale_socket_and_a_stale_pid_mislead_nobody(data: Path) -> None:
    """The socket is there and refuses, and the process id belongs to somebody else by now: to us."""
    first = Embedded.join(data)
    kill(first)
    assert Path(first.url.removeprefix("unix://")).exists()
    (data / "server.pid").write_text(f"{os.getpid()}\n")
    second = Embedded.join(data)
    assert second.started
    assert second.status().answers
    first.leave()
    second.leave()
    assert Embedded.find(data) is None


@pytest.mark.parametrize("delay_ms", [0, 5, 15, 20, 25, 30, 40, 50, 60])
def test_who_is_killed_while_starting_it_leaves_no_riddle(data: Path, delay_ms: int) -> None:
    """Whatever it had done by then, the next one gets a server, and there is one."""
    child = os.fork()
    if child == 0:
        Embedded.join(data)
        signal.pause()
    time.sleep(delay_ms / 1000)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    embedded = Embedded.join(data)
    assert holders(data / "alive") == [pid_of(embedded)]
    embedded.leave()
    assert Embedded.find(data) is None


def test_the_log_s_writer_of_a_dead_server_is_waited_for(embedded: Embedded, link: Link, data: Path) -> None:
    """A child that rewrites the log outlives its server for a moment. Two servers' files must not meet."""
    link.commands(*(["SET", f"k{i}", "v"] for i in range(5000)))
    link.command("CONFIG", "SET", "rdb-key-save-delay", "200")
    link.command("BGREWRITEAOF")
    wait_until(lambda: len(holders(data / "alive") or ()) == 2, "the log is being rewritten")
    (child,) = set(holders(data / "alive") or ()) - {pid_of(embedded)}
    link.close()
    kill(embedded)
    embedded.heal()
    assert not is_running(child)
    assert link.command("DBSIZE") == 5000


def test_a_server_whose_socket_was_swept_away_is_replaced(embedded: Embedded, link: Link, data: Path) -> None:
    """A session's runtime directory goes with the session; a server that was kept lives on where nobody reaches it."""
    link.command("SET", "k", "v")
    link.close()
    lost = pid_of(embedded)
    Path(embedded.url.removeprefix("unix://")).unlink()
    embedded.heal()
    assert not is_running(lost)
    assert link.command("GET", "k") == b"v"
    assert (data / "server.log").read_text().count("User requested shutdown") == 1


def test_a_process_that_is_not_the_server_is_never_ended_for_it(embedded: Embedded, data: Path) -> None:
    """The server's file names a stranger's process; then we say what we see, and touch nobody."""
    pid = pid_of(embedded)
    with subprocess.Popen(["sleep", "60"]) as stranger:
        try:
            (data / "server.pid").write_text(f"{stranger.pid}\n")
            Path(embedded.url.removeprefix("unix://")).unlink()
            with pytest.raises(EmbeddedError, match="cannot be reached from here"):
                Embedded.join(data)
            assert stranger.poll() is None
            assert is_running(pid)
        finally:
            stranger.kill()
            os.kill(pid, signal.SIGKILL)


def test_users_learn_that_their_server_moved(embedded: Embedded, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The directory of the socket is closed to us: a newcomer puts the server elsewhere, old users are told so."""
    runtime = Path(embedded.url.removeprefix("unix://")).parent
    kill(embedded)
    runtime.chmod(0o755)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(data))
    newcomer = Embedded.join(data)
    assert newcomer.url != embedded.url
    with pytest.raises(EmbeddedError, match="now listens on"):
        embedded.heal()
    newcomer.leave()
    embedded.leave()
    Embedded.join(data).leave()


# -- a server that does not get on ----------------------------------------------------------------


def test_a_suspended_server_is_named(embedded: Embedded, data: Path) -> None:
    pid = pid_of(embedded)
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(EmbeddedError, match=f"kill -CONT {pid}"):
            Embedded.join(data, patience_s=0.1)
        found = Embedded.find(data)
        assert found is not None
        status = found.status()
        assert (status.answers, status.pid) == (False, pid)
    finally:
        os.kill(pid, signal.SIGCONT)
    embedded.heal()
    assert pid_of(embedded) == pid


def wrapper(directory: Path, body: str) -> str:
    """A server's binary with a will of its own: *body* runs in place of the server."""
    file = directory / "valkey-server"
    real = find_binary()
    file.write_text(f'#!/bin/sh\n[ "$1" = --version ] && exec {real} --version\n{body.format(real=real)}\n')
    file.chmod(0o755)
    return str(file)


def test_loading_for_long_is_no_failure(data: Path, tmp_path: Path) -> None:
    """It takes several times the patience; but it says that it is loading, and how could a joiner not wait."""
    embedded = Embedded.join(data)
    link = Link.open(embedded.url)
    link.commands(*(["SET", f"k{i}", "v"] for i in range(8000)))
    link.close()
    embedded.leave()
    slow = wrapper(tmp_path, 'exec {real} "$@" --key-load-delay 250')
    began = time.monotonic()
    starter = threading.Thread(target=lambda: Embedded.join(data, patience_s=1.0, binary=slow))
    starter.start()
    wait_until(lambda: "Reading RDB" in (data / "server.log").read_text(), "it is loading")
    joined = Embedded.join(data, patience_s=1.0)
    assert time.monotonic() - began > 1.5
    assert not joined.started
    link = Link.open(joined.url)
    assert link.command("DBSIZE") == 8000
    link.close()
    starter.join()
    joined.leave()
