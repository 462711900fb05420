"""The parts of the documents that are made from the code. Its one rule: what such a table says is what runs.

They stand between `<!-- made: name -->` and `<!-- end -->`. `make documents` writes them anew; a test compares them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import click

from holdfast import codec, settings
from holdfast.cli.main import main
from holdfast.client import CHUNK
from holdfast.engine.keys import CONTENT
from holdfast.engine.states import MOVES, STATUS
from holdfast.engine.store import MOST, VERBS
from holdfast.tasks import source, step, task
from holdfast.wire.script import MOST_ARGUMENTS

ROOT = Path(__file__).resolve().parents[2]
LUA = ROOT / "src" / "holdfast" / "engine" / "lua"
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"<!-- made: (?P<name>[^>]+?) -->\n(?P<text>.*?)<!-- end -->", re.DOTALL)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def keys() -> str:
    rows = [[f"`{name}`", kind, content.replace("<", "&lt;")] for name, (kind, content) in CONTENT.items()]
    return table(["name", "type", "content"], rows)


def moves() -> str:
    rows = []
    for verb, pairs in MOVES.items():
        froms: dict[tuple[str, ...], list[str]] = {}
        for start in sorted({start for start, _ in pairs}):
            froms.setdefault(tuple(sorted(end for begin, end in pairs if begin == start)), []).append(start)
        text = "; ".join(f"{' or '.join(starts)} → {' or '.join(ends)}" for ends, starts in froms.items())
        rows.append([f"[{verb}](#{verb})", text])
    return table(["verb", "what it may do to an entry"], rows)


def states() -> str:
    return table(["place", "status of the job"], [[f"`{place}`", f"`{status}`"] for place, status in STATUS.items()])


@cache
def lua(name: str) -> str:
    return (LUA / f"{name}.lua").read_text()


def verb(name: str) -> str:
    """The contract on top of a script, as it stands there."""
    lines = [line for line in lua(name).splitlines() if line.startswith("---") and "@include" not in line]
    return "```text\n" + "\n".join(line[4:] for line in lines) + "\n```\n"


def limits() -> str:
    graves = re.search(r"local GRAVES, GRAVE_MS = (\d+), (\d+)", lua("lib/bury"))
    taken_in = re.search(r"redis.call\('RPOP', inbox, (\d+)\)", lua("claim"))
    assert graves
    assert taken_in
    rows = [
        ["entries or ids in one call", f"{MOST:,}"],
        ["arguments of one call", f"{MOST_ARGUMENTS:,}"],
        ["entries that the Python client sends in one put", f"{CHUNK:,}"],
        ["entries that one claim takes out of the inbox", f"{int(taken_in[1]):,}"],
        ["graves in `dead` and in `broken`, each", f"{int(graves[1]):,}"],
        ["age of a grave", f"{int(graves[2]) // 86_400_000} days"],
        ["bytes of an envelope or a result (`max_payload`)", f"{settings.Settings().max_payload:,}"],
        ["characters of a key or a unique name", f"{task.MAX_NAME:,}"],
        ["levels of nesting in an argument or a result", f"{codec.MAX_DEPTH:,}"],
        ["characters of a kept error", f"{source.MAX_ERROR:,}"],
        ["jobs that one step of a task brings", f"{source.MOST_BORN:,}"],
        ["lines of a job's log that are kept, the last ones", f"{step.MOST_LINES:,}"],
        ["characters of a job's log that are kept", f"{step.MOST_CHARACTERS:,}"],
    ]
    return table(["what", "at most"], rows)


def verbs_of(group: click.Group, path: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command of the command line, with the words that call it."""
    for name, command in sorted(group.commands.items()):
        if isinstance(command, click.Group):
            yield from verbs_of(command, f"{path}{name} ")
        else:
            yield f"{path}{name}", command


def command_line(name: str) -> str:
    command = dict(verbs_of(main))[name]
    rows = []
    for parameter in command.params:
        if not isinstance(parameter, click.Option):
            continue
        default = "" if not parameter.show_default or parameter.default is None else f"`{parameter.default}`"
        rows.append([", ".join(f"`{word}`" for word in parameter.opts), default, parameter.help or ""])
    return table(["option", "default", "what it does"], rows)


def blocks() -> dict[str, str]:
    """Every part that is made, by its name."""
    made = {"keys": keys(), "moves": moves(), "states": states(), "limits": limits()}
    made |= {f"verb {name}": verb(name) for name in VERBS}
    made |= {f"command {name}": command_line(name) for name, _ in verbs_of(main)}
    return made


def written_anew(text: str, made: dict[str, str]) -> str:
    """A document with its made parts as the code has them now."""
    return BLOCK.sub(lambda old: f"<!-- made: {old['name']} -->\n{made[old['name']]}<!-- end -->", text)


if __name__ == "__main__":
    for document in DOCUMENTS:
        document.write_text(written_anew(document.read_text(), blocks()))
