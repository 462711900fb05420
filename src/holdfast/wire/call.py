"""A request as a value. Its one rule: building a call touches no socket, running it changes nothing in the call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from holdfast.wire.library import Arg, pack
from holdfast.wire.script import Script

#: What a call answers. Nothing is ever put into a call, so a call of a list is a call of an iterable.
T_co = TypeVar("T_co", covariant=True)


class Target:
    """A script bound to the fixed keys of one partition, packed once.

    A verb names up to twenty keys, the same ones each time: packing them anew would be most of the cost of a call.
    """

    __slots__ = ("body", "keys", "script")

    def __init__(self, script: Script, keys: Sequence[str]) -> None:
        self.script = script
        self.keys = tuple(keys)
        self.body = _elements(self.keys)

    def pack(self, command: str, script: str, keys: Sequence[str], args: Sequence[Arg]) -> bytes:
        """The bytes of one EVALSHA or EVAL."""
        fixed = len(self.keys)
        head = _elements((command, script, fixed + len(keys)))
        tail = _elements((*keys, *args)) if keys or args else b""
        return b"*%d\r\n%b%b%b" % (3 + fixed + len(keys) + len(args), head, self.body, tail)


class Call(Generic[T_co]):
    """One call of one script: what to send and how to read the answer."""

    __slots__ = ("args", "decode", "keys", "target")

    def __init__(
        self, target: Target, decode: Callable[[Any], T_co], args: Sequence[Arg] = (), keys: Sequence[str] = ()
    ) -> None:
        self.target = target
        self.decode = decode
        self.args = args
        self.keys = keys

    @property
    def name(self) -> str:
        """The script's name, for messages."""
        return self.target.script.name

    def packed(self) -> bytes:
        """The call by the script's digest."""
        return self.target.pack("EVALSHA", self.target.script.sha, self.keys, self.args)

    def packed_whole(self) -> bytes:
        """The call with the script's source, for a server that has forgotten it."""
        return self.target.pack("EVAL", self.target.script.source, self.keys, self.args)

    def __repr__(self) -> str:
        return f"<Call {self.name} {self.args!r:.80}>"


class Plain(Call[T_co]):
    """A single command of the server that needs no script, as a call.

    Only reads and writes that are the same when they are repeated: a lost reply repeats them.
    """

    __slots__ = ("command",)

    def __init__(self, command: Sequence[Arg], decode: Callable[[Any], T_co]) -> None:
        self.command = command
        self.decode = decode

    @property
    def name(self) -> str:
        """The command's name, for messages."""
        return str(self.command[0])

    def packed(self) -> bytes:
        """The command."""
        return pack(tuple(self.command))

    packed_whole = packed

    def __repr__(self) -> str:
        return f"<Plain {self.command!r:.80}>"


def _elements(values: Sequence[Arg]) -> bytes:
    """The elements of a command without its leading count."""
    packed = pack(tuple(values))
    return packed[packed.index(b"\n") + 1 :]
