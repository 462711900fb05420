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
#: A path may be as deep as what it leads into.
MAX_PATH = 120
_SCALARS = frozenset({int, str, bool, NoneType})
#: The annotations for which a value of just this type needs no check but that of the encoder itself.
SAFE = frozenset({int, str, bool})
_BYTES = (bytes, bytearray, memoryview)
_encode = msgspec.json.Encoder().encode
#: Values of `SAFE` types, or a tuple of them, as JSON; `OverflowError` or `ValueError` for what JSON cannot carry.
encode_known = _encode


class _Wrong(Exception):
    """What is wrong, and the path to it from the inside out."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.path: list[str] = []

    def described(self, name: str) -> str:
        """The whole path, which begins with *name*, and what is wrong there."""
        path = "".join(reversed(self.path))
        return f"{name}{path if len(path) <= MAX_PATH else path[:MAX_PATH] + '...'}: {self.what}"


def encode(value: Any, name: str, annotated: bool = True) -> bytes:
    """A value as JSON, or `PayloadError` with the path of what JSON cannot carry, beginning with *name*."""
    try:
        return _encode(value if type(value) in _SCALARS else _checked(value, annotated, 0))
    except _Wrong as error:
        raise PayloadError(error.described(name)) from None
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
                raise PayloadError(error.described(names(i))) from None
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
        name = key if type(key) is str else _key(key, annotated)
        if name in checked:
            raise _Wrong(f"two keys would both be {name!r}")
        try:
            checked[name] = value if type(value) in _SCALARS else _checked(value, annotated, depth + 1)
        except _Wrong as error:
            error.path.append(f"[{key!r}]")
            raise
    return checked


def _key(key: Any, annotated: bool) -> str:
    """A key that is no string as the string that its annotation restores."""
    if not annotated:
        raise _Wrong(f"the keys of a JSON object are strings, {key!r} is not; an annotation could restore it")
    if isinstance(key, _BYTES) or (isinstance(key, float) and not math.isfinite(key)):
        raise _Wrong(f"JSON has no such key as {key!r}")
    try:
        return str(next(iter(msgspec.to_builtins({key: None}, str_keys=True, enc_hook=_to_json))))
    except Exception:  # a key of the user's may raise anything
        raise _Wrong(f"the keys of a JSON object are strings, {key!r} cannot be one") from None


def _checked_rich(value: Any, annotated: bool, depth: int) -> Any:
    kind = type(value).__name__
    if isinstance(value, _BYTES):
        raise _Wrong(f"JSON has no {kind}; send text, such as base64, or the place where the data is")
    if not annotated:
        raise _Wrong(f"{kind} would not arrive as such; annotate it, or send what JSON has")
    try:
        built = msgspec.to_builtins(value, builtin_types=_BYTES, enc_hook=_to_json)
    except Exception as error:  # a model of the user's may raise anything
        raise _Wrong(f"{kind} is nothing that JSON could carry ({error})") from None
    if type(built) is type(value):
        raise _Wrong(f"{kind} is nothing that JSON could carry")
    return _checked(built, annotated, depth + 1)


def _to_json(value: Any) -> Any:
    """What msgspec does not know: pydantic's models, where pydantic is there, and who is a number or a text as well."""
    dump = getattr(value, "model_dump", None)
    if dump is not None:
        return dump(mode="json")
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    raise TypeError(f"no known form of {type(value).__name__}")


def _from_json(kind: type, value: Any) -> Any:
    validate = getattr(kind, "model_validate", None)
    if validate is None:
        raise TypeError(f"JSON cannot be turned into a {getattr(kind, '__name__', kind)}")
    return validate(value)


def carried(text: object) -> str:
    """Text that JSON can carry, whatever it is made of: half a surrogate becomes a question mark."""
    return str(text).encode(errors="replace").decode()


def decoder(kind: Any) -> Callable[[bytes | msgspec.Raw], Any]:
    """A function from JSON to values of this type; strict: a string is no number."""
    return msgspec.json.Decoder(Any if kind is object else kind, dec_hook=_from_json).decode
