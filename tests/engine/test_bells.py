"""Who is woken up: as many of those that wait as there is work for, the longest waiting first, if they hear it."""

from __future__ import annotations

from typing import Any

import pytest

from engine.keyspace import FENCE, LEASE_END, NOW, Bells, Keyspace, State, entry, hold, jobs
from holdfast.engine.model import Ended, Settlement
from holdfast.engine.store import Store
from holdfast.wire.call import Call

#: They wait for work, `x` for the longest.
WAITING = {"x": NOW - 3, "y": NOW - 2, "z": NOW - 1}
KEYED: State = {
    "jobs": jobs("a", "b"), "keyed": {"a": "k"}, "locks": {"k": "a"}, "line": ["k 1 b"], "waits": {"b": "k 1 b"},
    "marks": {"b": f"0 0 - {NOW} -"},
}  # fmt: skip
KEY_HELD = KEYED | {"held:w": {"a": hold()}, "workers": {"w": LEASE_END}}
HELD: State = {"jobs": jobs("a", "b"), "held:w": {"a": hold(1), "b": hold(2)}, "workers": {"w": LEASE_END}}
DUE: State = {"jobs": jobs("a", "b"), "later": {"a": NOW, "b": NOW + 9}, "workers": {"w": LEASE_END}}


def ready(*ids: str) -> State:
    return {"jobs": jobs(*ids), "ready": dict.fromkeys(ids, NOW), "workers": {"w": LEASE_END}}


def put(store: Store, *options: dict[str, Any]) -> Call[list[str]]:
    return store.put("me", 1, [entry(f"new{i}", **o) for i, o in enumerate(options)])


def settled(verdict: Any, **more: Any) -> Settlement:
    return Settlement(b"a", b"%d" % FENCE, verdict, **more)


@pytest.mark.parametrize(
    ("before", "verb", "args", "rung"),
    [
        ({}, put, [{}], ["x"]),
        ({}, put, [{}, {}], ["x", "y"]),
        ({}, put, [{}] * 9, ["x", "y", "z"]),
        # Of one key, one may run.
        ({}, put, [{"key": "k"}, {"key": "k"}], ["x"]),
        # Somebody must learn when it is due, but not what is due after what is known.
        ({}, put, [{"delay": 9}], ["x"]),
        ({"jobs": jobs("a"), "later": {"a": NOW + 5}}, put, [{"delay": 9}], []),
        ({"jobs": jobs("a"), "later": {"a": NOW + 5}}, put, [{"delay": 3}, {}], ["x", "y"]),
        (ready("a"), Store.claim, ["w", 1], []),
        (ready("a", "b", "c"), Store.claim, ["w", 1], ["x", "y"]),
        (ready(), Store.claim, ["w", 1], []),
        # It was rung and cannot come: one other shall.
        (ready(), Store.claim, ["w", 0], ["x"]),
        (ready("a", "b", "c"), Store.claim, ["w", 0], ["x"]),
        # What was due takes one; when the next is due, another one must know.
        (DUE, Store.claim, ["w", 1], ["x"]),
        (HELD, Store.finish, ["w", 1, [Ended(b"a", b"%d" % FENCE)]], []),
        (KEY_HELD, Store.finish, ["w", 1, [Ended(b"a", b"%d" % FENCE)]], ["x"]),
        (HELD, Store.settle, ["w", 1, settled("done")], []),
        (HELD, Store.settle, ["w", 1, settled("done", born_here=[entry("c"), entry("d")])], ["x", "y"]),
        (HELD, Store.settle, ["w", 1, settled("retry", delay_ms=5)], ["x"]),
        (KEY_HELD, Store.settle, ["w", 1, settled("dead")], ["x"]),
        (KEY_HELD, Store.settle, ["w", 1, settled("retry")], ["x"]),
        (HELD, Store.release, ["w", 1, b"%d" % FENCE, [b"a", b"b"]], ["x", "y"]),
        (HELD, Store.release, ["w", 1, b"1", [b"a"]], []),
        (KEYED | {"ready": {"a": NOW}}, Store.cancel, [["a"], b"", 0], ["x"]),
        ({"jobs": jobs("a", "b"), "dead": {"a": 1, "b": 2}}, Store.revive, [["a", "b", "c"]], ["x", "y"]),
        (ready("a"), Store.pause, [False], ["x", "y"]),
        ({}, Store.fire, ["tick", 1, entry("a")], ["x"]),
    ],
)  # fmt: skip
def test_who_waited_longest_is_woken_and_waits_no_longer(
    keyspace: Keyspace, store: Store, bells: Bells, before: State, verb: Any, args: list[Any], rung: list[str]
) -> None:
    keyspace.given({**before, "idle": WAITING})
    bells.listen(WAITING)
    keyspace.run(verb(store, *args))
    assert bells.rung() == rung
    assert keyspace.state().get("idle", {}).keys() - {"w"} == WAITING.keys() - set(rung)


@pytest.mark.parametrize("cause", ["died", "left"])
def test_a_sweep_wakes_one_for_each_that_comes_back_and_one_more(
    keyspace: Keyspace, store: Store, bells: Bells, cause: str
) -> None:
    """The dead one may have been rung and not have come, or have been the one who knew what is due next."""
    keyspace.given({**HELD, "idle": {**WAITING, "w": NOW - 9}})
    bells.listen([*WAITING, "w"])
    keyspace.run(store.sweep("w", cause, max_crashes=3, error="E"))
    assert bells.rung() == ["x", "y", "z"]


def test_who_does_not_hear_its_bell_is_passed_over(keyspace: Keyspace, store: Store, bells: Bells) -> None:
    """It is gone, or it will ask by itself when it is back."""
    keyspace.given({"idle": WAITING})
    bells.listen(["y"])
    keyspace.run(put(store, {}))
    assert bells.rung() == ["y"]
    assert keyspace.state()["idle"] == {"z": NOW - 1}


def test_when_nobody_hears_it_the_work_waits_for_whoever_asks(keyspace: Keyspace, store: Store, bells: Bells) -> None:
    keyspace.given({"idle": WAITING, "workers": {"w": LEASE_END}})
    keyspace.run(put(store, {}))
    assert "idle" not in keyspace.state()
    assert list(keyspace.run(store.claim("w", 5)).ids) == [b"new0"]


def test_the_bell_is_passed_on_to_another_and_not_to_oneself(keyspace: Keyspace, store: Store, bells: Bells) -> None:
    keyspace.given({**ready("a"), "idle": {"w": NOW - 9, "x": NOW}})
    bells.listen(["w", "x"])
    keyspace.run(store.claim("w", 0))
    assert bells.rung() == ["x"]
    assert "idle" not in keyspace.state()


def test_a_repeated_put_wakes_nobody(keyspace: Keyspace, store: Store, bells: Bells) -> None:
    keyspace.given({"idle": WAITING, "sender:me": "1 for 1h"})
    bells.listen(WAITING)
    keyspace.run(put(store, {}))
    assert bells.rung() == []
