"""put: bring new entries, once however often it is sent."""

from __future__ import annotations

import pytest

from engine.keyspace import HOUR, NOW, Keyspace, but, entry, jobs, marks
from holdfast.engine.model import Entry, Options, packed_options
from holdfast.engine.store import Store
from holdfast.errors import OptionError, ServerError

P = 2**43


def test_plain_entries_are_ready_at_once(keyspace: Keyspace, store: Store) -> None:
    keyspace.given()
    assert keyspace.run(store.put("me", 1, [entry("a"), entry("b")])) == ["", ""]
    assert keyspace.state() == {
        "jobs": jobs("a", "b"),
        "ready": {"a": NOW, "b": NOW},
        "sender:me": "1 for 1h",
        "meta": {"clock": NOW, "put": 2},
    }


def test_an_envelope_may_be_any_bytes(keyspace: Keyspace, store: Store) -> None:
    keyspace.given()
    keyspace.run(store.put("me", 1, [Entry("a", b"\x00\xff\r\n")]))
    assert keyspace.link.command("HGET", store.partition.key("jobs"), "a") == b"\x00\xff\r\n"


def test_a_repeated_call_is_the_same_call(keyspace: Keyspace, store: Store) -> None:
    before = keyspace.given()
    call = store.put("me", 1, [entry("a"), entry("b", key="k"), entry("c", key="k", unique="u")])
    keyspace.run(call)
    before = keyspace.state()
    assert keyspace.run(call) == ["", "", ""]
    # The one write lets a WAITAOF behind the call see the data of the first one.
    assert keyspace.state() == but(before, {"meta": {"again": 1}})


def test_a_repeated_call_does_not_bring_back_what_is_done(keyspace: Keyspace, store: Store) -> None:
    before = keyspace.given({"sender:me": "7 for 1h", "meta": {"put": 1, "done": 1}})
    assert keyspace.run(store.put("me", 7, [entry("a")])) == [""]
    assert keyspace.state() == but(before, {"meta": {"again": 1}})


def test_a_copy_that_the_network_held_back_does_nothing(keyspace: Keyspace, store: Store) -> None:
    before = keyspace.given({"sender:me": "7 2:old for 1h"})
    assert keyspace.run(store.put("me", 6, [entry("late")])) == [""]
    assert keyspace.state() == but(before, {"meta": {"again": 1}})


def test_senders_do_not_share_numbers(keyspace: Keyspace, store: Store) -> None:
    before = keyspace.given({"sender:me": "7 for 1h"})
    assert keyspace.run(store.put("you", 1, [entry("a")])) == [""]
    changes = {"jobs": jobs("a"), "ready": {"a": NOW}, "sender:you": "1 for 1h", "meta": {"put": 1}}
    assert keyspace.state() == but(before, changes)


def test_a_sender_without_an_expiry_is_remembered_for_ever(keyspace: Keyspace, store: Store) -> None:
    keyspace.given()
    place = NOW * 1000 + 1
    keyspace.run(store.put("other/q/0", place, [entry("a")], keep_ms=0))
    assert keyspace.state()["sender:other/q/0"] == str(place)


def test_an_id_that_is_present_stands_in_its_own_way(keyspace: Keyspace, store: Store) -> None:
    before = keyspace.given({"jobs": jobs("a"), "later": {"a": NOW + 5}})
    entries = [Entry("a", b"other"), entry("a", priority=3), entry("b")]
    assert keyspace.run(store.put("me", 1, entries)) == ["a", "a", ""]
    changes = {
        "jobs": jobs("a", "b"),
        "ready": {"b": NOW},
        "sender:me": "1 1:a 2:a for 1h",
        "meta": {"put": 2},
    }
    assert keyspace.state() == but(before, changes)


@pytest.mark.parametrize("options", [{}, {"delay": 5}], ids=["plain", "delayed"])
def test_an_id_that_comes_twice_in_one_call_is_one_entry(
    keyspace: Keyspace, store: Store, options: dict[str, int]
) -> None:
    keyspace.given()
    keyspace.run(store.put("me", 1, [entry("a", **options), entry("a"), entry("a", delay=9)]))
    state = keyspace.state()
    assert state["meta"]["put"] == 1
    assert state["jobs"] == jobs("a")


def test_a_unique_name_is_taken_by_the_first(keyspace: Keyspace, store: Store) -> None:
    keyspace.given()
    entries = [entry("a", unique="u"), entry("b", unique="u"), entry("c", unique="v")]
    assert keyspace.run(store.put("me", 1, entries)) == ["", "a", ""]
    assert keyspace.state() == {
        "jobs": jobs("a", "c"),
        "ready": {"a": NOW, "c": NOW},
        "unique": {"u": "a", "v": "c"},
        "uniques": {"a": "u", "c": "v"},
        "sender:me": "1 2:a for 1h",
        "meta": {"clock": NOW, "put": 2},
    }


def test_a_repetition_hears_what_stood_in_the_way_even_when_that_is_gone(keyspace: Keyspace, store: Store) -> None:
    keyspace.given({"jobs": jobs("old"), "ready": {"old": NOW}, "unique": {"u": "old"}, "uniques": {"old": "u"}})
    call = store.put("me", 1, [entry("a"), entry("b", unique="u")])
    assert keyspace.run(call) == ["", "old"]
    keyspace.run(store.cancel(["old"], b"", 0))
    assert keyspace.run(call) == ["", "old"]


@pytest.mark.parametrize(
    ("options", "place", "score"),
    [
        ({"delay": 1}, "later", NOW + 1),
        ({"at": NOW + 1}, "later", NOW + 1),
        ({"delay": 0, "at": 0}, "ready", NOW),
        ({"delay": -5}, "ready", NOW),
        ({"at": NOW}, "ready", NOW),
        ({"at": NOW - 1}, "ready", NOW),
    ],
)
def test_a_delay_counts_to_the_millisecond(
    keyspace: Keyspace, store: Store, options: dict[str, int], place: str, score: int
) -> None:
    keyspace.given()
    keyspace.run(store.put("me", 1, [entry("a", **options)]))
    assert keyspace.state() == {
        "jobs": jobs("a"),
        place: {"a": score},
        "sender:me": "1 for 1h",
        "meta": {"clock": NOW, "put": 1},
    }


@pytest.mark.parametrize(
    ("options", "order"),
    [
        ({"priority": 1}, NOW - P),
        ({"priority": -1}, NOW + P),
        ({"front": True}, -NOW),
        ({"front": True, "priority": 2}, -NOW - 2 * P),
    ],
)
def test_priority_and_front_are_an_order(keyspace: Keyspace, store: Store, options: dict[str, int], order: int) -> None:
    keyspace.given()
    keyspace.run(store.put("me", 1, [entry("a", **options)]))
    assert keyspace.state() == {
        "jobs": jobs("a"),
        "ready": {"a": order},
        "marks": {"a": marks(order=order)},
        "sender:me": "1 for 1h",
        "meta": {"clock": NOW, "put": 1},
    }


def test_what_is_due_later_keeps_its_order_for_then(keyspace: Keyspace, store: Store) -> None:
    keyspace.given()
    keyspace.run(store.put("me", 1, [entry("a", delay=500, priority=1)]))
    state = keyspace.state()
    assert state["later"] == {"a": NOW + 500}
    assert state["marks"] == {"a": marks(order=NOW + 500 - P)}


def test_an_expiry_is_a_mark_in_server_time(keyspace: Keyspace, store: Store) -> None:
    keyspace.given()
    keyspace.run(store.put("me", 1, [entry("a", ttl=HOUR)]))
    assert keyspace.state() == {
        "jobs": jobs("a"),
        "ready": {"a": NOW},
        "marks": {"a": marks(expires=NOW + HOUR)},
        "sender:me": "1 for 1h",
        "meta": {"clock": NOW, "put": 1},
    }


def test_the_first_of_a_key_is_ready_and_the_others_stand_in_line(keyspace: Keyspace, store: Store) -> None:
    keyspace.given()
    entries = [entry("a", key="k"), entry("b", key="k"), entry("c", key="k", priority=9), entry("d", key="other")]
    assert keyspace.run(store.put("me", 1, entries)) == [""] * 4
    assert keyspace.state() == {
        "jobs": jobs("a", "b", "c", "d"),
        "ready": {"a": NOW, "d": NOW},
        "keyed": {"a": "k", "d": "other"},
        "locks": {"k": "a", "other": "d"},
        "line": ["k 1 b", "k 2 c"],
        "waits": {"b": "k 1 b", "c": "k 2 c"},
        "marks": {"b": marks(order=NOW), "c": marks(order=NOW - 9 * P)},
        "sender:me": "1 for 1h",
        "meta": {"clock": NOW, "put": 4, "lined": 2},
    }


def test_a_key_is_not_taken_before_its_entry_is_due(keyspace: Keyspace, store: Store) -> None:
    keyspace.given()
    keyspace.run(store.put("me", 1, [entry("a", key="k", delay=5), entry("b", key="k")]))
    assert keyspace.state() == {
        "jobs": jobs("a", "b"),
        "later": {"a": NOW + 5},
        "ready": {"b": NOW},
        "keyed": {"a": "k", "b": "k"},
        "locks": {"k": "b"},
        "sender:me": "1 for 1h",
        "meta": {"clock": NOW, "put": 2},
    }


def test_skip_is_a_flag(keyspace: Keyspace, store: Store) -> None:
    keyspace.given()
    keyspace.run(store.put("me", 1, [entry("a", key="k", skip=True)]))
    assert keyspace.state()["marks"] == {"a": marks(flags="k")}


def test_a_call_takes_a_thousand(keyspace: Keyspace, store: Store) -> None:
    keyspace.given()
    plain = [entry(f"p{i:04}") for i in range(1000)]
    keyed = [entry(f"k{i:04}", key="k", unique=str(i), ttl=HOUR, priority=i % 3) for i in range(1000)]
    assert keyspace.run(store.put("me", 1, plain)) == [""] * 1000
    assert keyspace.run(store.put("me", 2, keyed)) == [""] * 1000
    # And the answer is as long when all of them stand in their own way.
    assert keyspace.run(store.put("me", 3, plain)) == [e.id for e in plain]
    state = keyspace.state()
    assert len(state["jobs"]) == state["meta"]["put"] == 2000
    assert len(state["line"]) == 999


def test_a_call_takes_no_more_than_a_thousand_and_not_none(store: Store) -> None:
    with pytest.raises(OptionError, match="1 to 1,000 entries, not 1,001"):
        store.put("me", 1, [entry("a")] * 1001)
    with pytest.raises(OptionError, match="1 to 1,000 entries, not 0"):
        store.put("me", 1, [])


def test_a_key_with_a_nul_is_refused() -> None:
    with pytest.raises(OptionError, match="NUL"):
        packed_options(Options(key="a\0b"))


@pytest.mark.parametrize(
    "options",
    [
        b"[1]", b"1", b"null", b"true", b"{", b"no JSON", b'{"dealy": 5}', b'{"delay": "5"}', b'{"delay": 1.5}',
        b'{"delay": 9007199254740992}', b'{"at": 1e300}', b'{"priority": true}', b'{"priority": null}', b'{"key": 7}',
        b'{"key": ""}', b'{"key": "a\\u0000b"}', b'{"unique": ""}', b'{"unique": {}}', b'{"front": 1}',
        b'{"skip": "no"}',
    ],
)  # fmt: skip
@pytest.mark.parametrize("verb", ["put", "fire"])
def test_options_that_make_no_sense_are_refused_before_anything_is_written(
    keyspace: Keyspace, store: Store, verb: str, options: bytes
) -> None:
    before = keyspace.given()
    odd = Entry("odd", b"E", options)
    call = store.put("me", 1, [entry("a"), odd, entry("b", delay=5)]) if verb == "put" else store.fire("tick", 1, odd)
    with pytest.raises(ServerError):
        keyspace.run(call)  # type: ignore[arg-type]
    assert keyspace.state() == before


def test_a_call_that_is_cut_off_is_refused_before_anything_is_written(keyspace: Keyspace, store: Store) -> None:
    before = keyspace.given()
    for missing in (1, 2):
        call = store.put("me", 1, [entry("a"), entry("b")])
        call.args = call.args[:-missing]
        with pytest.raises(ServerError):
            keyspace.run(call)
        assert keyspace.state() == before
