"""The driver for threads: links that run calls, a pool of them, and ears for what the server says on its own.

Its one rule: a link has one conversation at a time, and a call whose reply was lost is sent again as the same call.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import redis
from redis.exceptions import NoScriptError

from holdfast.errors import HoldfastError, Unavailable
from holdfast.wire.answer import all_or_raise, available, decoded
from holdfast.wire.call import Call
from holdfast.wire.connect import Address, failure, refusal
from holdfast.wire.library import Arg, Connection, descriptor, pack
from holdfast.wire.repeat import Pauses, Sender

T = TypeVar("T")


class Link:
    """One connection, made when it is needed and again after it broke.

    Example:
        >>> link = Link.open("unix:///run/holdfast/v.sock")
        >>> link.command("PING")
        b'PONG'
    """

    def __init__(self, address: Address) -> None:
        self.address = address
        self.sender = Sender()
        self._connection: Connection | None = None
        self._sent: deque[_Sent] = deque()
        self.last_tail: Any = None

    @classmethod
    def open(cls, url: str, timeout_s: float = 5.0) -> Link:
        """A link that is connected already, or `Unavailable`."""
        link = cls(Address(url, timeout_s))
        link.connect()
        return link

    def connect(self) -> Connection:
        """The connection, made now if there is none."""
        if self._connection is None:
            self._connection = self.address.open()
        return self._connection

    @property
    def is_connected(self) -> bool:
        """Whether what was sent may still be answered."""
        return self._connection is not None

    def close(self) -> None:
        """Hang up; whatever was not answered yet stays unanswered."""
        connection, self._connection = self._connection, None
        self._sent.clear()
        if connection is not None:
            connection.disconnect()

    def fileno(self) -> int:
        """The descriptor to wait on for the reply of what was sent."""
        return descriptor(self.connect())

    def command(self, *args: Arg) -> Any:
        """Run one plain command and return its reply, bytes as they came."""
        self.write(pack(args))
        return self.read()

    def commands(self, *commands: Sequence[Arg]) -> list[Any]:
        """Run several plain commands in one round trip; the first error is raised after all were read."""
        self.write(b"".join(pack(tuple(c)) for c in commands))
        replies = [self._try_read() for _ in commands]
        return all_or_raise([refusal(r) if isinstance(r, redis.ResponseError) else r for r in replies])

    def run(self, call: Call[T], tail: bytes = b"") -> T:
        """Run one call, again and again with the same number until it is answered or time is up."""
        answer: T = self.run_many((call,), tail)[0]
        return answer

    def run_many(self, calls: Sequence[Call[Any]], tail: bytes = b"") -> list[Any]:
        """Run several calls in one round trip; the first error is raised after all were read.

        *tail* is a packed command that travels behind them, such as WAITAOF; its reply goes to `last_tail`.
        """
        return all_or_raise(self.run_each(calls, tail))

    def run_each(self, calls: Sequence[Call[Any]], tail: bytes = b"") -> list[Any]:
        """The same, but where a call failed, its error stands in its place."""
        if self._sent:
            # Whoever sent this was stopped before it had the answers; nobody shall take them for others.
            self.close()
        pauses = Pauses(self.address.timeout_s)
        while True:
            try:
                self.send(calls, tail)
                return available(self.receive())
            except Unavailable:
                self.close()
                if not pauses.sleep():
                    raise

    def send(self, calls: Sequence[Call[Any]], tail: bytes = b"") -> None:
        """Send calls and return at once; `receive` has their answers in the same order."""
        self.write(b"".join([call.packed() for call in calls]) + tail)
        self._sent.append(_Sent(calls, tail))

    def receive(self) -> list[Any]:
        """The decoded answers to the oldest `send`; where a call failed, its error stands in its place."""
        if not self._sent:
            raise Unavailable("the connection was closed before its reply")
        sent = self._sent[0]
        replies = self._replies(sent)
        forgotten = [i for i, reply in enumerate(replies) if isinstance(reply, NoScriptError)]
        if forgotten:
            # What was sent after these calls is answered before they can be said in full.
            for later in self._sent:
                later.replies = self._replies(later)
            whole = _Sent([sent.calls[i] for i in forgotten], sent.tail)
            self.write(b"".join([call.packed_whole() for call in whole.calls]) + whole.tail)
            for i, reply in zip(forgotten, self._replies(whole), strict=True):
                replies[i] = reply
        self._sent.popleft()
        return decoded(sent.calls, replies)

    def conclude(self, call: Call[T]) -> T:
        """The answer to a call that was sent alone, the oldest first; if it was lost, the call is run again."""
        # After an outage others may have been sent anew before this one: their answers are not its own.
        if self._sent and self._sent[0].calls[0] is call:
            try:
                answer: T = all_or_raise(self.receive())[0]
            except Unavailable:
                self.close()
            else:
                return answer
        return self.run(call)

    def _replies(self, sent: _Sent) -> list[Any]:
        if sent.replies is None:
            sent.replies = [self._try_read() for _ in sent.calls]
            self.last_tail = self._try_read() if sent.tail else None
        return sent.replies

    def write(self, data: bytes) -> None:
        """Send packed commands."""
        try:
            self.connect().send_packed_command([data], check_health=False)
        except BaseException as error:
            self.close()
            raise failure(error, self.address.url) from None

    def read(self) -> Any:
        """The next reply; an error reply is raised."""
        reply = self._try_read()
        if isinstance(reply, redis.ResponseError):
            raise refusal(reply)
        return reply

    def _try_read(self) -> Any:
        connection = self._connection
        if connection is None:
            raise Unavailable("the connection was closed before its reply")
        try:
            return connection.read_response(disable_decoding=True)
        except redis.ResponseError as error:
            return error
        except BaseException as error:
            # A reply may still be on its way: nobody may use this conversation again (CVE-2023-28858).
            self.close()
            raise failure(error, self.address.url) from None


class _Sent:
    """Calls on their way, and the replies that had to be read before their turn."""

    __slots__ = ("calls", "replies", "tail")

    def __init__(self, calls: Sequence[Call[Any]], tail: bytes) -> None:
        self.calls = calls
        self.tail = tail
        self.replies: list[Any] | None = None


class Pool:
    """Links for any number of threads, of any process: a forked child starts with an empty pool of its own."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._pid = os.getpid()
        self._free: deque[Link] = deque()

    @contextmanager
    def link(self) -> Iterator[Link]:
        """A link for one conversation."""
        if self._pid != os.getpid():
            self._pid, self._free = os.getpid(), deque()
        try:
            link = self._free.pop()
        except IndexError:
            link = Link(self.address)
        try:
            yield link
        except HoldfastError:
            self._free.append(link)
            raise
        except BaseException:
            # It was stopped somewhere between a question and its answer.
            link.close()
            raise
        self._free.append(link)

    def run(self, call: Call[T]) -> T:
        """Run one call on a free link."""
        with self.link() as link:
            return link.run(call)

    def close(self) -> None:
        """Hang up all free links."""
        while self._free:
            self._free.pop().close()


class Ear:
    """A connection that listens on channels.

    Example:
        >>> ear = Ear(Address("unix:///run/holdfast/v.sock"))
        >>> ear.listen("news")
        >>> ear.hear(timeout_s=0.1)   # (channel, message), or None
    """

    def __init__(self, address: Address) -> None:
        self._link = Link(address)
        self._heard: deque[tuple[str, str]] = deque()

    def listen(self, *channels: str) -> None:
        """Subscribe, and return when the server has confirmed it: from then on nothing is missed."""
        self._change("SUBSCRIBE", channels)

    def ignore(self, *channels: str) -> None:
        """Unsubscribe; what was heard before stays to be read."""
        self._change("UNSUBSCRIBE", channels)

    def hear(self, timeout_s: float) -> tuple[str, str] | None:
        """The next message, or None when the time is over."""
        deadline = time.monotonic() + timeout_s
        while not self._heard:
            remaining = deadline - time.monotonic()
            if not self._poll(max(remaining, 0)):
                return None
        return self._heard.popleft()

    def fileno(self) -> int:
        """The descriptor to wait on."""
        return self._link.fileno()

    def close(self) -> None:
        """Hang up; a listener that comes back must listen anew."""
        self._link.close()
        self._heard.clear()

    def _change(self, word: str, channels: Sequence[str]) -> None:
        if not channels:
            return
        self._link.write(pack((word, *channels)))
        confirmed = 0
        while confirmed < len(channels):
            kind, *rest = self._link.read()
            if kind.decode().upper() == word:
                confirmed += 1
            elif kind == b"message":
                self._heard.append((rest[0].decode(), rest[1].decode()))

    def _poll(self, timeout_s: float) -> bool:
        connection = self._link.connect()
        try:
            if not connection.can_read(timeout=timeout_s):
                return False
        except BaseException as error:
            self._link.close()
            raise failure(error, self._link.address.url) from None
        kind, *rest = self._link.read()
        if kind == b"message":
            self._heard.append((rest[0].decode(), rest[1].decode()))
        return True
