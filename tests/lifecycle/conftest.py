"""Workers, the stage of their jobs, and the audit behind each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from holdfast import Holdfast
from holdfast.admin.audit import audit
from lifecycle.apps.jobs import build
from lifecycle.play import APPS, Stage, Worker
from servers import Server

PLACE = "lifecycle.apps.jobs:app"

Start = Callable[..., Worker]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "lifecycle" in item.path.parts:
            item.add_marker(pytest.mark.lifecycle)


@pytest.fixture
def stage() -> Iterator[Stage]:
    with TemporaryDirectory(prefix="hf-stage-") as directory:
        stage = Stage(Path(directory))
        yield stage
        stage.close()


@pytest.fixture
def app(server: Server) -> Iterator[Holdfast]:
    """The application of `apps/jobs.py` on this test's server; behind the test every entry must be in its one place."""
    with build(server.url) as app:
        yield app
        reports = audit(app.client)
        assert [problem for report in reports for problem in report.problems] == []


@pytest.fixture
def start(server: Server, stage: Stage, app: Holdfast) -> Iterator[Start]:
    """Starts workers; all of them are ended before the audit."""
    workers: list[Worker] = []

    def start(
        *options: object, place: str = "lifecycle.apps.jobs:app", url: str | None = None, cwd: Path = APPS
    ) -> Worker:
        url = server.url if url is None else url
        workers.append(Worker(place, "--processes", 1, *options, stage=stage, url=url, cwd=cwd))
        return workers[-1]

    yield start
    for worker in workers:
        worker.close()


@pytest.fixture
def tasks(app: Holdfast) -> Any:
    """The tasks of the application, as attributes."""

    class Tasks:
        def __getattr__(self, name: str) -> Any:
            return app.tasks[name]

    return Tasks()
