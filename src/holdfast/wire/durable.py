"""How sure a put is, asked in the same breath. Its one rule: WAIT and WAITAOF look at the last write of their own
connection, so they travel right behind the put, and a repeated put writes something however small.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from redis import ResponseError

from holdfast.wire.library import pack


@dataclass(frozen=True, slots=True)
class Tail:
    """A command behind a put, and what its reply must be."""

    packed: bytes
    wanted: str

    def doubt(self, reply: Any) -> str:
        """Why the put may not be as durable as asked for; '' if it is."""
        if isinstance(reply, ResponseError):
            return f"the server cannot confirm {self.wanted}: {reply}"
        count = reply[0] if isinstance(reply, list) else reply
        return "" if count else f"{self.wanted} was not confirmed in time"


def tail_for(durability: Literal["server", "fsync", "replica"], timeout_s: float) -> Tail | None:
    """What to send behind a put; nothing where the server's own word is enough."""
    # The server looks at its own timers ten times a second, and its answer must come before we stop listening.
    timeout_ms = int(max(timeout_s * 500, timeout_s * 1000 - 500))
    if durability == "fsync":
        return Tail(pack(("WAITAOF", 1, 0, timeout_ms)), "the write to the server's disk")
    if durability == "replica":
        return Tail(pack(("WAIT", 1, timeout_ms)), "the copy on a replica")
    return None
