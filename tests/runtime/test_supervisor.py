"""What takes back, delivers and is told: the supervisor's tools."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from typing import Any

import pytest

from holdfast.engine.keys import Partition
from holdfast.engine.model import Entry, Settlement
from holdfast.engine.store import Registry, Store, pack_entries
from holdfast.runtime.child import GONE
from holdfast.runtime.relay import relay
from holdfast.runtime.slots import Slots
from holdfast.runtime.supervisor import Child, how_it_ended
from holdfast.runtime.sweeper import Sweep, sweep_silent, take_back
from holdfast.wire.sync import Link


def hold(link: Link, store: Store, token: str, ids: list[str], lease_ms: int = 60_000) -> Any:
    """*token* is enlisted, and holds these; the answer to its claim."""
    link.run(store.renew(lease_ms, [token], enlist=True))
    link.run(store.put(f"sender of {token}", 1, [Entry(id, b"{}") for id in ids]))
    return link.run(store.claim(token, len(ids)))


# -- sweeping -------------------------------------------------------------------------------------


def test_who_is_silent_is_swept_and_who_lives_is_not(link: Link, store: Store) -> None:
    hold(link, store, "alive", ["a"])
    hold(link, store, "silent", ["b"])
    clock = link.run(store.renew(0, ["silent"])).now
    assert sweep_silent(link, store, clock + 1, 3) == ["silent"]
    assert link.run(store.tokens()).keys() == {"alive"}
    assert link.run(store.page("suspects", 0, 9)).keys() == {"b"}


def test_more_than_one_call_can_carry_is_taken_back_as_well(link: Link, store: Store) -> None:
    ids = [f"{i:04}" for i in range(1000)]
    hold(link, store, "died", ids)
    assert take_back(link, store, Sweep("died", "died", ("0500",), "it fell"), 3) == 1000
    assert link.run(store.size("ready")) == 999
    assert link.run(store.page("suspects", 0, 9)).keys() == {"0500"}


def test_the_words_on_a_grave_say_why_and_how_often(link: Link, store: Store) -> None:
    hold(link, store, "died", ["a"])
    take_back(link, store, Sweep("died", "died", ("a",), "its process was killed by SIGKILL"), 1)
    assert link.run(store.look("a")).error == "poison: its process was killed by SIGKILL, 1 times"


# -- relaying -------------------------------------------------------------------------------------


def send(link: Link, store: Store, *targets: str) -> None:
    """A step that brings one entry to each of these partitions."""
    claimed = hold(link, store, f"worker of {targets}", [f"mother of {targets}"])
    born = [(target, pack_entries([Entry(f"{i} for {target}", b"{}")])) for i, target in enumerate(targets)]
    settlement = Settlement(claimed.ids[0], claimed.fences[0], "done", born_elsewhere=born)
    assert link.run(store.settle(f"worker of {targets}", 1, settlement)) == "done"


def ready(link: Link, partition: str) -> list[str]:
    return list(link.run(Store(Partition.parse(partition)).page("ready", 0, 2000)))


def test_what_was_brought_reaches_its_partition_in_its_order_and_makes_the_queue_known(
    link: Link, store: Store
) -> None:
    send(link, store, "test/other/0", "test/other/2", "test/other/0")
    assert relay(link, store)
    assert ready(link, "test/other/0") == ["0 for test/other/0", "2 for test/other/0"]
    assert ready(link, "test/other/2") == ["1 for test/other/2"]
    assert link.run(store.size("outbox")) == 0
    assert link.run(Registry("test").queues()) == {"other": 1}


def test_a_target_that_takes_nothing_does_not_keep_the_others_from_theirs(link: Link, store: Store) -> None:
    link.command("SET", "hf:{test/stuck/0}:jobs", "not a hash")
    send(link, store, "test/stuck/0", "test/free/0", "test/stuck/0", "test/free/0")
    assert not relay(link, store)
    assert len(ready(link, "test/free/0")) == 2
    assert link.run(store.size("outbox")) == 2
    link.command("DEL", "hf:{test/stuck/0}:jobs")
    assert relay(link, store)
    assert ready(link, "test/stuck/0") == ["0 for test/stuck/0", "2 for test/stuck/0"]


def test_a_long_tail_for_a_target_that_takes_nothing_hides_nobody_behind_it(link: Link, store: Store) -> None:
    link.command("SET", "hf:{test/stuck/0}:jobs", "not a hash")
    send(link, store, *["test/stuck/0"] * 300, "test/free/0")
    assert not relay(link, store)
    assert len(ready(link, "test/free/0")) == 1


def test_what_was_delivered_but_not_dropped_is_delivered_once(link: Link, store: Store) -> None:
    send(link, store, "test/other/0")
    (out,) = link.run(store.relay(10))
    assert relay(link, store)
    link.command("ZADD", store.partition.key("outbox"), out.place, b"%d\0test/other/0\0%b" % (out.place, out.entries))
    assert relay(link, store)
    assert len(ready(link, "test/other/0")) == 1


# -- children -------------------------------------------------------------------------------------


@pytest.fixture
def child() -> Any:
    child = Child(os.getpid(), "token", Slots(1), *os.pipe())
    os.set_blocking(child.mouth, False)
    yield child
    os.close(child.ear)
    child.close()


@pytest.mark.parametrize(
    ("code", "words"),
    [(3, "exited with code 3"), (-signal.SIGKILL, "was killed by SIGKILL"), (-99, "was killed by signal 99")],
)
def test_an_end_has_words(code: int, words: str) -> None:
    assert how_it_ended(code) == words


def test_only_jobs_that_had_started_in_a_child_that_fell_are_suspected(child: Child) -> None:
    fell = child.sweep(-signal.SIGSEGV, ["a", "b"])
    assert (fell.cause, fell.culprits, fell.error) == ("died", ("a", "b"), "its process was killed by SIGSEGV")
    for code in (0, GONE):
        assert child.sweep(code, ["a"]).cause == "left"
    assert replace(child, is_unwanted=True).sweep(-signal.SIGKILL, ["a"]).cause == "left"


def test_of_a_child_that_was_ended_for_one_job_only_that_one_is_suspected(child: Child) -> None:
    sweep = replace(child, overdue="b").sweep(-signal.SIGKILL, ["a", "b"])
    assert (sweep.cause, sweep.culprits, sweep.error) == ("died", ("b",), "over its hard limit")


def test_a_child_that_does_not_listen_cannot_stop_who_speaks_to_it(child: Child) -> None:
    for i in range(10_000):
        child.tell(f"cancel {i:020}")
    assert os.read(child.ear, 100).startswith(b"cancel 00000000000000000000\n")
