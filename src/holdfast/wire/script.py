"""Lua scripts as files with a contract on top. Their one rule: a header names keys and arguments, a body uses names.

A header is made of comment lines::

    --- claim: hand over up to `limit` ready entries to `token`.
    --- keys: ready, later, jobs, held(token)
    --- args: token, limit int, ids...
    --- returns: {status, ...}

The loader turns it into locals: a key per name (one with parentheses belongs to an argument and is passed by
the caller), an argument per name (`int` makes a number of it), and for a trailing `name...` the index before its
first value. A script has no rollback, so a call that does not fit the header is refused before anything runs.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

_HEADER = re.compile(r"^--- (\w+):\s*(.*)$")
_INCLUDE = re.compile(r"^--- @include (\S+)$", re.MULTILINE)
#: Lua's unpack takes 8,000 values at most, and would fail in the middle of a script.
MOST_ARGUMENTS = 7000
_INT = """\
local function int(i)
  local number = tonumber(ARGV[i])
  if not number or number % 1 ~= 0 or math.abs(number) > 9007199254740991 then
    error('argument ' .. i .. ' must be a whole number')
  end
  return number
end"""


@dataclass(frozen=True, slots=True)
class Script:
    """A loaded script: its text as the server gets it, and what its header declares."""

    name: str
    source: str
    keys: tuple[str, ...]
    own_keys: tuple[str, ...]
    args: tuple[str, ...]
    sha: str = field(default="")

    def __post_init__(self) -> None:
        digest = hashlib.sha1(self.source.encode(), usedforsecurity=False).hexdigest()
        object.__setattr__(self, "sha", digest)


@cache
def load(package: str, name: str) -> Script:
    """Read `lua/<name>.lua` of *package*, resolve its includes and bind what its header names."""
    room = resources.files(package) / "lua"
    text = (room / f"{name}.lua").read_text()
    shebang, _, body = text.partition("\n")
    if not shebang.startswith("#!lua"):
        raise ValueError(f"{name}.lua: the first line must be its flags, such as #!lua flags=allow-oom")
    header = {m[1]: m[2].strip() for m in map(_HEADER.match, body.splitlines()) if m}
    if name not in header:
        raise ValueError(f"{name}.lua: the header must begin with '--- {name}: what it does'")
    keys, own_keys = _keys(header.get("keys", ""))
    args = _names(header.get("args", ""))
    bound = [_check([*keys, *own_keys], args), *_bind_keys(keys, own_keys), _INT, *_bind_args(args)]
    source = "\n".join([shebang, *bound, _code(_resolve(room, body))])
    return Script(name, source, keys, own_keys, tuple(a.split()[0].removesuffix("...") for a in args))


def _names(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _keys(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    names = _names(text)
    fixed = tuple(n for n in names if "(" not in n)
    own = tuple(n for n in names if "(" in n)
    if names != [*fixed, *own]:
        raise ValueError(f"keys that belong to an argument come last: {text}")
    return fixed, own


def _check(keys: list[str], args: list[str]) -> str:
    """Refuse a call with other keys or arguments than the header has."""
    wrong = [_wrong_count("#KEYS", keys), _wrong_count("#ARGV", args), f"#ARGV > {MOST_ARGUMENTS}"]
    return f"if {' or '.join(wrong)} then return redis.error_reply('ERR wrong number of keys or arguments') end"


def _wrong_count(count: str, names: list[str]) -> str:
    if names and names[-1].endswith("..."):
        return f"{count} < {len(names) - 1}"
    return f"{count} ~= {len(names)}"


def _bind_keys(fixed: tuple[str, ...], own: tuple[str, ...]) -> list[str]:
    lines = [f"local {name} = KEYS[{i}]" for i, name in enumerate(fixed, 1)]
    for i, name in enumerate(own, len(fixed) + 1):
        bare, _, _ = name.partition("(")
        lines.append(f"local {bare} = {i - 1}" if name.endswith("...") else f"local {bare} = KEYS[{i}]")
    return lines


def _bind_args(args: list[str]) -> list[str]:
    lines = []
    for i, arg in enumerate(args, 1):
        name, _, kind = arg.partition(" ")
        if name.endswith("..."):
            lines.append(f"local {name.removesuffix('...')} = {i - 1}")
        elif kind == "int":
            lines.append(f"local {name} = int({i})")
        else:
            lines.append(f"local {name} = ARGV[{i}]")
    return lines


def _resolve(room: Traversable, body: str) -> str:
    """Put each included fragment where it is named, once, with what it includes itself."""
    seen: set[str] = set()

    def insert(match: re.Match[str]) -> str:
        path = match[1]
        if path in seen:
            return ""
        seen.add(path)
        return _INCLUDE.sub(insert, (room / f"{path}.lua").read_text())

    return _INCLUDE.sub(insert, body)


def _code(text: str) -> str:
    """Drop comments and blank lines: the server keeps each script it has seen."""
    lines = (line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("--"))
    return "\n".join(lines) + "\n"
