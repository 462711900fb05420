"""What lies in the store for one job: JSON that a program in any language may write.

    {"task": "shop.send", "args": [42], "kwargs": {"copy": true}, "retries": 3, "timeout": 30}

Only `task` is needed. `retries`, `timeout`, `hard_timeout` and `result_ttl` override the task's own.
Its one rule: what is unknown or odd is refused, never guessed.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from holdfast.codec import carried
from holdfast.errors import PayloadError
from holdfast.tasks.ends import MAX_DELAY_S
from holdfast.tasks.signature import NO_ARGS
from holdfast.tasks.step import Line

_NO_RAW = msgspec.Raw(b"")
_NO_ARGS_RAW = msgspec.Raw(NO_ARGS)


#: What comes from elsewhere was not checked when it was put, and one odd number must not spoil a whole batch.
Seconds = Annotated[float, msgspec.Meta(ge=0, le=MAX_DELAY_S)]


class Envelope(msgspec.Struct, forbid_unknown_fields=True):
    """One job as it lies in the store; arguments are decoded later, by the signature of its task."""

    task: str
    args: msgspec.Raw = _NO_ARGS_RAW
    kwargs: msgspec.Raw = _NO_RAW
    retries: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] | None = None
    timeout: Seconds | None = None
    hard_timeout: Seconds | None = None
    result_ttl: Seconds | None = None


OVERRIDES = ("retries", "timeout", "hard_timeout", "result_ttl")
open_envelope = msgspec.json.Decoder(Envelope).decode
_encode = msgspec.json.Encoder().encode


def head(task: str) -> bytes:
    """The part of an envelope that is the same for every job of a task."""
    return b'{"task":' + _encode(task)


def tail(overrides: dict[str, Any]) -> bytes:
    """The end of an envelope with what one job has otherwise than its task."""
    return b"".join(b',"%b":%b' % (name.encode(), _encode(value)) for name, value in overrides.items()) + b"}"


def seal(head: bytes, args: bytes, kwargs: bytes, tail: bytes, max_bytes: int) -> bytes:
    """An envelope, or `PayloadError` if it is too large."""
    body = head if args == NO_ARGS else head + b',"args":' + args
    envelope = body + b',"kwargs":' + kwargs + tail if kwargs else body + tail
    if len(envelope) > max_bytes:
        raise PayloadError(
            f"the job would have {len(envelope):,} bytes, {max_bytes:,} are allowed: store the data elsewhere and send"
            " its place, or raise Holdfast(max_payload=...)"
        )
    return envelope


class Record(msgspec.Struct, omit_defaults=True):
    """How a job ended, as long as it is kept."""

    status: str
    result: msgspec.Raw = msgspec.Raw(b"null")
    reason: str = ""
    log: list[Line] = []


open_record = msgspec.json.Decoder(Record).decode


def done_record(result: bytes, log: list[Line] | None = None) -> bytes:
    """The record of a success."""
    head = b'{"status":"done","result":' + result
    return head + b',"log":' + _encode(log) + b"}" if log else head + b"}"


def ended_record(status: str, reason: str, log: list[Line] | None = None) -> bytes:
    """The record of any other end."""
    return _encode(Record(status, reason=carried(reason), log=log or []))
