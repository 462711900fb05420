"""Forked processes: one that does something, or many that do the same at the same moment."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


def in_child(act: Callable[[], object]) -> int:
    """Fork a child that does this and ends; its exit code is 0 if nothing was raised."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            act()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@contextmanager
def crowd(
    size: int, begin: Callable[[], T], tell: Callable[[T], Any], end: Callable[[T], object]
) -> Iterator[tuple[list[int], list[Any]]]:
    """So many processes that all *begin* at the same moment, *tell* something, and *end* when the block ends.

    The block gets their pids and what they told; whoever raised an error tells that.
    """
    begin_gate, stay_gate, told = os.pipe(), os.pipe(), os.pipe()
    pids = []
    for _ in range(size):
        pid = os.fork()
        if pid == 0:
            try:
                os.close(begin_gate[1])
                os.close(stay_gate[1])
                _act(begin_gate[0], stay_gate[0], told[1], begin, tell, end)
            finally:
                os._exit(0)
        pids.append(pid)
    for fd in (begin_gate[0], stay_gate[0], told[1], begin_gate[1]):
        os.close(fd)
    try:
        with os.fdopen(told[0]) as lines:
            yield pids, [json.loads(lines.readline()) for _ in pids]
    finally:
        os.close(stay_gate[1])
        for pid in pids:
            os.waitpid(pid, 0)


def _act(
    begin_gate: int,
    stay_gate: int,
    told: int,
    begin: Callable[[], T],
    tell: Callable[[T], Any],
    end: Callable[[T], object],
) -> None:
    os.read(begin_gate, 1)
    state = None
    try:
        state = begin()
        answer = tell(state)
    except Exception as error:
        answer = f"{type(error).__name__}: {error}"
    os.write(told, json.dumps(answer).encode() + b"\n")
    os.read(stay_gate, 1)
    if state is not None:
        end(state)


def is_running(pid: int) -> bool:
    """Whether it runs; one that has ended and that its parent has not waited for does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"
