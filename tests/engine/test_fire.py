"""fire: one entry for a tick of a schedule, however many workers try."""

from __future__ import annotations

import pytest

from engine.keyspace import NOW, Keyspace, but, entry, jobs
from holdfast.engine.store import Store


def test_the_first_who_fires_a_tick_brings_its_entry(keyspace: Keyspace, store: Store) -> None:
    before = keyspace.given()
    assert keyspace.run(store.fire("report", NOW - 60_000, entry("a")))
    changes = {
        "jobs": jobs("a"),
        "ready": {"a": NOW},
        "cron": {"report": NOW - 60_000},
        "meta": {"put": 1},
    }
    assert keyspace.state() == but(before, changes)


@pytest.mark.parametrize("tick", [NOW, NOW - 1])
def test_a_tick_that_was_fired_or_is_older_brings_nothing(keyspace: Keyspace, store: Store, tick: int) -> None:
    before = keyspace.given({"cron": {"report": NOW}})
    assert not keyspace.run(store.fire("report", tick, entry("a")))
    assert keyspace.state() == before


def test_the_next_tick_and_another_schedule_are_fired(keyspace: Keyspace, store: Store) -> None:
    before = keyspace.given({"cron": {"report": NOW}})
    assert keyspace.run(store.fire("report", NOW + 1, entry("a", delay=5)))
    assert keyspace.run(store.fire("other", 1, entry("b", key="k")))
    changes = {
        "jobs": jobs("a", "b"),
        "later": {"a": NOW + 5},
        "ready": {"b": NOW},
        "keyed": {"b": "k"},
        "locks": {"k": "b"},
        "cron": {"report": NOW + 1, "other": 1},
        "meta": {"put": 2},
    }
    assert keyspace.state() == but(before, changes)


def test_a_tick_whose_last_entry_still_has_the_unique_name_brings_nothing_more(
    keyspace: Keyspace, store: Store
) -> None:
    state = {"jobs": jobs("a"), "ready": {"a": 1}, "unique": {"u": "a"}, "uniques": {"a": "u"}}
    before = keyspace.given(state)
    assert keyspace.run(store.fire("report", NOW, entry("b", unique="u")))
    assert keyspace.state() == but(before, {"cron": {"report": NOW}})


def test_an_id_that_is_present_is_not_brought_twice(keyspace: Keyspace, store: Store) -> None:
    before = keyspace.given({"jobs": jobs("a"), "later": {"a": NOW + 5}})
    assert keyspace.run(store.fire("report", NOW, entry("a")))
    assert keyspace.state() == but(before, {"cron": {"report": NOW}})
