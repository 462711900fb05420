"""release: give back what has not started; it keeps its place and is not charged."""

from __future__ import annotations

import pytest

from engine.keyspace import FENCE, LEASE_END, NOW, Keyspace, but, hold, jobs, marks
from holdfast.engine.store import Store
from holdfast.errors import OptionError

F = b"%d" % FENCE


def test_entries_go_back_to_where_they_came_from(keyspace: Keyspace, store: Store) -> None:
    state = {
        "jobs": jobs("a", "b", "c", "s"),
        "held:w": {"a": hold(3), "b": hold(-5), "c": hold(1), "s": hold(2, mark=" s")},
        "ready": {},
        "marks": {"a": marks(2)},
        "workers": {"w": LEASE_END},
    }
    before = keyspace.given(state)
    assert keyspace.run(store.release("w", 1, F, [b"a", b"b", b"s"])) == "released"
    changes = {
        "held:w": {"c": hold(1)},
        "ready": {"a": 3, "b": -5},
        "suspects": {"s": 2},
        "calls": {"w": 1},
    }
    assert keyspace.state() == but(before, changes)


def test_it_keeps_the_lock_of_its_key(keyspace: Keyspace, store: Store) -> None:
    state = {
        "jobs": jobs("a"), "held:w": {"a": hold(3)}, "keyed": {"a": "k"}, "locks": {"k": "a"},
        "workers": {"w": LEASE_END},
    }  # fmt: skip
    before = keyspace.given(state)
    keyspace.run(store.release("w", 1, F, [b"a"]))
    assert keyspace.state() == but(before, {"held:w": None, "ready": {"a": 3}, "calls": {"w": 1}})


def test_one_that_should_be_cancelled_says_so_to_whoever_claims_it_next(keyspace: Keyspace, store: Store) -> None:
    state = {
        "jobs": jobs("a", "b"), "held:w": {"a": hold(3), "b": hold(4)}, "marks": {"b": marks(flags="k")},
        "cancels": {"a": "wish", "b": "wish"}, "workers": {"w": LEASE_END},
    }  # fmt: skip
    before = keyspace.given(state)
    keyspace.run(store.release("w", 1, F, [b"a", b"b"]))
    changes = {
        "held:w": None,
        "ready": {"a": 3, "b": 4},
        "marks": {"a": marks(flags="c"), "b": marks(flags="kc")},
        "calls": {"w": 1},
    }
    assert keyspace.state() == but(before, changes)


def test_who_gives_back_waits_for_nothing(keyspace: Keyspace, store: Store) -> None:
    state = {"jobs": jobs("a"), "held:w": {"a": hold()}, "workers": {"w": LEASE_END}, "idle": {"w": NOW - 5}}
    keyspace.given(state)
    keyspace.run(store.release("w", 1, F, [b"a"]))
    assert "idle" not in keyspace.state()


def test_a_repeated_call_is_the_same_call(keyspace: Keyspace, store: Store) -> None:
    keyspace.given({"jobs": jobs("a"), "held:w": {"a": hold()}, "workers": {"w": LEASE_END, "v": LEASE_END}})
    call = store.release("w", 1, F, [b"a"])
    keyspace.run(call)
    keyspace.run(store.claim("v", 1))
    before = keyspace.state()
    assert keyspace.run(call) == "again"
    assert keyspace.state() == before


def test_a_repetition_does_not_take_away_what_was_claimed_again(keyspace: Keyspace, store: Store) -> None:
    keyspace.given({"jobs": jobs("a"), "ready": {"a": 1}, "workers": {"w": LEASE_END}})
    first = keyspace.run(store.claim("w", 1)).fences[0]
    call = store.release("w", 1, first, [b"a"])
    keyspace.run(call)
    keyspace.run(store.claim("w", 1))
    before = keyspace.state()
    assert keyspace.run(call) == "again"
    assert keyspace.state() == before


@pytest.mark.parametrize("token", ["w", "zombie"])
def test_what_is_not_held_under_this_fence_stays_where_it_is(keyspace: Keyspace, store: Store, token: str) -> None:
    state = {
        "jobs": jobs("a", "b"), "held:w": {"a": hold(fence=FENCE + 1)}, "ready": {"b": 1},
        "workers": {"w": LEASE_END},
    }  # fmt: skip
    before = keyspace.given(state)
    assert keyspace.run(store.release(token, 1, F, [b"a", b"b", b"c"])) == "released"
    assert keyspace.state() == before


def test_a_call_takes_a_thousand_and_no_more(keyspace: Keyspace, store: Store) -> None:
    ids = [f"{i:04}" for i in range(1000)]
    state = {"jobs": jobs(*ids), "held:w": dict.fromkeys(ids, hold(5)), "workers": {"w": LEASE_END}}
    before = keyspace.given(state)
    keyspace.run(store.release("w", 1, F, [id.encode() for id in ids]))
    changes = {"held:w": None, "ready": dict.fromkeys(ids, 5), "calls": {"w": 1}}
    assert keyspace.state() == but(before, changes)
    with pytest.raises(OptionError, match="0 to 1,000 ids, not 1,001"):
        store.release("w", 2, F, [b"a"] * 1001)
