"""One server process: started, asked, ended.

Its one rule: whoever starts or ends one holds the directory's lock, and a process is signalled only if it holds the
lock that a server of this directory holds. So neither a reused process id nor a file left behind can mislead.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from holdfast import events
from holdfast.clock import mono_s
from holdfast.errors import EmbeddedError, ServerError, Unavailable
from holdfast.server import config, log
from holdfast.server.find import find_binary, version_of
from holdfast.server.lock import Held, holders, no_fork, take
from holdfast.server.place import Place, Record, write_whole
from holdfast.wire.connect import Address
from holdfast.wire.sync import Link

Info = dict[str, str]

# A server that found the disk full ends at its first write; started again it would only do so again.
_SETTLING_S = 10.0
# The servers this process has started: it is their parent, and no one else can tell the system to forget them.
_children: list[subprocess.Popen[bytes]] = []


class Patience:
    """Short pauses until a limit is over; every sign of progress begins it anew."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self.renew()

    def renew(self) -> None:
        """Begin anew."""
        self._since = mono_s()
        self._pause_s = 0.001

    def spent_s(self) -> float:
        """How long nothing has moved."""
        return mono_s() - self._since

    def pause(self) -> bool:
        """Wait a moment; False when the limit is over."""
        if self.spent_s() >= self.limit_s:
            return False
        time.sleep(self._pause_s)
        self._pause_s = min(self._pause_s * 2, 0.02)
        return True


def url_of(socket: Path) -> str:
    """The URL of a server on this socket."""
    return f"unix://{quote(str(socket))}"


def ask(socket: Path, timeout_s: float = 1.0) -> Info | None:
    """What the server on this socket says of itself, also while it loads its data; None if nobody answers."""
    link = Link(Address(url_of(socket), timeout_s))
    try:
        reply: bytes = link.command("INFO", "server", "memory", "persistence")
    except Unavailable:
        return None
    finally:
        link.close()
    pairs = (line.partition(":") for line in reply.decode(errors="replace").splitlines())
    return {name: value for name, mark, value in pairs if mark}


def loading(info: Info) -> bool:
    """Whether it still reads its data and answers nothing else."""
    return info.get("loading") != "0"


def version(info: Info) -> str:
    """The version of the server that runs."""
    return info.get("valkey_version") or info.get("redis_version", "?")


def start(place: Place, life: Held, patience: Patience, binary: str | None = None) -> Path:
    """Start the server of a directory and return its socket when it answers. *life* is the lock it shall hold."""
    binary = binary or find_binary()
    version = version_of(binary)
    last = place.read_record()
    place.furnish()
    _refuse_to_repeat(place)
    log.move_aside(place.log)
    socket = place.choose_socket()
    write_whole(place.conf, config.render(place, socket))
    place.write_record(Record(str(socket), last.version if last else ""))
    sizes = {file.name: file.stat().st_size for file in place.aof.glob("*")}
    said_before = log.size(place.log)
    process = _spawn(place, binary, life)
    try:
        ended = _wait_until_ready(place, process, socket, patience)
    except BaseException:
        process.kill()
        process.wait()
        raise
    lines = log.said(place.log, said_before)
    if ended is not None:
        how = f"by signal {-ended}" if ended < 0 else f"with exit code {ended}"
        advice = log.remedy(
            lines, last=last.version if last else "?", server=f"{version} ({binary})", binary=binary, aof=place.aof
        )
        raise EmbeddedError(
            f"the embedded server of {place.directory} ended {how} when it was started{_last_words(lines)}\n"
            f"{advice or f'All it said is in {place.log}.'}"
        )
    _report_truncation(lines, sizes)
    with suppress(OSError):  # a full disk says so at the first write that matters
        place.write_record(Record(str(socket), version))
    return socket


def shut_down(place: Place, socket: Path, patience: Patience) -> None:
    """End the server of a directory, and return when it is gone; it may be gone already."""
    try:
        tell_to_end(socket, patience.limit_s)
    except ServerError as error:
        raise EmbeddedError(f"the embedded server refuses to end: {error}{_words(place)}") from None
    while not gone(place):
        if not patience.pause():
            raise stuck(place)


def tell_to_end(socket: Path, limit_s: float) -> None:
    """Tell a server to write what it has and to end."""
    link = Link(Address(url_of(socket), limit_s))
    try:
        link.command("SHUTDOWN")
    except Unavailable:
        pass  # it hung up, as it shall
    finally:
        link.close()


def gone(place: Place) -> bool:
    """Whether no server of this directory lives any more."""
    reap()
    life = take(place.alive)
    if life is None:
        return False
    life.close()
    return True


def reap() -> None:
    """Let the system forget the servers that we started and that have ended."""
    for child in _children.copy():
        if child.poll() is not None:
            with suppress(ValueError):  # another thread was faster
                _children.remove(child)


def server_pid(place: Place) -> int | None:
    """The process that is the server, proved by the lock it holds; None if it cannot be seen from here."""
    try:
        pid = int(place.pidfile.read_text())
    except (OSError, ValueError):
        return None
    return pid if pid in (holders(place.alive) or ()) else None


def stuck(place: Place) -> EmbeddedError:
    """What to say when nothing moves any more."""
    pid = server_pid(place)
    if pid is None:
        return EmbeddedError(
            f"another process is starting or ending the embedded server of {place.directory}, and does not get on "
            f"with it. Processes that have a hand in it: {holders(place.lock) or 'none that can be seen from here'}."
        )
    return EmbeddedError(
        f"the embedded server of {place.directory} (process {pid}) does not answer. If it is suspended, "
        f"`kill -CONT {pid}` wakes it; if its disk hangs, it waits for that. `kill -9 {pid}` loses nothing that was "
        "acknowledged; the next one to need it starts it again."
    )


def end_unreachable(place: Place) -> None:
    """End a server whose socket was removed: nobody will ever reach it again. It saves what it has."""
    pid = server_pid(place)
    if pid is None:
        raise EmbeddedError(
            f"the embedded server of {place.directory} runs, but its socket ({place.recorded_socket()}) cannot be "
            "reached from here. Does it run in another container, or lost its directory? End it there, or set "
            "HOLDFAST_URL to a server that all of them can reach."
        )
    events.warn("server.unreachable", pid=pid, socket=place.recorded_socket())
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)


def _spawn(place: Place, binary: str, life: Held) -> subprocess.Popen[bytes]:
    reap()
    with place.log.open("ab") as output, no_fork:
        process = subprocess.Popen(
            [binary, str(place.conf)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=place.directory,
            env=config.environment(),
            umask=0o077,
            # A Ctrl-C at our terminal is not meant for it.
            start_new_session=True,
            # The one lock it holds, and gives back only by its death.
            pass_fds=(life.fd,),
            # Python ignores SIGXFSZ, and so shall the server: then it logs why it cannot write.
            restore_signals=False,
        )
    life.close()
    _children.append(process)
    for score in ("-500", "0"):
        # If memory runs out, a worker can be spared. Only root may go below zero.
        with suppress(OSError):
            Path(f"/proc/{process.pid}/oom_score_adj").write_text(score)
            break
    return process


def _wait_until_ready(place: Place, process: subprocess.Popen[bytes], socket: Path, patience: Patience) -> int | None:
    """Wait until it answers; if it ends instead, return how."""
    patience.renew()
    while True:
        ended = process.poll()
        info = ask(socket)
        if ended is not None:
            return ended
        if info and not loading(info):
            return None
        if info:
            patience.renew()
        if not patience.pause():
            raise EmbeddedError(
                f"the embedded server of {place.directory} was started, but did not answer in {patience.limit_s:.0f} s"
                f"{_words(place)}"
            )


def _refuse_to_repeat(place: Place) -> None:
    """No restart in circles: a server that has just ended for want of disk is not started at once again."""
    if not place.record.exists():
        return
    since = time.time() - place.record.stat().st_mtime
    lines = log.said(place.log)
    if 0 <= since < _SETTLING_S and log.ended_by_disk(lines):
        raise EmbeddedError(
            f"the embedded server of {place.directory} was started {since:.0f} s ago and ended because it could not "
            f"write{_last_words(lines)}\n{log.NO_SPACE}"
        )


def _report_truncation(lines: list[str], sizes: dict[str, int]) -> None:
    cut = log.truncated(lines)
    if cut is not None:
        file, offset = cut
        # What was never written whole was never acknowledged.
        events.warn("server.truncated", file=file, dropped_bytes=sizes.get(file, offset) - offset)


def _words(place: Place) -> str:
    return _last_words(log.said(place.log))


def _last_words(lines: list[str], count: int = 6) -> str:
    """The end of the log, to be put behind a sentence."""
    return ". Its last words:" + ("".join(f"\n    {line}" for line in lines[-count:]) or " none.")
