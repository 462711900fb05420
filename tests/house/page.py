"""A page of the guide that is carried out from top to bottom. Its one rule: what a reader would do, and nothing else.

`<!-- file: name -->` saves the block behind it, `<!-- worker: place -->` starts a worker for the rest of the page, and
`<!-- run -->` runs the block behind it: `$` lines in a shell, `>>>` examples by doctest. The store is the embedded one.
"""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MARK = re.compile(
    r"<!-- (?P<what>file|worker|run)(?:: (?P<name>[^>]+?))? -->\n(?:```(?P<language>\w+)\n(?P<block>.*?)^```)?",
    re.DOTALL | re.MULTILINE,
)
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
SHELL = {"HOLDFAST_URL": "", "REDIS_URL": "", "VALKEY_URL": "", "PYTHONDONTWRITEBYTECODE": "1"}


def blocks_to_run(document: Path) -> int:
    return sum(step["what"] == "run" for step in MARK.finditer(document.read_text()))


class Page:
    """A directory in which a page is carried out, and the worker that runs beside it."""

    def __init__(self, document: Path, room: Path) -> None:
        self.document = document
        self.room = room
        self.worker: subprocess.Popen[bytes] | None = None
        paths = [str(Path(sys.executable).parent), os.environ["PATH"]]
        self.environment = {**os.environ, **SHELL, "PATH": os.pathsep.join(paths), "PYTHONPATH": self._python_path()}

    def _python_path(self) -> str:
        """The source that is under test, wherever the tests were started."""
        import holdfast

        return str(Path(holdfast.__file__).parents[1])

    def carry_out(self) -> int:
        """Do all that the page says; answers how many blocks were run."""
        count = 0
        for number, step in enumerate(MARK.finditer(self.document.read_text())):
            kind, name, language, block = step.groups()
            if kind == "file":
                (self.room / name).write_text(block)
            elif kind == "worker":
                self._start_worker(name)
            else:
                run = self._run_console if language == "console" else self._run_python
                run(block, number)
                count += 1
        return count

    def _start_worker(self, place: str) -> None:
        command = ["holdfast", "worker", place, "--processes", "1"]
        with (self.room / "worker.log").open("wb") as log:
            self.worker = subprocess.Popen(command, cwd=self.room, env=self.environment, stderr=log)

    def _run_console(self, block: str, number: int) -> None:
        for command, expected in re.findall(r"^\$ (.+)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
            done = subprocess.run(
                ["bash", "-c", command],
                cwd=self.room, env=self.environment, capture_output=True, text=True, timeout=60, check=False,
            )  # fmt: skip
            same = doctest.OutputChecker().check_output(expected, done.stdout, OPTIONS)
            assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}{self._log()}"
            assert same, f"{command} printed {done.stdout!r}, not {expected!r}"

    def _run_python(self, block: str, number: int) -> None:
        assert ">>>" in block, "a block that is run shows what comes out"
        (self.room / f"block_{number}.txt").write_text(block)
        code = f"import doctest, sys; sys.exit(doctest.testfile('block_{number}.txt', False, optionflags={OPTIONS})[0])"
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=self.room, env=self.environment, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr + self._log()

    def _log(self) -> str:
        log = self.room / "worker.log"
        return f"\n-- worker --\n{log.read_text()}" if log.exists() else ""

    def close(self) -> None:
        """End the worker, and with it the server."""
        if self.worker is not None:
            self.worker.terminate()
            self.worker.wait(60)
        stop = ["holdfast", "server", "stop", "--yes"]
        subprocess.run(stop, cwd=self.room, env=self.environment, check=True, capture_output=True)


@contextmanager
def opened(document: Path, room: Path) -> Iterator[Page]:
    page = Page(document, room)
    try:
        yield page
    finally:
        page.close()
