"""A network that fails when it is told to: it stands between a client and a real server, and knows one command from
the next. Its one rule: what it is not told to spoil arrives as it was sent.

    with Proxy(server) as proxy:
        link = Link(proxy.address)
        proxy.cut_after("put")          # the server does it, nobody hears that it did
"""

from __future__ import annotations

import socket
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from shutil import rmtree
from typing import BinaryIO, Self

import hiredis

from holdfast.engine.store import VERBS
from holdfast.wire.connect import Address
from holdfast.wire.script import load
from servers import Server

NAMES = {load("holdfast.engine", verb).sha.encode(): verb for verb in VERBS}
SOURCES = {load("holdfast.engine", verb).source.encode(): verb for verb in VERBS}


class Spoiled(Exception):
    """This connection is over."""


class Held:
    """A command that was stopped on its way."""

    def __init__(self) -> None:
        self.arrived = threading.Event()
        self.go = threading.Event()


class Proxy:
    """In front of one server; over TCP or over a unix socket of its own."""

    def __init__(self, server: Server, *, unix: bool = False) -> None:
        self._server = server
        self._directory = Path(tempfile.mkdtemp(prefix="hf-"))
        path = str(self._directory / "p.sock")
        self._listener = socket.socket(socket.AF_UNIX if unix else socket.AF_INET)
        self._listener.bind(path if unix else ("127.0.0.1", 0))
        self._listener.listen()
        self.url = f"unix://{path}" if unix else f"redis://127.0.0.1:{self._listener.getsockname()[1]}"
        #: Every command, by its name or that of its script, in the order in which they came.
        self.seen: list[str] = []
        #: How often somebody has connected.
        self.connections = 0
        self._faults: list[tuple[str, Callable[[_Conversation, bytes], object]]] = []
        self._held: list[Held] = []
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    @property
    def address(self) -> Address:
        return Address(self.url)

    # -- what shall go wrong, with the next command of this name for which nothing else was told ------

    def cut_before(self, name: str) -> None:
        """The server never sees it."""
        self._faults.append((name, _Conversation.cut))

    def cut_after(self, name: str) -> None:
        """The server does it; its answer never arrives."""
        self._faults.append((name, _Conversation.ask_and_cut))

    def swallow_reply(self, name: str) -> None:
        """The server does it; the connection stands, and nothing comes."""
        self._faults.append((name, _Conversation.ask))

    def let_pass(self, name: str, times: int) -> None:
        """Nothing goes wrong with so many of them."""
        self._faults += [(name, lambda talk, raw: talk.answer(talk.ask(raw)))] * times

    def hold(self, name: str) -> Held:
        """It waits on its way until it is told to go."""
        held = Held()
        self._held.append(held)

        def wait(talk: _Conversation, raw: bytes) -> None:
            held.arrived.set()
            held.go.wait()
            talk.answer(talk.ask(raw))

        self._faults.append((name, wait))
        return held

    def cut_all(self) -> None:
        """End every connection there is."""
        with self._lock:
            for end in self._open:
                _shut(end)

    def close(self) -> None:
        _shut(self._listener)
        self._listener.close()
        for held in self._held:
            held.go.set()
        self.cut_all()
        for thread in self._threads:
            thread.join()
        rmtree(self._directory, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        self.close()
        assert kind or not self._faults, "nothing came to be spoiled"

    # -- the network ------------------------------------------------------------------------------

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            server = socket.socket(socket.AF_UNIX)
            try:
                server.connect(str(self._server.socket))
            except OSError:
                client.close()
                server.close()
                continue
            with self._lock:
                self._open |= {client, server}
            thread = threading.Thread(target=self._carry, args=(client, server))
            self._threads.append(thread)
            thread.start()

    def _carry(self, client: socket.socket, server: socket.socket) -> None:
        talk = _Conversation(client, server)
        try:
            while command := _read_command(talk.requests):
                name, raw = command
                self.seen.append(name)
                fault = self._fault_for(name)
                if fault:
                    fault(talk, raw)
                elif name == "SUBSCRIBE":
                    talk.go_on_unseen(raw)
                else:
                    talk.answer(talk.ask(raw))
        except (OSError, Spoiled):
            pass
        finally:
            with self._lock:
                self._open -= {client, server}
            talk.close()

    def _fault_for(self, name: str) -> Callable[[_Conversation, bytes], object] | None:
        with self._lock:
            found = next((fault for fault in self._faults if fault[0] == name), None)
            if found:
                self._faults.remove(found)
            return found and found[1]


class _Conversation:
    """One connection of a client, and ours to the server for it."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self._client = client
        self._server = server
        self.requests = client.makefile("rb")

    def ask(self, raw: bytes) -> bytes:
        """The server's answer, as it came."""
        self._server.sendall(raw)
        reader, answer = hiredis.Reader(notEnoughData=self), b""
        while reader.gets() is self:
            piece = self._server.recv(65536)
            if not piece:
                raise Spoiled
            reader.feed(piece)
            answer += piece
        return answer

    def answer(self, raw: bytes) -> None:
        self._client.sendall(raw)

    def cut(self, raw: bytes) -> None:
        raise Spoiled

    def ask_and_cut(self, raw: bytes) -> None:
        self.ask(raw)
        raise Spoiled

    def go_on_unseen(self, raw: bytes) -> None:
        """From now on the server speaks by itself: whatever comes from either side is carried to the other."""
        self._server.sendall(raw)
        back = threading.Thread(target=_pour, args=(self._server, self._client))
        back.start()
        try:
            while piece := self.requests.read1():
                self._server.sendall(piece)
        finally:
            _shut(self._server)
            back.join()
        raise Spoiled

    def close(self) -> None:
        for end in (self._client, self._server):
            _shut(end)
            end.close()
        self.requests.close()


def _pour(source: socket.socket, target: socket.socket) -> None:
    try:
        while piece := source.recv(65536):
            target.sendall(piece)
    except OSError:
        pass
    _shut(target)


def _shut(end: socket.socket) -> None:
    with suppress(OSError):  # it is over already
        end.shutdown(socket.SHUT_RDWR)


def _read_command(stream: BinaryIO) -> tuple[str, bytes] | None:
    """The name of the next command, and its bytes."""
    raw = stream.readline()
    if not raw:
        return None
    parts = []
    for _ in range(int(raw[1:])):
        head = stream.readline()
        body = stream.read(int(head[1:]) + 2)
        raw += head + body
        parts.append(body[:-2])
    known = {b"EVALSHA": NAMES, b"EVAL": SOURCES}.get(parts[0])
    name = known.get(parts[1], "?") if known is not None else parts[0].decode().upper()
    return name, raw
