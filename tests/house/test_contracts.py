"""What stands on top of a script is what it does: its keys, its flags, its moves, its method and its test."""

from __future__ import annotations

import re

import pytest

from holdfast.engine.keys import CONTENT
from holdfast.engine.states import MOVES, read_moves
from holdfast.engine.store import VERBS, Store
from holdfast.wire.script import load
from house.generated import LUA, ROOT, lua

each_verb = pytest.mark.parametrize("verb", VERBS)


def header(verb: str, name: str) -> str:
    """One line of a contract, '' if it is not there."""
    found = re.search(rf"^--- {name}: (.+)$", lua(verb), re.MULTILINE)
    return found[1] if found else ""


@each_verb
def test_a_verb_makes_the_moves_that_the_table_has(verb: str) -> None:
    moves = header(verb, "moves")
    assert (read_moves(moves) if moves else frozenset()) == MOVES.get(verb, frozenset())


@each_verb
def test_a_verb_names_keys_of_the_protocol_and_uses_each_of_them(verb: str) -> None:
    script = load("holdfast.engine", verb)
    names = [name.partition("(")[0] for name in (*script.keys, *script.own_keys)]
    assert set(names) <= CONTENT.keys()
    body = "\n".join(line for line in script.source.splitlines() if not re.match(r"local \w+ = (KEYS\[)?\d+", line))
    unused = [name for name in names if not re.search(rf"\b{name}\b", body)]
    assert unused == []


@each_verb
def test_a_verb_says_what_it_returns_and_has_a_method_and_a_test(verb: str) -> None:
    assert header(verb, verb)
    assert header(verb, "returns")
    assert callable(getattr(Store, verb))
    assert (ROOT / "tests" / "engine" / f"test_{verb}.py").exists()


@each_verb
def test_only_what_brings_new_entries_is_refused_when_memory_is_full(verb: str) -> None:
    brings = {source for source, _ in MOVES.get(verb, ())} == {"nowhere"}
    assert ("allow-oom" in lua(verb).partition("\n")[0]) != brings


def test_every_key_of_the_protocol_is_used_by_some_verb() -> None:
    scripts = [load("holdfast.engine", verb) for verb in VERBS]
    named = {name.partition("(")[0] for script in scripts for name in (*script.keys, *script.own_keys)}
    assert named == CONTENT.keys()


def test_there_is_no_script_that_nobody_runs() -> None:
    assert {path.stem for path in LUA.glob("*.lua")} == set(VERBS)
    text = "\n".join(path.read_text() for path in LUA.rglob("*.lua"))
    included = set(re.findall(r"^--- @include lib/(\w+)$", text, re.MULTILINE))
    assert included == {path.stem for path in (LUA / "lib").glob("*.lua")}
