"""A function's parameters as JSON. Its one rule: what `enqueue` accepts is exactly what a worker will accept."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from types import NoneType, UnionType
from typing import Any, Union, Unpack, get_args, get_origin, get_type_hints

import msgspec

from holdfast.codec import SAFE, decoder, encode, encode_all, encode_known
from holdfast.errors import ArgumentError, OptionError
from holdfast.tasks.ends import End

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_PATH = re.compile(r" - at `\$(.*)`$")
NO_ARGS = b"[]"


class _Bare(str):
    """An annotation that was not evaluated, which Python would show as the text that it is."""

    __slots__ = ()
    __repr__ = str.__str__

    @classmethod
    def of(cls, annotation: Any) -> Any:
        return cls(annotation) if isinstance(annotation, str) else annotation


class Signature:
    """What a function takes and returns.

    Example:
        >>> signature = Signature(add)
        >>> args, kwargs = signature.encode((1, 2), {})
        >>> signature.decode(args, kwargs)
        ((1, 2), {})
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self._signature = inspect.signature(function)
        #: Its name in errors; where it was defined is of no use there.
        self._title = function.__qualname__.rpartition("<locals>.")[2]
        parameters = list(self._signature.parameters.values())
        self._positional = [p for p in parameters if p.kind in _POSITIONAL]
        named = [p for p in parameters if p.kind in _BY_NAME]
        self._named = frozenset(p.name for p in named)
        self._required = sum(p.default is p.empty for p in self._positional)
        self._kwargs_needed = any(p.kind is p.KEYWORD_ONLY and p.default is p.empty for p in parameters)
        var = [p for p in parameters if p.kind is p.VAR_POSITIONAL]
        self._rest = var[0] if var else None
        self._others = next((p.name for p in parameters if p.kind is p.VAR_KEYWORD), "")
        self._most = 1 << 30 if var else len(self._positional)
        self._decoders: dict[int, Callable[[Any], Any]] = {}

    def encode(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[bytes, bytes]:
        """Arguments as a JSON array and a JSON object (b'' if empty), checked as a worker will check them."""
        if not kwargs and tuple(map(type, args)) in self._exact:
            # Most arguments are: then there is nothing left to check.
            try:
                return encode_known(args), b""
            except (OverflowError, ValueError):
                pass  # What is wrong with them is said below, with its path
        if kwargs or not self._fits(len(args)):
            args, kwargs = self._bind(args, kwargs)
        packed = encode_all(list(args), self._name, self._annotated) if args else NO_ARGS
        packed_kwargs = self._encode_kwargs(kwargs) if kwargs else b""
        if self._is_typed:
            self.decode(packed, packed_kwargs)
        return packed, packed_kwargs

    def decode(self, args: bytes | msgspec.Raw, kwargs: bytes | msgspec.Raw) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments from JSON, as the annotations want them."""
        try:
            named = self._decode_kwargs(kwargs) if kwargs else {}
            values = self._decode_args(args, self._count(args, bool(named)))
        except msgspec.ValidationError as error:
            raise ArgumentError(f"{self._title}(): {self._translated(str(error))}") from None
        if named or not self._fits(len(values)):
            self._bind(values, named)
        return values, named

    def decode_result(self) -> Callable[[bytes | msgspec.Raw], Any]:
        """The decoder for what the function returns."""
        return decoder(self._types.get("return", Any))

    @cached_property
    def returns_nothing(self) -> bool:
        """Whether the function is annotated `-> None`."""
        return self._types.get("return", Any) is type(None)

    @cached_property
    def returns_known(self) -> bool:
        """Whether an annotation can restore what the function returns."""
        return self._types.get("return", Any) is not Any

    @cached_property
    def _types(self) -> dict[str, Any]:
        # Not at decoration: an annotation may name what is defined further down.
        try:
            types = get_type_hints(self.function, include_extras=True)
        except Exception as error:
            raise OptionError(f"an annotation of {self._title}() cannot be read: {error}") from error
        for name, kind in types.items():
            types[name] = self._decodable(name, kind)
        return types

    def _decodable(self, name: str, kind: Any) -> Any:
        """A type that JSON can be turned into; where it says something about all the rest, what it says of each."""
        if name == "return":
            kind = _without_ends(kind)
        if get_origin(kind) is Unpack or kind is object:
            return Any
        try:
            decoder(kind)
        except (TypeError, NameError, RecursionError) as error:
            if name == "return":
                return Any
            raise OptionError(f"{self._title}(), {name}: JSON cannot become {kind}: {error}") from None
        return kind

    def _kind(self, name: str) -> Any:
        """What an argument that is given by name should be."""
        return self._types.get(name if name in self._named else self._others, Any)

    @cached_property
    def _annotated(self) -> list[bool]:
        """Whether each positional parameter says what it is; the last one speaks for *args."""
        rest = [self._rest.name] if self._rest else []
        names = [p.name for p in self._positional] + rest
        return [self._types.get(name, Any) is not Any for name in names] or [False]

    @cached_property
    def _exact(self) -> frozenset[tuple[type, ...]]:
        """The types of positional arguments that fit as they are: what JSON has, and what the annotations say."""
        if self._rest or self._kwargs_needed:
            return frozenset()
        kinds = [self._types.get(p.name, Any) for p in self._positional]
        counts = range(self._required, len(kinds) + 1)
        return frozenset(tuple(kinds[:count]) for count in counts if all(kind in SAFE for kind in kinds[:count]))

    @cached_property
    def _is_typed(self) -> bool:
        return any(kind is not Any for name, kind in self._types.items() if name != "return")

    def takes(self, name: str) -> bool:
        """Whether there is a parameter that may be given by this name."""
        return name in self._named or bool(self._others)

    def __str__(self) -> str:
        """The function as its user wrote it."""
        parameters = [p.replace(annotation=_Bare.of(p.annotation)) for p in self._signature.parameters.values()]
        return f"{self._title}{inspect.Signature(parameters)}"

    def _fits(self, count: int) -> bool:
        return self._required <= count <= self._most and not self._kwargs_needed

    def _bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise ArgumentError(f"{self._title}(): {error}; it is {self}") from None
        return bound.args, bound.kwargs

    def _name(self, i: int) -> str:
        if i < len(self._positional):
            return self._positional[i].name
        rest = self._rest.name if self._rest else "args"
        return f"{rest}[{i - len(self._positional)}]"

    def _encode_kwargs(self, kwargs: dict[str, Any]) -> bytes:
        members = [
            encode(key, key) + b":" + encode(value, key, self._kind(key) is not Any) for key, value in kwargs.items()
        ]
        return b"{" + b",".join(members) + b"}"

    def _decode_args(self, args: bytes | msgspec.Raw, count: int) -> tuple[Any, ...]:
        decode = self._decoders.get(count)
        if decode is None:
            decode = self._decoders[count] = decoder(self._tuple(count))
        values: tuple[Any, ...] = decode(args)
        return values

    def _count(self, args: bytes | msgspec.Raw, some_by_name: bool) -> int:
        # Most functions have no defaults and no *args: then only one length can be right.
        if self._required == self._most and not some_by_name:
            return self._required
        return len(_count_items(args))

    def _tuple(self, count: int) -> Any:
        kinds = [self._types.get(p.name, Any) for p in self._positional[:count]]
        if self._rest:
            kinds += [self._types.get(self._rest.name, Any)] * (count - len(kinds))
        return tuple[tuple(kinds)] if kinds else tuple[()]  # type: ignore[misc]

    def _decode_kwargs(self, kwargs: bytes | msgspec.Raw) -> dict[str, Any]:
        named = {}
        for key, raw in _raw_members(kwargs).items():
            try:
                named[key] = decoder(self._kind(key))(raw)
            except msgspec.ValidationError as error:
                raise msgspec.ValidationError(_prefixed(str(error), key)) from None
        return named

    def _translated(self, message: str) -> str:
        """The message of msgspec with our parameters' names in place of positions."""
        found = _PATH.search(message)
        if found is None:
            return message
        path = found[1]
        position = re.match(r"\[(\d+)\]", path)
        if position:
            path = self._name(int(position[1])) + path[position.end() :]
        return f"{path}: {message[: found.start()]}"


_count_items = msgspec.json.Decoder(list[msgspec.Raw]).decode
_raw_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def _without_ends(kind: Any) -> Any:
    """What is left of `int | Retry` as a result; nothing, of an end alone."""
    if get_origin(kind) in (Union, UnionType):
        left = tuple(part for part in get_args(kind) if not _is_end(part))
        return Union[left] if left else NoneType  # noqa: UP007 - these are values
    return NoneType if _is_end(kind) else kind


def _is_end(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, End)


def _prefixed(message: str, key: str) -> str:
    found = _PATH.search(message)
    return f"{message[: found.start()]} - at `${key}{found[1]}`" if found else f"{message} - at `${key}`"
