"""Locks between threads, processes and forks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from holdfast.server.lock import Held, holders, take


def held(lock: Held | None) -> Held:
    assert lock is not None
    return lock


def forked() -> tuple[int, int]:
    """A child that runs by now, and ends when the descriptor returned is closed."""
    read, write = os.pipe()
    ready, run = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(write)
        os.write(run, b".")
        os.read(read, 1)
        os._exit(0)
    os.close(run)
    os.read(ready, 1)
    os.close(ready)
    os.close(read)
    return pid, write


def test_one_holder_at_a_time_also_within_a_process(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with held(take(path)):
        assert take(path) is None
        assert take(path, shared=True) is None
    held(take(path)).close()


def test_shared_holders_keep_the_exclusive_one_out(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first, second = held(take(path, shared=True)), held(take(path, shared=True))
    first.close()
    assert take(path) is None
    second.close()
    held(take(path)).close()


def test_closing_twice_closes_nobody_elses_file(tmp_path: Path) -> None:
    lock = held(take(tmp_path / "lock"))
    number = lock.fd
    lock.close()
    other = os.open(tmp_path / "other", os.O_CREAT | os.O_RDWR)
    try:
        assert other == number
        lock.close()
        os.fstat(other)
    finally:
        os.close(other)


def test_a_forked_child_does_not_keep_an_exclusive_lock(tmp_path: Path) -> None:
    """A worker that is forked while another thread starts the server must not hold that lock for its whole life."""
    path = tmp_path / "lock"
    lock = held(take(path))
    child, pipe = forked()
    try:
        lock.close()
        held(take(path)).close()
    finally:
        os.close(pipe)
        os.waitpid(child, 0)


def test_a_forked_child_shares_a_shared_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    lock = held(take(path, shared=True))
    child, pipe = forked()
    lock.close()
    assert take(path) is None
    os.close(pipe)
    os.waitpid(child, 0)
    held(take(path)).close()


def test_programs_that_are_started_inherit_no_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    lock = held(take(path, shared=True))
    with subprocess.Popen(
        [sys.executable, "-c", "print(1, flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        close_fds=False,
    ) as program:
        assert program.stdout is not None
        program.stdout.readline()
        lock.close()
        held(take(path)).close()
        program.kill()


def test_the_kernel_takes_the_lock_of_a_killed_process(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    lock = held(take(path, shared=True))
    child, pipe = forked()
    lock.close()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    held(take(path)).close()
    os.close(pipe)


def test_holders_are_named_with_their_forks(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    lock = held(take(path, shared=True))
    child, pipe = forked()
    assert holders(path) == sorted([os.getpid(), child])
    os.close(pipe)
    os.waitpid(child, 0)
    lock.close()
    assert holders(path) == []
    assert holders(tmp_path / "nothing") == []
