"""sweep: take back what a worker held that died, left or fell silent."""

from __future__ import annotations

import pytest

from engine.keyspace import FENCE, LEASE_END, NOW, Keyspace, State, but, hold, jobs, marks
from holdfast.engine.model import Ended, Swept
from holdfast.engine.store import Store
from holdfast.wire.call import Call


def sweep(store: Store, cause: str = "died", culprits: tuple[str, ...] = (), token: str = "w") -> Call[Swept]:
    """A sweep of worker `w`."""
    return store.sweep(token, cause, max_crashes=3, error="killed its process", culprits=culprits)


def held(holds: dict[str, str], **more: object) -> State:
    """Worker `w` has these."""
    state: State = {"jobs": jobs(*holds), "held:w": holds, "workers": {"w": LEASE_END}}
    return state | more


#: `w` is forgotten.
FORGOTTEN = {"held:w": None, "workers": None, "calls": None, "idle": None}


@pytest.mark.parametrize("cause", ["died", "left"])
def test_what_had_not_started_goes_back_innocent_at_the_order_it_had(
    keyspace: Keyspace, store: Store, cause: str
) -> None:
    state = held(
        {"a": hold(3), "b": hold(-2**50), "s": hold(4, mark=" s")},
        marks={"s": marks(crashes=1)}, keyed={"a": "k"}, locks={"k": "a"}, calls={"w": 9}, idle={"w": NOW},
    )  # fmt: skip
    before = keyspace.given(state)
    assert keyspace.run(sweep(store, cause)) == Swept("swept", 0, 3, 0)
    assert keyspace.state() == but(before, FORGOTTEN | {"ready": {"a": 3, "b": -(2**50)}, "suspects": {"s": 4}})


def test_the_only_one_that_had_started_is_charged_and_runs_alone_from_now_on(keyspace: Keyspace, store: Store) -> None:
    before = keyspace.given(held({"a": hold(3), "b": hold(4)}, marks={"a": marks(5, 1)}))
    assert keyspace.run(sweep(store, culprits=("a",))) == Swept("swept", 0, 2, 0)
    changes = FORGOTTEN | {
        "ready": {"b": 4},
        "suspects": {"a": 3},
        "marks": {"a": marks(5, 2)},
        "meta": {"crashed": 1},
    }
    assert keyspace.state() == but(before, changes)


def test_of_several_that_had_started_none_is_charged_and_each_runs_alone_from_now_on(
    keyspace: Keyspace, store: Store
) -> None:
    before = keyspace.given(held({"a": hold(3), "b": hold(4), "c": hold(5)}, marks={"a": marks(0, 2)}))
    assert keyspace.run(sweep(store, culprits=("a", "b"))) == Swept("swept", 0, 3, 0)
    assert keyspace.state() == but(before, FORGOTTEN | {"ready": {"c": 5}, "suspects": {"a": 3, "b": 4}})


def test_what_it_does_not_hold_is_not_charged(keyspace: Keyspace, store: Store) -> None:
    before = keyspace.given(held({"a": hold(3)}, ready={"b": 1}) | {"jobs": jobs("a", "b")})
    assert keyspace.run(sweep(store, culprits=("b",))) == Swept("swept", 0, 1, 0)
    assert keyspace.state() == but(before, FORGOTTEN | {"ready": {"a": 3, "b": 1}})


def test_a_poison_pill_is_buried_and_its_key_goes_on(keyspace: Keyspace, store: Store) -> None:
    state = held(
        {"a": hold(3)},
        marks={"a": marks(0, 2), "b": marks(order=8)}, keyed={"a": "k"}, locks={"k": "a"},
        line=["k 1 b"], waits={"b": "k 1 b"}, unique={"u": "a"}, uniques={"a": "u"}, watched={"a": NOW + 9},
    )  # fmt: skip
    before = keyspace.given(state | {"jobs": jobs("a", "b")})
    assert keyspace.run(sweep(store, culprits=("a",))) == Swept("swept", 0, 0, 1)
    changes = FORGOTTEN | {
        "dead": {"a": NOW}, "errors": {"a": "killed its process"}, "ready": {"b": 8},
        "marks": {"a": marks(0, 3), "b": marks(order=8)}, "keyed": {"a": "k", "b": "k"}, "locks": {"k": "b"},
        "line": None, "waits": None, "unique": None, "uniques": None, "watched": None,
        "meta": {"crashed": 1},
    }  # fmt: skip
    assert keyspace.state() == but(before, changes)


def test_a_job_dies_after_as_many_crashes_as_it_may_have(keyspace: Keyspace, store: Store) -> None:
    keyspace.given({"jobs": jobs("a"), "ready": {"a": 1}})
    answers = []
    for token in ("t1", "t2", "t3"):
        keyspace.run(store.renew(15_000, [token], enlist=True))
        assert keyspace.run(store.claim(token, 1, alone=True)).ids == [b"a"]
        answers.append(keyspace.run(sweep(store, culprits=("a",), token=token)))
    assert answers == [Swept("swept", 0, 1, 0), Swept("swept", 0, 1, 0), Swept("swept", 0, 0, 1)]
    assert keyspace.state() == {
        "jobs": jobs("a"),
        "dead": {"a": NOW},
        "marks": {"a": marks(0, 3)},
        "errors": {"a": "killed its process"},
        "meta": {"clock": NOW, "put": 1, "fence": FENCE + 2, "crashed": 3},
    }


# -- silent workers -----------------------------------------------------------------------------------


def test_who_is_silent_no_longer_is_left_alone(keyspace: Keyspace, store: Store) -> None:
    before = keyspace.given(held({"a": hold()}) | {"workers": {"w": NOW + 1}})
    assert keyspace.run(sweep(store, "silent")) == Swept("alive")
    assert keyspace.state() == before


def test_all_that_a_silent_worker_held_is_suspect_and_nothing_is_charged(keyspace: Keyspace, store: Store) -> None:
    before = keyspace.given(held({"a": hold(3), "s": hold(4, mark=" s")}) | {"workers": {"w": NOW}})
    assert keyspace.run(sweep(store, "silent")) == Swept("swept", 0, 2, 0)
    assert keyspace.state() == but(before, FORGOTTEN | {"suspects": {"a": 3, "s": 4}})


def test_a_lone_suspect_of_a_silent_worker_is_charged(keyspace: Keyspace, store: Store) -> None:
    before = keyspace.given(held({"s": hold(4, mark=" s")}) | {"workers": {"w": NOW}})
    assert keyspace.run(sweep(store, "silent")) == Swept("swept", 0, 1, 0)
    changes = FORGOTTEN | {"suspects": {"s": 4}, "marks": {"s": marks(crashes=1)}, "meta": {"crashed": 1}}
    assert keyspace.state() == but(before, changes)


def test_a_lone_entry_that_was_no_suspect_is_not_charged(keyspace: Keyspace, store: Store) -> None:
    before = keyspace.given(held({"a": hold(4)}) | {"workers": {"w": NOW}})
    keyspace.run(sweep(store, "silent"))
    assert keyspace.state() == but(before, FORGOTTEN | {"suspects": {"a": 4}})


# -- once ---------------------------------------------------------------------------------------------


def test_who_was_swept_before_is_gone(keyspace: Keyspace, store: Store) -> None:
    keyspace.given(held({"a": hold(3)}))
    keyspace.run(sweep(store))
    before = keyspace.state()
    assert keyspace.run(sweep(store)) == Swept("gone")
    assert keyspace.state() == before


def test_who_died_before_it_held_anything_is_forgotten_too(keyspace: Keyspace, store: Store) -> None:
    before = keyspace.given({"workers": {"w": LEASE_END}, "idle": {"w": NOW}})
    assert keyspace.run(sweep(store)) == Swept("swept", 0, 0, 0)
    assert keyspace.state() == but(before, FORGOTTEN)


def test_a_sweep_of_many_takes_several_calls_and_the_first_condemns(keyspace: Keyspace, store: Store) -> None:
    ids = [f"{i:04}" for i in range(1400)]
    before = keyspace.given(
        held({id: hold(i) for i, id in enumerate(ids)}, calls={"w": 3}, marks={ids[7]: marks(0, 2)})
        | {"workers": {"w": LEASE_END, "v": LEASE_END}}
    )
    culprits = (ids[7],)
    first = keyspace.run(sweep(store, culprits=culprits))
    assert first.word == "swept"
    assert 0 < first.remaining < 1400
    # Between two calls the sweeper may die; the worker that is swept must find nothing in the meantime.
    assert keyspace.run(store.claim("w", 10)).word == "gone"
    assert keyspace.run(store.renew(15_000, ["w"])).gone == ("w",)
    swept = [first]
    while swept[-1].remaining:
        swept.append(keyspace.run(sweep(store, culprits=culprits)))
    assert len(swept) >= 3
    assert (sum(s.given_back for s in swept), sum(s.buried for s in swept)) == (1399, 1)
    changes = {
        "held:w": None,
        "calls": None,
        "workers": {"v": LEASE_END},
        "ready": {id: i for i, id in enumerate(ids) if id != ids[7]},
        "dead": {ids[7]: NOW},
        "marks": {ids[7]: marks(0, 3)},
        "errors": {ids[7]: "killed its process"},
        "meta": {"crashed": 1},
    }
    assert keyspace.state() == but(before, changes)


def test_what_a_condemned_worker_finishes_in_time_is_finished(keyspace: Keyspace, store: Store) -> None:
    ids = [f"{i:04}" for i in range(1400)]
    keyspace.given(held({id: hold(i) for i, id in enumerate(ids)}))
    keyspace.run(sweep(store))
    kept = next(iter(keyspace.state()["held:w"]))
    lost = next(id for id in ids if id not in keyspace.state()["held:w"])
    ended = [Ended(id.encode(), b"%d" % FENCE) for id in (kept, lost)]
    assert keyspace.run(store.finish("w", 1, ended)) == (lost,)
    while keyspace.run(sweep(store)).remaining:
        pass
    state = keyspace.state()
    assert set(state) == {"jobs", "ready", "meta"}
    assert (len(state["jobs"]), state["meta"]["done"]) == (1399, 1)


def test_one_that_should_be_cancelled_says_so_to_whoever_claims_it_next(keyspace: Keyspace, store: Store) -> None:
    before = keyspace.given(held({"a": hold(3)}, cancels={"a": "wish"}))
    keyspace.run(sweep(store))
    assert keyspace.state() == but(before, FORGOTTEN | {"ready": {"a": 3}, "marks": {"a": marks(flags="c")}})
