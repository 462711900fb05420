"""Settings: where they come from, and what cannot be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast, OptionError
from holdfast.settings import URL_VARIABLES, Settings, WorkerSettings, url_from_env


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in URL_VARIABLES:
        monkeypatch.delenv(name, raising=False)


def test_the_url_is_the_first_that_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    assert url_from_env() == ""
    for name in reversed(URL_VARIABLES):
        monkeypatch.setenv(name, f"redis://{name}")
        assert url_from_env() == f"redis://{name}"
    monkeypatch.setenv(URL_VARIABLES[0], "")
    assert url_from_env() == f"redis://{URL_VARIABLES[1]}"


def test_a_url_in_the_program_is_before_that_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_URL", "redis://environment")
    assert Holdfast().settings.url == "redis://environment"
    assert Holdfast("redis://program").settings.url == "redis://program"
    assert Holdfast("").settings.url == ""


def test_an_application_touches_nothing_until_it_must(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    app = Holdfast(data=tmp_path / "data")

    @app.task
    def task() -> None: ...

    task.using(queue="other")
    app.source()
    app.close()
    assert list(tmp_path.iterdir()) == []
    assert repr(app) == "<Holdfast 'app' with 1 tasks>"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"durability": "always"}, r"durability must be one of \('server', 'fsync', 'replica'\), not 'always'"),
        ({"timeout": 0}, "timeout must be a number from 0.05 to 3600, not 0"),
        ({"timeout": "5"}, "timeout must be a number"),
        ({"max_payload": 100}, "max_payload must be a number from 1024 to"),
        ({"max_payload": 2e6}, "max_payload must be a whole number from 1024 to"),
        ({"partitions": {"mail": 0}}, r"partitions\['mail'\] must be a number from 1 to 1024, not 0"),
        ({"partitions": {"mail": 1.5}}, r"partitions\['mail'\] must be a whole number"),
        ({"partitions": {"m l": 2}}, "a queue's name must be 1 to 100 letters, digits"),
        ({"namespace": ""}, "namespace must be 1 to 100 letters, digits"),
        ({"namespace": "a/b"}, "namespace must be 1 to 100 letters, digits"),
        ({"namespace": "{a}"}, "namespace must be"),
    ],
)
def test_what_an_application_cannot_be_told_is_refused_at_once(options: Any, said: str) -> None:
    with pytest.raises(OptionError, match=said):
        Holdfast(**options)


@pytest.mark.parametrize(
    "options",
    [
        {"processes": 0}, {"processes": 1.5}, {"threads": 0}, {"threads": True}, {"async_slots": 0},
        {"async_slots": "5"}, {"lease_s": 0.1}, {"stop_timeout_s": -1}, {"max_crashes": 0}, {"max_crashes": 2.5},
    ],
)  # fmt: skip
def test_what_a_worker_cannot_be_told_is_refused_at_once(options: Any) -> None:
    [name] = options
    with pytest.raises(OptionError, match=f"{name} must be a "):
        WorkerSettings(**options)


def test_settings_do_not_change() -> None:
    settings: Any = Settings()
    with pytest.raises(AttributeError):
        settings.url = "redis://other"
