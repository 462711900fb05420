"""claim: hand over ready entries to a worker, all under one new fence."""

from __future__ import annotations

import pytest

from engine.keyspace import FENCE, LEASE_END, NOW, Keyspace, but, entry, hold, jobs, marks
from holdfast.engine.model import Claimed, Marks
from holdfast.engine.store import Store
from holdfast.errors import OptionError
from holdfast.ids import encode, is_id, made_ms

WORKER = {"w": LEASE_END}


def claimed(
    *ids: str, fence: int = FENCE, suspects: int = 0, marks: list[bytes | None] | None = None, now: int = NOW
) -> Claimed:
    """The answer to a claim of these entries."""
    names = [id.encode() for id in ids]
    envelopes = [id.upper().encode() for id in ids]
    fences = [b"%d" % fence] * len(ids)
    return Claimed("claimed", now, -1, suspects, names, fences, envelopes, marks or [None] * len(ids))


def nothing(next_due: int = -1, suspects: int = 0) -> Claimed:
    """The answer to a claim that found nothing."""
    return Claimed("claimed", NOW, next_due, suspects, [], [], [], [])


def test_the_first_ones_are_handed_over(keyspace: Keyspace, store: Store) -> None:
    before = keyspace.given({"jobs": jobs("a", "b", "c"), "ready": {"a": 1, "b": 2, "c": 3}, "workers": WORKER})
    assert keyspace.run(store.claim("w", 2)) == claimed("a", "b")
    changes = {"ready": {"c": 3}, "held:w": {"a": hold(1), "b": hold(2)}, "meta": {"fence": FENCE}}
    assert keyspace.state() == but(before, changes)


def test_the_order_is_that_of_priority_then_front_then_time_then_id(keyspace: Keyspace, store: Store) -> None:
    keyspace.given({"workers": WORKER})
    keyspace.run(store.put("me", 1, [entry("f1", front=True), entry("z"), entry("b"), entry("low", priority=-1)]))
    keyspace.link.command("HSET", store.partition.key("meta"), "clock", NOW + 1)
    keyspace.run(store.put("me", 2, [entry("f2", front=True), entry("a"), entry("high", priority=1)]))
    keyspace.run(store.put("me", 3, [entry("top", priority=1, front=True)]))
    ids = keyspace.run(store.claim("w", 10)).ids
    assert [id.decode() for id in ids] == ["top", "high", "f2", "f1", "b", "z", "a", "low"]


def test_an_entry_comes_with_its_marks(keyspace: Keyspace, store: Store) -> None:
    own = marks(failures=2, crashes=1, expires=NOW + 9, flags="kc")
    before = keyspace.given({"jobs": jobs("a", "b"), "ready": {"a": 1, "b": 2}, "marks": {"b": own}, "workers": WORKER})
    answer = keyspace.run(store.claim("w", 2))
    assert answer == claimed("a", "b", marks=[None, own.encode()])
    assert [Marks.parse(mark) for mark in answer.marks] == [Marks(), Marks(2, 1, NOW + 9, True)]
    changes = {"ready": None, "held:w": {"a": hold(1), "b": hold(2)}, "meta": {"fence": FENCE}}
    assert keyspace.state() == but(before, changes)


def test_a_claim_adds_to_what_is_held(keyspace: Keyspace, store: Store) -> None:
    state = {"jobs": jobs("a", "b"), "ready": {"b": 2}, "held:w": {"a": hold(1)}, "workers": WORKER}
    before = keyspace.given(state | {"meta": {"fence": FENCE}})
    assert keyspace.run(store.claim("w", 5)) == claimed("b", fence=FENCE + 1)
    changes = {
        "ready": None,
        "held:w": {"a": hold(1), "b": hold(2, FENCE + 1)},
        "meta": {"fence": FENCE + 1},
    }
    assert keyspace.state() == but(before, changes)


def test_orders_come_back_exactly_however_large_they_are(keyspace: Keyspace, store: Store) -> None:
    orders = {"a": -(2**53) + 1, "b": -NOW, "c": 0, "d": 10**15, "e": 2**53 - 1}
    before = keyspace.given({"jobs": jobs(*orders), "ready": orders, "workers": WORKER})
    answer = keyspace.run(store.claim("w", 5))
    keyspace.run(store.release("w", 1, answer.fences[0], answer.ids))
    assert keyspace.state() == but(before, {"calls": {"w": 1}, "meta": {"fence": FENCE}})


# -- when there is nothing ----------------------------------------------------------------------------


def test_who_finds_nothing_waits_and_leaves_no_other_trace(keyspace: Keyspace, store: Store) -> None:
    before = keyspace.given({"workers": WORKER})
    assert keyspace.run(store.claim("w", 10)) == nothing()
    assert keyspace.state() == but(before, {"idle": {"w": NOW}})


def test_to_ask_again_is_not_to_wait_anew(keyspace: Keyspace, store: Store) -> None:
    before = keyspace.given({"workers": WORKER, "idle": {"w": NOW - 500}})
    keyspace.run(store.claim("w", 10))
    assert keyspace.state() == before


def test_who_finds_something_waits_no_longer(keyspace: Keyspace, store: Store) -> None:
    keyspace.given({"workers": WORKER, "idle": {"w": NOW - 500}, "jobs": jobs("a"), "ready": {"a": 1}})
    keyspace.run(store.claim("w", 10))
    assert "idle" not in keyspace.state()


@pytest.mark.parametrize("workers", [{}, {"w": 0}, {"other": LEASE_END}], ids=["none", "condemned", "another"])
def test_who_is_not_enlisted_gets_nothing(keyspace: Keyspace, store: Store, workers: dict[str, int]) -> None:
    before = keyspace.given({"jobs": jobs("a", "b"), "ready": {"a": 1}, "later": {"b": NOW}, "workers": workers})
    assert keyspace.run(store.claim("w", 10)).word == "gone"
    assert keyspace.state() == before


def test_a_silent_worker_that_was_not_swept_may_go_on(keyspace: Keyspace, store: Store) -> None:
    keyspace.given({"jobs": jobs("a"), "ready": {"a": 1}, "workers": {"w": NOW - 1}})
    assert keyspace.run(store.claim("w", 10)).ids == [b"a"]


def test_a_paused_partition_hands_out_nothing(keyspace: Keyspace, store: Store) -> None:
    state = {"jobs": jobs("a", "b"), "ready": {"a": 1}, "later": {"b": NOW}, "inbox": ["{}"], "workers": WORKER}
    before = keyspace.given(state | {"meta": {"paused": 1}})
    assert keyspace.run(store.claim("w", 10)) == Claimed("paused", NOW)
    assert keyspace.state() == but(before, {"idle": {"w": NOW}})


def test_limit_zero_claims_nothing_and_waits_for_nothing(keyspace: Keyspace, store: Store) -> None:
    before = keyspace.given({"jobs": jobs("a"), "ready": {"a": 1}, "workers": WORKER, "idle": {"w": NOW}})
    assert keyspace.run(store.claim("w", 0)) == nothing()
    assert keyspace.state() == but(before, {"idle": None})


def test_a_claim_takes_no_more_than_a_thousand(keyspace: Keyspace, store: Store) -> None:
    with pytest.raises(OptionError, match="0 to 1,000 entries, not 1,001"):
        store.claim("w", 1001)
    ids = [f"{i:04}" for i in range(1200)]
    keyspace.given({"jobs": jobs(*ids), "ready": dict.fromkeys(ids, 1), "workers": WORKER})
    assert len(keyspace.run(store.claim("w", 1000)).ids) == 1000
    # What Python refuses is cut down by the script, for clients in other languages.
    greedy = store.claim("w", 1)
    greedy.args = ("w", 5000, 0)
    assert len(keyspace.run(greedy).ids) == 200


# -- what is due --------------------------------------------------------------------------------------


def test_what_is_due_is_handed_over_and_not_a_millisecond_before(keyspace: Keyspace, store: Store) -> None:
    later = {"a": NOW - 1, "b": NOW, "c": NOW + 1}
    before = keyspace.given({"jobs": jobs("a", "b", "c"), "later": later, "workers": WORKER})
    assert keyspace.run(store.claim("w", 10)) == claimed("a", "b")
    changes = {
        "later": {"c": NOW + 1},
        "held:w": {"a": hold(NOW - 1), "b": hold(NOW)},
        "meta": {"fence": FENCE},
    }
    assert keyspace.state() == but(before, changes)


def test_who_finds_nothing_hears_when_the_next_is_due(keyspace: Keyspace, store: Store) -> None:
    before = keyspace.given({"jobs": jobs("a", "b"), "later": {"a": NOW + 70, "b": NOW + 7}, "workers": WORKER})
    assert keyspace.run(store.claim("w", 10)) == nothing(next_due=NOW + 7)
    assert keyspace.state() == but(before, {"idle": {"w": NOW}})


def test_a_retry_that_is_due_goes_before_what_is_younger(keyspace: Keyspace, store: Store) -> None:
    state = {"jobs": jobs("a", "b"), "ready": {"b": 2}, "later": {"a": NOW}, "marks": {"a": marks(1, order=1)}}
    before = keyspace.given(state | {"workers": WORKER})
    assert keyspace.run(store.claim("w", 1)) == claimed("a", marks=[marks(1, order=1).encode()])
    assert keyspace.state() == but(before, {"later": None, "held:w": {"a": hold(1)}, "meta": {"fence": FENCE}})


def test_what_is_due_takes_the_lock_of_its_key_or_lines_up(keyspace: Keyspace, store: Store) -> None:
    state = {
        "jobs": jobs("a", "b", "c"),
        "later": {"a": NOW - 2, "b": NOW - 1, "c": NOW},
        "keyed": {"a": "k", "b": "k", "c": "other"},
        "workers": WORKER,
    }
    before = keyspace.given(state)
    assert keyspace.run(store.claim("w", 10)) == claimed("a", "c")
    changes = {
        "later": None,
        "held:w": {"a": hold(NOW - 2), "c": hold(NOW)},
        "keyed": {"a": "k", "c": "other"},
        "locks": {"k": "a", "other": "c"},
        "line": ["k 1 b"],
        "waits": {"b": "k 1 b"},
        "marks": {"b": marks(order=NOW - 1)},
        "meta": {"fence": FENCE, "lined": 1},
    }
    assert keyspace.state() == but(before, changes)


def test_a_retry_finds_its_own_lock(keyspace: Keyspace, store: Store) -> None:
    state = {"jobs": jobs("a"), "later": {"a": NOW}, "keyed": {"a": "k"}, "locks": {"k": "a"}, "workers": WORKER}
    before = keyspace.given(state)
    keyspace.run(store.claim("w", 1))
    assert keyspace.state() == but(before, {"later": None, "held:w": {"a": hold()}, "meta": {"fence": FENCE}})


def test_a_thousand_may_become_due_at_once(keyspace: Keyspace, store: Store) -> None:
    ids = [f"{i:04}" for i in range(1100)]
    keyspace.given({"jobs": jobs(*ids), "later": dict.fromkeys(ids, NOW), "workers": WORKER})
    assert keyspace.run(store.claim("w", 1)).ids == [b"0000"]
    state = keyspace.state()
    assert (len(state["ready"]), len(state["later"])) == (999, 100)


# -- the inbox ----------------------------------------------------------------------------------------


def test_what_other_programs_pushed_is_taken_in_first_in_first_out(keyspace: Keyspace, store: Store) -> None:
    before = keyspace.given({"workers": WORKER})
    inbox = store.partition.key("inbox")
    for raw in (b'{"task":"t"}', b"\x00\xff garbage \r\n", b""):
        keyspace.link.command("LPUSH", inbox, raw)
    answer = keyspace.run(store.claim("w", 10))
    assert answer.envelopes == [b'{"task":"t"}', b"\x00\xff garbage \r\n", b""]
    ids = [encode(NOW, 9) + encode(i, 4) + "foreign" for i in (1, 2, 3)]
    assert [id.decode() for id in answer.ids] == ids
    assert all(is_id(id) for id in ids)
    assert made_ms(ids[0]) == NOW
    state = keyspace.state()
    assert state["held:w"] == dict.fromkeys(ids, hold())
    del state["held:w"], state["jobs"]
    assert state == but(before, {"meta": {"put": 3, "taken": 3, "fence": FENCE}})


def test_the_inbox_is_taken_in_by_the_hundred(keyspace: Keyspace, store: Store) -> None:
    keyspace.given({"inbox": ["{}"] * 150, "workers": WORKER})
    assert len(keyspace.run(store.claim("w", 1)).ids) == 1
    state = keyspace.state()
    assert (len(state["inbox"]), len(state["ready"]), state["meta"]["put"]) == (50, 99, 100)


# -- suspects -----------------------------------------------------------------------------------------


def test_a_suspect_is_handed_out_alone_and_only_to_who_asks_so(keyspace: Keyspace, store: Store) -> None:
    state = {"jobs": jobs("a", "b", "c"), "ready": {"a": 9}, "suspects": {"b": 1, "c": 2}, "workers": WORKER}
    before = keyspace.given(state)
    assert keyspace.run(store.claim("w", 10, alone=True)) == claimed("b", suspects=1)
    changes = {"suspects": {"c": 2}, "held:w": {"b": hold(1, mark=" s")}, "meta": {"fence": FENCE}}
    assert keyspace.state() == but(before, changes)


def test_who_cannot_be_alone_hears_that_there_are_suspects(keyspace: Keyspace, store: Store) -> None:
    before = keyspace.given({"jobs": jobs("b", "c"), "suspects": {"b": 1, "c": 2}, "workers": WORKER})
    assert keyspace.run(store.claim("w", 10)) == nothing(suspects=2)
    assert keyspace.state() == but(before, {"idle": {"w": NOW}})


def test_without_suspects_who_is_alone_gets_what_is_ready(keyspace: Keyspace, store: Store) -> None:
    before = keyspace.given({"jobs": jobs("a", "b"), "ready": {"a": 1, "b": 2}, "workers": WORKER})
    assert keyspace.run(store.claim("w", 10, alone=True)) == claimed("a", "b")
    changes = {"ready": None, "held:w": {"a": hold(1), "b": hold(2)}, "meta": {"fence": FENCE}}
    assert keyspace.state() == but(before, changes)


# -- fences -------------------------------------------------------------------------------------------


def test_each_claim_has_a_higher_fence(keyspace: Keyspace, store: Store) -> None:
    keyspace.given({"jobs": jobs("a", "b", "c"), "ready": {"a": 1, "b": 2, "c": 3}, "workers": WORKER | {"v": NOW}})
    fences = [int(keyspace.run(store.claim(token, 1)).fences[0]) for token in ("w", "v", "w")]
    assert fences == [FENCE, FENCE + 1, FENCE + 2]


def test_a_counter_that_a_failover_lost_issues_no_fence_twice(keyspace: Keyspace, store: Store) -> None:
    keyspace.given({"jobs": jobs("a", "b"), "ready": {"a": 1, "b": 2}, "workers": WORKER})
    first = int(keyspace.run(store.claim("w", 1)).fences[0])
    keyspace.link.command("HDEL", store.partition.key("meta"), "fence")
    keyspace.link.command("HSET", store.partition.key("meta"), "clock", NOW + 1)
    assert int(keyspace.run(store.claim("w", 1)).fences[0]) > first + 100
