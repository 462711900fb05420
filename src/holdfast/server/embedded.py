"""The server of a project, as its processes see it: joined, healed, left.

Its one rule: a process that has joined never finds itself without a server, and the last one to leave takes it along.

Three locks in the data directory say all there is to know, and the kernel lets each go with its holder: every user
holds `users` together with the others, the server holds `alive`, and whoever starts or ends it holds `lock`. A leaver
ends the server only while it holds all of `users`; who joins meanwhile waits for that to be over, and starts it again.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from holdfast import events
from holdfast.errors import EmbeddedError
from holdfast.server import process
from holdfast.server.find import ADVICE
from holdfast.server.lock import Held, holders, take
from holdfast.server.place import Place
from holdfast.server.process import Patience

# A server is there, but its socket is not: either it has just begun, or the socket's directory was swept away.
_UNREACHABLE_AFTER_S = 2.0


@dataclass(frozen=True, slots=True)
class Status:
    """What there is to know about a server that runs; the numbers are missing if it does not answer."""

    url: str
    data: str
    answers: bool
    kept: bool
    #: The processes that use it, or None where the system does not tell.
    users: list[int] | None
    pid: int | None = None
    version: str = ""
    uptime_s: int = 0
    memory_bytes: int = 0
    memory_limit_bytes: int = 0
    loading: bool = False
    aof_enabled: bool = False
    aof_bytes: int = 0
    aof_last_write: str = ""
    aof_last_rewrite: str = ""
    aof_rewriting: bool = False


class Embedded:
    """The server over one data directory, shared by every process that joins it.

    Example:
        >>> embedded = Embedded.join(Path(".holdfast"))
        >>> link = Link(Address(embedded.url, heal=embedded.heal))
        >>> embedded.leave()
    """

    def __init__(self, place: Place, socket: Path, users: Held | None = None, patience_s: float = 30.0) -> None:
        self._place = place
        self._socket = socket
        self._users = users
        self._patience_s = patience_s
        self._pid = os.getpid()
        #: Whether this process started the server when it joined.
        self.started = False

    @classmethod
    def join(cls, directory: Path, *, patience_s: float = 30.0, binary: str | None = None) -> Embedded:
        """Become a user of the server over *directory*, which is started if need be; return when it answers.

        *patience_s* is how long it may take without a sign of progress; loading data is one.
        """
        if sys.platform == "win32":
            raise EmbeddedError(f"the embedded server does not run on Windows. {ADVICE}")
        place = Place(directory)
        patience = Patience(patience_s)
        with place.explained():
            place.prepare()
            users = _enter(place, patience)
            try:
                embedded = cls(place, Path(), users, patience_s)
                embedded.started = embedded._ensure(patience, joining=True, binary=binary)
            except BaseException:
                users.close()
                raise
        return embedded

    @classmethod
    def find(cls, directory: Path) -> Embedded | None:
        """The server over *directory* if one lives, without joining it; nothing is started or changed."""
        place = Place(directory)
        with place.explained():
            socket = place.recorded_socket() if place.alive.exists() else None
            if socket is None or process.gone(place):
                return None
            return cls(place, socket)

    @property
    def url(self) -> str:
        """Where it listens; stays the same when it is restarted."""
        return process.url_of(self._socket)

    def heal(self) -> None:
        """Start the server again if it is down, and return when it answers. Any thread, any forked child may call.

        One that was stopped by `stop` stays down, and one that this process has left is not its business any more.
        """
        if self._users is None:
            return
        info = process.ask(self._socket)
        if info and not process.loading(info):
            return
        with self._place.explained():
            self._ensure(Patience(self._patience_s), joining=False)

    def leave(self) -> None:
        """Stop using it; the last one shuts it down, unless it is to stay. Children that were forked go on using it."""
        users = self._users
        if users is None or self._pid != os.getpid():
            return
        self._users = None
        users.close()
        try:
            with self._place.explained():
                self._end_if_unused()
        except EmbeddedError as error:
            events.warn("server.not_ended", error=error)

    def keep(self) -> None:
        """Let it stay when nobody uses it, until `stop`."""
        self._place.kept.touch()

    def stop(self) -> None:
        """End it, whoever uses it: they cannot start it again, only somebody who joins can."""
        place = self._place
        patience = Patience(self._patience_s)
        with place.explained(), _turn(place, patience):
            place.kept.unlink(missing_ok=True)
            if holders(place.users) != []:
                place.stopped.touch()
            process.shut_down(place, self._socket, patience)

    def status(self) -> Status:
        """What there is to know about it."""
        place = self._place
        info = process.ask(self._socket)
        users, kept = holders(place.users), place.kept.exists()
        if info is None:
            pid = process.server_pid(place)
            return Status(self.url, str(place.directory), answers=False, kept=kept, users=users, pid=pid)
        return Status(
            self.url,
            str(place.directory),
            answers=True,
            kept=kept,
            users=users,
            pid=int(info["process_id"]),
            version=process.version(info),
            uptime_s=int(info["uptime_in_seconds"]),
            memory_bytes=int(info["used_memory"]),
            memory_limit_bytes=int(info["maxmemory"]),
            loading=process.loading(info),
            aof_enabled=info["aof_enabled"] == "1",
            aof_bytes=int(info.get("aof_current_size", 0)),
            aof_last_write=info["aof_last_write_status"],
            aof_last_rewrite=info["aof_last_bgrewrite_status"],
            aof_rewriting=info["aof_rewrite_in_progress"] == "1",
        )

    def banner(self) -> str:
        """One line for people: what runs, where, and that the data stays."""
        info = process.ask(self._socket)
        runs = f"Valkey {process.version(info)}" if info else "Valkey, not answering"
        data = self._place.directory
        shown = data.relative_to(Path.cwd()) if data.is_relative_to(Path.cwd()) else data
        return f"{runs}, embedded · {self.url} · data in {shown} (kept)"

    def _ensure(self, patience: Patience, *, joining: bool, binary: str | None = None) -> bool:
        """Return when it answers; True if it was started here and now."""
        place = self._place
        while True:
            socket = place.recorded_socket()
            info = process.ask(socket) if socket else None
            if info and process.loading(info):
                patience.renew()
            elif info and socket:
                self._settle_on(socket, joining=joining)
                return False
            elif (turn := take(place.lock)) is not None:
                with turn:
                    if not joining and place.stopped.exists():
                        return False
                    if (life := take(place.alive)) is not None:
                        with life:
                            self._settle_on(process.start(place, life, patience, binary), joining=joining)
                        place.stopped.unlink(missing_ok=True)
                        return True
                    if patience.spent_s() > _UNREACHABLE_AFTER_S and not (socket and socket.exists()):
                        process.end_unreachable(place)
                        patience.renew()
            if not patience.pause():
                raise process.stuck(place)

    def _settle_on(self, socket: Path, *, joining: bool) -> None:
        if joining:
            self._socket = socket
        elif socket != self._socket:
            raise EmbeddedError(
                f"the embedded server now listens on {socket} and no longer on {self._socket}, because the directory "
                "of that socket, or its own, was removed. Start this process again."
            )

    def _end_if_unused(self) -> None:
        place = self._place
        if not (place.directory.exists() and place.key() == self._socket.stem):
            # Somebody removed the directory: nobody can find this server any more.
            process.tell_to_end(self._socket, self._patience_s)
            return
        with _turn(place, Patience(5.0)), take(place.users) or nullcontext() as alone:
            if alone and not place.kept.exists():
                process.shut_down(place, place.recorded_socket() or self._socket, Patience(self._patience_s))


def _enter(place: Place, patience: Patience) -> Held:
    """Become a user; while the last one ends the server, wait for that."""
    while (users := take(place.users, shared=True)) is None:
        if not patience.pause():
            raise process.stuck(place)
    return users


@contextmanager
def _turn(place: Place, patience: Patience) -> Iterator[None]:
    """Be the one who may start or end the server."""
    while (turn := take(place.lock)) is None:
        if not patience.pause():
            raise process.stuck(place)
    with turn:
        yield
