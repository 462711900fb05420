"""The documents work: what is marked in them is carried out, and so are docstrings, with a real server and worker."""

from __future__ import annotations

import inspect
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast, Task
from holdfast.admin.audit import audit
from holdfast.engine.keys import Partition
from holdfast.engine.states import read_moves
from holdfast.errors import ServerError
from holdfast.runtime.pace import Pace
from holdfast.tasks.signature import Signature
from holdfast.wire.connect import Address, redacted
from holdfast.wire.sync import Link
from house.generated import DOCUMENTS, ROOT
from house.page import Page, blocks_to_run, opened
from servers import Server

GUIDE = ROOT / "docs" / "guide"

PAGES = [document for document in DOCUMENTS if blocks_to_run(document)]

#: Those whose docstrings show what comes out, whenever and wherever they are run.
NOUNS = (Holdfast, Task, Task.enqueue_many, Signature, Partition, read_moves, redacted, Pace, audit)
TASKS = """<!-- file: examples.py -->
```python
from holdfast import Holdfast

app = Holdfast()


@app.task
def add(a: int, b: int) -> int:
    return a + b


@app.task(retries=3)
def greet(name: str) -> str:
    return f"hello {name}"
```
<!-- worker: examples:app -->
"""
RIGHTS = """<!-- file: shop.py -->
```python
from holdfast import Holdfast

app = Holdfast(namespace="shop")


@app.task
def add(a: int, b: int) -> int:
    return a + b


@app.task(queue="mail", key="k", retries=0)
def fail() -> None:
    raise ValueError
```
<!-- run -->
```python
>>> from shop import add, fail
>>> jobs = [add.enqueue(1, 2), fail.enqueue(), add.using(delay=60).enqueue(1, 2)]
>>> import subprocess
>>> command = ["holdfast", "worker", "shop:app", "--processes", "1", "--drain"]
>>> subprocess.run(command, check=True, stderr=subprocess.DEVNULL).returncode
0
>>> jobs[0].result(timeout=10), jobs[1].status(), jobs[1].revive(), jobs[2].cancel()
(3, 'dead', True, True)
>>> import asyncio
>>> async def main() -> int:
...     return await jobs[0].aresult(timeout=10)
>>> asyncio.run(main())
3
```
<!-- run -->
```console
$ holdfast audit --namespace shop
...
Every invariant is kept.
```
"""


def example_of(noun: Any) -> str:
    """The example in a docstring as a block that is run, with what it needs."""
    text = inspect.cleandoc(noun.__doc__).partition("Example:\n")[2].partition("\n\n")[0]
    lines = inspect.cleandoc(text).replace("05hq0h1bg0000f3k9a2c", "...")
    # A task that is made here has the name of the one that the worker has imported.
    needed = [
        '__name__ = "examples"', f"from {noun.__module__} import *", "from examples import add",
        "from holdfast import Holdfast", "app = Holdfast()",
    ]  # fmt: skip
    return "<!-- run -->\n```python\n" + "\n".join(f">>> {line}" for line in needed) + f"\n{lines}\n```\n"


@pytest.mark.lifecycle
@pytest.mark.parametrize("document", PAGES, ids=lambda path: path.stem)
def test_a_page_does_what_it_says(document: Path, tmp_path: Path) -> None:
    with opened(document, tmp_path) as page:
        assert page.carry_out() == blocks_to_run(document)


@pytest.mark.lifecycle
def test_the_examples_of_docstrings_come_out_as_they_say(tmp_path: Path) -> None:
    document = tmp_path / "page.md"
    document.write_text(TASKS + "\n".join(example_of(noun) for noun in NOUNS))
    with opened(document, tmp_path) as page:
        assert page.carry_out() == len(NOUNS)


@pytest.mark.lifecycle
def test_the_rights_that_the_guide_grants_are_enough_and_not_more(server: Server, link: Link, tmp_path: Path) -> None:
    granted = re.search(r"valkey-cli (ACL SETUSER .+)", (GUIDE / "operations.md").read_text())
    assert granted
    link.command(*shlex.split(granted[1]))
    link.command("ACL", "LOG", "RESET")
    url = f"unix://shop:secret@{server.socket}?db=0"
    document = tmp_path / "page.md"
    document.write_text(RIGHTS)
    page = Page(document, tmp_path)
    page.environment["HOLDFAST_URL"] = url
    assert page.carry_out() == 2
    assert link.command("ACL", "LOG") == []
    other = Link(Address(url))
    with pytest.raises(ServerError, match="key"):
        other.command("GET", "somebody:else")
    other.close()
    link.command("ACL", "DELUSER", "shop")


def test_a_page_that_says_something_else_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- run -->\n```python\n>>> 1 + 1\n3\n```\n")
    with opened(page, tmp_path) as wrong, pytest.raises(AssertionError, match="Expected"):
        wrong.carry_out()
    page.write_text("<!-- run -->\n```console\n$ echo 2\n3\n```\n")
    with opened(page, tmp_path) as wrong, pytest.raises(AssertionError, match="echo 2 printed"):
        wrong.carry_out()
