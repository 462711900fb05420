"""The guide works: every page with blocks that are marked is carried out against a real embedded server and worker."""

from __future__ import annotations

from pathlib import Path

import pytest

from house.generated import DOCUMENTS
from house.page import is_carried_out, opened

PAGES = [document for document in DOCUMENTS if is_carried_out(document) and document.parent.name == "guide"]


@pytest.mark.lifecycle
@pytest.mark.parametrize("document", PAGES, ids=lambda path: path.stem)
def test_a_page_of_the_guide_does_what_it_says(document: Path, tmp_path: Path) -> None:
    with opened(document, tmp_path) as page:
        assert page.carry_out() == document.read_text().count("<!-- run -->")


def test_a_page_that_says_something_else_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- run -->\n```python\n>>> 1 + 1\n3\n```\n")
    with opened(page, tmp_path) as wrong, pytest.raises(AssertionError, match="Expected"):
        wrong.carry_out()
    page.write_text("<!-- run -->\n```console\n$ echo 2\n3\n```\n")
    with opened(page, tmp_path) as wrong, pytest.raises(AssertionError, match="echo 2 printed"):
        wrong.carry_out()
