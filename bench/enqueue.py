"""Putting jobs: many at once beside the bare loop, one beside a plain EVALSHA of redis-py."""

from __future__ import annotations

import time
from contextlib import ExitStack

import redis

from bench import bare
from bench.figure import Figure, at_least, in_turns, no_slower, shown
from bench.place import DURABLE, Server, application
from holdfast import Holdfast
from holdfast.engine.store import Store
from holdfast.wire.script import load
from holdfast.wire.sync import Link

MANY = 100_000
SOME = 500
TEXT = "twenty characters are"


def figures(rounds: int) -> list[Figure]:
    """Jobs a second into a durable server; microseconds for one into a server without persistence."""
    with ExitStack() as stack:
        durable, server = stack.enter_context(application(*DURABLE))
        plain, plain_server = stack.enter_context(application())
        limit, many = in_turns(rounds, lambda: _bare(server), lambda: _many(durable, server))
        evalsha, one = in_turns(rounds * 10, lambda: _evalsha(plain, plain_server), lambda: _one(plain, plain_server))
    return [
        shown("bare loop of put, fsync", limit, "jobs/s"),
        at_least("enqueue_many, fsync", many, limit, "jobs/s", "bare loop of put", 0.6),
        shown("one EVALSHA of put through redis-py, no fsync", evalsha, "µs"),
        no_slower("one enqueue, no fsync", one, evalsha, "µs", "EVALSHA", 1.0),
    ]


def _bare(server: Server) -> float:
    link = Link(server.address)
    store = Holdfast(server.url, namespace="bare").client.store_at("default", 0)
    took = bare.put_all(
        link, store, bare.entries(MANY, b'{"task":"bench.jobs.label","args":[12345,"%b"]}' % TEXT.encode())
    )
    link.command("FLUSHALL")
    link.close()
    return MANY / took


def _many(app: Holdfast, server: Server) -> float:
    calls = [(n, TEXT) for n in range(MANY)]
    task = app.tasks["bench.jobs.label"]
    start = time.perf_counter()
    task.enqueue_many(calls)
    took = time.perf_counter() - start
    server.flush()
    return MANY / took


def _evalsha(app: Holdfast, server: Server) -> float:
    """The same script with the same keys and arguments, as anybody would call it."""
    store: Store = app.client.store_at("default", 0)
    script = load("holdfast.engine", "put")
    client = redis.Redis(unix_socket_path=str(server.socket))
    sha = client.script_load(script.source)
    keys = [*(store.partition.key(name) for name in script.keys), store.partition.key("sender", "bench")]
    new = bare.entries(SOME)
    start = time.perf_counter()
    for number, entry in enumerate(new, 1):
        client.evalsha(sha, len(keys), *keys, number, 3_600_000, entry.id, entry.envelope, b"")
    took = time.perf_counter() - start
    server.flush()
    client.close()
    return took / SOME * 1e6


def _one(app: Holdfast, server: Server) -> float:
    task = app.tasks["bench.jobs.noop"]
    task.enqueue()
    start = time.perf_counter()
    for _ in range(SOME):
        task.enqueue()
    took = time.perf_counter() - start
    server.flush()
    return took / SOME * 1e6
