"""audit: each entry is in one place, and the numbers add up; or it says in a sentence what is wrong."""

from __future__ import annotations

import pytest

from engine.keyspace import FENCE, LEASE_END, NOW, Keyspace, State, hold, jobs, marks
from holdfast.engine.store import Store
from holdfast.errors import OptionError

SOUND: State = {
    "jobs": jobs("r", "l", "s", "d", "b", "h", "i"),
    "ready": {"r": 1},
    "later": {"l": NOW + 5},
    "suspects": {"s": 1},
    "dead": {"d": 1},
    "broken": {"b": 1},
    "held:w": {"h": hold()},
    "keyed": {"h": "k"},
    "locks": {"k": "h"},
    "line": ["k 1 i"],
    "waits": {"i": "k 1 i"},
    "marks": {"i": marks(order=3)},
    "workers": {"w": LEASE_END},
    "calls": {"w": 4},
    "unique": {"u": "r"},
    "uniques": {"r": "u"},
    "outbox": {f"{FENCE} x/y/0 E": FENCE},
    "meta": {"put": 16, "done": 2, "cancelled": 3, "expired": 1, "trimmed": 3, "lined": 4},
}


def test_a_sound_partition_has_numbers_and_no_problems(keyspace: Keyspace, store: Store) -> None:
    before = keyspace.given(SOUND)
    audit = keyspace.audit()
    assert audit.problems == ()
    assert audit.numbers == {
        "ready": 1, "later": 1, "suspects": 1, "dead": 1, "broken": 1, "held": 1, "line": 1, "jobs": 7,
        "outbox": 1, "workers": 1, **before["meta"],
    }  # fmt: skip
    assert keyspace.state() == before


def test_an_empty_partition_is_sound(keyspace: Keyspace, store: Store) -> None:
    assert keyspace.audit({}).problems == ()


@pytest.mark.parametrize(
    ("damage", "problems"),
    [
        ({"later": {"l": NOW, "r": NOW}}, ["I1 r: has an envelope, is in: later, ready", "I1 7 entries"]),
        ({"ready": None}, ["I1 r: has an envelope, is in: ", "I1 7 entries have an envelope, 6 have a place"]),
        ({"held:v": {"h": hold()}}, ["I1 h: has an envelope, is in: held by v, held by w", "I1 7 entries"]),
        ({"locks": {"k": "r"}}, ["I3 h: is held without the lock of its key"]),
        ({"line": None}, ["I3 0 stand in line, 1 know their place"]),
        ({"uniques": None}, ["I7 1 unique names, 0 owners"]),
        ({"calls": {"w": 4, "zombie": 1}}, ["I7 2 numbered callers, 1 workers"]),
        ({"meta": {"put": 17}}, ["I4 put 17, but 9 ended and 7 are present"]),
    ],
)
def test_each_kind_of_damage_has_its_sentence(
    keyspace: Keyspace, store: Store, damage: State, problems: list[str]
) -> None:
    state = SOUND | {name: value for name, value in damage.items() if name != "meta"}
    state = {name: value for name, value in state.items() if value is not None}
    keyspace.given(state | {"meta": SOUND["meta"] | damage.get("meta", {})})
    found = keyspace.audit().problems
    assert len(found) == len(problems)
    assert all(sentence.startswith(start) for sentence, start in zip(found, problems, strict=True))


@pytest.mark.parametrize("name", ["marks", "errors", "keyed", "waits", "uniques", "cancels"])
def test_what_an_ended_entry_has_left_behind_is_found(keyspace: Keyspace, store: Store, name: str) -> None:
    keyspace.given({name: {"x": "k 1 x" if name == "waits" else "left"}})
    problems = keyspace.link.run(store.audit([], ["x"])).problems
    assert f"I7 x: has left something in {name}" in problems


def test_it_stops_at_a_hundred_sentences(keyspace: Keyspace, store: Store) -> None:
    ids = [f"{i:04}" for i in range(1000)]
    keyspace.given({"jobs": jobs(*ids)})
    assert len(keyspace.link.run(store.audit([], ids)).problems) == 100
    with pytest.raises(OptionError, match="0 to 1,000 ids, not 1,001"):
        store.audit([], [*ids, "x"])
