"""How a job tells its test what it does, and waits for the test to let it go on.

Neither way needs the server, since that may be what the test takes away: events are lines in a named pipe, gates are
files. A gate is waited for in Python, not in C, so that an interruption can reach whoever waits.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path

from holdfast import current_job

HERE = Path(os.environ.get("HOLDFAST_TEST_STAGE", "."))
LOOK_S = 0.005


def say(word: str, name: str = "") -> None:
    """One line, in one write: so lines of many processes never mix."""
    run = current_job()
    fact = {"word": word, "name": name, "pid": os.getpid()}
    if run is not None:
        fact |= {"id": run.id, "attempt": run.attempt, "fence": run.fence}
    pipe = os.open(HERE / "events", os.O_WRONLY)
    os.write(pipe, json.dumps(fact).encode() + b"\n")
    os.close(pipe)


def is_open(gate: str) -> bool:
    """Whether the test has opened this gate; '' always is."""
    return not gate or (HERE / f"{gate}.open").exists()


def wait(gate: str) -> None:
    while not is_open(gate):
        time.sleep(LOOK_S)


async def await_(gate: str) -> None:
    while not is_open(gate):  # noqa: ASYNC110 - what opens it is a file
        await asyncio.sleep(LOOK_S)
