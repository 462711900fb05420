"""finish: entries that a worker holds ended well; the hot path."""

from __future__ import annotations

import pytest

from engine.keyspace import FENCE, HOUR, LEASE_END, NOW, Keyspace, State, but, hold, jobs, marks
from holdfast.engine.model import Ended
from holdfast.engine.store import Store
from holdfast.errors import OptionError

F = b"%d" % FENCE


def held(*ids: str, **more: object) -> State:
    """Worker `w` holds these entries."""
    return {
        "jobs": jobs(*ids),
        "held:w": dict.fromkeys(ids, hold()),
        "workers": {"w": LEASE_END},
        "meta": {"fence": FENCE},
        **more,
    }


def test_what_ended_well_leaves_nothing_behind(keyspace: Keyspace, store: Store) -> None:
    before = keyspace.given(held("a", "b"))
    assert keyspace.run(store.finish("w", 1, [Ended(b"a", F), Ended(b"b", F)])) == ()
    changes = {"jobs": None, "held:w": None, "calls": {"w": 1}, "meta": {"done": 2}}
    assert keyspace.state() == but(before, changes)


def test_everything_that_an_entry_had_goes_with_it(keyspace: Keyspace, store: Store) -> None:
    state = held(
        "a", marks={"a": marks(failures=3)}, errors={"a": "ValueError"}, keyed={"a": "k"}, locks={"k": "a"},
        unique={"u": "a"}, uniques={"a": "u"}, cancels={"a": "wish"}, watched={"a": NOW + 9},
    )  # fmt: skip
    before = keyspace.given(state)
    keyspace.run(store.finish("w", 1, [Ended(b"a", F)]))
    assert keyspace.state() == {
        "workers": before["workers"],
        "calls": {"w": 1},
        "meta": before["meta"] | {"done": 1},
    }


def test_the_next_of_its_key_becomes_ready_at_the_order_it_had(keyspace: Keyspace, store: Store) -> None:
    state = {
        "jobs": jobs("a", "b", "c", "x"),
        "held:w": {"a": hold()},
        "keyed": {"a": "k"},
        "locks": {"k": "a"},
        "line": ["k 2 b", "k 10 c", "k2 1 x"],
        "waits": {"b": "k 2 b", "c": "k 10 c", "x": "k2 1 x"},
        "marks": {"b": marks(order=77), "c": marks(order=5)},
        "workers": {"w": LEASE_END},
    }
    before = keyspace.given(state)
    keyspace.run(store.finish("w", 1, [Ended(b"a", F)]))
    changes = {
        "jobs": jobs("b", "c", "x"),
        "held:w": None,
        "ready": {"b": 77},
        "keyed": {"b": "k"},
        "locks": {"k": "b"},
        "line": ["k 10 c", "k2 1 x"],
        "waits": {"c": "k 10 c", "x": "k2 1 x"},
        "calls": {"w": 1},
        "meta": {"done": 1},
    }
    assert keyspace.state() == but(before, changes)


def test_results_are_kept_as_long_as_each_wants(keyspace: Keyspace, store: Store) -> None:
    before = keyspace.given(held("a", "b", "c"))
    ended = [Ended(b"a", F), Ended(b"b", F, HOUR, b"two"), Ended(b"c", F, 30 * HOUR, b"three")]
    assert keyspace.run(store.finish("w", 1, ended)) == ()
    changes = {
        "jobs": None,
        "held:w": None,
        "result:b": "two for 1h",
        "result:c": "three for 30h",
        "calls": {"w": 1},
        "meta": {"done": 3},
    }
    assert keyspace.state() == but(before, changes)


def test_one_call_may_end_what_came_under_several_fences(keyspace: Keyspace, store: Store) -> None:
    state = {
        "jobs": jobs("a", "b", "c"),
        "held:w": {"a": hold(), "b": hold(fence=FENCE + 1), "c": hold(mark=" s")},
        "workers": {"w": LEASE_END},
    }
    before = keyspace.given(state)
    ended = [Ended(b"a", F, HOUR, b"A"), Ended(b"b", b"%d" % (FENCE + 1)), Ended(b"c", F)]
    assert keyspace.run(store.finish("w", 1, ended)) == ()
    changes = {"jobs": None, "held:w": None, "result:a": "A for 1h", "calls": {"w": 1}, "meta": {"done": 3}}
    assert keyspace.state() == but(before, changes)


def test_what_is_not_held_under_its_fence_is_lost_and_nothing_is_written_for_it(
    keyspace: Keyspace, store: Store
) -> None:
    state = {
        "jobs": jobs("kept", "another", "ready", "newer"),
        "held:w": {"kept": hold(), "newer": hold(fence=FENCE + 1)},
        "held:v": {"another": hold()},
        "ready": {"ready": NOW},
        "workers": {"w": LEASE_END, "v": LEASE_END},
    }
    before = keyspace.given(state)
    ids = [b"another", b"ready", b"newer", b"ended"]
    ended = [*(Ended(id, F, HOUR, b"too late") for id in ids), Ended(b"kept", F)]
    assert keyspace.run(store.finish("w", 1, ended)) == ("another", "ready", "newer", "ended")
    changes = {
        "jobs": jobs("another", "ready", "newer"),
        "held:w": {"newer": hold(fence=FENCE + 1)},
        "calls": {"w": 1},
        "meta": {"done": 1},
    }
    assert keyspace.state() == but(before, changes)


@pytest.mark.parametrize("fence", [b"", b"2", F[:-1], F + b"0", b" "])
def test_a_fence_is_compared_whole(keyspace: Keyspace, store: Store, fence: bytes) -> None:
    before = keyspace.given(held("a"))
    assert keyspace.run(store.finish("w", 1, [Ended(b"a", fence)])) == ("a",)
    assert keyspace.state() == before


def test_a_worker_that_was_swept_leaves_no_trace(keyspace: Keyspace, store: Store) -> None:
    before = keyspace.given({"jobs": jobs("a"), "ready": {"a": NOW}})
    assert keyspace.run(store.finish("zombie", 9, [Ended(b"a", F, HOUR, b"A")])) == ("a",)
    assert keyspace.state() == before


def test_a_repeated_call_is_not_told_that_its_entries_are_lost(keyspace: Keyspace, store: Store) -> None:
    keyspace.given(held("a", "b"))
    call = store.finish("w", 1, [Ended(b"a", F, HOUR, b"A")])
    keyspace.run(call)
    before = keyspace.state()
    assert keyspace.run(call) == ()
    assert keyspace.state() == before


def test_a_call_that_was_overtaken_still_counts(keyspace: Keyspace, store: Store) -> None:
    """A script that the server has forgotten is sent again behind what followed it in the pipeline."""
    before = keyspace.given(held("a", "b"))
    assert keyspace.run(store.finish("w", 2, [Ended(b"b", F)])) == ()
    assert keyspace.run(store.finish("w", 1, [Ended(b"a", F)])) == ()
    changes = {"jobs": None, "held:w": None, "calls": {"w": 2}, "meta": {"done": 2}}
    assert keyspace.state() == but(before, changes)


def test_an_id_that_comes_twice_is_counted_once(keyspace: Keyspace, store: Store) -> None:
    keyspace.given(held("a"))
    keyspace.run(store.finish("w", 1, [Ended(b"a", F), Ended(b"a", F)]))
    assert keyspace.state()["meta"]["done"] == 1


def test_a_call_takes_a_thousand_and_no_more(keyspace: Keyspace, store: Store) -> None:
    ids = [f"{i:04}" for i in range(1000)]
    state = held(*ids, keyed=dict.fromkeys(ids, ""), watched=dict.fromkeys(ids, NOW + 9))
    state["keyed"] = {id: f"key {id}" for id in ids}
    state["locks"] = {f"key {id}": id for id in ids}
    before = keyspace.given(state)
    ended = [Ended(id.encode(), F, HOUR, b"R") for id in ids]
    assert keyspace.run(store.finish("w", 1, ended)) == ()
    after = keyspace.state()
    assert [name for name in after if not name.startswith("result:")] == ["calls", "meta", "workers"]
    assert after["meta"] == before["meta"] | {"done": 1000}
    assert len(after) == 1003
    with pytest.raises(OptionError, match="1 to 1,000 entries, not 1,001"):
        store.finish("w", 2, [Ended(b"a", F)] * 1001)
    with pytest.raises(OptionError, match="1 to 1,000 entries, not 0"):
        store.finish("w", 2, [])
