"""Events: one line of the log, one call of each listener, and no listener hurts who reports."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast import events


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    before = list(events._listeners)
    yield
    events._listeners[:] = before


def test_a_listener_hears_the_name_and_the_facts() -> None:
    heard: list[Any] = []
    events.subscribe(lambda name, facts: heard.append((name, facts)))
    events.emit("child.started", pid=1)
    events.warn("server.away", error="gone")
    assert heard == [("child.started", {"pid": 1}), ("server.away", {"error": "gone"})]


def test_an_event_is_one_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "holdfast"):
        events.emit("child.started", pid=1, token="a")
        events.warn("server.away", error="gone")
        events.emit("too.much", logging.DEBUG)
    assert [(r.levelname, r.getMessage()) for r in caplog.records] == [
        ("INFO", "child.started pid=1 token=a"),
        ("WARNING", "server.away error=gone"),
    ]


def test_a_listener_that_fails_hurts_nobody(caplog: pytest.LogCaptureFixture) -> None:
    def broken(name: str, facts: dict[str, Any]) -> None:
        raise ValueError

    heard: list[str] = []
    events.subscribe(broken)
    events.subscribe(lambda name, facts: heard.append(name))
    events.emit("child.started")
    assert heard == ["child.started"]
    assert "a listener failed at child.started" in caplog.text
