"""Values to JSON and back. Its one rule: what JSON cannot carry is refused with its path, never bent into shape.

JSON has no bytes, no NaN and no keys but strings; msgspec would write the first as text, the second as null. What an
annotation can restore (dataclasses, Structs, datetimes, UUIDs, Decimals, enums, pydantic's models) may be sent where
there is such an annotation, and only there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import NoneType
from typing import Any

import msgspec

from holdfast.errors import PayloadError

MAX_DEPTH = 64
_SCALARS = frozenset({int, str, bool, NoneType})
_BYTES = (bytes, bytearray, memoryview)
_encode = msgspec.json.Encoder().encode


class _Wrong(Exception):
    """What is wrong, and the path to it from the inside out."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.path: list[str] = []


def encode(value: Any, name: str, annotated: bool = True) -> bytes:
    """A value as JSON, or `PayloadError` with the path of what JSON cannot carry, beginning with *name*."""
    try:
        return _encode(value if type(value) in _SCALARS else _checked(value, annotated, 0))
    except _Wrong as error:
        raise PayloadError(f"{name}{''.join(reversed(error.path))}: {error.what}") from None
    except (OverflowError, ValueError) as error:
        raise PayloadError(f"{name}: JSON cannot carry this: {error}") from None


def encode_all(values: list[Any], names: Callable[[int], str], annotated: list[bool]) -> bytes:
    """Several values as one JSON array; *names* names each of them in errors."""
    checked = values
    for i, value in enumerate(values):
        if type(value) not in _SCALARS:
            try:
                inner = _checked(value, annotated[i] if i < len(annotated) else annotated[-1], 0)
            except _Wrong as error:
                raise PayloadError(f"{names(i)}{''.join(reversed(error.path))}: {error.what}") from None
            if inner is not value:
                checked = list(checked) if checked is values else checked
                checked[i] = inner
    try:
        return _encode(checked)
    except (OverflowError, ValueError):
        for i, value in enumerate(checked):
            encode(value, names(i))
        raise


def _checked(value: Any, annotated: bool, depth: int) -> Any:
    kind = type(value)
    if kind in _SCALARS:
        return value
    if depth >= MAX_DEPTH:
        raise _Wrong(f"nested deeper than {MAX_DEPTH} levels, or contains itself")
    if kind is float:
        if not math.isfinite(value):
            raise _Wrong(f"JSON has no {value}")
        return value
    if kind is list or kind is tuple:
        return _checked_items(value, annotated, depth)
    if kind is dict:
        return _checked_dict(value, annotated, depth)
    return _checked_rich(value, annotated, depth)


def _checked_items(values: Any, annotated: bool, depth: int) -> Any:
    checked = []
    for i, value in enumerate(values):
        try:
            checked.append(value if type(value) in _SCALARS else _checked(value, annotated, depth + 1))
        except _Wrong as error:
            error.path.append(f"[{i}]")
            raise
    return checked


def _checked_dict(values: dict[Any, Any], annotated: bool, depth: int) -> dict[Any, Any]:
    checked = {}
    for key, value in values.items():
        if type(key) is not str and not annotated:
            raise _Wrong(f"the keys of a JSON object are strings, {key!r} is not; an annotation could restore it")
        try:
            checked[key] = value if type(value) in _SCALARS else _checked(value, annotated, depth + 1)
        except _Wrong as error:
            error.path.append(f"[{key!r}]")
            raise
    return checked


def _checked_rich(value: Any, annotated: bool, depth: int) -> Any:
    kind = type(value).__name__
    if isinstance(value, _BYTES):
        raise _Wrong(f"JSON has no {kind}; send text, such as base64, or the place where the data is")
    if not annotated:
        raise _Wrong(f"a {kind} would not arrive as one; annotate it, or send what JSON has")
    try:
        built = msgspec.to_builtins(value, builtin_types=_BYTES, enc_hook=_to_json)
    except (TypeError, ValueError, RecursionError) as error:
        raise _Wrong(f"a {kind} is nothing that JSON could carry ({error})") from None
    if type(built) is type(value):
        raise _Wrong(f"a {kind} is nothing that JSON could carry")
    return _checked(built, annotated, depth + 1)


def _to_json(value: Any) -> Any:
    """What msgspec does not know: pydantic's models, where pydantic is there."""
    dump = getattr(value, "model_dump", None)
    if dump is None:
        raise TypeError(f"no known form of {type(value).__name__}")
    return dump(mode="json")


def _from_json(kind: type, value: Any) -> Any:
    validate = getattr(kind, "model_validate", None)
    if validate is None:
        raise TypeError(f"JSON cannot be turned into a {getattr(kind, '__name__', kind)}")
    return validate(value)


def decoder(kind: Any) -> Callable[[bytes | msgspec.Raw], Any]:
    """A function from JSON to values of this type; strict: a string is no number."""
    return msgspec.json.Decoder(kind, dec_hook=_from_json).decode
