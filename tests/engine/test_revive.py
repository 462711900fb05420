"""revive: dead entries, or broken ones after a repair, start afresh."""

from __future__ import annotations

import pytest

from engine.keyspace import LEASE_END, NOW, Keyspace, but, jobs, marks
from holdfast.engine.store import Store
from holdfast.errors import OptionError


def test_the_dead_and_the_broken_are_ready_without_a_past(keyspace: Keyspace, store: Store) -> None:
    state = {
        "jobs": jobs("a", "b", "c"),
        "dead": {"a": 1, "c": 2},
        "broken": {"b": 3},
        "marks": {"a": marks(25, 2, NOW - 5, -77), "c": marks(1)},
        "errors": {"a": "E", "b": "F", "c": "G"},
    }
    before = keyspace.given(state)
    assert keyspace.run(store.revive(["a", "b"])) == ["revived", "revived"]
    changes = {
        "dead": {"c": 2},
        "broken": None,
        "ready": {"a": NOW, "b": NOW},
        "marks": {"c": marks(1)},
        "errors": {"c": "G"},
    }
    assert keyspace.state() == but(before, changes)


def test_what_is_not_dead_stays_where_it_is(keyspace: Keyspace, store: Store) -> None:
    before = keyspace.given({"jobs": jobs("a", "b"), "ready": {"a": 1}, "later": {"b": NOW + 5}})
    assert keyspace.run(store.revive(["a", "b", "c"])) == ["gone"] * 3
    assert keyspace.state() == before


def test_it_takes_its_key_if_nobody_has_it(keyspace: Keyspace, store: Store) -> None:
    before = keyspace.given({"jobs": jobs("a"), "dead": {"a": 1}, "keyed": {"a": "k"}, "marks": {"a": marks(9)}})
    keyspace.run(store.revive(["a"]))
    assert keyspace.state() == but(before, {"dead": None, "ready": {"a": NOW}, "locks": {"k": "a"}, "marks": None})


def test_it_stands_in_line_if_somebody_has_it(keyspace: Keyspace, store: Store) -> None:
    state = {
        "jobs": jobs("a", "b", "c"),
        "dead": {"a": 1},
        "keyed": {"a": "k", "b": "k"},
        "ready": {"b": 2},
        "locks": {"k": "b"},
        "line": ["k 1 c"],
        "waits": {"c": "k 1 c"},
        "marks": {"a": marks(9, flags="k"), "c": marks(order=3)},
        "meta": {"lined": 1},
    }
    before = keyspace.given(state)
    assert keyspace.run(store.revive(["a"])) == ["revived"]
    changes = {
        "dead": None,
        "keyed": {"b": "k"},
        "line": ["k 1 c", "k 2 a"],
        "waits": {"c": "k 1 c", "a": "k 2 a"},
        "marks": {"a": marks(order=NOW, flags="k"), "c": marks(order=3)},
        "meta": {"lined": 2},
    }
    assert keyspace.state() == but(before, changes)


def test_dead_and_revived_keeps_its_key(keyspace: Keyspace, store: Store) -> None:
    keyed = {"keyed": {"a": "k"}, "locks": {"k": "a"}}
    keyspace.given({"jobs": jobs("a"), "held:w": {"a": "5 1"}, "workers": {"w": LEASE_END}} | keyed)
    before = keyspace.state()
    keyspace.run(store.sweep("w", "died", max_crashes=1, error="E", culprits=["a"]))
    keyspace.run(store.revive(["a"]))
    changes = {"held:w": None, "workers": None, "ready": {"a": NOW}, "meta": {"crashed": 1}}
    assert keyspace.state() == but(before, changes)


@pytest.mark.parametrize(("flags", "left"), [("c", None), ("kc", {"a": marks(flags="k")})])
def test_a_wish_to_cancel_from_its_former_life_is_forgotten(
    keyspace: Keyspace, store: Store, flags: str, left: object
) -> None:
    before = keyspace.given({"jobs": jobs("a"), "dead": {"a": 1}, "marks": {"a": marks(0, 3, flags=flags)}})
    keyspace.run(store.revive(["a"]))
    assert keyspace.state() == but(before, {"dead": None, "ready": {"a": NOW}, "marks": left})


def test_a_call_takes_a_thousand_and_no_more(keyspace: Keyspace, store: Store) -> None:
    ids = [f"{i:04}" for i in range(1000)]
    before = keyspace.given({"jobs": jobs(*ids), "dead": dict.fromkeys(ids, 1), "keyed": dict.fromkeys(ids, "k")})
    assert keyspace.run(store.revive(ids)) == ["revived"] * 1000
    state = keyspace.state()
    assert state["ready"] == {"0000": NOW}
    assert len(state["waits"]) == 999
    assert state["meta"] == before["meta"] | {"lined": 999}
    with pytest.raises(OptionError, match="0 to 1,000 ids, not 1,001"):
        store.revive([*ids, "x"])
