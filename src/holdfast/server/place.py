"""Where a server lives: its data directory, and the short path of its socket.

Its one rule: what belongs to somebody else is never used, and what is not ours alone never holds a socket.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from holdfast.errors import EmbeddedError, HoldfastError

# sockaddr_un has 104 bytes on macOS (108 on Linux), one of them for the zero at the end.
LONGEST_SOCKET_PATH = 103
# Less than this holds no work, and a server that cannot write ends itself at its first write.
LEAST_FREE = 1 << 20


@dataclass(frozen=True, slots=True)
class Record:
    """What whoever started the server wrote down for those who come later."""

    socket: str
    #: Of the server that had this data last.
    version: str


class Place:
    """The data directory of one server, and the name of everything in it."""

    def __init__(self, directory: Path) -> None:
        self.directory = Path(directory).resolve()
        #: Held by whoever is starting or stopping the server.
        self.lock = self.directory / "lock"
        #: Held, shared, by everybody who uses it.
        self.users = self.directory / "users"
        #: Held by the server itself, as long as it lives.
        self.alive = self.directory / "alive"
        #: It stays when nobody uses it any more.
        self.kept = self.directory / "keep"
        #: It was stopped under its users, who shall not start it again.
        self.stopped = self.directory / "stopped"
        self.conf = self.directory / "valkey.conf"
        self.log = self.directory / "server.log"
        self.pidfile = self.directory / "server.pid"
        self.record = self.directory / "server.json"
        self.aof = self.directory / "appendonlydir"

    def prepare(self) -> None:
        """Make the directory, if need be, and see that it is ours."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        owner = self.directory.stat().st_uid
        if owner != os.geteuid():
            raise EmbeddedError(
                f"{self.directory} belongs to user {owner}, and this process runs as user {os.geteuid()}: files of two "
                "users would lock each other out. Run as that user, or use another directory."
            )

    def furnish(self) -> None:
        """Write what every data directory has."""
        free = shutil.disk_usage(self.directory)
        if free.total and free.free < LEAST_FREE:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.directory))
        ignore = self.directory / ".gitignore"
        if not ignore.exists():
            write_whole(ignore, b"*\n")

    def key(self) -> str:
        """A name for this directory that stays when it is moved and that no copy of it has.

        A server keeps its directory open, so no other directory gets the same numbers while one runs.
        """
        seen = self.directory.stat()
        return hashlib.sha256(f"{seen.st_dev}:{seen.st_ino}".encode()).hexdigest()[:16]

    def read_record(self) -> Record | None:
        """What was written down at the last start, or None."""
        try:
            return Record(**json.loads(self.record.read_bytes()))
        except (FileNotFoundError, NotADirectoryError, ValueError, TypeError):
            return None

    def write_record(self, record: Record) -> None:
        """Write down a start."""
        write_whole(self.record, json.dumps(asdict(record)).encode() + b"\n")

    def recorded_socket(self) -> Path | None:
        """The socket of the last start, if it is this directory's and not one copied along with it."""
        record = self.read_record()
        if record is None or Path(record.socket).stem != self.key():
            return None
        return Path(record.socket)

    def choose_socket(self, rooms: Iterable[Path] | None = None) -> Path:
        """The path for the socket: the last one, while its directory still stands, so that URLs stay good."""
        last = self.recorded_socket()
        if last is not None and _fault(last.parent) is None:
            return last
        faults = []
        for room in runtime_rooms() if rooms is None else rooms:
            path = room / f"{self.key()}.sock"
            excess = len(os.fsencode(path)) - LONGEST_SOCKET_PATH
            fault = f"its path is {excess} bytes too long for a socket" if excess > 0 else _fault(room)
            if fault is None:
                return path
            faults.append(f"{room}: {fault}")
        raise EmbeddedError(
            f"there is no directory for the server's socket ({'; '.join(faults)}). Set XDG_RUNTIME_DIR to a short path "
            "that only you may enter."
        )

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Say what to do about an error of the operating system."""
        try:
            yield
        except HoldfastError:
            raise
        except OSError as error:
            about = f" ({error.filename})" if error.filename else ""
            raise EmbeddedError(
                f"the embedded server cannot work in {self.directory}: {error.strerror or error}{about}. "
                f"{_REMEDIES.get(error.errno or 0, _ELSEWHERE)}"
            ) from error


_ELSEWHERE = "Use a directory that you may write to, or set HOLDFAST_URL to a server that runs elsewhere."
_REMEDIES = {
    errno.ENOSPC: "The disk is full: free some space.",
    errno.EDQUOT: "Your share of the disk is used up: free some space.",
    errno.EFBIG: "This process may not write files as large as that (`ulimit -f`).",
    errno.EMFILE: "This process has too many files open (`ulimit -n`).",
    errno.ENOLCK: f"This file system has no locks. {_ELSEWHERE}",
    errno.EOPNOTSUPP: f"This file system has no locks. {_ELSEWHERE}",
}


def runtime_rooms() -> list[Path]:
    """The directories in which a socket may lie, the best one first."""
    own = f"holdfast-{os.geteuid()}"
    temporary = dict.fromkeys([tempfile.gettempdir(), "/tmp"])  # noqa: S108 - its owner and mode are checked
    session = os.environ.get("XDG_RUNTIME_DIR")
    first = [Path(session, "holdfast")] if session and _fault(Path(session), make=False) is None else []
    return [*first, *(Path(name, own) for name in temporary)]


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that readers see all of it or what was there before, also after a power cut."""
    new = path.with_name(f"{path.name}.new")
    with new.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


def _fault(room: Path, *, make: bool = True) -> str | None:
    """Why this directory cannot hold a socket, or None."""
    try:
        if make:
            room.mkdir(mode=0o700, exist_ok=True)
        seen = room.lstat()
    except OSError as error:
        return error.strerror or str(error)
    if not stat.S_ISDIR(seen.st_mode):
        return "not a directory"
    if seen.st_uid != os.geteuid():
        return f"belongs to user {seen.st_uid}"
    if seen.st_mode & 0o077:
        return f"others may enter it (mode {stat.S_IMODE(seen.st_mode):o})"
    return None
