"""note: what running entries say of themselves, and how long it stays."""

from __future__ import annotations

import pytest

from engine.keyspace import FENCE, HOUR, LEASE_END, NOW, Keyspace, State, but, hold, jobs, marks
from holdfast.engine.model import Ended, Note, Settlement, Verdict
from holdfast.engine.store import Store

F = b"%d" % FENCE


def held(*ids: str, **more: object) -> State:
    return {"jobs": jobs(*ids), "held:w": dict.fromkeys(ids, hold()), "workers": {"w": LEASE_END}, **more}


def test_the_last_word_of_each_is_kept(keyspace: Keyspace, store: Store) -> None:
    before = keyspace.given(held("a", "b", notes={"a": "older"}))
    assert keyspace.run(store.note("w", [Note(b"a", F, b"A\xc3\xa9"), Note(b"b", F, b"B")])) == ()
    assert keyspace.state() == but(before, {"notes": {"a": "A\u00e9", "b": "B"}})
    assert keyspace.run(store.look("a")).note == b"A\xc3\xa9"


@pytest.mark.parametrize(("worker", "fence"), [("w", b"%d" % (FENCE - 1)), ("w", F[:-1]), ("other", F)])
def test_nothing_is_noted_under_another_claim(keyspace: Keyspace, store: Store, worker: str, fence: bytes) -> None:
    before = keyspace.given(held("a"))
    assert keyspace.run(store.note(worker, [Note(b"a", fence, b"A")])) == ("a",)
    assert keyspace.state() == before


def test_what_is_not_held_does_not_stop_the_others(keyspace: Keyspace, store: Store) -> None:
    before = keyspace.given(held("b", jobs=jobs("a", "b"), ready={"a": NOW}))
    assert keyspace.run(store.note("w", [Note(id, F, b"N") for id in (b"a", b"b", b"gone")])) == ("a", "gone")
    assert keyspace.state() == but(before, {"notes": {"b": "N"}})


def test_a_note_goes_with_its_entry(keyspace: Keyspace, store: Store) -> None:
    keyspace.given(held("a", "b", notes={"a": "A", "b": "B"}))
    keyspace.run(store.finish("w", 1, [Ended(b"a", F)]))
    assert keyspace.state()["notes"] == {"b": "B"}
    keyspace.run(store.settle("w", 2, Settlement(b"b", F, "cancelled", note=b"late")))
    assert "notes" not in keyspace.state()


@pytest.mark.parametrize("verdict", ["retry", "snooze", "dead", "broken"])
@pytest.mark.parametrize("note", [b"last", b""])
def test_an_entry_that_stays_keeps_what_its_step_says(
    keyspace: Keyspace, store: Store, verdict: Verdict, note: bytes
) -> None:
    keyspace.given(held("a", notes={"a": "before"}))
    keyspace.run(store.settle("w", 1, Settlement(b"a", F, verdict, 5, note=note)))
    assert keyspace.state().get("notes") == ({"a": "last"} if note else None)


def test_what_was_held_by_a_dead_worker_keeps_its_note(keyspace: Keyspace, store: Store) -> None:
    keyspace.given(held("a", "b", notes={"a": "A", "b": "B"}, marks={"b": marks(crashes=2)}))
    keyspace.run(store.sweep("w", "died", max_crashes=3, error="E", culprits=["b"]))
    state = keyspace.state()
    assert state["notes"] == {"a": "A", "b": "B"}
    assert state["dead"] == {"b": NOW}


def test_one_that_is_revived_starts_without_a_note(keyspace: Keyspace, store: Store) -> None:
    before = keyspace.given({"jobs": jobs("a"), "dead": {"a": NOW}, "notes": {"a": "A"}})
    keyspace.run(store.revive(["a"]))
    assert keyspace.state() == but(before, {"dead": None, "ready": {"a": NOW}, "notes": None})


def test_a_note_without_an_entry_is_found_by_the_auditor(keyspace: Keyspace, store: Store) -> None:
    keyspace.given({"jobs": jobs("a"), "ready": {"a": NOW}, "notes": {"lost": "N"}})
    assert keyspace.link.run(store.audit([], ["lost"])).problems == ("I7 lost: has left something in notes",)


def test_cancelling_takes_the_note_away(keyspace: Keyspace, store: Store) -> None:
    keyspace.given({"jobs": jobs("a"), "ready": {"a": NOW}, "notes": {"a": "N"}})
    keyspace.run(store.cancel(["a"], b"R", HOUR))
    assert "notes" not in keyspace.state()
