"""A process that uses the embedded server and does what it is told, a word a line.

    joiner.py DATA      answers each line of its input with one of JSON

`limit=N` as a second argument forbids it, and the server it starts, files of more than N bytes.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any, Self


class Joiner:
    """Such a process, seen from the test; leaving the `with` block ends it."""

    def __init__(self, data: Path, *args: str, prefix: tuple[str, ...] = ()) -> None:
        self.process = subprocess.Popen(
            [*prefix, sys.executable, __file__, str(data), *args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )

    def tell(self, *words: str) -> None:
        """Give an order without waiting for its answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(" ".join(words).encode() + b"\n")
        self.process.stdin.flush()

    def answer(self) -> Any:
        """The answer to the oldest order that has none yet."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"it ended with {self.process.wait()}"
        return json.loads(line)

    def do(self, *words: str) -> Any:
        """Give an order and wait for its answer."""
        self.tell(*words)
        return self.answer()

    def kill(self) -> None:
        """End it without a chance to leave."""
        self.process.kill()
        self.process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


class Told:
    """The process's own side."""

    def __init__(self, data: Path) -> None:
        self.data = data

    def join(self) -> Any:
        from holdfast.server import Embedded
        from holdfast.wire.connect import Address
        from holdfast.wire.sync import Link

        self.embedded = Embedded.join(self.data)
        self.link = Link(Address(self.embedded.url, heal=self.embedded.heal))
        return {"started": self.embedded.started, "pid": self.embedded.status().pid}

    def incr(self, key: str) -> Any:
        return self.link.command("INCR", key)

    def heal(self) -> Any:
        self.embedded.heal()
        return self.embedded.status().pid

    def leave(self) -> Any:
        self.link.close()
        self.embedded.leave()
        return "left"

    def come_and_go(self, times: str) -> Any:
        """Join, count, leave, so many times; the sum of what it counted to must be unbroken."""
        for _ in range(int(times)):
            self.join()
            self.incr("visits")
            self.leave()
        return "gone"

    def fill(self) -> Any:
        """Write until it is refused; how often it was acknowledged, and what was said in the end."""
        for written in range(100_000):
            try:
                self.link.command("SET", f"fill:{written}", "x" * 4000)
            except Exception as error:
                return self._insist(written, error)
        return None

    def _insist(self, written: int, error: Exception) -> Any:
        """A refusal may be the server's death; its next call is told why."""
        try:
            self.link.command("SET", "more", "x" * 4000)
        except Exception as again:
            error = again
        return {"written": written, "error": type(error).__name__, "text": str(error)}


def main() -> None:
    told = Told(Path(sys.argv[1]))
    for argument in sys.argv[2:]:
        limit = int(argument.removeprefix("limit="))
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    for line in sys.stdin:
        word, *rest = line.split()
        try:
            answer = getattr(told, word)(*rest)
        except Exception as error:
            answer = {"error": type(error).__name__, "text": str(error)}
        print(json.dumps(answer))


if __name__ == "__main__":
    main()
