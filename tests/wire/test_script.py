"""Scripts as files: what stands on top binds the names below, and a call that does not fit it runs nothing."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from holdfast.engine.store import VERBS, Store
from holdfast.errors import ServerError
from holdfast.wire import script as loader
from holdfast.wire.call import Call, Target
from holdfast.wire.script import Script, load
from holdfast.wire.sync import Link

Write = Callable[..., Script]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Load a script that consists of these lines, beside the fragments that are given by name."""
    monkeypatch.setattr(loader.resources, "files", lambda package: tmp_path)

    def write(*lines: str, **fragments: str) -> Script:
        (tmp_path / "lua" / "lib").mkdir(parents=True, exist_ok=True)
        for name, text in fragments.items():
            (tmp_path / "lua" / "lib" / f"{name}.lua").write_text(text)
        (tmp_path / "lua" / "verb.lua").write_text("\n".join(lines))
        return load.__wrapped__("anywhere", "verb")

    return write


def run(link: Link, script: Script, keys: Sequence[str] = (), args: Sequence[Any] = ()) -> Any:
    fixed = len(script.keys)
    return link.run(Call(Target(script, keys[:fixed]), lambda reply: reply, args, keys[fixed:]))


ECHO = [
    "#!lua flags=no-writes", "--- verb: says what it was given.", "--- keys: one, two, own(name), more(name)...",
    "--- args: word, count int, rest...",
    "return { one, two, own, more, word, count, rest, #KEYS, #ARGV }",
]  # fmt: skip


def test_names_are_bound_to_keys_and_arguments(link: Link, write: Write) -> None:
    """One that repeats stands for the index before its first value."""
    keys, args = ["k1", "k2", "k3", "k4", "k5"], ["a", 7, "b", "c"]
    assert run(link, write(*ECHO), keys, args) == [b"k1", b"k2", b"k3", 3, b"a", 7, 2, 5, 4]


def test_a_header_says_what_is_there(write: Write) -> None:
    script = write(*ECHO)
    assert script.keys == ("one", "two")
    assert script.own_keys == ("own(name)", "more(name)...")
    assert script.args == ("word", "count", "rest")


@pytest.mark.parametrize(
    ("keys", "args", "why"),
    [
        (2, ["a", 1], "wrong number of keys"),
        (3, ["a"], "wrong number of keys or arguments"),
        (3, ["a", "x"], "argument 2 must be a whole number"),
        (3, ["a", "1.5"], "argument 2 must be a whole number"),
        (3, ["a", "9007199254740993"], "argument 2 must be a whole number"),
        (3, ["a", "nan"], "argument 2 must be a whole number"),
        (3, ["a", "inf"], "argument 2 must be a whole number"),
        (3, ["a", 1, *["x"] * 7000], "wrong number of keys or arguments"),
    ],
)
def test_a_call_that_does_not_fit_the_header_runs_nothing(
    link: Link, write: Write, keys: int, args: list[Any], why: str
) -> None:
    script = write(*ECHO[:4], "redis.call('SET', one, word)", "return {}")
    with pytest.raises(ServerError, match=why):
        run(link, script, ["k1", "k2", "k3"][:keys], args)
    assert link.command("DBSIZE") == 0


def test_one_without_a_list_takes_exactly_what_it_names(link: Link, write: Write) -> None:
    script = write("#!lua", "--- verb: one of each", "--- keys: one", "--- args: word", "return word")
    assert run(link, script, ["k"], ["w"]) == b"w"
    for keys, args in ((["k", "k2"], ["w"]), (["k"], ["w", "x"]), (["k"], [])):
        with pytest.raises(ServerError, match="wrong number"):
            run(link, script, keys, args)


def test_a_fragment_is_put_once_with_what_it_includes(link: Link, write: Write) -> None:
    script = write(
        "#!lua", "--- verb: adds", "--- @include lib/twice", "--- @include lib/once", "return { once, twice }",
        once="count = (count or 0) + 1\nlocal once = 1 -- said here\n",
        twice="--- @include lib/once\nlocal twice = once + 1\n",
    )  # fmt: skip
    assert script.source.count("local once") == 1
    assert script.source.index("local once") < script.source.index("local twice")


def test_comments_and_blank_lines_stay_at_home(write: Write) -> None:
    script = write("#!lua flags=allow-oom", "--- verb: little", "", "  -- why", "return 1")
    assert script.source.startswith("#!lua flags=allow-oom\n")
    assert "why" not in script.source
    assert "little" not in script.source


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (["--- verb: no flags", "return 1"], "the first line must be its flags"),
        (["#!lua", "--- other: not its name", "return 1"], "the header must begin with '--- verb:"),
        (["#!lua", "--- verb: keys", "--- keys: own(name), fixed", "return 1"], "come last"),
    ],
)
def test_a_header_that_says_nonsense_is_refused_when_it_is_loaded(write: Write, lines: list[str], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        write(*lines)


@pytest.mark.parametrize("verb", VERBS)
def test_a_method_takes_what_its_script_takes(verb: str) -> None:
    """Ends, settlements and the entry of a tick travel as several arguments."""
    told = {"ended", "settlement", "entry"}
    parameters = set(inspect.signature(getattr(Store, verb)).parameters) - {"self"}
    script = load("holdfast.engine", verb)
    owners = {name.partition("(")[2].rstrip(").") for name in script.own_keys}
    assert parameters - told <= {*script.args, *owners}


@pytest.mark.parametrize("verb", VERBS)
def test_a_script_of_ours_refuses_a_call_that_does_not_fit(link: Link, store: Store, verb: str) -> None:
    script = load("holdfast.engine", verb)
    keys = [f"k{i}" for i in range(len(script.keys))]
    with pytest.raises(ServerError, match="wrong number of keys or arguments"):
        run(link, script, keys[:-1], [])
    assert link.command("DBSIZE") == 0
