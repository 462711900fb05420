"""What the server said, read for those who will not open its log.

Its one rule: whoever is told of a failure is told the server's own last words, and what to do.
"""

from __future__ import annotations

import re
from pathlib import Path

LARGEST = 1 << 20

_STAMP = re.compile(r"^\d+:\S+ (\d+ \w+ \d+ [\d:.]+ )?")
_TRUNCATED = re.compile(r"Truncating the AOF (\S+) at offset (\d+)")
_ENDED_BY_DISK = re.compile(r"Can't (recover from AOF write|persist AOF for fsync) error")

_WRONG_VERSION = (
    "The data was written by a newer server than {server}; the last that ran here was {last}. Use one that is as new."
)
NO_SPACE = "The data could not be written: free some space on the disk, or raise the limit (`ulimit -f`, quota)."
_DAMAGE = (
    "The data is damaged; nothing was changed. Copy the directory away first, then put a backup of {aof} in its place."
)
# Not the manifest, as the server itself suggests: the checker of Valkey 9.1 does not know the base file's new magic.
_CUT = (
    " Without a backup, cut the log at the damage, which loses what was written after it: "
    "`ln -s {binary} valkey-check-aof` and `./valkey-check-aof --fix {aof}/{file}`."
)
_TOO_OLD = "{server} does not understand its configuration. Use Valkey 7.2 or newer."
_REMEDIES = (
    (re.compile(r"Can't handle RDB format version"), _WRONG_VERSION),
    (re.compile(r"No space left|Disk quota exceeded|File too large|AOF write error|for fsync error"), NO_SPACE),
    (re.compile(r"Bad file format reading the append only file (?P<file>\S+\.incr\.aof)"), _DAMAGE + _CUT),
    (re.compile(r"Bad file format|Unexpected end of file|Unrecoverable|Fatal error|MANIFEST FILE ERROR"), _DAMAGE),
    (re.compile(r"FATAL CONFIG FILE ERROR"), _TOO_OLD),
)


def move_aside(log: Path) -> None:
    """Begin a new log if this one is large; one old one is kept."""
    if log.exists() and log.stat().st_size > LARGEST:
        log.replace(log.with_name(f"{log.name}.1"))


def size(log: Path) -> int:
    """Where the log ends now."""
    return log.stat().st_size if log.exists() else 0


def said(log: Path, since: int = 0, most: int = 1 << 16) -> list[str]:
    """The lines since an offset (at most the last *most* bytes), without process ids and dates."""
    try:
        with log.open("rb") as file:
            file.seek(max(since, size(log) - most))
            text = file.read().decode(errors="replace")
    except FileNotFoundError:
        return []
    return [_STAMP.sub("", line) for line in text.splitlines() if line.strip()]


def remedy(lines: list[str], **facts: object) -> str:
    """What to do about what these lines complain of, or ''."""
    text = "\n".join(lines)
    for pattern, advice in _REMEDIES:
        if found := pattern.search(text):
            return advice.format(**facts, **found.groupdict())
    return ""


def truncated(lines: list[str]) -> tuple[str, int] | None:
    """The file whose incomplete end the server cut off, and where it was cut."""
    found = next((match for match in map(_TRUNCATED.search, lines) if match), None)
    return (found[1], int(found[2])) if found else None


def ended_by_disk(lines: list[str]) -> bool:
    """Whether the server ended itself because it could not write."""
    return bool(lines) and any(_ENDED_BY_DISK.search(line) for line in lines[-3:])
