"""The documents say what the code does: each name in one is in the other, each table is the code's, each link leads."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from holdfast import client, codec
from holdfast.admin import audit
from holdfast.engine.store import VERBS
from holdfast.runtime import fetcher, pace, supervisor
from holdfast.settings import Settings, WorkerSettings
from holdfast.tasks import source, step, task
from holdfast.tasks.definition import HARD_AFTER_SOFT_S, RESULT_TTL_S, Definition
from house.generated import BLOCK, DOCUMENTS, LUA, ROOT, blocks, written_anew

FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)

each_document = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))


def prose(document: Path) -> str:
    """A document without its blocks of code."""
    return FENCE.sub("", document.read_text())


def code_words(text: str) -> set[str]:
    """Everything between backticks, outside of blocks."""
    return set(re.findall(r"`([^`\n]+)`", FENCE.sub("", text)))


def section(document: Path, title: str) -> str:
    """What stands under a heading, up to the next one of its level or above."""
    found = re.search(
        rf"^(#+) {re.escape(title)}\n(.*?)(?=^#{{1,6}} |\Z)", document.read_text(), re.DOTALL | re.MULTILINE
    )
    assert found, f"{document.name} has no heading {title!r}"
    return found[2]


def first_cells(text: str) -> list[str]:
    """The first column of the tables in a text, without their heads."""
    rows = re.findall(r"^\| (.+?) \|", text, re.MULTILINE)
    return [row for row in rows if "`" in row]


def anchors(document: Path) -> set[str]:
    """The anchors that a reader's browser makes of a document's headings."""
    titles = (re.sub(r"[`*]", "", title) for title in HEADING.findall(prose(document)))
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


# -- every document ------------------------------------------------------------------------------


@each_document
def test_what_is_made_from_the_code_is_as_the_code_is_now(document: Path) -> None:
    assert document.read_text() == written_anew(document.read_text(), blocks()), "run `make documents`"


@each_document
def test_a_link_within_the_repository_leads_somewhere(document: Path) -> None:
    for target in LINK.findall(prose(document)):
        if ":" in target.partition("#")[0]:
            continue
        path, _, anchor = target.partition("#")
        place = (document.parent / path).resolve() if path else document
        assert place.exists(), f"{target}: no such file"
        if anchor:
            assert anchor in anchors(place), f"{target}: no such heading"


@each_document
def test_a_block_of_python_compiles(document: Path) -> None:
    for _, language, code in FENCE.findall(document.read_text()):
        if language == "python" and ">>>" not in code:
            compile(code, document.name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def test_everything_that_can_be_made_from_the_code_stands_in_some_document() -> None:
    made = {block["name"] for document in DOCUMENTS for block in BLOCK.finditer(document.read_text())}
    assert made == blocks().keys()


# -- PROTOCOL.md ---------------------------------------------------------------------------------

PROTOCOL = ROOT / "PROTOCOL.md"


def test_the_protocol_has_one_heading_for_each_verb_and_its_contract_under_it() -> None:
    headings = re.findall(r"^### (\w+)$", PROTOCOL.read_text(), re.MULTILINE)
    assert sorted(headings) == sorted(VERBS)
    assert sorted(VERBS) == sorted(path.stem for path in LUA.glob("*.lua"))
    for verb in VERBS:
        assert f"<!-- made: verb {verb} -->" in section(PROTOCOL, verb)


def test_the_protocol_names_each_field_of_meta_that_a_script_writes() -> None:
    text = "\n".join(path.read_text() for path in LUA.rglob("*.lua"))
    written = set(re.findall(r"'H(?:SET|INCRBY|GET|DEL)', meta, '(\w+)'", text)) | {"clock", "skew"}
    # The ends count themselves: `forget` gets the name of its counter.
    written |= {"done", "cancelled", "expired", "trimmed"}
    named = section(PROTOCOL, "Keys").partition("Fields of `meta`")[2]
    assert {word for cell in first_cells(named) for word in code_words(cell)} == written


def test_the_protocol_names_each_option_of_an_entry() -> None:
    from holdfast.engine.model import Options

    rows = dict(re.findall(r"^\| `(\w+)` \| (number|string|boolean) \|", section(PROTOCOL, "Entries"), re.MULTILINE))
    in_lua = dict(re.findall(r"(\w+) = '(number|string|boolean)'", (LUA / "lib" / "admit.lua").read_text()))
    assert rows == in_lua
    assert rows.keys() == set(Options.__struct_fields__)


def test_the_protocol_names_each_member_of_an_envelope() -> None:
    from holdfast.tasks.envelope import Envelope

    cells = first_cells(section(PROTOCOL, "The envelope of a task"))
    assert {cell.strip("`") for cell in cells} == set(Envelope.__struct_fields__)


def test_the_protocol_has_the_causes_of_a_sweep_and_the_invariants_of_the_scripts() -> None:
    causes = re.search(r"^--- cause: (.+)$", (LUA / "sweep.lua").read_text(), re.MULTILINE)
    assert causes
    wanted = set(re.findall(r"(\w+) \(", causes[1]))
    assert {cell.strip("`") for cell in first_cells(section(PROTOCOL, "Leases, sweeps and suspects"))} == wanted
    kept = set(re.findall(r"\bI\d\b", "\n".join(path.read_text() for path in LUA.glob("*.lua"))))
    assert set(re.findall(r"^\| (I\d) \|", section(PROTOCOL, "Invariants"), re.MULTILINE)) == kept


def test_the_protocol_has_the_channels_of_the_wakeups() -> None:
    from holdfast.engine.keys import Partition
    from holdfast.engine.wakeup import bell, end, wishes

    here = Partition("n", "q")
    channels = {bell(here, "<token>"), end(here, "<id>"), wishes(here)}
    cells = first_cells(section(PROTOCOL, "Wake-ups"))
    assert {cell.strip("`").replace("{...}", f"{{{here}}}") for cell in cells} == channels


# -- ARCHITECTURE.md -----------------------------------------------------------------------------

ARCHITECTURE = ROOT / "ARCHITECTURE.md"
SOURCE = ROOT / "src" / "holdfast"


def plain(text: str) -> str:
    """A text without the ends of its lines and its capitals."""
    return " ".join(text.split()).lower()


def test_the_architecture_names_each_room_with_a_rule_in_the_words_of_its_source() -> None:
    table = re.findall(r"^\| `([\w./]+)` \| [^|]+ \| ([^|]+) \|", section(ARCHITECTURE, "The floors"), re.MULTILINE)
    rooms = {path.name + "/" * path.is_dir() for path in SOURCE.iterdir() if not path.name.startswith(("_", "py."))}
    assert {room for room, _ in table} == rooms
    for room, rule in table:
        files = (SOURCE / room).rglob("*.py") if room.endswith("/") else [SOURCE / room]
        said = [plain(ast.get_docstring(ast.parse(path.read_text())) or "") for path in files]
        assert any(plain(rule) in text for text in said), f"{room} does not say: {rule}"


def test_the_floors_in_the_architecture_are_those_that_are_checked() -> None:
    import tomllib

    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = [set(layer.replace("holdfast.", "").split(" | ")) for layer in contracts[0]["layers"]]
    block = FENCE.search(section(ARCHITECTURE, "The floors"))
    assert block
    lines = [re.split(r"\s{2,}", line)[0] for line in block[3].splitlines()]
    assert [set(re.split(r" \| | ", line)) for line in lines] == layers


@each_document
def test_a_file_that_a_document_names_is_there(document: Path) -> None:
    for word in code_words(document.read_text()):
        if re.fullmatch(r"(?:src|tests|docs|lua|engine|wire|tasks|runtime|server|cli|admin)/[\w/.-]+", word):
            assert (ROOT / word).exists() or (SOURCE / word).exists() or (SOURCE / "engine" / word).exists(), word


@pytest.mark.parametrize("folder", ["guide", "decisions"])
def test_an_index_leads_to_each_page_beside_it(folder: str) -> None:
    pages = {page.name for page in (ROOT / "docs" / folder).glob("*.md")} - {"README.md"}
    assert set(LINK.findall((ROOT / "docs" / folder / "README.md").read_text())) == pages


# -- the guide -----------------------------------------------------------------------------------

GUIDE = ROOT / "docs" / "guide"


def rows(text: str) -> dict[str, str]:
    """The tables of a text: first cell -> second cell, without their backticks."""
    found = re.findall(r"^\| `([^`]+)` \| ([^|]*) \|", text, re.MULTILINE)
    return {name: default.strip().strip("`") for name, default in found}


def test_the_guide_has_each_option_of_a_task_with_its_default() -> None:
    from dataclasses import fields

    from holdfast.app import TaskOptions
    from holdfast.tasks.definition import Definition
    from holdfast.tasks.task import Placing

    defaults = {field.name: repr(field.default) for field in fields(Placing)}
    defaults |= {
        field.name: repr(field.default) for field in fields(Definition) if field.name in TaskOptions.__annotations__
    }
    defaults |= {"retries": repr(Definition.retries), "name": "None"}
    assert rows(section(GUIDE / "tasks.md", "Options")) == defaults
    assert defaults.keys() == TaskOptions.__annotations__.keys()


def test_the_guide_has_each_status_of_a_job() -> None:
    from holdfast.engine.states import STATUS

    ends = {"done", "cancelled", "expired"}
    assert rows(section(GUIDE / "tasks.md", "Status")).keys() == {*STATUS.values(), *ends}


def test_the_guide_has_each_name_of_a_run() -> None:
    from holdfast.tasks.source import Run

    internal = {*Run.__slots__, "enter", "leave", "spawn", "note", "ended", "failed"}
    public = {name for name in vars(Run) if not name.startswith("_")} - internal
    named = rows(section(GUIDE / "tasks.md", "Inside a job")).keys()
    assert {name.partition("(")[0] for name in named} == public


def test_the_guide_has_each_way_to_enqueue() -> None:
    from holdfast import Task

    text = section(GUIDE / "tasks.md", "Enqueueing")
    ways = {name for name in vars(Task) if not name.startswith("_") and callable(getattr(Task, name))}
    assert ways == {word for word in re.findall(r"\b\w+\b", " ".join(code_words(text))) if word in ways}


def test_the_guide_has_each_parameter_of_an_application_with_its_default() -> None:
    import inspect

    from holdfast import Holdfast
    from holdfast.settings import URL_VARIABLES, Settings

    parameters = inspect.signature(Holdfast).parameters
    text = section(GUIDE / "operations.md", "Where the store is")
    assert rows(text) == {name: repr(p.default) for name, p in parameters.items()}
    assert len(parameters) == len(Settings.__dataclass_fields__)
    assert {word for word in code_words(text) if word.endswith("_URL")} == set(URL_VARIABLES)


def test_the_guide_has_each_level_of_durability() -> None:
    from typing import get_args

    from holdfast.settings import Durability

    text = section(GUIDE / "operations.md", "Durability")
    assert set(re.findall(r"^- `(\w+)`", text, re.MULTILINE)) == set(get_args(Durability))


def test_the_guide_has_each_file_of_the_data_directory() -> None:
    from holdfast.server.place import Place

    place = Place(Path("data"))
    names = {path.name for path in vars(place).values() if isinstance(path, Path) and path != place.directory}
    text = section(GUIDE / "operations.md", "The embedded server")
    named = {word for cell in first_cells(text) for word in code_words(cell) if not word.startswith("--")}
    assert named == {*names, ".gitignore"}


def test_the_guide_has_each_event() -> None:
    call = re.compile(r'(?:\b(?:emit|warn)\(\s*|log\.(?:warning|exception)\(\s*)"([a-z_]+(?:\.[a-z_]+)?)[" ]')
    source = "\n".join(path.read_text() for path in SOURCE.rglob("*.py") if path.name != "events.py")
    named = {word for cell in first_cells(section(GUIDE / "workers.md", "Events")) for word in code_words(cell)}
    assert named == set(call.findall(source))


def test_the_guide_has_each_error_and_no_other() -> None:
    from holdfast import errors

    known = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, Exception)}
    headings = re.findall(r"^### (\w+)$", (GUIDE / "troubleshooting.md").read_text(), re.MULTILINE)
    assert sorted(headings) == sorted(known)


def test_every_public_name_stands_in_the_guide() -> None:
    import holdfast

    text = "\n".join(page.read_text() for page in GUIDE.glob("*.md"))
    code = [*code_words(text), *HEADING.findall(text), *(block for _, _, block in FENCE.findall(text))]
    assert set(holdfast.__all__) <= set(re.findall(r"\w+", "\n".join(code)))


def test_every_command_that_a_document_names_exists_with_its_options() -> None:
    from holdfast.cli.main import main
    from house.generated import verbs_of

    commands = dict(verbs_of(main))
    for document in DOCUMENTS:
        for line in re.findall(r"(?:\$ |`)holdfast ([a-z][^`\n]*)", document.read_text()):
            name = next((name for name in commands if line.startswith(name)), None)
            alternatives = re.match(r"server (\w+(?:\|\w+)+)", line)
            assert name or (
                alternatives and all(f"server {verb}" in commands for verb in alternatives[1].split("|"))
            ), line
            known = {word for p in commands[name].params for word in p.opts} if name else set()
            assert set(re.findall(r"(?<=\s)-{1,2}[a-z][\w-]*", line)) <= known, f"{document.name}: holdfast {line}"


PHRASES = [
    ("reliability", "when the lease is over (15 s)", WorkerSettings().lease_s, 15),
    ("reliability", "have 25 s to end", WorkerSettings().stop_timeout_s, 25),
    ("reliability", "With the third crash", WorkerSettings().max_crashes, 3),
    ("tasks", "With the third crash", WorkerSettings().max_crashes, 3),
    ("tasks", "25 times by default", Definition.retries, 25),
    ("tasks", "30 s after the soft one", HARD_AFTER_SOFT_S, 30),
    ("tasks", "Results are kept for an hour", RESULT_TTL_S, 3600),
    ("tasks", "Each chunk of 500 is put whole", client.CHUNK, 500),
    ("tasks", "at most 1,000 jobs", source.MOST_BORN, 1000),
    ("tasks", "the last hundred lines at most", step.MOST_LINES, 100),
    ("tasks", "at most five times a second", 1 / fetcher.NOTE_S, 5),
    ("tasks", "deeper than 64 levels", codec.MAX_DEPTH, 64),
    ("tasks", "1 to 512 printable characters", task.MAX_NAME, 512),
    ("workers", "end within about 20 ms", pace.AHEAD_S, 0.020),
    ("workers", "a tenth of a second", pace.PATIENCE_S, 0.100),
    ("workers", "They have one second to clean up", fetcher.UNWIND_S, 1),
    ("workers", "five seconds later is killed", supervisor.KILL_GRACE_S, 5),
    ("troubleshooting", "within `timeout` (5 s)", Settings().timeout_s, 5),
    ("operations", "500 jobs a call", audit.CHUNK, 500),
]


@pytest.mark.parametrize(("page", "phrase", "value", "number"), PHRASES)
def test_a_number_in_the_guide_is_the_number_in_the_code(page: str, phrase: str, value: float, number: float) -> None:
    assert value == number, f"{page}.md says: {phrase}"
    assert phrase in " ".join((GUIDE / f"{page}.md").read_text().split())


# -- CONTRIBUTING.md and the decisions -----------------------------------------------------------


def test_every_verb_of_the_makefile_is_explained() -> None:
    phony = re.search(r"^\.PHONY: (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert phony
    named = set(re.findall(r"^\| `make (\w+)` \|", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE))
    assert named == set(phony[1].split())


def test_every_dependency_has_its_reason() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = {
        re.split(r"[<>=\[;]", name)[0] for name in [*project["dependencies"], *extras["embedded"], *extras["dev"]]
    }
    text = (ROOT / "docs" / "decisions" / "0002-few-dependencies.md").read_text()
    assert wanted - {"holdfast"} <= code_words(text)


def test_the_decisions_are_numbered_without_a_gap_and_have_the_same_parts() -> None:
    pages = sorted((ROOT / "docs" / "decisions").glob("0*.md"))
    assert [int(page.name[:4]) for page in pages] == list(range(1, len(pages) + 1))
    for page in pages:
        text = page.read_text()
        assert text.startswith(f"# {int(page.name[:4])}. ")
        parts = re.findall(r"^\*\*(\w+)\.\*\*", text, re.MULTILINE)
        assert [part for part in parts if part != "Why"] == ["Context", "Decision", "Consequences"]
