"""From replies to answers, for both drivers. Its one rule: where a call failed, its error stands in its place, until
somebody asks for it to be raised.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import redis

from holdfast.errors import HoldfastError, Unavailable
from holdfast.wire.call import Call
from holdfast.wire.connect import refusal


def decoded(calls: Sequence[Call[Any]], replies: Sequence[Any]) -> list[Any]:
    """The answers to calls; the server's refusals as our errors."""
    return [
        refusal(reply) if isinstance(reply, redis.ResponseError) else call.decode(reply)
        for call, reply in zip(calls, replies, strict=True)
    ]


def available(answers: list[Any]) -> list[Any]:
    """Answers and errors, unless one of them says that the server cannot do it now."""
    for answer in answers:
        if isinstance(answer, Unavailable):
            raise answer
    return answers


def all_or_raise(answers: list[Any]) -> list[Any]:
    """Answers, or the first error among them."""
    for answer in answers:
        if isinstance(answer, HoldfastError):
            raise answer
    return answers
