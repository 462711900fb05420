"""How the server is set up, asked of the server itself."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.server import Embedded
from holdfast.server.config import memory_limit
from holdfast.server.log import LARGEST
from holdfast.wire.sync import Link


@pytest.fixture
def embedded(data: Path) -> Iterator[Embedded]:
    embedded = Embedded.join(data)
    yield embedded
    embedded.leave()


@pytest.fixture
def link(embedded: Embedded) -> Iterator[Link]:
    link = Link.open(embedded.url)
    yield link
    link.close()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("appendonly", "yes"),
        ("appendfsync", "always"),
        ("no-appendfsync-on-rewrite", "no"),
        ("aof-use-rdb-preamble", "yes"),
        ("aof-load-truncated", "yes"),
        ("save", ""),
        ("maxmemory-policy", "noeviction"),
        ("io-threads", "1"),
        ("port", "0"),
        ("unixsocketperm", "700"),
        ("protected-mode", "yes"),
        ("enable-debug-command", "no"),
        ("timeout", "0"),
    ],
)
def test_every_server_is_set_up_to_lose_nothing_and_to_listen_to_us_alone(link: Link, option: str, value: str) -> None:
    assert link.command("CONFIG", "GET", option) == [option.encode(), value.encode()]


def test_only_its_owner_reaches_the_socket(embedded: Embedded) -> None:
    socket = Path(embedded.url.removeprefix("unix://"))
    assert stat.S_IMODE(socket.stat().st_mode) == 0o700
    assert stat.S_IMODE(socket.parent.stat().st_mode) == 0o700
    assert len(os.fsencode(socket)) <= 103


def test_what_jobs_carry_is_readable_for_its_owner_alone(link: Link, data: Path) -> None:
    link.command("SET", "secret", "1")
    for file in data.glob("appendonlydir/*"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_memory_is_limited_to_half_of_what_there_is(link: Link) -> None:
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 0 < memory_limit() <= physical // 2
    assert int(link.command("CONFIG", "GET", "maxmemory")[1]) == memory_limit()


def test_any_name_of_a_directory_will_do(data: Path) -> None:
    odd = data / 'it\'s "50%" #1\tüber\\n\nx\udcff'
    embedded = Embedded.join(odd)
    with_link = Link.open(embedded.url)
    with_link.command("SET", "k", "v")
    with_link.close()
    embedded.leave()
    assert any(file.stat().st_size for file in odd.glob("appendonlydir/*.incr.aof"))
    assert "Ready to accept connections" in (odd / "server.log").read_text()


def test_a_large_log_is_moved_aside_at_the_next_start(data: Path) -> None:
    data.mkdir(parents=True)
    log, old = data / "server.log", data / "server.log.1"
    for text in ("first", "second"):
        log.write_text(text + "." * LARGEST)
        Embedded.join(data).leave()
        assert old.read_text().startswith(text)
        assert log.stat().st_size < LARGEST
    Embedded.join(data).leave()
    assert old.read_text().startswith("second"), "a small one is continued"
