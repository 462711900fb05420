"""A task is still the function that it was made of."""

from __future__ import annotations

import asyncio
import inspect
import pickle
from collections.abc import Iterator

import pytest

from holdfast import Holdfast, Task
from holdfast.errors import UsageError

app = Holdfast("redis://never.asked")


@app.task(queue="mail")
def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


@app.task
async def multiply(a: int, b: int) -> int:
    return a * b


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    app.close()


def test_it_is_called_like_the_function() -> None:
    assert add(1) == 3
    assert add(1, b=5) == 6
    assert asyncio.run(multiply(2, 3)) == 6
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'a'"):
        add()  # type: ignore[call-arg]


def test_it_looks_like_the_function() -> None:
    assert (add.__name__, add.__doc__, add.__module__) == ("add", "Add two numbers.", __name__)
    assert str(inspect.signature(add)) == "(a: 'int', b: 'int' = 2) -> 'int'"
    assert inspect.unwrap(add) is add.definition.function
    assert repr(add) == f"<Task {__name__}.add>"


def test_it_is_pickled_like_the_function() -> None:
    assert pickle.loads(pickle.dumps(add)) is add
    with pytest.raises(pickle.PicklingError, match="not the same object"):
        pickle.dumps(add.using(queue="low"))


def test_other_options_make_another_task_of_the_same_function() -> None:
    other = add.using(queue="low")
    assert isinstance(other, Task)
    assert other is not add
    assert (other.name, other(1), other.definition) == (add.name, 3, add.definition)
    assert (add.placing.queue, other.placing.queue) == ("mail", "low")


def test_calling_it_asks_no_server() -> None:
    add(1)
    assert app.client._pool is None
    with pytest.raises(UsageError, match="spawn works only inside a running job"):
        add.spawn(1)
