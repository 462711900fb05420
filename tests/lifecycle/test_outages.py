"""The server goes away under a worker: killed, frozen, restarted. Whatever it had acknowledged is still there."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from holdfast import Holdfast
from holdfast.admin.audit import audit
from holdfast.errors import EmbeddedError, Unavailable
from lifecycle.apps.jobs import build
from lifecycle.conftest import Start
from lifecycle.play import Stage, is_alive, until
from servers import DURABLE, Server

#: It does not wait long for a server.
HASTY = "lifecycle.apps.jobs:hasty"


@pytest.fixture
def server() -> Iterator[Server]:
    """A server of this test alone, that writes all to disk before it answers."""
    server = Server(*DURABLE)
    yield server
    server.close()


class Producer(threading.Thread):
    """Puts jobs one after the other, and knows which ones were acknowledged."""

    def __init__(self, app: Holdfast) -> None:
        super().__init__()
        self.app = app
        self.acknowledged: list[str] = []
        self.uncertain = 0
        self.stop = threading.Event()

    def run(self) -> None:
        note = self.app.tasks["note"]
        while not self.stop.is_set():
            try:
                self.acknowledged.append(note.enqueue("n").id)
            except (Unavailable, EmbeddedError):
                self.uncertain += 1

    def reaches(self, count: int) -> None:
        until(lambda: len(self.acknowledged) >= count, "acknowledged jobs", lambda: len(self.acknowledged))


def _load_with_kills(app: Holdfast, stage: Stage, kill: Any, kills: int = 3) -> None:
    producers = [Producer(app) for _ in range(2)]
    for producer in producers:
        producer.start()
    try:
        for i in range(kills):
            producers[0].reaches((i + 1) * 50)
            kill()
        producers[0].reaches((kills + 1) * 50)
    finally:
        for producer in producers:
            producer.stop.set()
            producer.join()
    acknowledged = {id for producer in producers for id in producer.acknowledged}
    until(lambda: _is_empty(app), "empty queues", lambda: audit(app.client))
    ran = {fact.id for fact in stage.said("ran")}
    assert acknowledged <= ran
    # Whoever got no answer may have put a job or not, and nobody put any other.
    assert len(ran) <= len(acknowledged) + sum(producer.uncertain for producer in producers)


def test_a_server_killed_under_load_loses_nothing_that_it_acknowledged(
    start: Start, stage: Stage, server: Server, app: Holdfast
) -> None:
    worker = start("--processes", 2)
    _load_with_kills(app, stage, server.restart)
    assert worker.stop() == 0
    assert worker.log.count("child.ready") == 2


def test_an_embedded_server_killed_under_load_comes_back_and_has_lost_nothing(
    start: Start, stage: Stage, tmp_path: Path
) -> None:
    with build("", data=tmp_path / ".holdfast") as app:
        worker = start("--processes", 2, url="", cwd=tmp_path)

        def kill() -> None:
            pid = app.client.embedded.status().pid  # type: ignore[union-attr]
            os.kill(pid, signal.SIGKILL)
            until(lambda: not is_alive(pid), "end of the server")

        _load_with_kills(app, stage, kill)
        assert worker.stop() == 0
        assert [problem for report in audit(app.client) for problem in report.problems] == []


def test_bells_ring_again_after_the_server_was_restarted_under_an_idle_worker(
    start: Start, stage: Stage, server: Server, app: Holdfast
) -> None:
    start().says("child.ready")
    delays = []
    for _ in range(5):
        until(lambda: _idle(app), "idle worker")
        server.restart()
        until(lambda: _idle(app), "idle worker")
        # Twice: the first one finds out that the connection of the test is gone.
        app.tasks["note"].enqueue("first")
        stage.next("ran", "first")
        until(lambda: _idle(app), "idle worker")
        put = time.monotonic()
        app.tasks["note"].enqueue("second")
        stage.next("ran", "second")
        delays.append(time.monotonic() - put)
    assert median(delays) < 0.2, delays


def test_a_frozen_server_costs_time_and_nothing_else(start: Start, stage: Stage, server: Server, tasks: Any) -> None:
    worker = start()
    running = tasks.hold.enqueue("running", "gate")
    stage.next("started")
    assert server.process is not None
    server.process.send_signal(signal.SIGSTOP)
    stage.open("gate")
    stage.next("ended")
    time.sleep(2)
    server.process.send_signal(signal.SIGCONT)
    assert running.result(timeout=30) == "running"
    assert tasks.add.enqueue(1, 1).result(timeout=30) == 2
    assert stage.said("started") == []
    assert worker.log.count("child.ready") == 1
    assert worker.stop() == 0


def test_after_an_outage_longer_than_the_lease_nobody_takes_over_what_others_still_run(
    start: Start, stage: Stage, server: Server, tasks: Any
) -> None:
    workers = [start("--threads", 1, "--lease", 0.5) for _ in range(2)]
    jobs = tasks.hold.enqueue_many([("a", "gate"), ("b", "gate")])
    assert len({fact.pid for fact in stage.several(2, "started")}) == 2
    server.kill()
    for worker in workers:
        worker.says("server.away")
    time.sleep(1)
    server.start()
    for worker in workers:
        worker.says("server.back")
    stage.open("gate")
    assert {job.result(timeout=30) for job in jobs} == {"a", "b"}
    assert stage.said("started") == []
    for worker in workers:
        assert "gone" not in worker.log
        assert worker.stop() == 0


@pytest.mark.parametrize("busy", [False, True])
def test_a_worker_can_be_stopped_while_the_server_is_away(
    start: Start, stage: Stage, server: Server, tasks: Any, busy: bool
) -> None:
    worker = start("--stop-timeout", 1, "--lease", 3, place=HASTY)
    worker.says("child.ready")
    job = tasks.hold.enqueue("a", "gate")
    if busy:
        stage.next("started")
    else:
        stage.open("gate")
        assert job.result(timeout=30) == "a"
    server.kill()
    assert worker.stop() == 0
    server.start()
    stage.open("gate")
    start()
    assert job.result(timeout=30) == "a"


def test_what_ended_while_the_server_was_away_is_committed_when_it_is_back(
    start: Start, stage: Stage, server: Server, tasks: Any
) -> None:
    start("--threads", 3)
    jobs = tasks.hold.enqueue_many([(f"{i}", "gate") for i in range(3)])
    stage.several(3, "started")
    server.kill()
    stage.open("gate")
    stage.several(3, "ended")
    server.start()
    assert [job.result(timeout=30) for job in jobs] == ["0", "1", "2"]
    assert stage.said("started") == []


@pytest.mark.parametrize("url", ["redis://127.0.0.1:1", "unix:///nowhere/v.sock", "nonsense"])
def test_a_worker_without_a_server_says_so_and_ends(start: Start, url: str) -> None:
    worker = start(url=url, place=HASTY)
    assert worker.wait() == 1
    assert "Traceback" not in worker.log
    assert "Error: " in worker.log
    assert url.partition("//")[2] in worker.log


def _idle(app: Holdfast) -> bool:
    try:
        return app.client.run(app.client.store_at("default", 0).size("idle")) > 0
    except Unavailable:
        return False


def _is_empty(app: Holdfast) -> bool:
    return all(report.numbers["jobs"] == 0 for report in audit(app.client))
