"""relay: drop from the outbox what was delivered, hand over what was not."""

from __future__ import annotations

import pytest

from engine.keyspace import FENCE, Keyspace, State, but
from holdfast.engine.model import Outgoing
from holdfast.engine.store import Store
from holdfast.errors import OptionError


def outbox(*offsets: int) -> State:
    """Things at these places."""
    return {"outbox": {f"{FENCE + i} ns/q/{i} E{i}": FENCE + i for i in offsets}}


def out(i: int) -> Outgoing:
    """The one at this place."""
    return Outgoing(FENCE + i, f"ns/q/{i}", b"E%d" % i)


def test_what_was_not_delivered_is_handed_over_oldest_first(keyspace: Keyspace, store: Store) -> None:
    before = keyspace.given(outbox(3, 1, 2))
    assert keyspace.run(store.relay(2)) == [out(1), out(2)]
    assert keyspace.state() == before


def test_what_was_delivered_goes_and_the_next_come(keyspace: Keyspace, store: Store) -> None:
    before = keyspace.given(outbox(1, 2, 3, 4))
    assert keyspace.run(store.relay(2, [FENCE + 1, FENCE + 3, FENCE + 9])) == [out(2), out(4)]
    assert keyspace.state() == but(before, outbox(2, 4))


def test_it_goes_on_behind_a_place(keyspace: Keyspace, store: Store) -> None:
    before = keyspace.given(outbox(1, 2, 3))
    assert keyspace.run(store.relay(1, after=FENCE + 1)) == [out(2)]
    assert keyspace.run(store.relay(9, after=FENCE + 3)) == []
    assert keyspace.state() == before


def test_limit_zero_only_drops(keyspace: Keyspace, store: Store) -> None:
    before = keyspace.given(outbox(1, 2))
    assert keyspace.run(store.relay(0, [FENCE + 1])) == []
    assert keyspace.state() == but(before, outbox(2))


def test_an_empty_outbox_is_empty(keyspace: Keyspace, store: Store) -> None:
    before = keyspace.given()
    assert keyspace.run(store.relay(100, [1])) == []
    assert keyspace.state() == before


def test_a_delivery_that_is_repeated_is_put_once(keyspace: Keyspace, store: Store) -> None:
    """The receiver knows the sender's last place: a relay that died between put and drop does no harm."""
    keyspace.given()
    from engine.keyspace import entry, jobs

    first = store.put("ns/x/0", FENCE, [entry("a")], keep_ms=0)
    keyspace.run(first)
    keyspace.run(store.put("ns/x/0", FENCE + 1, [entry("b")], keep_ms=0))
    keyspace.run(store.cancel(["a"], b"", 0))
    keyspace.run(first)
    state = keyspace.state()
    assert state["jobs"] == jobs("b")
    assert state["sender:ns/x/0"] == str(FENCE + 1)


def test_a_call_takes_a_thousand_and_no_more(keyspace: Keyspace, store: Store) -> None:
    before = keyspace.given(outbox(*range(1100)))
    delivered = [FENCE + i for i in range(1000)]
    assert keyspace.run(store.relay(1000)) == [out(i) for i in range(1000)]
    assert keyspace.run(store.relay(1000, delivered)) == [out(i) for i in range(1000, 1100)]
    assert keyspace.state() == but(before, outbox(*range(1000, 1100)))
    with pytest.raises(OptionError, match="0 to 1,000 entries"):
        store.relay(1001)
    with pytest.raises(OptionError, match="0 to 1,000 places"):
        store.relay(0, [*delivered, 1])
