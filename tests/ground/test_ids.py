"""Ids sort by the time they were made, and are never made twice: not by threads, not by forks."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast import ids
from holdfast.clock import wall_ms
from holdfast.ids import encode, is_id, made_ms, new_id, new_ids, new_token


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What the clock shows; a maker of our own, since ids never sort before those that were made."""
    shows = [1_000_000]
    monkeypatch.setattr(ids, "wall_ms", lambda: shows[0])
    monkeypatch.setattr(ids, "_maker", ids._Maker())
    return shows


def test_an_id_is_20_characters_and_says_when_it_was_made() -> None:
    before = wall_ms()
    id = new_id()
    assert is_id(id)
    assert len(id) == 20
    assert before <= made_ms(id) <= wall_ms()


@pytest.mark.parametrize("text", ["", "x" * 20, "0" * 19, "0" * 21, "0" * 20 + "\n", "A" * 20, "\u0660" * 20])
def test_other_text_is_no_id(text: str) -> None:
    assert not is_id(text)


def test_within_a_millisecond_they_sort_by_their_order(clock: list[int]) -> None:
    made = [new_id(), *new_ids(5000), new_id()]
    assert made == sorted(made)
    assert {made_ms(id) for id in made} == {1_000_000}
    assert len(set(made)) == len(made)


def test_a_clock_that_is_set_back_brings_no_older_ids(clock: list[int]) -> None:
    first = new_id()
    clock[0] -= 500_000
    second = new_id()
    clock[0] += 500_001
    assert first < second < new_id()


def test_more_than_a_millisecond_can_number_go_into_the_next_one(clock: list[int]) -> None:
    made = [*new_ids((1 << 20) + 5), *new_ids(3), new_id()]
    assert made_ms(made[-1]) == 1_000_001
    assert made[-5:] == sorted(made[-5:])
    assert len(set(made)) == len(made)


def test_none_is_none() -> None:
    assert new_ids(0) == []


def test_threads_make_no_id_twice() -> None:
    gate = threading.Barrier(8)

    def make(_: int) -> list[str]:
        gate.wait()
        made = [new_id() for _ in range(500)] + new_ids(500)
        assert made == sorted(made)
        return made

    with ThreadPoolExecutor(8) as threads:
        made = [id for part in threads.map(make, range(8)) for id in part]
    assert len(set(made)) == 8000


def test_a_forked_child_makes_other_ids(clock: list[int]) -> None:
    read, write = os.pipe()
    maker = ids._maker
    pid = os.fork()
    if pid == 0:
        maker.reseed()
        os.write(write, new_id().encode())
        os._exit(0)
    os.waitpid(pid, 0)
    theirs = os.read(read, 100).decode()
    os.close(read)
    os.close(write)
    ours = new_id()
    assert theirs != ours
    assert theirs[:13] == ours[:13]


def test_forked_children_are_reseeded_by_themselves() -> None:
    def tail_of_child() -> bytes:
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.write(write, new_id()[13:].encode())
            os._exit(0)
        os.waitpid(pid, 0)
        tail = os.read(read, 100)
        os.close(read)
        os.close(write)
        return tail

    assert len({new_id()[13:].encode(), tail_of_child(), tail_of_child()}) == 3


def test_numbers_in_base_32_sort_like_numbers() -> None:
    numbers = [0, 1, 31, 32, 1023, 1024, 1 << 40]
    assert [encode(n, 9) for n in numbers] == sorted(encode(n, 9) for n in numbers)
    assert [int(encode(n, 9), 32) for n in numbers] == numbers


def test_tokens_are_64_random_bits() -> None:
    tokens = {new_token() for _ in range(100)}
    assert len(tokens) == 100
    assert all(len(bytes.fromhex(token)) == 8 for token in tokens)
