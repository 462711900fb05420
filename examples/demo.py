"""Every kind of job there is, in under a minute: `make demo`.

Without a URL it starts the embedded server, with its data in `.holdfast` beside this file, and a worker of two
processes. Both are gone when it ends; the data stays.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from holdfast import Cancel, Holdfast, JobDead, OptionError, PayloadError, Retry, current_job

HERE = Path(__file__).resolve().parent
app = Holdfast(namespace="demo", data=HERE / ".holdfast")
log = logging.getLogger("demo")


# -- the jobs ---------------------------------------------------------------------------------------


@dataclass
class Order:
    """What is sent as JSON and arrives as this class again."""

    number: int
    at: datetime


@app.task
def total(prices: list[float], order: Order) -> str:
    """Returns a value, which is kept for an hour."""
    return f"order {order.number} of {order.at:%Y}: {sum(prices):.2f}"


@app.task
async def fetch(page: int) -> int:
    """A coroutine: a hundred of them run at once in a process."""
    await asyncio.sleep(0.2)
    return page


@app.task
def nothing() -> None:
    """Shows what a job costs."""


@app.task
def late_by(due: datetime) -> float:
    """Milliseconds."""
    return (datetime.now(UTC) - due).total_seconds() * 1000


@app.task(retries=3, backoff=0.1)
def flaky() -> str:
    """Fails twice."""
    run = current_job()
    assert run is not None
    if run.attempt < 3:
        raise ConnectionError("the other side does not answer")
    return f"attempt {run.attempt}"


@app.task
def polite(patience: int) -> str:
    """Says itself when it wants to be tried again, or not at all."""
    run = current_job()
    assert run is not None
    if patience < 0:
        raise Cancel("nobody waits for it any more")
    if run.attempt == 1:
        raise Retry(delay=0.05)
    return "came back when it wanted to"


@app.task(retries=0)
def hopeless(path: str) -> str:
    """Dies, and works once it is revived after a repair."""
    return Path(path).read_text()


@app.task(key=lambda account, _: account)
def book(account: str, amount: int) -> None:
    """One at a time for each account, in the order they were put."""
    with (HERE / ".holdfast" / f"{account}.txt").open("a") as book:
        book.write(f"{amount} ")


@app.task
def checkout(order: int) -> None:
    """Its receipt is born in the step that finishes it, or never."""
    receipt.spawn(order)


@app.task
def receipt(order: int) -> None:
    """Written once."""
    with (HERE / ".holdfast" / "receipts.txt").open("a") as receipts:
        receipts.write(f"{order} ")


@app.task
def survivor() -> str:
    """Takes its process down the first time."""
    run = current_job()
    assert run is not None
    if run.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return f"attempt {run.attempt}"


@app.task(timeout=0.2, retries=0)
def endless() -> None:
    """Is stopped."""
    while True:
        time.sleep(0.01)


@app.task
def talkative(steps: int) -> str:
    """Says how far it is, and logs."""
    run = current_job()
    assert run is not None
    for step in range(1, steps + 1):
        time.sleep(0.15)
        log.warning("step %d is done", step)
        run.progress(step / steps, f"{step} of {steps}")
    return "all done"


# -- what happens to them ---------------------------------------------------------------------------


def main() -> None:
    """Start a worker, put jobs, say what happened."""
    (HERE / ".holdfast").mkdir(exist_ok=True)
    for old in (HERE / ".holdfast").glob("*.txt"):
        old.unlink()
    with app, worker():
        where = app.client.address.url
        print(f"{app.client.embedded.banner() if app.client.embedded else where}\n")
        plain()
        failing()
        ordered()
        surviving()
        audit = [command(), "audit", "--namespace", "demo", "--data", str(HERE / ".holdfast")]
        audited = subprocess.run(audit, check=True, text=True, capture_output=True)
        tell("holdfast audit, while all this ran", audited.stdout.splitlines()[-1])
    print(
        "\nThe worker and the server have ended, their data is in examples/.holdfast. Where to look next:\n"
        "  README.md                 start your own\n"
        "  docs/guide/               what else a task can do, and what is promised\n"
        "  examples/demo.py          all of the above as code"
    )


def plain() -> None:
    """Results, coroutines, masses, times."""
    job = total.enqueue([19.9, 5], Order(7, datetime(2026, 1, 1, tzinfo=UTC)))
    tell("a function, its arguments checked and decoded", job.result(timeout=10))
    start = time.monotonic()
    pages = [job.result(timeout=10) for job in fetch.enqueue_many([(n,) for n in range(100)])]
    tell(f"{len(pages)} coroutines of 0.2 s each", f"{time.monotonic() - start:.2f} s for all of them")
    start = time.monotonic()
    jobs = nothing.enqueue_many([() for _ in range(50_000)])
    put_s = time.monotonic() - start
    jobs[-1].result(timeout=30)
    took = time.monotonic() - start
    tell(
        "50,000 jobs that do nothing, each safe on disk",
        f"all put after {put_s:.2f} s, all done after {took:.2f} s",
    )
    due = datetime.now(UTC) + timedelta(milliseconds=300)
    tell("a job for a time of day", f"{late_by.using(run_at=due).enqueue(due).result(timeout=10):.1f} ms late")
    unwanted = nothing.using(delay=3600).enqueue()
    unwanted.cancel()
    tell("one for in an hour, cancelled", unwanted.status())
    with refused() as told:
        total.enqueue(["nineteen"], Order(8, datetime.now(UTC)))
    tell("arguments that do not fit, refused at once", told[0])
    with refused() as told:
        nothing.using(dealy=5)  # type: ignore[call-arg]
    tell("an option that does not exist", told[0].partition(";")[0])


def failing() -> None:
    """Retries, deaths, revivals, limits."""
    tell("fails twice, is tried again", flaky.enqueue().result(timeout=10))
    tell("asks to be tried again", polite.enqueue(1).result(timeout=10))
    cancelled = polite.enqueue(-1)
    until(lambda: cancelled.status() == "cancelled")
    tell("cancels itself", cancelled.status())
    missing = HERE / ".holdfast" / "missing.txt"
    job = hopeless.enqueue(str(missing))
    try:
        job.result(timeout=10)
    except JobDead as dead:
        tell("out of retries", f"dead: {dead.reason.partition(':')[0]}")
    missing.write_text("found")
    job.revive()
    tell("revived after the repair", job.result(timeout=10))
    try:
        endless.enqueue().result(timeout=10)
    except JobDead as dead:
        tell("over its time limit", dead.reason)


def ordered() -> None:
    """Keys, priorities, spawned jobs, progress."""
    accounts = ("ann", "ben")
    jobs = book.enqueue_many([(account, n) for n in range(1, 11) for account in accounts])
    for job in jobs:
        job.result(timeout=10)
    written = (HERE / ".holdfast" / "ann.txt").read_text()
    tell("ten jobs of one key, on ten threads", f"in order: {written.strip()}")
    for job in checkout.enqueue_many([(n,) for n in range(5)]):
        job.result(timeout=10)
    receipts = HERE / ".holdfast" / "receipts.txt"
    until(lambda: receipts.exists() and len(receipts.read_text().split()) == 5)
    tell("five jobs that each spawn another", f"receipts {' '.join(sorted(receipts.read_text().split()))}")
    job = talkative.enqueue(3)
    until(lambda: job.progress() is not None)
    seen = job.progress()
    job.result(timeout=10)
    assert seen is not None
    tell("a job that says how far it is", f"{seen.share:.0%} ({seen.text}); its log ends: {job.logs()[-1].text}")


def surviving() -> None:
    """A killed process, a killed server."""
    start = time.monotonic()
    survived = survivor.enqueue().result(timeout=10)
    tell("kills its process with -9", f"{survived}, {time.monotonic() - start:.2f} s later")
    if app.client.embedded is not None:
        jobs = nothing.enqueue_many([() for _ in range(20_000)])
        status = app.client.embedded.status()
        assert status.pid is not None
        os.kill(status.pid, signal.SIGKILL)
        for job in jobs:
            job.result(timeout=30)
        tell("kill -9 of the server with 20,000 jobs on it", f"{len(jobs):,} asked for, {len(jobs):,} done")


# -- helpers ----------------------------------------------------------------------------------------


def command() -> str:
    """The command line that was installed beside this Python."""
    return str(Path(sys.executable).with_name("holdfast"))


@contextmanager
def worker():
    """`holdfast worker demo:app`, until the block ends; under the name that this module has for its own tasks."""
    module = total.name.rpartition(".")[0]
    with (HERE / ".holdfast" / "worker.log").open("w") as worker_log:
        process = subprocess.Popen(
            [command(), "worker", f"{module}:app", "--processes", "2"], stderr=worker_log, stdout=worker_log
        )
    try:
        yield
    finally:
        process.terminate()
        process.wait()


@contextmanager
def refused():
    """What is wrong is said at the earliest moment."""
    told: list[str] = []
    try:
        yield told
    except (OptionError, PayloadError, ValueError) as error:
        told.append(str(error))


def until(what) -> None:
    """Look again, for ten seconds at most."""
    deadline = time.monotonic() + 10
    while not what():
        assert time.monotonic() < deadline, "this did not happen"
        time.sleep(0.01)


def tell(what: str, happened: str) -> None:
    """One line."""
    print(f"  {what:<52} {happened}")


if __name__ == "__main__":
    main()
