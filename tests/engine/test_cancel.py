"""cancel: entries that shall not run; what runs already is asked to stop."""

from __future__ import annotations

import pytest

from engine.keyspace import FENCE, HOUR, LEASE_END, NOW, Bells, Keyspace, State, but, hold, jobs, marks
from holdfast.engine.model import Ended, Settlement
from holdfast.engine.store import Store
from holdfast.errors import OptionError

F = b"%d" % FENCE
RUNNING: State = {"jobs": jobs("a"), "held:w": {"a": hold()}, "workers": {"w": LEASE_END}}


@pytest.mark.parametrize(
    "place",
    [
        {"ready": {"a": 1}},
        {"suspects": {"a": 1}, "marks": {"a": marks(0, 1)}},
        {"later": {"a": NOW + 5}, "marks": {"a": marks(1, order=2)}, "errors": {"a": "E"}},
        {"later": {"a": NOW + 5}, "keyed": {"a": "k"}},
        {"line": ["k 1 a"], "waits": {"a": "k 1 a"}, "marks": {"a": marks(order=3)}},
        {"dead": {"a": 1}, "keyed": {"a": "k"}, "marks": {"a": marks(25)}, "errors": {"a": "E"}},
        {"broken": {"a": 1}, "errors": {"a": "E"}},
        {"ready": {"a": 1}, "unique": {"u": "a"}, "uniques": {"a": "u"}, "watched": {"a": NOW + 5}},
        {"ready": {"a": 1}, "keyed": {"a": "k"}, "locks": {"k": "a"}, "cancels": {"a": "older wish"}},
    ],
    ids=["ready", "suspect", "retry", "delayed", "in line", "dead", "broken", "unique", "locked"],
)
def test_what_does_not_run_is_gone_at_once_wherever_it_was(keyspace: Keyspace, store: Store, place: State) -> None:
    before = keyspace.given({"jobs": jobs("a")} | place)
    assert keyspace.run(store.cancel(["a"], b"the record", HOUR)) == ["cancelled"]
    assert keyspace.state() == {"result:a": "the record for 1h", "meta": before["meta"] | {"cancelled": 1}}


def test_the_next_of_its_key_takes_over(keyspace: Keyspace, store: Store) -> None:
    state = {
        "jobs": jobs("a", "b", "c"),
        "later": {"a": NOW + 5},
        "keyed": {"a": "k"},
        "locks": {"k": "a"},
        "line": ["k 1 b", "k 2 c"],
        "waits": {"b": "k 1 b", "c": "k 2 c"},
        "marks": {"b": marks(order=8), "c": marks(order=9)},
    }
    before = keyspace.given(state)
    keyspace.run(store.cancel(["a"], b"", 0))
    changes = {
        "jobs": jobs("b", "c"),
        "later": None,
        "ready": {"b": 8},
        "keyed": {"b": "k"},
        "locks": {"k": "b"},
        "line": ["k 2 c"],
        "waits": {"c": "k 2 c"},
        "meta": {"cancelled": 1},
    }
    assert keyspace.state() == but(before, changes)


def test_what_runs_is_asked(keyspace: Keyspace, store: Store, bells: Bells) -> None:
    bells.listen()
    before = keyspace.given(RUNNING)
    assert keyspace.run(store.cancel(["a"], b"the wish", HOUR)) == ["asked"]
    assert keyspace.state() == but(before, {"cancels": {"a": "the wish"}})
    assert bells.rung() == ["wish a"]


def test_what_was_asked_and_fails_is_cancelled_in_place_of_its_retry(keyspace: Keyspace, store: Store) -> None:
    before = keyspace.given(RUNNING)
    keyspace.run(store.cancel(["a"], b"the wish", HOUR))
    assert keyspace.run(store.settle("w", 1, Settlement(b"a", F, "retry", 5, "E"))) == "cancelled"
    changes = {
        "jobs": None,
        "held:w": None,
        "result:a": "the wish for 1h",
        "calls": {"w": 1},
        "meta": {"cancelled": 1},
    }
    assert keyspace.state() == but(before, changes)


def test_what_was_asked_and_ends_well_has_ended_well(keyspace: Keyspace, store: Store) -> None:
    before = keyspace.given(RUNNING)
    keyspace.run(store.cancel(["a"], b"the wish", HOUR))
    assert keyspace.run(store.finish("w", 1, [Ended(b"a", F, HOUR, b"fine")])) == ()
    changes = {"jobs": None, "held:w": None, "result:a": "fine for 1h", "calls": {"w": 1}, "meta": {"done": 1}}
    assert keyspace.state() == but(before, changes)


def test_what_was_asked_and_lost_its_worker_is_gone_when_it_is_cancelled_again(
    keyspace: Keyspace, store: Store
) -> None:
    before = keyspace.given(RUNNING)
    keyspace.run(store.cancel(["a"], b"the wish", HOUR))
    keyspace.run(store.sweep("w", "left", max_crashes=3, error=""))
    assert keyspace.run(store.cancel(["a"], b"again", HOUR)) == ["cancelled"]
    assert keyspace.state() == {"result:a": "again for 1h", "meta": before["meta"] | {"cancelled": 1}}


def test_a_call_whose_reply_was_lost_is_answered_as_before(keyspace: Keyspace, store: Store) -> None:
    keyspace.given({"jobs": jobs("a"), "ready": {"a": 5}})
    assert keyspace.run(store.cancel(["a"], b"R", HOUR)) == ["cancelled"]
    before = keyspace.state()
    assert keyspace.run(store.cancel(["a"], b"R", HOUR)) == ["cancelled"]
    assert keyspace.run(store.cancel(["a"], b"another reason", HOUR)) == ["gone"]
    assert keyspace.state() == before


def test_who_is_unknown_is_gone(keyspace: Keyspace, store: Store) -> None:
    before = keyspace.given()
    assert keyspace.run(store.cancel(["a"], b"R", HOUR)) == ["gone"]
    assert keyspace.state() == before


def test_each_id_has_its_own_answer(keyspace: Keyspace, store: Store) -> None:
    before = keyspace.given(RUNNING | {"jobs": jobs("a", "b"), "ready": {"b": 1}})
    assert keyspace.run(store.cancel(["x", "a", "b", "b"], b"R", 0)) == ["gone", "asked", "cancelled", "gone"]
    changes = {"jobs": jobs("a"), "ready": None, "cancels": {"a": "R"}, "meta": {"cancelled": 1}}
    assert keyspace.state() == but(before, changes)


def test_a_call_takes_a_thousand_and_no_more(keyspace: Keyspace, store: Store) -> None:
    ids = [f"{i:04}" for i in range(1000)]
    before = keyspace.given({"jobs": jobs(*ids), "ready": dict.fromkeys(ids, 1)})
    assert keyspace.run(store.cancel(ids, b"", 0)) == ["cancelled"] * 1000
    assert keyspace.state() == but(before, {"jobs": None, "ready": None, "meta": {"cancelled": 1000}})
    with pytest.raises(OptionError, match="0 to 1,000 ids, not 1,001"):
        store.cancel([*ids, "x"], b"", 0)
