"""What `enqueue` accepts is exactly what a worker will accept; what does not fit is refused with its path."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal, TypedDict, Unpack
from uuid import UUID

import msgspec
import pytest

from holdfast import ArgumentError, Holdfast, OptionError, PayloadError
from tasks.hand import Hand


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Address:
    street: str
    number: int


@dataclass
class Customer:
    name: str
    addresses: list[Address]


class Order(msgspec.Struct):
    id: UUID
    price: Decimal
    count: Annotated[int, msgspec.Meta(ge=1)] = 1
    at: datetime | None = None


class Options(TypedDict, total=False):
    copies: int


def plain(a: Any, b: Any = 2) -> None: ...
def untyped(a, b=2): ...  # type: ignore[no-untyped-def]
def typed(a: int, b: str = "b") -> None: ...
def only_positional(a: int, b: str = "b", /) -> None: ...
def only_named(*, a: int, b: str = "b") -> None: ...
def mixed(a: int, /, b: str, *, c: float = 0.5) -> None: ...
def rest(a: int, *more: int) -> None: ...
def others(a: int, **more: int) -> None: ...
def all_kinds(a: int, /, b: int, *more: str, c: int, **others: float) -> int: ...  # type: ignore[empty-body]
def shadowing(a: int, /, **more: str) -> int: ...  # type: ignore[empty-body]
def unpacked(**more: Unpack[Options]) -> None: ...
def nothing() -> None: ...
def rich(at: datetime, order: Order, customer: Customer, tags: set[str], by_day: dict[int, Colour]) -> None: ...
def limited(kind: Literal["a", "b"], n: Annotated[int, msgspec.Meta(ge=1, le=3)] | None = None) -> None: ...
def later(thing: Defined) -> None: ...


def handed_over(app: Holdfast, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Any) -> tuple[Any, Any]:
    """What a worker hands to the function after these were enqueued."""
    app.task(function).enqueue(*args, **kwargs)
    [run] = Hand(app).take()
    return run.args, run.kwargs


@pytest.mark.parametrize(
    ("function", "args", "kwargs", "expected"),
    [
        (plain, (1,), {}, ((1,), {})),
        (plain, (1,), {"b": [None]}, ((1, [None]), {})),
        (plain, (), {"b": 1, "a": 2}, ((2, 1), {})),
        (untyped, ("x", {"y": 1.5}), {}, (("x", {"y": 1.5}), {})),
        (typed, (1, "x"), {}, ((1, "x"), {})),
        (typed, (), {"a": 1}, ((1,), {})),
        (only_positional, (1,), {}, ((1,), {})),
        (only_positional, (1, "x"), {}, ((1, "x"), {})),
        (only_named, (), {"a": 1}, ((), {"a": 1})),
        (only_named, (), {"b": "x", "a": 1}, ((), {"a": 1, "b": "x"})),
        (mixed, (1,), {"b": "x"}, ((1, "x"), {})),
        (mixed, (1, "x"), {"c": 2}, ((1, "x"), {"c": 2.0})),
        (rest, (1,), {}, ((1,), {})),
        (rest, (1, 2, 3), {}, ((1, 2, 3), {})),
        (rest, tuple(range(300)), {}, (tuple(range(300)), {})),
        (
            others,
            (1,),
            {"x": 2, "return": 3, "more": 4, "task": 5},
            ((1,), {"x": 2, "return": 3, "more": 4, "task": 5}),
        ),
        (shadowing, (1,), {"a": "x", "return": "y"}, ((1,), {"a": "x", "return": "y"})),
        (unpacked, (), {"copies": 3}, ((), {"copies": 3})),
        (all_kinds, (1, 2, "x", "y"), {"c": 3, "d": 1}, ((1, 2, "x", "y"), {"c": 3, "d": 1.0})),
        (all_kinds, (1,), {"b": 2, "c": 3}, ((1, 2), {"c": 3})),
        (nothing, (), {}, ((), {})),
        (limited, ("a", 3), {}, (("a", 3), {})),
    ],
)
def test_arguments_arrive_as_they_were_given(
    app: Holdfast, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Any, expected: Any
) -> None:
    assert handed_over(app, function, args, kwargs) == expected


def test_what_annotations_restore_arrives_as_it_was(app: Holdfast) -> None:
    args = (
        datetime(2026, 1, 2, tzinfo=UTC),
        Order(UUID(int=1), Decimal("1.10")),
        Customer("Ada", [Address("High Street", 1)]),
        {"a", "b"},
        {1: Colour.RED},
    )
    assert handed_over(app, rich, args, {}) == (args, {})


@pytest.mark.parametrize(
    ("function", "args", "kwargs", "said"),
    [
        (typed, (), {}, r"typed\(\): missing a required argument: 'a'; it is typed\(a: int, b: str = 'b'\)$"),
        (typed, (1, "x", 3), {}, r"typed\(\): too many positional arguments; it is "),
        (typed, (1,), {"a": 1}, r"typed\(\): multiple values for argument 'a'; it is "),
        (typed, (1,), {"c": 1}, r"typed\(\): got an unexpected keyword argument 'c'; it is "),
        (typed, (1,), {"delay": 5}, r".*argument 'delay'; it is .*; options go elsewhere: using\(delay=...\).enqueue"),
        (rest, (), {}, r"rest\(\): .*; it is rest\(a: int, \*more: int\)$"),
        (rich, (), {}, r"rich\(\): .*; it is rich\(at: datetime, order: Order, .*, by_day: dict\[int, Colour\]\)$"),
        (only_positional, (), {"a": 1}, r"only_positional\(\): 'a' parameter is positional only|missing a required"),
        (only_named, (1,), {}, r"only_named\(\): too many positional arguments"),
        (only_named, (), {}, r"only_named\(\): missing a required(?: keyword-only)? argument: 'a'"),
        (typed, ("1",), {}, r"typed\(\): a: Expected `int`, got `str`"),
        (typed, (True,), {}, r"typed\(\): a: Expected `int`, got `bool`"),
        (typed, (1.5,), {}, r"typed\(\): a: Expected `int`, got `float`"),
        (typed, (None,), {}, r"typed\(\): a: Expected `int`, got `null`"),
        (typed, (1,), {"b": 2}, r"typed\(\): b: Expected `str`, got `int`"),
        (mixed, (1, "x"), {"c": "y"}, r"mixed\(\): c: Expected `float`, got `str`"),
        (rest, (1, 2, "3"), {}, r"rest\(\): more\[1\]: Expected `int`, got `str`"),
        (others, (1,), {"x": "2"}, r"others\(\): x: Expected `int`, got `str`"),
        (shadowing, (1,), {"a": 5}, r"shadowing\(\): a: Expected `str`, got `int`"),
        (limited, ("c",), {}, r"limited\(\): kind: Invalid enum value 'c'"),
        (limited, ("a", 4), {}, r"limited\(\): n: Expected `int` <= 3"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(
    app: Holdfast, function: Callable[..., Any], args: Any, kwargs: Any, said: str
) -> None:
    with pytest.raises(ArgumentError, match=f"^{said}"):
        app.task(function).enqueue(*args, **kwargs)
    assert app.client.run(app.client.store_at("default", 0).size("jobs")) == 0


def test_the_path_leads_to_what_is_wrong_deep_inside(app: Holdfast) -> None:
    at, order = datetime(2026, 1, 2, tzinfo=UTC), Order(UUID(int=1), Decimal(1))
    wrong: Any = Customer("Ada", [Address("High Street", 1), Address("Low Street", "2")])  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match=r"^rich\(\): customer\.addresses\[1\]\.number: Expected `int`, got `str`$"):
        app.task(rich).enqueue(at, order, wrong, set(), {})
    with pytest.raises(ArgumentError, match=r"^rich\(\): order\.count: Expected `int` >= 1$"):
        app.task(rich).enqueue(at, Order(UUID(int=1), Decimal(1), count=0), Customer("", []), set(), {})
    with pytest.raises(ArgumentError, match=r"^rich\(\): by_day\[\.\.\.\]: Invalid enum value 'blue'"):
        app.task(rich).enqueue(at, order, Customer("", []), set(), by_day={1: "blue"})


@pytest.mark.parametrize(
    ("args", "kwargs", "said"),
    [
        ((b"raw",), {}, "^a: JSON has no bytes"),
        ((1, [float("nan")]), {}, r"^b\[0\]: JSON has no nan"),
        ((1,), {"b": {"c": {1}}}, r"^b\['c'\]: set would not arrive as such; annotate it"),
        (({1: 2},), {}, "^a: the keys of a JSON object are strings, 1 is not; an annotation could restore it"),
        (("\ud800",), {}, "^a: JSON cannot carry this: 'utf-8' codec can't encode"),
        ((object(),), {}, "^a: object would not arrive as such"),
    ],
    ids=["bytes", "nan", "set", "key", "surrogate", "object"],
)
def test_what_json_cannot_carry_is_refused_with_its_path(app: Holdfast, args: Any, kwargs: Any, said: str) -> None:
    with pytest.raises(PayloadError, match=said):
        app.task(untyped).enqueue(*args, **kwargs)


def test_of_many_the_first_that_does_not_fit_is_named_and_nothing_is_put(app: Holdfast) -> None:
    task: Any = app.task(typed)
    with pytest.raises(ArgumentError, match=r"^\[1\]: typed\(\): a: Expected `int`"):
        task.enqueue_many([(1,), ("2",), ("3",)])
    with pytest.raises(ArgumentError, match=r"^\[2\]: typed\(\): missing a required argument"):
        task.enqueue_many([(1,), (2, "x"), ()])
    with pytest.raises(ArgumentError, match=r"^\[0\]: typed\(\): got an unexpected keyword argument 'c'"):
        task.enqueue_many([task.bind(1, c=2)])
    with pytest.raises(PayloadError, match=r"^\[1\]: a: JSON has no nan"):
        app.task(untyped).enqueue_many([(1,), (float("nan"),)])
    for each in (1, "ab", {"a": 1}, None):
        with pytest.raises(ArgumentError, match=r"^\[0\]: each job needs a tuple of its arguments or bind\(...\), not"):
            task.enqueue_many([each])
    assert app.client.run(app.client.store_at("default", 0).size("jobs")) == 0


def test_a_job_that_is_too_large_is_refused(server: Any) -> None:
    with Holdfast(server.url, max_payload=2000) as app:
        task = app.task(plain)
        task.enqueue("x" * 1800)
        with pytest.raises(PayloadError, match=r"the job would have 2,\d\d\d bytes, 2,000 are allowed: store the data"):
            task.enqueue("x" * 2000)
        with pytest.raises(PayloadError, match=r"^\[1\]: the job would have"):
            task.enqueue_many([(1,), ("\u00e9" * 1000,)])


def test_an_annotation_may_name_what_is_defined_further_down(app: Holdfast) -> None:
    assert handed_over(app, later, (Defined(5),), {}) == ((Defined(5),), {})


class Defined(msgspec.Struct):
    n: int


def test_an_annotation_that_cannot_be_read_says_which_function(app: Holdfast) -> None:
    def broken(thing: Missing) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(OptionError, match=r"an annotation of broken\(\) cannot be read: name 'Missing' is not"):
        app.task(broken).enqueue(1)


def test_an_annotation_that_json_cannot_become_says_which_parameter(app: Holdfast) -> None:
    class One: ...

    class Two: ...

    def broken(fine: int, thing: Any) -> None: ...

    broken.__annotations__["thing"] = One | Two
    with pytest.raises(OptionError, match=r"broken\(\), thing: JSON cannot become .*more than one custom type"):
        app.task(broken).enqueue(1, 2)


def test_a_class_of_ones_own_cannot_be_sent(app: Holdfast) -> None:
    class One: ...

    def task(thing: Any) -> None: ...

    task.__annotations__["thing"] = One
    with pytest.raises(PayloadError, match=r"^thing: One is nothing that JSON could carry"):
        app.task(task).enqueue(One())


def test_models_of_pydantic_are_validated_at_enqueue(app: Holdfast) -> None:
    pydantic = pytest.importorskip("pydantic")

    class Item(pydantic.BaseModel):  # type: ignore[misc, name-defined]
        name: str
        after: timedelta = timedelta(1)

    def task(item: Any, more: Any = ()) -> None: ...

    task.__annotations__.update(item=Item, more=list[Item])
    item = Item(name="a", after=timedelta(seconds=5))
    assert handed_over(app, task, (item, [item]), {}) == ((item, [item]), {})
    with pytest.raises(ArgumentError, match=r"^task\(\): more\[0\]: 1 validation error for Item\nname\n"):
        app.task(task).enqueue(item, [{"nam": "a"}])
