"""renew: the supervisor says that these workers live on."""

from __future__ import annotations

import pytest

from engine.keyspace import HOUR, LEASE_END, NOW, Keyspace, but, jobs
from holdfast.engine.model import Renewed
from holdfast.engine.store import Store
from holdfast.errors import OptionError

GRAVE_MS = 180 * 24 * HOUR


def test_new_tokens_join_with_enlist(keyspace: Keyspace, store: Store) -> None:
    before = keyspace.given()
    assert keyspace.run(store.renew(15_000, ["v", "w"], enlist=True)) == Renewed(NOW, (), ())
    assert keyspace.state() == but(before, {"workers": {"v": LEASE_END, "w": LEASE_END}})


def test_leases_are_renewed_also_those_that_are_over(keyspace: Keyspace, store: Store) -> None:
    before = keyspace.given({"workers": {"v": NOW - 1, "w": NOW + 1, "x": NOW + 5}})
    assert keyspace.run(store.renew(15_000, ["v", "w"])) == Renewed(NOW, (), ())
    assert keyspace.state() == but(before, {"workers": {"v": LEASE_END, "w": LEASE_END, "x": NOW + 5}})


def test_who_was_swept_is_gone_and_stays_so(keyspace: Keyspace, store: Store) -> None:
    before = keyspace.given({"workers": {"condemned": 0, "w": NOW}})
    assert keyspace.run(store.renew(15_000, ["condemned", "unknown", "w"])).gone == ("condemned", "unknown")
    assert keyspace.state() == but(before, {"workers": {"condemned": 0, "w": LEASE_END}})


def test_it_says_who_should_be_cancelled(keyspace: Keyspace, store: Store) -> None:
    keyspace.given({"jobs": jobs("a", "b"), "ready": {"a": 1, "b": 2}, "cancels": {"a": "wish", "b": "wish"}})
    assert sorted(keyspace.run(store.renew(15_000, [])).cancels) == ["a", "b"]


def test_who_waits_no_more_is_forgotten(keyspace: Keyspace, store: Store) -> None:
    state = {"jobs": jobs("a", "b", "c"), "ready": {"a": 1, "b": 1, "c": 1}}
    before = keyspace.given(state | {"watched": {"a": NOW - 1, "b": NOW, "c": NOW + 1}})
    keyspace.run(store.renew(15_000, []))
    assert keyspace.state() == but(before, {"watched": {"c": NOW + 1}})


def test_graves_that_are_too_old_go(keyspace: Keyspace, store: Store) -> None:
    graves = {"dead": {"a": NOW - GRAVE_MS, "b": NOW}, "broken": {"c": NOW - GRAVE_MS, "d": NOW}}
    before = keyspace.given({"jobs": jobs("a", "b", "c", "d"), "errors": {"a": "E", "b": "F"}} | graves)
    keyspace.run(store.renew(15_000, []))
    changes = {
        "jobs": jobs("b", "d"),
        "dead": {"b": NOW},
        "broken": {"d": NOW},
        "errors": {"b": "F"},
        "meta": {"trimmed": 2},
    }
    assert keyspace.state() == but(before, changes)


def test_a_full_graveyard_is_left_alone_and_an_overfull_one_shrinks(keyspace: Keyspace, store: Store) -> None:
    ids = [f"{i:05}" for i in range(10_150)]
    keyspace.given({"jobs": jobs(*ids), "dead": {id: NOW - 20_000 + i for i, id in enumerate(ids)}})
    sizes = []
    for _ in range(3):
        keyspace.run(store.renew(15_000, []))
        sizes.append(len(keyspace.state()["dead"]))
    assert sizes == [10_050, 10_000, 10_000]


def test_a_call_takes_a_thousand_and_no_more(keyspace: Keyspace, store: Store) -> None:
    tokens = [f"{i:04}" for i in range(1000)]
    before = keyspace.given()
    keyspace.run(store.renew(15_000, tokens, enlist=True))
    assert keyspace.state() == but(before, {"workers": dict.fromkeys(tokens, LEASE_END)})
    with pytest.raises(OptionError, match="0 to 1,000 tokens, not 1,001"):
        store.renew(15_000, [*tokens, "w"])
