"""look: where an entry is; and to be told of its end."""

from __future__ import annotations

import pytest

from engine.keyspace import HOUR, LEASE_END, NOW, Keyspace, State, but, hold, jobs, marks
from holdfast.engine.model import FRESH, Look, Marks
from holdfast.engine.store import Store


@pytest.mark.parametrize(
    ("place", "word", "when"),
    [
        ({"ready": {"a": NOW - 5}}, "queued", NOW - 5),
        ({"ready": {"a": -(2**50)}}, "queued", -(2**50)),
        ({"suspects": {"a": 7}}, "queued", 7),
        ({"later": {"a": NOW + 5}}, "scheduled", NOW + 5),
        ({"dead": {"a": 3}}, "dead", 3),
        ({"broken": {"a": 4}}, "broken", 4),
        ({"line": ["k 1 a"], "waits": {"a": "k 1 a"}}, "waiting", 0),
        ({"held:w": {"a": hold()}, "workers": {"w": LEASE_END}}, "running", 0),
    ],
)
def test_it_says_where_an_entry_is(keyspace: Keyspace, store: Store, place: State, word: str, when: int) -> None:
    before = keyspace.given({"jobs": jobs("a", "b"), "broken": {"b": 1}} | place | {"jobs": jobs("a")})
    keyspace.link.command("DEL", store.partition.key("broken")) if word != "broken" else None
    before = keyspace.state()
    assert keyspace.run(store.look("a")) == Look(word, when, FRESH, "", b"", b"A")
    assert keyspace.state() == before


def test_it_shows_its_past(keyspace: Keyspace, store: Store) -> None:
    past = {"marks": {"a": marks(25, 1, 99, 5, "kc")}, "errors": {"a": "E"}}
    keyspace.given({"jobs": jobs("a"), "dead": {"a": 1}} | past)
    assert keyspace.run(store.look("a")) == Look("dead", 1, Marks(25, 1, 99, True), "E", b"", b"A")


def test_what_has_ended_has_a_record_as_long_as_it_is_kept(keyspace: Keyspace, store: Store) -> None:
    before = keyspace.given({"result:a": "R for 1h", "meta": {"put": 1, "done": 1}})
    assert keyspace.run(store.look("a", HOUR)) == Look("ended", 0, FRESH, "", b"R", b"")
    assert keyspace.state() == before


def test_of_what_is_gone_there_is_no_trace(keyspace: Keyspace, store: Store) -> None:
    before = keyspace.given()
    assert keyspace.run(store.look("a", HOUR)) == Look("gone", 0, FRESH, "", b"", b"")
    assert keyspace.state() == before


def test_who_wants_to_hear_of_the_end_is_remembered_for_so_long(keyspace: Keyspace, store: Store) -> None:
    before = keyspace.given({"jobs": jobs("a"), "ready": {"a": 1}})
    keyspace.run(store.look("a", 5000))
    assert keyspace.state() == but(before, {"watched": {"a": NOW + 5000}})
    # Who wants to wait less than another takes nothing away from that one.
    keyspace.run(store.look("a", 10))
    assert keyspace.state() == but(before, {"watched": {"a": NOW + 5000}})
    keyspace.run(store.look("a", 6000))
    assert keyspace.state() == but(before, {"watched": {"a": NOW + 6000}})


@pytest.mark.parametrize("grave", ["dead", "broken"])
def test_nobody_waits_for_the_dead(keyspace: Keyspace, store: Store, grave: str) -> None:
    before = keyspace.given({"jobs": jobs("a"), grave: {"a": 1}})
    keyspace.run(store.look("a", 5000))
    assert keyspace.state() == before
