"""One server for all processes of a project, from the first to come until the last to leave."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.errors import EmbeddedError, Unavailable
from holdfast.server import Embedded
from holdfast.server.lock import holders, take
from holdfast.wire.connect import Address
from holdfast.wire.sync import Link
from server.crowd import crowd, in_child, is_running
from server.joiner import Joiner


def pid_of(embedded: Embedded) -> int:
    pid = embedded.status().pid
    assert pid is not None
    return pid


def wait_until(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 20
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.005)


def command(embedded: Embedded, *words: str) -> object:
    link = Link.open(embedded.url)
    try:
        return link.command(*words)
    finally:
        link.close()


# -- coming ---------------------------------------------------------------------------------------


def test_who_comes_first_starts_it_and_who_comes_later_finds_it(data: Path) -> None:
    first = Embedded.join(data)
    second = Embedded.join(data)
    assert (first.started, second.started) == (True, False)
    assert first.url == second.url
    assert command(first, "SET", "k", "v") == b"OK"
    assert command(second, "GET", "k") == b"v"
    second.leave()
    first.leave()


def test_it_lives_in_a_session_of_its_own(data: Path) -> None:
    """A Ctrl-C at the terminal of whoever started it does not reach it."""
    embedded = Embedded.join(data)
    pid = pid_of(embedded)
    assert os.getsid(pid) == pid
    embedded.leave()


def test_it_holds_its_own_lock_and_inherits_no_other(data: Path) -> None:
    embedded = Embedded.join(data)
    pid = pid_of(embedded)
    assert holders(data / "alive") == [pid]
    assert pid not in (holders(data / "users") or ())
    assert pid not in (holders(data / "lock") or ())
    embedded.leave()


def test_ten_processes_that_start_at_one_moment_get_one_server_and_take_it_along(data: Path) -> None:
    with crowd(
        10,
        begin=lambda: Embedded.join(data),
        tell=lambda embedded: [embedded.started, pid_of(embedded)],
        end=lambda embedded: embedded.leave(),
    ) as (pids, told):
        server = told[0][1]
        assert sorted(told) == [[False, server]] * 9 + [[True, server]]
        assert holders(data / "alive") == [server]
        assert holders(data / "users") == sorted(pids)
    assert Embedded.find(data) is None
    assert not is_running(server)


def test_the_banner_is_one_line_with_all_one_needs(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    embedded = Embedded.join(data)
    banner = embedded.banner()
    assert "\n" not in banner
    assert embedded.status().version in banner
    assert embedded.url in banner
    assert f"data in {data} (kept)" in banner
    monkeypatch.chdir(data.parent)
    assert "data in .holdfast (kept)" in embedded.banner()
    embedded.leave()


def test_a_moved_project_keeps_its_server(data: Path) -> None:
    embedded = Embedded.join(data)
    moved = data.parent.with_name("moved")
    data.parent.rename(moved)
    other = Embedded.join(moved / ".holdfast")
    assert pid_of(other) == pid_of(embedded)
    other.leave()
    moved.rename(data.parent)
    embedded.leave()
    assert Embedded.find(data) is None


def test_a_new_project_at_the_old_place_gets_a_server_of_its_own(data: Path) -> None:
    embedded = Embedded.join(data)
    moved = data.parent.with_name("moved")
    data.parent.rename(moved)
    newcomer = Embedded.join(data)
    assert newcomer.started
    assert pid_of(newcomer) != pid_of(embedded)
    newcomer.leave()
    shutil.rmtree(data.parent)
    moved.rename(data.parent)
    embedded.leave()


# -- leaving --------------------------------------------------------------------------------------


def test_the_last_to_leave_takes_it_along(data: Path) -> None:
    first, second = Embedded.join(data), Embedded.join(data)
    pid, socket = pid_of(first), Path(first.url.removeprefix("unix://"))
    first.leave()
    assert is_running(pid)
    assert command(second, "PING") == b"PONG"
    second.leave()
    assert not is_running(pid)
    assert not socket.exists()


def test_leaving_twice_is_leaving_once(data: Path) -> None:
    first, second = Embedded.join(data), Embedded.join(data)
    first.leave()
    first.leave()
    assert second.status().answers
    second.leave()
    second.leave()
    assert Embedded.find(data) is None


def test_the_data_is_there_when_somebody_comes_back(data: Path) -> None:
    first = Embedded.join(data)
    command(first, "SET", "k", "v")
    first.leave()
    second = Embedded.join(data)
    assert second.started
    assert command(second, "GET", "k") == b"v"
    second.leave()


def test_who_comes_while_the_last_one_leaves_is_never_without_a_server(data: Path) -> None:
    """Two processes come and go twenty times each; each visit counts, and none meets a server on its way down."""
    with Joiner(data) as one, Joiner(data) as other:
        one.tell("come_and_go", "20")
        other.tell("come_and_go", "20")
        assert one.answer() == "gone"
        assert other.answer() == "gone"
    assert Embedded.find(data) is None
    embedded = Embedded.join(data)
    assert command(embedded, "GET", "visits") == b"40"
    embedded.leave()


def test_a_killed_process_counts_no_longer(data: Path) -> None:
    with Joiner(data) as joiner:
        pid = joiner.do("join")["pid"]
        mine = Embedded.join(data)
        assert mine.status().users == sorted([os.getpid(), joiner.process.pid])
        joiner.kill()
    assert mine.status().users == [os.getpid()]
    assert is_running(pid)
    mine.leave()
    assert not is_running(pid)


def test_who_leaves_a_directory_that_was_removed_ends_the_server_nobody_can_find(data: Path) -> None:
    embedded = Embedded.join(data)
    pid = pid_of(embedded)
    shutil.rmtree(data)
    newcomer = Embedded.join(data)
    assert newcomer.started
    embedded.leave()
    wait_until(lambda: holders(data / "alive") == [pid_of(newcomer)], "only the new server")
    newcomer.heal()
    wait_until(lambda: not is_running(pid), "the old server ends")
    newcomer.leave()


# -- forks ----------------------------------------------------------------------------------------


def test_a_forked_child_neither_leaves_for_its_parent_nor_ends_the_server_by_ending(data: Path) -> None:
    embedded = Embedded.join(data)
    pid = pid_of(embedded)
    assert in_child(embedded.leave) == 0
    assert in_child(lambda: None) == 0
    assert embedded.status().users == [os.getpid()]
    assert pid_of(embedded) == pid
    embedded.leave()
    assert not is_running(pid)


def test_a_forked_child_that_outlives_its_parent_s_stay_keeps_the_server(data: Path) -> None:
    embedded = Embedded.join(data)
    pid = pid_of(embedded)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(write)
        os.read(read, 1)
        os._exit(0)
    os.close(read)
    embedded.leave()
    assert pid_of(embedded) == pid
    assert embedded.status().users == [child]
    os.close(write)
    os.waitpid(child, 0)
    other = Embedded.join(data)
    assert not other.started
    other.leave()
    assert not is_running(pid)


def test_a_forked_child_may_join_on_its_own(data: Path) -> None:
    embedded = Embedded.join(data)

    def visit() -> None:
        own = Embedded.join(data)
        assert not own.started
        assert own.url == embedded.url
        own.leave()

    assert in_child(visit) == 0
    assert embedded.status().answers
    embedded.leave()


# -- staying, looking, stopping -------------------------------------------------------------------


def test_a_kept_one_stays_when_nobody_uses_it(data: Path) -> None:
    first = Embedded.join(data)
    pid = pid_of(first)
    first.keep()
    first.leave()
    second = Embedded.join(data)
    assert not second.started
    second.leave()
    found = Embedded.find(data)
    assert found is not None
    assert found.status().pid == pid
    assert found.status().kept
    found.stop()
    assert not is_running(pid)
    last = Embedded.join(data)
    last.leave()
    assert Embedded.find(data) is None, "stopping it ends its keeping"


def test_a_look_neither_joins_nor_starts(data: Path) -> None:
    embedded = Embedded.join(data)
    found = Embedded.find(data)
    assert found is not None
    assert found.url == embedded.url
    assert not found.started
    pid = pid_of(found)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: Embedded.find(data) is None, "found no more")
    found.heal()
    found.leave()
    assert Embedded.find(data) is None
    embedded.heal()
    embedded.leave()


def test_the_status_tells_what_the_server_says(data: Path) -> None:
    embedded = Embedded.join(data)
    command(embedded, "SET", "k", "v" * 5000)
    status = embedded.status()
    assert status.answers
    assert status.url == embedded.url
    assert status.data == str(data)
    assert status.users == [os.getpid()]
    assert status.aof_enabled
    assert status.aof_bytes > 5000
    assert status.aof_last_write == "ok"
    assert status.memory_bytes > 5000
    assert not status.kept
    assert not status.loading
    embedded.leave()


def test_what_was_stopped_under_its_users_comes_back_only_with_somebody_new(data: Path) -> None:
    """A worker whose calls heal the server must not undo what its operator did."""
    user = Embedded.join(data)
    found = Embedded.find(data)
    assert found is not None
    found.stop()
    user.heal()
    assert Embedded.find(data) is None
    with pytest.raises(Unavailable):
        Link(Address(user.url, timeout_s=0.2, heal=user.heal)).command("PING")
    newcomer = Embedded.join(data)
    assert newcomer.started
    assert newcomer.url == user.url
    os.kill(pid_of(newcomer), signal.SIGKILL)
    user.heal()
    assert command(user, "PING") == b"PONG", "from now on it is healed as ever"
    newcomer.leave()
    user.leave()


def test_nobody_heals_what_he_has_left(data: Path) -> None:
    embedded = Embedded.join(data)
    embedded.leave()
    embedded.heal()
    assert Embedded.find(data) is None


def test_a_stop_waits_for_whoever_is_starting_it_but_not_for_ever(data: Path) -> None:
    embedded = Embedded.join(data)
    hasty = Embedded.join(data, patience_s=1.0)
    turn = take(data / "lock")
    assert turn is not None
    with turn, pytest.raises(EmbeddedError, match=r"does not answer|does not get on"):
        hasty.stop()
    embedded.stop()
    assert Embedded.find(data) is None
    for each in (hasty, embedded):
        each.leave()
