"""What JSON carries arrives as it was, and what it cannot carry is refused with its path."""

from __future__ import annotations

import collections
import dataclasses
import enum
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
import pytest

from holdfast.codec import MAX_DEPTH, MAX_PATH, decoder, encode, encode_all
from holdfast.errors import PayloadError


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Word(enum.StrEnum):
    YES = "yes"


@dataclasses.dataclass
class Point:
    x: float
    tags: list[str] = dataclasses.field(default_factory=list)


class Order(msgspec.Struct):
    id: UUID
    at: datetime
    price: Decimal


class Pair(NamedTuple):
    a: int
    b: str


class Text(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "something else"


class Ratio(float):
    pass


class Count(int):
    pass


def refusal(value: Any, annotated: bool = True) -> str:
    """What one is told, whichever of the two ways the value takes."""
    with pytest.raises(PayloadError) as alone:
        encode(value, "x", annotated)
    with pytest.raises(PayloadError) as among_others:
        encode_all([1, value], lambda i: "ax"[i], [annotated])
    assert str(alone.value) == str(among_others.value)
    return str(alone.value)


@pytest.mark.parametrize(
    "value",
    [None, True, 0, -1, 1 << 63, (1 << 64) - 1, 0.1, -0.0, 1e308, "", "\u00e9\U0001f600\0", [], [[]], {}, {"": None}],
    ids=repr,
)
def test_what_json_has_needs_no_annotation(value: Any) -> None:
    assert decoder(Any)(encode(value, "x", annotated=False)) == value
    assert decoder(Any)(encode_all([value], str, [False])) == [value]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (datetime(2026, 2, 3, 4, 5, 6, 7, UTC), datetime),
        (datetime(2026, 2, 3, 4, 5), datetime),
        (date(2026, 2, 3), date),
        (time(4, 5), time),
        (timedelta(days=-1, microseconds=1), timedelta),
        (UUID(int=5), UUID),
        (Decimal("0.10"), Decimal),
        (Colour.RED, Colour),
        (Level.HIGH, Level),
        (Word.YES, Word),
        (Point(1.5, ["a"]), Point),
        (Order(UUID(int=1), datetime(2026, 1, 1, tzinfo=UTC), Decimal(3)), Order),
        (Pair(1, "b"), Pair),
        ({1, 2}, set[int]),
        (frozenset({"a"}), frozenset[str]),
        ((1, "a"), tuple[int, str]),
        ({1: "a"}, dict[int, str]),
        ({1.5: "a"}, dict[float, str]),
        ({UUID(int=1): [Point(0.5)]}, dict[UUID, list[Point]]),
        ({Colour.RED: 1}, dict[Colour, int]),
        (collections.OrderedDict(b=1, a=2), dict[str, int]),
    ],
    ids=repr,
)
def test_what_an_annotation_restores_arrives_as_it_was(value: Any, kind: Any) -> None:
    arrived = decoder(kind)(encode(value, "x"))
    assert arrived == value
    assert type(arrived) is type(value) or type(value) is collections.OrderedDict


@pytest.mark.parametrize("value", [Text("plain"), Ratio(1.5), Count(7)], ids=["Text", "Ratio", "Count"])
def test_a_kind_of_text_or_number_arrives_as_one(value: Any) -> None:
    base = type(value).__base__
    arrived = decoder(base)(encode(value, "x"))
    assert type(arrived) is base
    assert arrived == value


def test_order_of_members_is_kept() -> None:
    assert encode({"b": 1, "a": 2}, "x") == b'{"b":1,"a":2}'


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (float("nan"), "x: JSON has no nan"),
        (float("-inf"), "x: JSON has no -inf"),
        (Ratio("inf"), "x: JSON has no inf"),
        ([0, [float("inf")]], "x[1][0]: JSON has no inf"),
        ({"a": {"b": float("nan")}}, "x['a']['b']: JSON has no nan"),
        (Point(float("nan")), "x['x']: JSON has no nan"),
        (b"raw", "x: JSON has no bytes; send text, such as base64, or the place where the data is"),
        ((bytearray(),), "x[0]: JSON has no bytearray; "),
        ([memoryview(b"")], "x[0]: JSON has no memoryview; "),
        ("\ud800", "x: JSON cannot carry this: 'utf-8' codec can't encode character '\\ud800'"),
        ({"\ud800": 1}, "x: JSON cannot carry this: "),
        ({b"a": 1}, "x: JSON has no such key as b'a'"),
        ({float("nan"): 1}, "x: JSON has no such key as nan"),
        ({(1, 2): 1}, "x: the keys of a JSON object are strings, (1, 2) cannot be one"),
        ({None: 1}, "x: the keys of a JSON object are strings, None cannot be one"),
        ({1: "a", "1": "b"}, "x: two keys would both be '1'"),
        (object(), "x: object is nothing that JSON could carry"),
        ([1j], "x[0]: complex is nothing that JSON could carry"),
        (range(3), "x: range is nothing that JSON could carry"),
        ((i for i in ()), "x: generator is nothing that JSON could carry"),
        (Exception("no"), "x: Exception is nothing that JSON could carry"),
        (Point, "x: type is nothing that JSON could carry"),
    ],
)
def test_what_json_cannot_carry_is_refused_with_its_path(value: Any, said: str) -> None:
    assert refusal(value).startswith(said)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (datetime(2026, 1, 1, tzinfo=UTC), "x: datetime would not arrive as such; annotate it, or send what JSON has"),
        ([{1}], "x[0]: set would not arrive as such"),
        ({"a": Decimal(1)}, "x['a']: Decimal would not arrive as such"),
        (Point(1), "x: Point would not arrive as such"),
        (Word.YES, "x: Word would not arrive as such"),
        (Text("a"), "x: Text would not arrive as such"),
        ({1: 2}, "x: the keys of a JSON object are strings, 1 is not; an annotation could restore it"),
    ],
)
def test_without_an_annotation_nothing_is_bent_into_shape(value: Any, said: str) -> None:
    assert refusal(value, annotated=False).startswith(said)


def test_as_deep_as_allowed_is_carried_and_one_deeper_is_not() -> None:
    value: Any = 1
    for _ in range(MAX_DEPTH):
        value = [value]
    assert decoder(Any)(encode(value, "x")) == value
    assert refusal([value]).endswith(f"nested deeper than {MAX_DEPTH} levels, or contains itself")


@pytest.mark.parametrize("how", ["list", "dict", "dataclass"])
def test_what_contains_itself_is_refused(how: str) -> None:
    value: Any = {"list": [], "dict": {}, "dataclass": Point(0)}[how]
    match value:
        case list():
            value.append(value)
        case dict():
            value["a"] = value
        case _:
            value.tags = value
    assert "x" in refusal(value)


def test_a_very_deep_value_has_a_short_error() -> None:
    value: Any = 1
    for _ in range(50_000):
        value = {"a key of some length": value}
    assert len(refusal(value)) < MAX_PATH + 100


def test_the_original_is_left_alone() -> None:
    value = {"a": [{1, 2}], "b": (Colour.RED,)}
    encode(value, "x")
    encode_all([value], str, [True])
    assert value == {"a": [{1, 2}], "b": (Colour.RED,)}


def test_decoding_is_strict() -> None:
    for kind, text in ((int, b'"1"'), (str, b"1"), (int, b"1.5"), (bool, b"0"), (int, b"true")):
        with pytest.raises(msgspec.ValidationError):
            decoder(kind)(text)


def test_models_of_pydantic_are_sent_and_restored() -> None:
    pydantic = pytest.importorskip("pydantic")

    class Item(pydantic.BaseModel):  # type: ignore[misc, name-defined]
        name: str
        at: datetime
        price: Decimal = Decimal(1)

    item = Item(name="a", at=datetime(2026, 1, 1, tzinfo=UTC))
    assert decoder(Item)(encode(item, "x")) == item
    assert decoder(list[Item])(encode([item], "x")) == [item]
    with pytest.raises(msgspec.ValidationError, match="name"):
        decoder(list[Item])(b'[{"at": "2026-01-01"}]')
