"""A backup as the guide tells it: a copy of the log brings back every job that was there, and can be audited."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from shutil import copytree, rmtree

import pytest

from holdfast import Holdfast
from holdfast.admin.audit import audit
from holdfast.wire.call import Plain

LOG = "appendonlydir"


def shop(data: Path) -> Holdfast:
    """An application over a data directory, with one task."""
    app = Holdfast(url="", data=data)

    @app.task(name="add")
    def add(a: int, b: int) -> int:
        return a + b

    return app


def put(app: Holdfast, count: int) -> None:
    app.task_named("add").enqueue_many([(i, i) for i in range(count)])


def ready(app: Holdfast) -> int:
    """How many jobs wait, and nothing is wrong with them."""
    (report,) = audit(app.client)
    assert report.is_sound, report.problems
    return report.numbers["ready"]


@pytest.fixture
def original(tmp_path: Path) -> Iterator[Holdfast]:
    with shop(tmp_path / "original") as app:
        put(app, 700)
        yield app


def test_a_copy_of_the_log_of_a_stopped_server_has_every_job(original: Holdfast, tmp_path: Path) -> None:
    original.close()
    copytree(tmp_path / "original" / LOG, tmp_path / "copy" / LOG)
    with shop(tmp_path / "copy") as copy:
        assert ready(copy) == 700


def test_a_copy_of_the_log_of_a_running_server_has_every_job_that_was_there(original: Holdfast, tmp_path: Path) -> None:
    original.client.run(Plain(("CONFIG", "SET", "auto-aof-rewrite-percentage", 0), bytes))
    copytree(tmp_path / "original" / LOG, tmp_path / "copy" / LOG)
    put(original, 5)
    with shop(tmp_path / "copy") as copy:
        assert ready(copy) == 700
    assert ready(original) == 705


def test_a_backup_in_the_place_of_the_log_goes_back_in_time(original: Holdfast, tmp_path: Path) -> None:
    original.close()
    copytree(tmp_path / "original" / LOG, tmp_path / "backup")
    put(original, 5)
    original.close()
    rmtree(tmp_path / "original" / LOG)
    copytree(tmp_path / "backup", tmp_path / "original" / LOG)
    assert ready(original) == 700
