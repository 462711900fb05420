"""settle: any end of an entry but plain success, with all that its step brings."""

from __future__ import annotations

from typing import Any

import pytest

from engine.keyspace import FENCE, HOUR, LEASE_END, NOW, Keyspace, State, but, entry, hold, jobs, marks
from holdfast.engine.model import Settlement, Verdict
from holdfast.engine.store import Store, pack_entries, unpack_entries
from holdfast.errors import OptionError, ServerError
from holdfast.wire.library import Arg

F = b"%d" % FENCE


def held(*ids: str, order: int = 7, **more: object) -> State:
    """Worker `w` holds these entries; they came out of ready at *order*."""
    return {
        "jobs": jobs(*ids),
        "held:w": dict.fromkeys(ids, hold(order)),
        "workers": {"w": LEASE_END},
        **more,
    }


def end(verdict: Verdict, id: str = "a", **more: Any) -> Settlement:
    """An end of entry `a`."""
    return Settlement(id.encode(), F, verdict, **more)


# -- the entry ----------------------------------------------------------------------------------------


def test_done_keeps_its_record(keyspace: Keyspace, store: Store) -> None:
    before = keyspace.given(held("a", marks={"a": marks(2)}, errors={"a": "E"}))
    assert keyspace.run(store.settle("w", 1, end("done", ttl_ms=HOUR, record=b"R"))) == "done"
    changes = {
        "jobs": None, "held:w": None, "marks": None, "errors": None,
        "result:a": "R for 1h", "calls": {"w": 1}, "meta": {"done": 1, "put": 1},
    }  # fmt: skip
    assert keyspace.state() == but(before, changes) | {"meta": {"clock": NOW, "put": 1, "done": 1}}


def test_a_retry_waits_with_its_failure_and_its_old_order(keyspace: Keyspace, store: Store) -> None:
    before = keyspace.given(held("a"))
    settlement = end("retry", delay_ms=1500, error="ValueError: \u00e9")
    assert keyspace.run(store.settle("w", 1, settlement)) == "retry"
    changes = {
        "held:w": None,
        "later": {"a": NOW + 1500},
        "marks": {"a": marks(failures=1, order=7)},
        "errors": {"a": "ValueError: \u00e9"},
        "calls": {"w": 1},
        "meta": {"retried": 1},
    }
    assert keyspace.state() == but(before, changes)


def test_a_snooze_is_no_failure(keyspace: Keyspace, store: Store) -> None:
    before = keyspace.given(held("a", marks={"a": marks(2, 1, NOW + 99)}, errors={"a": "E"}))
    assert keyspace.run(store.settle("w", 1, end("snooze", delay_ms=1))) == "snooze"
    changes = {
        "held:w": None,
        "later": {"a": NOW + 1},
        "marks": {"a": marks(2, 1, NOW + 99, order=7)},
        "calls": {"w": 1},
    }
    assert keyspace.state() == but(before, changes)


@pytest.mark.parametrize("grave", ["dead", "broken"])
def test_the_dead_keep_their_envelope_and_their_key_and_give_up_the_rest(
    keyspace: Keyspace, store: Store, grave: Verdict
) -> None:
    state = held(
        "a", marks={"a": marks(24, flags="k")}, errors={"a": "older"}, keyed={"a": "k"}, locks={"k": "a"},
        unique={"u": "a"}, uniques={"a": "u"}, watched={"a": NOW + 9},
    )  # fmt: skip
    before = keyspace.given(state)
    settlement = end(grave, error="the last", ttl_ms=HOUR, record=b"R")
    assert keyspace.run(store.settle("w", 1, settlement)) == grave
    changes = {
        "held:w": None, "locks": None, "unique": None, "uniques": None, "watched": None,
        grave: {"a": NOW},
        "marks": {"a": marks(25, flags="k")},
        "errors": {"a": "the last"},
        "result:a": "R for 1h",
        "calls": {"w": 1},
    }  # fmt: skip
    assert keyspace.state() == but(before, changes)


@pytest.mark.parametrize("verdict", ["cancelled", "expired"])
def test_what_is_not_to_be_run_ends_and_is_counted(keyspace: Keyspace, store: Store, verdict: Verdict) -> None:
    before = keyspace.given(held("a"))
    assert keyspace.run(store.settle("w", 1, end(verdict, ttl_ms=HOUR, record=b"R"))) == verdict
    changes = {"jobs": None, "held:w": None, "result:a": "R for 1h", "calls": {"w": 1}, "meta": {verdict: 1}}
    assert keyspace.state() == but(before, changes)


def test_an_unknown_verdict_is_refused_and_nothing_is_written(keyspace: Keyspace, store: Store) -> None:
    before = keyspace.given(held("a"))
    with pytest.raises(Exception, match="no such verdict"):
        keyspace.run(store.settle("w", 1, end("paused")))  # type: ignore[arg-type]
    assert keyspace.state() == before


@pytest.mark.parametrize(
    "args",
    [(-1,), (2, "c", "C", ""), (0, "x/y/0"), (1, "c", "C", "", "x/y/0"), (1, "c", "C", "[1]"), (1, "c", "C", "{")],
)
def test_what_it_brings_is_whole_or_refused_before_anything_is_written(
    keyspace: Keyspace, store: Store, args: tuple[Arg, ...]
) -> None:
    before = keyspace.given(held("a"))
    call = store.settle("w", 1, end("done"))
    call.args = [*call.args[:10], *args]
    with pytest.raises(ServerError):
        keyspace.run(call)
    assert keyspace.state() == before


# -- its key ------------------------------------------------------------------------------------------

KEYED = {
    "jobs": jobs("a", "b"),
    "keyed": {"a": "k"},
    "locks": {"k": "a"},
    "line": ["k 1 b"],
    "waits": {"b": "k 1 b"},
    "held:w": {"a": hold(7)},
    "workers": {"w": LEASE_END},
}
#: What changes when `b` gets the lock of the key.
PASSED = {"locks": {"k": "b"}, "line": None, "waits": None, "ready": {"b": 9}}


def test_a_retry_holds_its_key(keyspace: Keyspace, store: Store) -> None:
    before = keyspace.given(KEYED | {"marks": {"b": marks(order=9)}})
    keyspace.run(store.settle("w", 1, end("retry", delay_ms=5, error="E")))
    changes = {
        "held:w": None,
        "later": {"a": NOW + 5},
        "marks": {"a": marks(1, order=7), "b": marks(order=9)},
        "errors": {"a": "E"},
        "calls": {"w": 1},
        "meta": {"retried": 1},
    }
    assert keyspace.state() == but(before, changes)


def test_a_retry_that_skips_lets_the_next_of_its_key_pass(keyspace: Keyspace, store: Store) -> None:
    before = keyspace.given(KEYED | {"marks": {"a": marks(flags="k"), "b": marks(order=9)}})
    keyspace.run(store.settle("w", 1, end("retry", delay_ms=5, error="E")))
    changes = PASSED | {
        "held:w": None,
        "keyed": {"a": "k", "b": "k"},
        "later": {"a": NOW + 5},
        "marks": {"a": marks(1, order=7, flags="k"), "b": marks(order=9)},
        "errors": {"a": "E"},
        "calls": {"w": 1},
        "meta": {"retried": 1},
    }
    assert keyspace.state() == but(before, changes)


def test_who_skipped_lines_up_again_when_it_is_due(keyspace: Keyspace, store: Store) -> None:
    keyspace.given(KEYED | {"marks": {"a": marks(flags="k"), "b": marks(order=9)}})
    keyspace.run(store.settle("w", 1, end("retry", delay_ms=0, error="E")))
    assert keyspace.run(store.claim("w", 5)).ids == [b"b"]
    state = keyspace.state()
    assert state["waits"] == {"a": "k 1 a"}
    keyspace.run(store.settle("w", 2, Settlement(b"b", state["held:w"]["b"].split()[0].encode(), "done")))
    assert keyspace.run(store.claim("w", 5)).ids == [b"a"]


@pytest.mark.parametrize("verdict", ["dead", "broken", "cancelled", "expired", "done"])
def test_whoever_ends_gives_its_key_to_the_next(keyspace: Keyspace, store: Store, verdict: Verdict) -> None:
    before = keyspace.given(KEYED | {"marks": {"b": marks(order=9)}})
    keyspace.run(store.settle("w", 1, end(verdict)))
    after = keyspace.state()
    assert {name: after.get(name) for name in PASSED} == {name: but(before, PASSED).get(name) for name in PASSED}
    assert ("a" in after["keyed"]) == (verdict in ("dead", "broken"))


# -- a wish to cancel ---------------------------------------------------------------------------------


@pytest.mark.parametrize("verdict", ["retry", "snooze", "cancelled"])
def test_who_was_cancelled_meanwhile_does_not_come_back(keyspace: Keyspace, store: Store, verdict: Verdict) -> None:
    before = keyspace.given(held("a", cancels={"a": "the wish"}))
    settlement = end(verdict, delay_ms=5, error="E", ttl_ms=2 * HOUR, record=b"own")
    assert keyspace.run(store.settle("w", 1, settlement)) == "cancelled"
    changes = {
        "jobs": None,
        "held:w": None,
        "cancels": None,
        "result:a": "the wish for 1h",
        "calls": {"w": 1},
        "meta": {"cancelled": 1},
    }
    assert keyspace.state() == but(before, changes)


@pytest.mark.parametrize("verdict", ["done", "dead", "expired"])
def test_who_ended_in_spite_of_it_has_ended_so(keyspace: Keyspace, store: Store, verdict: Verdict) -> None:
    keyspace.given(held("a", cancels={"a": "the wish"}))
    assert keyspace.run(store.settle("w", 1, end(verdict, ttl_ms=HOUR, record=b"own"))) == verdict
    state = keyspace.state()
    assert state["result:a"] == "own for 1h"
    assert "cancels" not in state


# -- what the step brings -----------------------------------------------------------------------------


def test_children_are_born_in_the_same_step(keyspace: Keyspace, store: Store) -> None:
    before = keyspace.given(held("a", keyed={"a": "k"}, locks={"k": "a"}))
    children = [entry("c1"), entry("c2", delay=50), entry("c3", key="k")]
    children += [entry("c4", unique="u"), entry("c5", unique="u")]
    assert keyspace.run(store.settle("w", 1, end("done", born_here=children))) == "done"
    changes = {
        "jobs": jobs("c1", "c2", "c3", "c4"),
        "held:w": None,
        "ready": {"c1": NOW, "c3": NOW, "c4": NOW},
        "later": {"c2": NOW + 50},
        "keyed": {"c3": "k"},
        "locks": {"k": "c3"},
        "unique": {"u": "c4"},
        "uniques": {"c4": "u"},
        "calls": {"w": 1},
        "meta": {"done": 1, "put": 5},
    }
    assert keyspace.state() == but(before, changes)


def test_a_child_that_is_there_already_is_not_born_twice(keyspace: Keyspace, store: Store) -> None:
    before = keyspace.given(held("a") | {"jobs": jobs("a", "c"), "later": {"c": NOW + 5}})
    children = [entry("c"), entry("d"), entry("d", delay=9)]
    keyspace.run(store.settle("w", 1, end("done", born_here=children)))
    changes = {
        "jobs": jobs("c", "d"),
        "held:w": None,
        "ready": {"d": NOW},
        "calls": {"w": 1},
        "meta": {"done": 1, "put": 3},
    }
    assert keyspace.state() == but(before, changes)


def test_a_retry_may_bring_children_too(keyspace: Keyspace, store: Store) -> None:
    keyspace.given(held("a"))
    keyspace.run(store.settle("w", 1, end("snooze", delay_ms=5, born_here=[entry("c")])))
    state = keyspace.state()
    assert (state["later"], state["ready"]) == ({"a": NOW + 5}, {"c": NOW})


def test_what_is_for_another_partition_goes_to_the_outbox_in_order(keyspace: Keyspace, store: Store) -> None:
    before = keyspace.given(held("a", "b"))
    keyspace.run(store.settle("w", 1, end("done", born_elsewhere=[("test/x/0", b"one"), ("test/y/3", b"two")])))
    keyspace.run(store.settle("w", 2, end("done", "b", born_elsewhere=[("test/x/0", b"three")])))
    places = [FENCE, FENCE + 1, FENCE + 2]
    changes = {
        "jobs": None,
        "held:w": None,
        "outbox": {
            f"{places[0]} test/x/0 one": places[0],
            f"{places[1]} test/y/3 two": places[1],
            f"{places[2]} test/x/0 three": places[2],
        },
        "calls": {"w": 2},
        "meta": {"done": 2, "outgoing": places[2]},
    }
    assert keyspace.state() == but(before, changes)


def test_packed_entries_come_through_the_outbox_as_they_were(keyspace: Keyspace, store: Store) -> None:
    keyspace.given(held("a"))
    entries = [entry("x", envelope=b"\0\xff\r\n 1\0"), entry("y", priority=3)]
    keyspace.run(store.settle("w", 1, end("done", born_elsewhere=[("test/x/0", pack_entries(entries))])))
    (outgoing,) = keyspace.run(store.relay(10))
    assert (outgoing.partition, unpack_entries(outgoing.entries)) == ("test/x/0", entries)


def test_a_step_has_at_most_a_thousand_children(keyspace: Keyspace, store: Store) -> None:
    keyspace.given(held("a"))
    born = [entry(f"{i:04}", delay=i) for i in range(1000)]
    away = [("test/x/0", b"%d" % i) for i in range(1000)]
    keyspace.run(store.settle("w", 1, end("done", born_here=born, born_elsewhere=away)))
    state = keyspace.state()
    assert (len(state["jobs"]), len(state["outbox"])) == (1000, 1000)
    with pytest.raises(OptionError, match="0 to 1,000 entries, not 1,001"):
        store.settle("w", 2, end("done", born_here=[*born, entry("x")]))
    with pytest.raises(OptionError, match="0 to 1,000 entries, not 1,001"):
        store.settle("w", 2, end("done", born_elsewhere=[*away, away[0]]))


# -- once and fenced ----------------------------------------------------------------------------------

EVERYTHING: dict[str, Any] = {
    "delay_ms": 5,
    "error": "E",
    "ttl_ms": HOUR,
    "record": b"R",
    "born_here": [entry("c")],
    "born_elsewhere": [("test/x/0", b"X")],
}


@pytest.mark.parametrize("verdict", ["done", "retry", "snooze", "dead", "cancelled", "expired", "broken"])
def test_a_repeated_call_is_the_same_call(keyspace: Keyspace, store: Store, verdict: Verdict) -> None:
    keyspace.given(held("a"))
    call = store.settle("w", 1, end(verdict, **EVERYTHING))
    assert keyspace.run(call) == verdict
    before = keyspace.state()
    assert keyspace.run(call) == "again"
    assert keyspace.state() == before


@pytest.mark.parametrize("verdict", ["done", "retry", "snooze", "dead", "cancelled", "expired", "broken"])
@pytest.mark.parametrize(
    "hold_of_a",
    [{}, {"held:w": {"a": hold(fence=FENCE + 1)}}, {"held:v": {"a": hold()}}],
    ids=["gone", "newer", "another's"],
)
def test_a_lost_fence_writes_nothing(keyspace: Keyspace, store: Store, verdict: Verdict, hold_of_a: State) -> None:
    place = {} if hold_of_a else {"ready": {"a": 1}}
    wish = {"jobs": jobs("a"), "workers": {"v": LEASE_END}, "cancels": {"a": "wish"}}
    before = keyspace.given(wish | place | hold_of_a)
    assert keyspace.run(store.settle("w", 1, end(verdict, **EVERYTHING))) == "lost"
    assert keyspace.state() == before


def test_a_call_that_was_overtaken_still_counts(keyspace: Keyspace, store: Store) -> None:
    keyspace.given(held("a", "b"))
    assert keyspace.run(store.settle("w", 2, end("done", "b"))) == "done"
    assert keyspace.run(store.settle("w", 1, end("retry", delay_ms=5, error="E"))) == "retry"
    assert keyspace.state()["calls"] == {"w": 2}


# -- graves -------------------------------------------------------------------------------------------

MOST_GRAVES = 10_000
GRAVE_MS = 180 * 24 * HOUR


@pytest.mark.parametrize("grave", ["dead", "broken"])
def test_the_oldest_graves_make_room(keyspace: Keyspace, store: Store, grave: Verdict) -> None:
    old = [f"{i:05}" for i in range(MOST_GRAVES)]
    state = held("a", **{grave: {id: NOW - MOST_GRAVES + i for i, id in enumerate(old)}})
    state["jobs"] |= jobs(*old)
    state |= {"errors": {"00000": "E"}, "marks": {"00000": marks(25)}, "keyed": {"00000": "k"}}
    before = keyspace.given(state)
    keyspace.run(store.settle("w", 1, end(grave, error="new")))
    after = keyspace.state()
    assert len(after[grave]) == MOST_GRAVES
    assert after["meta"] == before["meta"] | {"trimmed": 1}
    assert "00000" not in after["jobs"]
    assert "keyed" not in after
    assert (after["errors"], after["marks"]) == ({"a": "new"}, {"a": marks(1)})


def test_graves_are_not_kept_for_ever(keyspace: Keyspace, store: Store) -> None:
    graves = {"old": NOW - GRAVE_MS, "younger": NOW - GRAVE_MS + 1}
    before = keyspace.given(held("a") | {"jobs": jobs("a", *graves), "dead": graves})
    keyspace.run(store.settle("w", 1, end("dead", error="E")))
    changes = {
        "jobs": jobs("a", "younger"),
        "held:w": None,
        "dead": {"younger": NOW - GRAVE_MS + 1, "a": NOW},
        "marks": {"a": marks(1)},
        "errors": {"a": "E"},
        "calls": {"w": 1},
        "meta": {"trimmed": 1},
    }
    assert keyspace.state() == but(before, changes)
