"""Real workers of a test, the stage on which their jobs are seen, and proof that nothing of them stays.

A test waits for events, never for seconds; `PATIENCE_S` is how long a loaded machine may take for one.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

APPS = Path(__file__).parent / "apps"
TESTS = APPS.parents[1]
SOURCES = TESTS.parent / "src"
PATIENCE_S = 30.0

T = TypeVar("T")


@dataclass(frozen=True)
class Fact:
    """What a job said."""

    word: str
    name: str
    pid: int
    id: str = ""
    attempt: int = 0
    fence: int = 0


class Stage:
    """What jobs say, in its order, and the gates that they wait at."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        os.mkfifo(directory / "events")
        # Open for writing as well: so it never comes to its end between two jobs.
        self._pipe = os.open(directory / "events", os.O_RDWR)
        self._text = b""
        self._facts: list[Fact] = []
        self.seen: list[Fact] = []

    def open(self, gate: str) -> None:
        """Let everybody through who waits there."""
        (self.directory / f"{gate}.open").touch()

    def shut(self, gate: str) -> None:
        (self.directory / f"{gate}.open").unlink()

    def next(self, word: str = "", name: str = "", within_s: float = PATIENCE_S) -> Fact:
        """The next thing that is said; others than those wanted stay for later."""
        deadline = time.monotonic() + within_s
        while True:
            for i, fact in enumerate(self._facts):
                if word in ("", fact.word) and name in ("", fact.name):
                    return self._facts.pop(i)
            remaining = deadline - time.monotonic()
            assert remaining > 0, f"nobody said {word or 'anything'} {name}; said: {self.seen[-20:]}"
            self._listen(remaining)

    def several(self, count: int, word: str = "") -> list[Fact]:
        """The next few."""
        return [self.next(word) for _ in range(count)]

    def said(self, word: str = "", name: str = "") -> list[Fact]:
        """All that was said up to now and not taken by `next`."""
        self._listen(0)
        return [fact for fact in self._facts if word in ("", fact.word) and name in ("", fact.name)]

    def close(self) -> None:
        os.close(self._pipe)

    def _listen(self, timeout_s: float) -> None:
        while select.select([self._pipe], [], [], timeout_s)[0]:
            self._text += os.read(self._pipe, 1 << 20)
            *lines, self._text = self._text.split(b"\n")
            facts = [Fact(**json.loads(line)) for line in lines]
            self._facts += facts
            self.seen += facts
            timeout_s = 0


class Worker:
    """`holdfast worker`, in a session of its own."""

    def __init__(self, place: str, *options: object, stage: Stage, url: str, cwd: Path) -> None:
        self.log_path = stage.directory / f"log-{time.monotonic_ns()}"
        environment = {k: v for k, v in os.environ.items() if not k.endswith("_URL")}
        environment |= {"HOLDFAST_TEST_STAGE": str(stage.directory), "PYTHONPATH": f"{SOURCES}:{TESTS}"}
        if url:
            environment["HOLDFAST_URL"] = url
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "holdfast", "worker", place, *map(str, options)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=cwd, env=environment, start_new_session=True,
            )  # fmt: skip

    @property
    def pid(self) -> int:
        """The supervisor's."""
        return self.process.pid

    @property
    def log(self) -> str:
        return self.log_path.read_text()

    @property
    def children(self) -> list[int]:
        """The pids of its children."""
        try:
            text = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return []
        return [int(pid) for pid in text.split()]

    def says(self, text: str, times: int = 1) -> None:
        """Wait until its log has this line."""
        until(lambda: self.log.count(text) >= times, f"{text!r} in the log", lambda: self.log)

    def send(self, number: int) -> None:
        self.process.send_signal(number)

    def wait(self, within_s: float = PATIENCE_S) -> int:
        """How it ended; whichever way, it leaves nobody behind."""
        try:
            code = self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the worker goes on:\n{self.log}") from None
        self.leaves_nobody()
        return code

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Ask it to end; how it did."""
        self.send(number)
        return self.wait()

    def kill(self) -> None:
        """End its supervisor the hard way; its children go with it."""
        self.send(signal.SIGKILL)
        self.wait()

    def leaves_nobody(self) -> None:
        """Nothing of its session is left."""
        until(lambda: not session(self.pid), "an empty session", lambda: f"{session(self.pid)}\n{self.log}")

    def close(self) -> None:
        """Whatever the test did to it: it ends now, by its pid, and all of its session with it."""
        for pid in session(self.pid):
            os.kill(pid, signal.SIGKILL)
        self.process.wait()


def session(leader: int) -> list[int]:
    """The living processes of a session."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        state, of = fields[0], int(fields[3])
        if of == leader and state not in "ZX":
            found.append(int(path.parent.name))
    return found


def is_alive(pid: int) -> bool:
    """Whether there is such a process, and not only its corpse."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def until(happens: Callable[[], T], what: str, seen: Callable[[], Any] = lambda: "", within_s: float = PATIENCE_S) -> T:
    """Look until it is so; for what sends no event."""
    deadline = time.monotonic() + within_s
    while not (value := happens()):
        assert time.monotonic() < deadline, f"no {what}: {seen()}"
        time.sleep(0.005)
    return value


def lines(text: str, word: str) -> Iterator[str]:
    """The lines of a log that speak of this."""
    return (line for line in text.splitlines() if word in line)
