"""The server's configuration. Its one rule: what was acknowledged is on the disk, and nothing listens on a network.

Only options that every Valkey since 7.2 knows: the binary on PATH may be older than the one we ship.
"""

from __future__ import annotations

import os
from pathlib import Path

from holdfast.server.place import Place


def render(place: Place, socket: Path) -> bytes:
    """The configuration file of the server of a data directory."""
    options = {
        # Who may come in: the owner of the socket's directory.
        "port": "0",
        "unixsocket": _quoted(socket),
        "unixsocketperm": "700",
        "protected-mode": "yes",
        "timeout": "0",
        # Every answer waits for the disk. The log is on from the first start: a server that turned it on later
        # would begin with an empty one.
        "dir": _quoted(place.directory),
        "appendonly": "yes",
        "appendfsync": "always",
        "no-appendfsync-on-rewrite": "no",
        "aof-use-rdb-preamble": "yes",
        "aof-load-truncated": "yes",
        "save": '""',
        # Full memory pushes back on producers (the engine's other scripts are allowed through); it evicts no job.
        "maxmemory": str(memory_limit()),
        "maxmemory-policy": "noeviction",
        # More threads corrupted replies of blocked clients until Valkey 9.1, and one is not what limits us.
        "io-threads": "1",
        # A notice is a line at a start, a stop or a rewrite of the log (one in 64 MB of writes at most); `log` moves a
        # large file aside at the next start.
        "loglevel": "notice",
        "logfile": _quoted(place.log),
        "pidfile": _quoted(place.pidfile),
        "daemonize": "no",
        "databases": "16",
        "enable-debug-command": "no",
        "enable-module-command": "no",
    }
    lines = [f"{name} {value}" for name, value in options.items()]
    return "\n".join(["# Written by Holdfast at each start of this server.", *lines, ""]).encode()


def environment() -> dict[str, str]:
    """The environment of the server.

    The binary that the package ships uses the allocator of glibc, which keeps 7 freed pieces of each size at hand and
    searches for the others: a quarter of the server's time behind a million jobs. This is the most that it can keep;
    it is never more than what was in use before.
    """
    return {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=65535", **os.environ}


def memory_limit() -> int:
    """Half of what this machine, or this container, has: rewriting the log may need a copy of the other half."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for file in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            limits.append(int(Path(file).read_text()))
        except (OSError, ValueError):
            continue  # no such version of control groups here, or 'max'
    return min(limits) // 2


def _quoted(path: Path) -> str:
    """A path as the server's configuration takes it, whatever bytes it has."""
    plain = (chr(byte) if (chr(byte).isalnum() and byte < 128) or byte in b"/._-" else f"\\x{byte:02x}"
             for byte in os.fsencode(path))  # fmt: skip
    return '"' + "".join(plain) + '"'
