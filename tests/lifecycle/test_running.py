"""A worker that nothing happens to: jobs come in, results come out."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import Holdfast
from lifecycle.conftest import Start


@pytest.mark.parametrize("name", ["add", "add_async"])
def test_a_job_runs_and_its_result_comes_back(start: Start, app: Holdfast, name: str) -> None:
    start()
    assert app.tasks[name].enqueue(2, 3).result(timeout=30) == 5


def test_a_worker_that_is_stopped_ends_with_0(start: Start, tasks: Any) -> None:
    worker = start("--processes", 2)
    assert tasks.add.enqueue(1, 1).result(timeout=30) == 2
    assert worker.stop() == 0
