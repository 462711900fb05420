"""An application for a real worker; `HOLDFAST_URL` says where its server is."""

from __future__ import annotations

import asyncio
import logging
import threading
import time

from holdfast import Cancel, Holdfast, Retry, Snooze, current_job

app = Holdfast(namespace="shop")
log = logging.getLogger("shop")


@app.task
def add(a: int, b: int) -> int:
    return a + b


@app.task
async def multiply(a: int, b: int) -> int:
    await asyncio.sleep(0)
    return a * b


@app.task
def nothing() -> None:
    """Keep nothing."""


@app.task(retries=0)
def fail(text: str) -> None:
    raise ValueError(text)


@app.task(retries=2, backoff=0)
def fail_until(attempt: int) -> int:
    """Fail until this attempt."""
    run = current_job()
    assert run is not None
    if run.attempt < attempt:
        raise ValueError(f"attempt {run.attempt}")
    return run.attempt


@app.task(retries=1)
async def return_ends(how: str) -> object:
    run = current_job()
    assert run is not None
    if run.attempt > 1 or how == "cancel":
        return Cancel(f"at attempt {run.attempt}")
    return Retry(delay=0) if how == "retry" else Snooze(0)


@app.task
def tell(how: str, until_cancelled: bool) -> str:
    """Say how far it is, in three ways to log, and perhaps wait for the end."""
    run = current_job()
    assert run is not None
    run.progress(0.5, how)
    run.log(f"{how} by itself")
    log.warning("%s by logging", how)
    while until_cancelled:
        time.sleep(0.005)
        run.check_cancelled()
    return how


@app.task
async def atell() -> str:
    """The same in an event loop."""
    run = current_job()
    assert run is not None
    log.warning("from a loop")
    run.progress(0.25)
    await asyncio.Event().wait()
    return "never"


@app.task
def log_from_a_thread() -> int:
    """A thread of the job's own is not the job."""
    thread = threading.Thread(target=log.warning, args=("nobody's",))
    thread.start()
    thread.join()
    log.warning("mine")
    return 1
