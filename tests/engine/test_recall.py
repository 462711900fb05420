"""recall: what a worker holds, for one that lost the answer to a claim."""

from __future__ import annotations

import pytest

from engine.keyspace import FENCE, LEASE_END, NOW, Keyspace, hold, jobs, marks
from holdfast.engine.model import Claimed
from holdfast.engine.store import Store


def test_a_worker_that_lost_the_answer_hears_what_it_holds(keyspace: Keyspace, store: Store) -> None:
    state = {
        "jobs": jobs("a", "b", "c"),
        "held:w": {"a": hold(1), "b": hold(2, FENCE + 1, " s")},
        "held:v": {"c": hold(3, FENCE + 2)},
        "marks": {"b": marks(crashes=1)},
        "workers": {"w": LEASE_END, "v": LEASE_END},
    }
    before = keyspace.given(state)
    answer = keyspace.run(store.recall("w"))
    assert (answer.word, answer.now) == ("claimed", NOW)
    columns = zip(answer.ids, answer.fences, answer.envelopes, answer.marks, strict=True)
    assert sorted(columns) == [
        (b"a", b"%d" % FENCE, b"A", None),
        (b"b", b"%d" % (FENCE + 1), b"B", marks(crashes=1).encode()),
    ]
    assert keyspace.state() == before


def test_a_claim_that_nobody_answered_is_recalled_whole(keyspace: Keyspace, store: Store) -> None:
    keyspace.given({"jobs": jobs("a", "b"), "ready": {"a": 1, "b": 2}, "workers": {"w": LEASE_END}})
    claimed = keyspace.run(store.claim("w", 5))
    recalled = keyspace.run(store.recall("w"))
    assert sorted(zip(recalled.ids, recalled.fences, strict=True)) == list(
        zip(claimed.ids, claimed.fences, strict=True)
    )


def test_a_worker_is_told_of_more_than_one_command_can_name(keyspace: Keyspace, store: Store) -> None:
    ids = [f"e{i}" for i in range(9000)]
    keyspace.given({"jobs": jobs(*ids), "held:w": dict.fromkeys(ids, hold()), "workers": {"w": LEASE_END}})
    recalled = keyspace.link.run(store.recall("w"))
    told = dict(zip(recalled.ids, recalled.envelopes, strict=True))
    assert told == {id.encode(): id.upper().encode() for id in ids}
    assert recalled.marks == [None] * 9000


def test_who_holds_nothing_recalls_nothing(keyspace: Keyspace, store: Store) -> None:
    before = keyspace.given({"workers": {"w": LEASE_END}})
    assert keyspace.run(store.recall("w")) == Claimed("claimed", NOW, -1, 0, [], [], [], [])
    assert keyspace.state() == before


@pytest.mark.parametrize("workers", [{}, {"w": 0}], ids=["none", "condemned"])
def test_who_was_swept_is_told_so(keyspace: Keyspace, store: Store, workers: dict[str, int]) -> None:
    before = keyspace.given({"jobs": jobs("a"), "held:w": {"a": hold()}, "workers": workers})
    assert keyspace.run(store.recall("w")) == Claimed("gone")
    assert keyspace.state() == before
