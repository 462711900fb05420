"""pause: nobody is handed anything of the partition until it goes on."""

from __future__ import annotations

from engine.keyspace import FENCE, LEASE_END, NOW, Keyspace, but, entry, hold, jobs
from holdfast.engine.model import Ended
from holdfast.engine.store import Store


def test_pause_is_a_field_and_resume_takes_it_away(keyspace: Keyspace, store: Store) -> None:
    before = keyspace.given({"jobs": jobs("a"), "ready": {"a": 1}})
    for _ in range(2):
        assert keyspace.run(store.pause(True)) == "paused"
        assert keyspace.state() == but(before, {"meta": {"paused": 1}})
    for _ in range(2):
        assert keyspace.run(store.pause(False)) == "resumed"
        assert keyspace.state() == before


def test_while_it_is_paused_everything_but_claim_goes_on(keyspace: Keyspace, store: Store) -> None:
    state = {"jobs": jobs("a"), "held:w": {"a": hold()}, "workers": {"w": LEASE_END}, "meta": {"paused": 1}}
    before = keyspace.given(state)
    assert keyspace.run(store.put("me", 1, [entry("b")])) == [""]
    assert keyspace.run(store.claim("w", 1)).word == "paused"
    assert keyspace.run(store.finish("w", 1, [Ended(b"a", b"%d" % FENCE)])) == ()
    changes = {
        "jobs": jobs("b"), "ready": {"b": NOW}, "held:w": None, "idle": {"w": NOW}, "calls": {"w": 1},
        "sender:me": "1 for 1h", "meta": {"put": 2, "done": 1},
    }  # fmt: skip
    assert keyspace.state() == but(before, changes)
