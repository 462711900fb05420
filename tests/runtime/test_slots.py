from __future__ import annotations

import os

import pytest

from holdfast.runtime.slots import Slots, Started


def test_what_is_entered_has_started_until_it_leaves() -> None:
    slots = Slots(3)
    slots.enter(0, b"a" * 20, 7, 0.0)
    slots.enter(2, b"b" * 20, 1, 12.5)
    assert list(slots.started()) == [Started("a" * 20, 7, 0.0), Started("b" * 20, 1, 12.5)]
    slots.leave(0)
    assert [job.id for job in slots.started()] == ["b" * 20]


def test_a_short_id_is_itself() -> None:
    slots = Slots(1)
    slots.enter(0, b"short", 0, 0.0)
    assert next(slots.started()).id == "short"


def test_a_slot_is_used_again() -> None:
    slots = Slots(1)
    for id in (b"first", b"second and longer", b"third"):
        slots.enter(0, id, 0, 0.0)
        assert [job.id for job in slots.started()] == [id.decode()]
        slots.leave(0)
    assert list(slots.started()) == []


def test_the_parent_sees_what_a_child_had_started_when_it_died() -> None:
    slots = Slots(2)
    pid = os.fork()
    if not pid:
        slots.enter(0, b"ended", 0, 0.0)
        slots.enter(1, b"running", 0, 0.0)
        slots.leave(0)
        os._exit(9)
    os.waitpid(pid, 0)
    assert [job.id for job in slots.started()] == ["running"]


def test_nothing_has_started_behind_clear() -> None:
    slots = Slots(1)
    slots.enter(0, b"a", 0, 0.0)
    slots.clear()
    assert list(slots.started()) == []


def test_a_table_that_is_closed_cannot_be_read() -> None:
    slots = Slots(1)
    slots.close()
    with pytest.raises(ValueError, match="closed"):
        list(slots.started())
