"""What stays behind, and what stands still: nothing. A worker does not grow, and one bad queue stops no other."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from holdfast import Holdfast
from holdfast.wire.sync import Link
from lifecycle.conftest import Start
from lifecycle.play import Stage, until
from servers import Server

PAGE = os.sysconf("SC_PAGE_SIZE")


def test_neither_process_grows_with_the_jobs_it_has_seen(start: Start, app: Holdfast, tasks: Any) -> None:
    worker = start()

    def run(count: int) -> list[int]:
        jobs = tasks.add.using(result_ttl=0).enqueue_many([(i, i) for i in range(count)])
        jobs += [tasks.add_async.using(result_ttl=0).enqueue(1, 1)]
        for job in jobs[-2:]:
            job.result(timeout=60)
        until(lambda: not app.client.run(app.client.store_at("default", 0).size("jobs")), "end of all jobs")
        return [_resident(pid) for pid in (worker.pid, *worker.children)]

    run(5000)
    before = run(5000)
    for _ in range(4):
        after = run(5000)
    # A hundred bytes a job would be two megabytes.
    assert max(a - b for a, b in zip(after, before, strict=True)) < 1_500_000


def test_an_idle_system_leaves_no_trace_but_who_is_there(
    start: Start, stage: Stage, server: Server, app: Holdfast, tasks: Any
) -> None:
    worker = start("--processes", 2, "--lease", 1)
    tasks.hold.using(key="k", unique="u", priority=3).enqueue("a").result(timeout=30)
    tasks.fail.enqueue("a", 1).result(timeout=30)
    tasks.spawn.enqueue("a", ["default", "other"]).result(timeout=30)
    stage.next("ran", "a>default")
    store = app.client.store_at("default", 0)
    until(lambda: app.client.run(store.size("outbox")) == 0, "empty outbox")
    os.kill(worker.children[0], signal.SIGKILL)
    worker.says("child.ready", times=3)
    start("--lease", 1).says("child.ready")
    worker.kill()
    # The one that is left forgets the dead ones.
    until(lambda: len(app.client.run(store.tokens())) == 1, "forgotten tokens")
    until(lambda: len(app.client.run(app.client.registry.present())) == 1, "forgotten presence")
    link = Link(server.address)
    keys = [name.decode() for name in link.command("KEYS", "hf:{app/default/0}:*")]
    eternal = [name for name in link.command("KEYS", "hf:{app/*}:result:*") if link.command("TTL", name) < 0]
    link.close()
    kinds = {key.rpartition("}:")[2].partition(":")[0] for key in keys}
    assert kinds <= {"meta", "workers", "idle", "calls", "sender", "result"}
    assert eternal == []


def test_a_queue_that_cannot_be_read_does_not_stop_the_others(
    start: Start, stage: Stage, server: Server, app: Holdfast, tasks: Any
) -> None:
    for queue in ("bad", "worse"):
        app.client.announce(queue)
    link = Link(server.address)
    broken = ["hf:{app/bad/0}:ready", "hf:{app/worse/0}:workers"]
    for name in broken:
        link.command("SET", name, "not what it should be")
    worker = start("--queues", "bad,worse,default", "--lease", 0.5)
    job = tasks.hold.enqueue("a", "gate")
    first = stage.next("started")
    os.kill(first.pid, signal.SIGKILL)
    assert stage.next("started").id == job.id
    worker.says("partition.broken partition=app/worse/0", times=3)
    stage.open("gate")
    assert job.result(timeout=30) == "a"
    # Repaired, it is served without a new start.
    link.command("DEL", *broken)
    link.close()
    worker.says("child.gone")
    assert tasks.hold.using(queue="worse").enqueue("b").result(timeout=30) == "b"
    assert tasks.hold.using(queue="bad").enqueue("b").result(timeout=30) == "b"
    assert worker.stop() == 0


def _resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
