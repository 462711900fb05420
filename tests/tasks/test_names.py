"""The name under which a worker finds a task again."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast, OptionError, UnknownTask
from servers import Server


def module_level() -> None: ...


def test_a_task_is_named_after_its_function(app: Holdfast) -> None:
    assert app.task(module_level).name == f"{__name__}.module_level"


def test_one_inside_a_function_is_named_without_the_noise(app: Holdfast) -> None:
    def inner() -> None: ...

    assert app.task(inner).name.endswith(".test_one_inside_a_function_is_named_without_the_noise.inner")


def test_a_name_of_its_own(app: Holdfast) -> None:
    task = app.task(name="mail.send")(lambda: None)
    assert task.name == "mail.send"
    assert app.task_named("mail.send") is task


def test_an_unknown_name_is_answered_with_a_close_one(app: Holdfast) -> None:
    app.task(name="mail.send")(module_level)
    with pytest.raises(UnknownTask, match=r"there is no task 'mail.sent' \(did you mean 'mail.send'\?\)"):
        app.task_named("mail.sent")
    with pytest.raises(UnknownTask, match=r"there is no task 'x'$"):
        app.task_named("x")


def test_the_same_function_may_be_registered_again(app: Holdfast) -> None:
    assert app.task(module_level).name == app.task(retries=1)(module_level).name


def test_two_tasks_of_one_name_are_refused(app: Holdfast) -> None:
    def other() -> None: ...

    app.task(name="same")(module_level)
    with pytest.raises(OptionError, match="there is a task 'same' already: give one of them another name"):
        app.task(name="same")(other)


def test_a_function_that_closes_over_something_is_another_one_each_time(app: Holdfast) -> None:
    def make(number: int) -> Any:
        @app.task
        def task() -> int:
            return number

        return task

    make(1)
    with pytest.raises(OptionError, match="already"):
        make(2)


def generator() -> Iterator[int]:
    yield 1


async def async_generator() -> AsyncIterator[int]:
    yield 1


class Callable:
    def __call__(self) -> None: ...


@pytest.mark.parametrize(
    ("thing", "said"),
    [
        (lambda: None, "a lambda has no name that a worker could find: use def, or task\\(name=...\\)"),
        (functools.partial(module_level), "a task is made from a function, not from functools.partial"),
        (Callable(), "a task is made from a function, not from <"),
        (Callable, "a task is made from a function, not from <class"),
        (5, "a task is made from a function, not from 5"),
        ("send", "a task is made from a function, not from 'send'"),
        (generator, r"generator\(\) is a generator: a task returns its result"),
        (async_generator, r"async_generator\(\) is a generator"),
    ],
    ids=["lambda", "partial", "callable", "class", "number", "text", "generator", "async generator"],
)
def test_what_is_no_function_with_a_name_is_refused_at_once(app: Holdfast, thing: Any, said: str) -> None:
    with pytest.raises(OptionError, match=said):
        app.task(thing)
    assert app.tasks == {}


HELLO = """
import sys
from holdfast import Holdfast

app = Holdfast()

@app.task
def greet(name: str) -> str:
    return f"hello {name}"

if __name__ == "__main__":
    print(greet.name)
    print(greet.enqueue("Ada").id)
"""


def run(*args: str, cwd: Path, url: str, given: str = "") -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"HOLDFAST_URL": url, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    command = [sys.executable, *args]
    return subprocess.run(
        command, cwd=cwd, env=environment, input=given, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize(
    ("script", "name"),
    [
        (["hello.py"], "hello.greet"),
        (["./hello.py"], "hello.greet"),
        (["-m", "hello"], "hello.greet"),
        (["jobs/hello.py"], "jobs.hello.greet"),
        (["-m", "jobs.hello"], "jobs.hello.greet"),
        (["-m", "jobs"], "jobs.greet"),
    ],
    ids=" ".join,
)
def test_a_program_that_runs_as_main_names_its_tasks_as_a_worker_will(
    server: Server, tmp_path: Path, script: list[str], name: str
) -> None:
    (tmp_path / "jobs").mkdir()
    for file in ("hello.py", "jobs/hello.py", "jobs/__main__.py"):
        (tmp_path / file).write_text(HELLO)
    ran = run(*script, cwd=tmp_path, url=server.url)
    assert ran.stdout.splitlines()[:1] == [name], ran.stderr


def test_what_a_program_put_as_main_a_worker_runs_that_imports_it(server: Server, tmp_path: Path) -> None:
    (tmp_path / "hello.py").write_text(HELLO)
    put = run("hello.py", cwd=tmp_path, url=server.url)
    worker = "from holdfast.cli.main import main; main()"
    worked = run("-c", worker, "worker", "hello:app", "--drain", "-p", "1", cwd=tmp_path, url=server.url)
    assert worked.returncode == 0, worked.stderr
    with Holdfast(server.url) as app:
        assert app.job(put.stdout.split()[-1]).result(timeout=0) == "hello Ada"


def test_a_session_has_no_module_that_a_worker_could_import(server: Server, tmp_path: Path) -> None:
    ran = run("-", cwd=tmp_path, url=server.url, given=HELLO)
    assert ran.returncode == 1
    assert (
        "greet() is defined in an interactive session, where no worker can import it: put it into a file" in ran.stderr
    )
    named = HELLO.replace("@app.task\n", '@app.task(name="greet")\n')
    assert run("-", cwd=tmp_path, url=server.url, given=named).stdout.split()[0] == "greet"
