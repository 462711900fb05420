"""A door between a worker and its server that can be shut at one certain moment of one certain call."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from tempfile import mkdtemp
from typing import Literal

from holdfast.engine.store import VERBS
from holdfast.wire.script import load
from holdfast.wire.sync import Link
from servers import Server

#: Is the call kept, or its answer, or does the call arrive when `deliver` says so, though nobody waits for it any more?
Moment = Literal["before", "behind", "late"]


class Proxy:
    """Passes all on, until the call that `hold` names: that one is kept, or its answer is.

    Example:
        >>> proxy.hold("finish", "before")
        >>> proxy.held.wait(30)    # and the server has never seen it
    """

    def __init__(self, server: Server) -> None:
        self.directory = Path(mkdtemp(prefix="hf-"))
        self.socket = self.directory / "p.sock"
        self._target = str(server.socket)
        self._shas = {verb: load("holdfast.engine", verb).sha.encode() for verb in VERBS}
        # A call by its digest that the server does not know is answered twice: let it know all of them.
        link = Link(server.address)
        for verb in VERBS:
            link.command("SCRIPT", "LOAD", load("holdfast.engine", verb).source)
        link.close()
        self._wanted: tuple[bytes, Moment] | None = None
        self.held = threading.Event()
        #: Connections whose answers are kept from now on, and the calls that are kept, by their connections.
        self._mute: set[socket.socket] = set()
        self._late: list[tuple[socket.socket, bytes]] = []
        self._peers: dict[socket.socket, socket.socket] = {}
        self._selector = DefaultSelector()
        self._door = socket.socket(socket.AF_UNIX)
        self._door.bind(str(self.socket))
        self._door.listen(100)
        self._selector.register(self._door, EVENT_READ)
        self._bell, self._rope = os.pipe()
        self._selector.register(self._bell, EVENT_READ)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"unix://{self.socket}"

    def hold(self, verb: str, moment: Moment) -> None:
        """The next call of this verb is not passed on, or its answer is not."""
        self.held.clear()
        self._wanted = (self._shas[verb], moment)

    def deliver(self) -> None:
        """What was kept to be late arrives now."""
        for target, data in self._late:
            target.sendall(data)
            target.recv(1 << 20)
            target.close()

    def cut(self) -> None:
        """Hang up on everybody, in the middle of whatever they say."""
        os.write(self._rope, b"c")

    def close(self) -> None:
        os.write(self._rope, b"q")
        self._thread.join()
        for one in [self._door, *self._peers]:
            one.close()
        os.close(self._bell)
        os.close(self._rope)
        self._selector.close()
        self.socket.unlink()
        self.directory.rmdir()

    def _run(self) -> None:
        while True:
            for key, _ in self._selector.select():
                if key.fileobj == self._bell:
                    if os.read(self._bell, 1) == b"q":
                        return
                    for one in list(self._peers):
                        self._drop(one)
                elif key.fileobj is self._door:
                    self._let_in()
                elif key.fileobj in self._peers:
                    self._pass_on(key.fileobj, is_call=key.data)  # type: ignore[arg-type]

    def _let_in(self) -> None:
        inside = socket.socket(socket.AF_UNIX)
        outside, _ = self._door.accept()
        try:
            inside.connect(self._target)
        except OSError:
            inside.close()
            outside.close()
            return
        self._peers[outside], self._peers[inside] = inside, outside
        self._selector.register(outside, EVENT_READ, data=True)
        self._selector.register(inside, EVENT_READ, data=False)

    def _pass_on(self, source: socket.socket, is_call: bool) -> None:
        try:
            data = source.recv(1 << 20)
            if not data:
                self._drop(source)
            elif is_call:
                self._pass_call(source, data)
            elif source not in self._mute:
                self._peers[source].sendall(data)
        except OSError:
            self._drop(source)

    def _pass_call(self, source: socket.socket, data: bytes) -> None:
        target = self._peers[source]
        if self._wanted is not None and self._wanted[0] in data:
            moment, self._wanted = self._wanted[1], None
            self._mute.add(target)
            if moment == "behind":
                target.sendall(data)
            if moment == "late":
                # A connection that nobody here knows any more.
                self._late.append((target.dup(), data))
            self.held.set()
        elif target not in self._mute:
            target.sendall(data)

    def _drop(self, one: socket.socket) -> None:
        other = self._peers.pop(one, None)
        if other is None:
            return
        del self._peers[other]
        for each in (one, other):
            self._mute.discard(each)
            self._selector.unregister(each)
            each.close()
