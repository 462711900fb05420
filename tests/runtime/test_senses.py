"""What a child hears: its supervisor, the bells of the server, its own threads."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator

import pytest

from holdfast.runtime.senses import Heard, Senses
from holdfast.wire.sync import Link
from servers import Server


class Told:
    """Senses, and the other ends of what they hear."""

    def __init__(self, server: Server) -> None:
        self.ear, self.mouth = os.pipe()
        self.senses = Senses(server.address, self.ear)
        self.senses.listen(["bell-1", "bell-2"], "bell")
        self.senses.listen(["wishes"], "wish")

    def hear(self, timeout_s: float = 30.0) -> list[Heard]:
        return list(self.senses.wait(timeout_s, for_ends=False))

    def close(self) -> None:
        self.senses.close()
        for fd in (self.ear, self.mouth):
            os.close(fd)


@pytest.fixture
def told(server: Server) -> Iterator[Told]:
    told = Told(server)
    yield told
    told.close()


ANEW = [Heard("anew")]


def test_the_first_wait_says_that_something_may_have_been_missed_and_the_second_does_not(told: Told) -> None:
    assert told.hear() == ANEW
    assert told.hear(0) == []


def test_a_bell_comes_with_its_channel_and_a_wish_with_its_text(told: Told, link: Link) -> None:
    told.hear()
    link.command("PUBLISH", "bell-2", "")
    assert told.hear() == [Heard("bell", "bell-2")]
    link.command("PUBLISH", "wishes", "job-id")
    assert told.hear() == [Heard("wish", "job-id")]


def test_several_are_heard_in_their_order(told: Told, link: Link) -> None:
    told.hear()
    link.commands(*(("PUBLISH", "wishes", f"{i}") for i in range(20)))
    heard: list[Heard] = []
    while len(heard) < 20:
        heard += told.hear()
    assert [rest for _, rest in heard] == [f"{i}" for i in range(20)]


def test_a_channel_that_is_added_later_is_heard(told: Told, link: Link) -> None:
    told.hear()
    told.senses.listen(["bell-3"], "bell")
    assert told.hear() == ANEW
    link.command("PUBLISH", "bell-3", "")
    assert told.hear() == [Heard("bell", "bell-3")]


def test_when_the_connection_breaks_it_listens_anew_and_says_so(told: Told, link: Link) -> None:
    told.hear()
    link.command("CLIENT", "KILL", "TYPE", "pubsub")
    heard = told.hear() or told.hear()
    assert heard == ANEW
    link.command("PUBLISH", "bell-1", "")
    assert told.hear() == [Heard("bell", "bell-1")]


def test_without_a_server_the_supervisor_and_the_threads_are_heard() -> None:
    server = Server()
    told = Told(server)
    server.close()
    os.write(told.mouth, b"stop 5\n")
    assert told.hear() == [Heard("stop", "5")]
    told.senses.poke()
    assert told.hear() == []
    told.close()


def test_the_supervisor_may_say_several_things_at_once(told: Told) -> None:
    told.hear()
    os.write(told.mouth, b"feed mail 4\ncancel abc\n")
    assert told.hear() == [Heard("feed", "mail 4"), Heard("cancel", "abc")]


def test_an_end_wakes_whoever_waits_for_ends(told: Told) -> None:
    told.hear()
    began = time.monotonic()
    threading.Timer(0.05, told.senses.wake).start()
    assert list(told.senses.wait(30, for_ends=True)) == []
    assert time.monotonic() - began < 20


def test_who_waits_for_ends_does_not_wait_when_there_are_some(told: Told) -> None:
    told.hear()
    began = time.monotonic()
    assert list(told.senses.wait(30, for_ends=True, has_ends=["one"])) == []
    assert time.monotonic() - began < 20


def test_a_wake_that_nobody_waits_for_costs_nothing_and_a_poke_is_kept(told: Told) -> None:
    told.hear()
    told.senses.wake()
    began = time.monotonic()
    told.hear(0.05)
    assert time.monotonic() - began >= 0.05
    for _ in range(100_000):
        told.senses.poke()
    assert told.hear() == []


def test_a_child_whose_supervisor_is_gone_ends_at_once(server: Server) -> None:
    pid = os.fork()
    if not pid:
        told = Told(server)
        os.close(told.mouth)
        while True:
            told.hear()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1
