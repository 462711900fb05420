"""`holdfast audit` as an operator types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from holdfast import Holdfast
from holdfast.cli.main import main
from holdfast.engine.keys import Partition
from holdfast.server import Embedded
from holdfast.wire.sync import Link
from servers import Server


@pytest.fixture(autouse=True)
def _no_url(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOLDFAST_URL", "REDIS_URL", "VALKEY_URL"):
        monkeypatch.delenv(name, raising=False)


def audit(*args: str) -> Result:
    return CliRunner().invoke(main, ["audit", *args])


def put(app: Holdfast, count: int) -> None:
    task = app.task(name="work")(lambda n: n)
    task.enqueue_many([(n,) for n in range(count)])


def test_a_sound_store(server: Server) -> None:
    with Holdfast(server.url) as app:
        put(app, 3)
    result = audit("--url", server.url)
    assert result.exit_code == 0, result.output
    assert result.output == (
        "app/default/0: 3 jobs checked: 3 ready; ended so far: nothing\nEvery invariant is kept.\n"
    )


def test_a_damaged_store(server: Server, link: Link) -> None:
    with Holdfast(server.url, namespace="shop") as app:
        put(app, 1)
    link.command("DEL", Partition("shop", "default").key("ready"))
    result = audit("--url", server.url, "--namespace", "shop", "--json")
    assert result.exit_code == 1
    (report,) = json.loads(result.output)
    assert report["partition"] == "shop/default/0"
    assert any(problem.startswith("I1") for problem in report["problems"])
    assert "Please report this" in audit("--url", server.url, "--namespace", "shop").output


def test_nothing_is_made_where_nothing_is(tmp_path: Path) -> None:
    result = audit("--data", str(tmp_path / "none"))
    assert result.exit_code == 1
    assert "say --url or --data" in result.output
    assert not (tmp_path / "none").exists()


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    result = audit("--url", f"unix://{tmp_path}/nobody.sock")
    assert result.exit_code == 1
    assert result.output.startswith("Error: no answer from unix://")


def test_the_embedded_server(tmp_path: Path, short_runtime: None) -> None:
    data = tmp_path / "data"
    with Holdfast(data=data) as app:
        put(app, 2)
    assert Embedded.find(data) is None
    result = audit("--data", str(data))
    assert result.exit_code == 0, result.output
    assert "2 jobs checked" in result.output
    assert Embedded.find(data) is None
