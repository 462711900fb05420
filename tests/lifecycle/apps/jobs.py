"""The application of the lifecycle tests: each task does one thing to its process, or waits for the test to say so."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from typing import Any

from holdfast import Cancel, Holdfast, Retry, Snooze, TimeLimit, current_job
from holdfast.errors import Cancelled
from lifecycle.apps.stage import await_, is_open, say, wait


def build(url: str | None = None, **options: Any) -> Holdfast:
    """The same application, for a worker and for a test."""
    app = Holdfast(url, **options)

    @app.task(name="add")
    def add(a: int, b: int) -> int:
        return a + b

    @app.task(name="add_async")
    async def add_async(a: int, b: int) -> int:
        return a + b

    @app.task(name="nothing")
    def nothing() -> None:
        pass

    @app.task(name="note")
    def note(name: str) -> None:
        say("ran", name)

    @app.task(name="hold", backoff=0)
    def hold(name: str, gate: str = "") -> str:
        say("started", name)
        wait(gate)
        say("ended", name)
        return name

    @app.task(name="hold_async", backoff=0)
    async def hold_async(name: str, gate: str = "") -> str:
        say("started", name)
        await await_(gate)
        say("ended", name)
        return name

    @app.task(name="heed", backoff=0)
    def heed(name: str, gate: str) -> str:
        try:
            say("started", name)
            wait(gate)
        except (Cancelled, TimeLimit) as error:
            say(type(error).__name__, name)
            raise
        return name

    @app.task(name="heed_async", backoff=0)
    async def heed_async(name: str, gate: str) -> str:
        say("started", name)
        try:
            await await_(gate)
        except asyncio.CancelledError:
            say("CancelledError", name)
            raise
        return name

    @app.task(name="defy", backoff=0)
    def defy(name: str, gate: str) -> None:
        try:
            say("started", name)
            wait(gate)
        except (Cancelled, TimeLimit):
            # Nobody interrupts it a second time.
            say("defies", name)
            wait(gate)
        say("ended", name)

    @app.task(name="die", backoff=0)
    def die(how: str) -> None:
        say("started", how)
        if how == "exit":
            os._exit(3)
        os.kill(os.getpid(), getattr(signal, how))
        time.sleep(60)

    @app.task(name="fail", backoff=0)
    def fail(name: str, times: int) -> int:
        run = current_job()
        assert run is not None
        say("ran", name)
        if run.attempt <= times:
            raise RuntimeError("not yet")
        return run.attempt

    @app.task(name="end", backoff=0)
    def end(how: str) -> str:
        """Ends in each way that a job may."""
        run = current_job()
        assert run is not None
        say("ran", how)
        if how == "sys.exit" and run.attempt == 1:
            sys.exit(1)
        if how == "KeyboardInterrupt" and run.attempt == 1:
            raise KeyboardInterrupt
        if how == "retry" and run.attempt == 1:
            raise Retry(delay=0)
        if how == "cancel":
            raise Cancel("no need")
        return how

    @app.task(name="end_oddly", retries=0)
    def end_oddly(how: str) -> Any:
        """Ends with something that nobody can look at without harm."""

        class Odd(Exception):
            def __str__(self) -> str:
                raise ZeroDivisionError

            def model_dump(self, mode: str) -> None:
                raise ZeroDivisionError

        say("ran", how)
        if how == "result":
            return Odd()
        if how == "error":
            raise Odd
        raise {"reason": Cancel("\ud800"), "message": RuntimeError("\ud800"), "time": Snooze(0.01)}[how]

    @app.task(name="end_oddly_async", retries=0)
    async def end_oddly_async(how: str) -> Any:
        return end_oddly(how)

    @app.task(name="snooze")
    def snooze(name: str, gate: str) -> str:
        say("ran", name)
        if not is_open(gate):
            raise Snooze(0.05)
        return name

    @app.task(name="spawn", backoff=0)
    def spawn(name: str, queues: list[str], gate: str = "") -> None:
        say("spawning", name)
        for queue in queues:
            note.using(queue=queue).spawn(f"{name}>{queue}")
        wait(gate)

    @app.task(name="spawn_then_fail", backoff=0)
    def spawn_then_fail(name: str) -> None:
        run = current_job()
        assert run is not None
        note.spawn(f"{name} of attempt {run.attempt}")
        if run.attempt < 3:
            raise RuntimeError("this attempt bears nothing")

    return app


app = build()
#: The same, but it does not wait long for the server.
hasty = build(timeout=1)
