"""A link of threads over a network that fails: what was lost is sent again as the same call."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from holdfast.engine.model import Claimed, Ended, Entry, Settlement
from holdfast.engine.store import Store
from holdfast.errors import QueueFull, ServerError, Unavailable
from holdfast.wire.call import Call
from holdfast.wire.connect import Address
from holdfast.wire.sync import Link, Pool
from proxy import Proxy
from servers import Server

FAULTS = ["cut_before", "cut_after"]


def entries(*ids: str) -> list[Entry]:
    return [Entry(id, b"E") for id in ids]


def put(link: Link, store: Store, *ids: str) -> Call[list[str]]:
    return store.put(link.sender.name, link.sender.next(), entries(*ids))


def counters(link: Link, store: Store) -> dict[str, str]:
    return link.run(store.meta())


def held(link: Link, store: Store, *ids: str) -> Claimed:
    """A worker `w` holds these."""
    link.run(store.renew(60_000, ["w"], enlist=True))
    link.run(put(link, store, *ids))
    return link.run(store.claim("w", len(ids)))


# -- a lost call is sent again, and applied once --------------------------------------------------


@pytest.mark.parametrize("fault", FAULTS)
def test_a_put_is_applied_once(proxy: Proxy, far: Link, link: Link, store: Store, fault: str) -> None:
    getattr(proxy, fault)("put")
    assert far.run(put(far, store, "a", "b")) == ["", ""]
    assert counters(link, store)["put"] == "2"


def test_a_put_is_applied_once_however_often_its_answer_is_lost(
    proxy: Proxy, far: Link, link: Link, store: Store
) -> None:
    for _ in range(4):
        proxy.cut_after("put")
    assert far.run(put(far, store, "a")) == [""]
    assert (counters(link, store)["put"], counters(link, store)["again"]) == ("1", "4")


def test_a_repeated_put_hears_the_first_answer(proxy: Proxy, far: Link, link: Link, store: Store) -> None:
    far.run(put(far, store, "a"))
    proxy.cut_after("put")
    assert far.run(put(far, store, "a", "b")) == ["a", ""]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_finish_is_applied_once(proxy: Proxy, far: Link, link: Link, store: Store, fault: str) -> None:
    claimed = held(link, store, "a", "b")
    ended = [Ended(id, fence) for id, fence in zip(claimed.ids, claimed.fences, strict=True)]
    getattr(proxy, fault)("finish")
    assert far.run(store.finish("w", 1, ended)) == ()
    assert counters(link, store)["done"] == "2"


@pytest.mark.parametrize(("fault", "word"), [("cut_before", "retry"), ("cut_after", "again")])
def test_a_settle_is_applied_once(proxy: Proxy, far: Link, link: Link, store: Store, fault: str, word: str) -> None:
    claimed = held(link, store, "a")
    settlement = Settlement(b"a", claimed.fences[0], "retry", 0, b"why", born_here=entries("child"))
    getattr(proxy, fault)("settle")
    assert far.run(store.settle("w", 1, settlement)) == word
    assert (counters(link, store)["retried"], counters(link, store)["put"]) == ("1", "2")


@pytest.mark.parametrize(("fault", "word"), [("cut_before", "released"), ("cut_after", "again")])
def test_a_release_is_applied_once(proxy: Proxy, far: Link, link: Link, store: Store, fault: str, word: str) -> None:
    claimed = held(link, store, "a")
    getattr(proxy, fault)("release")
    assert far.run(store.release("w", 1, claimed.fences[0], claimed.ids)) == word
    assert link.run(store.size("ready")) == 1


def test_several_calls_of_one_round_trip_are_repeated_together(
    proxy: Proxy, far: Link, link: Link, store: Store
) -> None:
    claimed = held(link, store, "a")
    proxy.cut_after("put")
    calls: list[Call[object]] = [
        store.finish("w", 1, [Ended(b"a", claimed.fences[0])]), put(far, store, "b"), store.claim("w", 5),
    ]  # fmt: skip
    finished, refused, brought = far.run_many(calls)
    assert (finished, refused) == ((), [""])
    assert isinstance(brought, Claimed)
    assert list(brought.ids) == [b"b"]
    assert (counters(link, store)["done"], counters(link, store)["put"]) == ("1", "2")


def test_what_was_claimed_and_not_heard_of_is_recalled(proxy: Proxy, far: Link, link: Link, store: Store) -> None:
    link.run(store.renew(60_000, ["w"], enlist=True))
    link.run(put(link, store, "a"))
    proxy.cut_after("claim")
    assert not far.run(store.claim("w", 5)).ids
    assert list(far.run(store.recall("w")).ids) == [b"a"]


# -- calls that are on their way while others are asked for ---------------------------------------


def test_answers_come_in_the_order_of_the_calls(far: Link, store: Store) -> None:
    for id in "abc":
        far.send([put(far, store, id), store.size("ready")])
    assert [far.receive() for _ in "abc"] == [[[""], 1], [[""], 2], [[""], 3]]


@pytest.mark.parametrize("lost", [1, 2])
@pytest.mark.parametrize("fault", FAULTS)
def test_each_of_two_calls_under_way_gets_its_own_answer(
    proxy: Proxy, far: Link, link: Link, store: Store, fault: str, lost: int
) -> None:
    """The second is lost with the first; a third that is sent meanwhile must not answer for it."""
    calls = [store.put(f"s{i % 2}", i // 2 + 1, entries(*"abcd"[i])) for i in range(4)]
    for _ in range(lost):
        getattr(proxy, fault)("put")
    answers = []
    for i, call in enumerate(calls):
        if i > 1:
            answers.append(far.conclude(calls[i - 2]))
        with suppress(Unavailable):
            far.send([call])
    answers += [far.conclude(call) for call in calls[2:]]
    assert answers == [[""]] * 4
    assert counters(link, store)["put"] == "4"


def test_what_was_sent_and_never_asked_for_answers_nobody_else(far: Link, store: Store) -> None:
    """Whoever sent it was interrupted; the next one starts afresh."""
    far.send([store.size("ready"), store.size("later")])
    assert far.run(put(far, store, "a")) == [""]
    assert far.run(store.size("ready")) == 1


def test_a_receive_without_its_send_is_an_outage(far: Link, store: Store) -> None:
    with pytest.raises(Unavailable):
        far.receive()
    far.send([store.size("ready")])
    far.close()
    with pytest.raises(Unavailable):
        far.receive()


# -- a server that has forgotten its scripts ------------------------------------------------------


def test_a_script_that_was_forgotten_is_said_in_full(proxy: Proxy, far: Link, link: Link, store: Store) -> None:
    far.run(put(far, store, "a"))
    link.command("SCRIPT", "FLUSH")
    assert far.run(put(far, store, "b")) == [""]
    assert counters(link, store)["put"] == "2"
    assert proxy.connections == 1


def test_scripts_forgotten_with_several_calls_under_way(proxy: Proxy, far: Link, link: Link, store: Store) -> None:
    """What was sent behind them is answered in its own turn."""
    link.run(store.renew(60_000, ["w"], enlist=True))
    link.command("SCRIPT", "FLUSH")
    far.send([put(far, store, "a"), store.size("ready")])
    far.send([store.claim("w", 5), store.look("a"), store.size("dead")])
    far.send([put(far, store, "b")])
    first, size = far.receive()
    claimed, look, dead = far.receive()
    assert first == [""]
    assert isinstance(claimed, Claimed)
    assert dead == 0
    assert far.receive() == [[""]]
    assert link.run(store.size("jobs")) == 2
    assert proxy.connections == 1
    assert {look.place, size} <= {"gone", "queued", "running", 0, 1}


def test_a_put_that_is_lost_while_it_is_said_in_full_is_applied_once(
    proxy: Proxy, far: Link, link: Link, store: Store
) -> None:
    """By its digest it is unknown; in full it is done, and nobody hears of it."""
    link.command("SCRIPT", "FLUSH")
    far.connect()
    by_digest = proxy.hold("put")
    with ThreadPoolExecutor(1) as threads:
        answer = threads.submit(far.run, put(far, store, "a"))
        by_digest.arrived.wait()
        proxy.cut_after("put")
        by_digest.go.set()
        assert answer.result() == [""]
    assert (counters(link, store)["put"], counters(link, store)["again"]) == ("1", "1")
    assert proxy.seen.count("put") == 3


# -- patience -------------------------------------------------------------------------------------


def test_a_link_waits_for_a_server_that_is_away(store: Store) -> None:
    """It is killed, and comes back within the time that a call may take."""
    server = Server()
    try:
        link = Link(server.address.within(20.0))
        link.run(store.size("ready"))
        server.kill()
        starter = threading.Timer(0.2, server.start)
        starter.start()
        assert link.run(store.size("ready")) == 0
        starter.join()
        link.close()
    finally:
        server.close()


def test_a_link_gives_up_when_the_time_is_over(store: Store) -> None:
    link = Link(Address("unix:///nowhere/at/all.sock", 0.3))
    began = time.monotonic()
    with pytest.raises(Unavailable, match="no answer from unix:///nowhere"):
        link.run(store.size("ready"))
    assert time.monotonic() - began >= 0.3


def test_an_answer_that_does_not_come_in_time_is_nobody_else_s(proxy: Proxy, link: Link, store: Store) -> None:
    """It comes after all, when the next call is under way: on a connection that is not used any more."""
    far = Link(proxy.address.within(0.2))
    far.connect()
    late = proxy.hold("put")
    with pytest.raises(Unavailable):
        far.run(put(far, store, "a"))
    late.go.set()
    assert far.run(put(far, store, "b", "c")) == ["", ""]
    assert proxy.connections == 2
    far.close()


def test_a_put_that_the_network_held_back_until_its_sender_went_on_does_nothing(
    proxy: Proxy, link: Link, store: Store
) -> None:
    far = Link(proxy.address.within(0.2))
    far.connect()
    late = proxy.hold("put")
    with pytest.raises(Unavailable):
        far.run(put(far, store, "a"))
    assert far.run(put(far, store, "b")) == [""]
    late.go.set()
    proxy.close()
    assert link.run(store.page("ready", 0, 9)).keys() == {"b"}


# -- what a server may refuse ---------------------------------------------------------------------


def test_a_refusal_is_raised_after_all_answers_were_read(far: Link, store: Store) -> None:
    wrong = Call(store._targets["pause"], list, ("no number",))
    with pytest.raises(ServerError, match="must be a whole number"):
        far.run_many([wrong, store.size("ready")])
    assert far.run_many([store.size("ready"), store.size("later")]) == [0, 0]


def test_a_refusal_of_one_call_stands_among_the_answers_of_the_others(far: Link, store: Store) -> None:
    far.send([Call(store._targets["pause"], list, ("no number",)), store.size("ready")])
    refused, size = far.receive()
    assert isinstance(refused, ServerError)
    assert size == 0


def test_a_full_server_takes_no_job_and_lets_workers_go_on(link: Link, store: Store) -> None:
    claimed = held(link, store, "a")
    link.command("CONFIG", "SET", "maxmemory", "1mb")
    try:
        with pytest.raises(QueueFull, match="out of memory"):
            link.run(put(link, store, "b"))
        assert link.run(store.finish("w", 1, [Ended(b"a", claimed.fences[0])])) == ()
        assert not link.run(store.claim("w", 5)).ids
    finally:
        link.command("CONFIG", "SET", "maxmemory", "0")
    assert link.run(put(link, store, "b")) == [""]


@pytest.mark.parametrize("prepare", [("REPLICAOF", "127.0.0.1", "1"), ("CONFIG", "SET", "min-replicas-to-write", "1")])
def test_a_server_that_cannot_write_now_is_unavailable(link: Link, store: Store, prepare: tuple[str, ...]) -> None:
    impatient = Link(link.address.within(0.2))
    link.command(*prepare)
    try:
        with pytest.raises(Unavailable, match="cannot do it now"):
            impatient.run(put(link, store, "a"))
    finally:
        link.command("REPLICAOF", "NO", "ONE")
        link.command("CONFIG", "SET", "min-replicas-to-write", "0")
    assert impatient.run(put(link, store, "a")) == [""]
    impatient.close()


# -- many threads, many processes -----------------------------------------------------------------


def test_each_thread_of_a_pool_has_its_own_conversation(proxy: Proxy, link: Link, store: Store) -> None:
    pool = Pool(proxy.address)

    def bring(i: int) -> list[str]:
        return pool.run(store.put(f"s{i}", 1, entries(f"e{i}")))

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(bring, range(40))) == [[""]] * 40
    assert link.run(store.size("ready")) == 40
    assert proxy.connections <= 8
    pool.close()


def test_who_is_stopped_between_question_and_answer_leaves_no_conversation_behind(proxy: Proxy, store: Store) -> None:
    def be_stopped() -> None:
        with pool.link() as link:
            link.write(b"*1\r\n$4\r\nPING\r\n")
            raise KeyboardInterrupt

    pool = Pool(proxy.address)
    with pytest.raises(KeyboardInterrupt):
        be_stopped()
    assert pool.run(store.size("ready")) == 0
    pool.close()


def test_a_forked_child_uses_no_connection_of_its_parent(proxy: Proxy, link: Link, store: Store) -> None:
    pool = Pool(proxy.address)
    pool.run(store.size("ready"))
    child = os.fork()
    if child == 0:
        os._exit(pool.run(store.put("child", 1, entries("a"))) != [""])
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert pool.run(store.size("ready")) == 1
    assert proxy.connections == 2
    pool.close()
