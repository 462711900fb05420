"""What a child hears: its supervisor, the bells of the server, and its own threads. Its one rule: it says what it heard
and decides nothing.
"""

from __future__ import annotations

import os
import select
from collections.abc import Collection, Iterator
from typing import NamedTuple

from holdfast.errors import Unavailable
from holdfast.wire.connect import Address
from holdfast.wire.sync import Ear


class Heard(NamedTuple):
    """Something that was said.

    `stop`, `cancel` and `feed` come from the supervisor, `bell` and `wish` from the server; `anew` says that some of
    the server's may have been missed.
    """

    word: str
    rest: str = ""


class Senses:
    """The three descriptors that a child waits on.

    Example:
        >>> for word, rest in senses.wait(1.0, for_ends=True):
        ...     ...
    """

    def __init__(self, address: Address, control: int) -> None:
        self._ear = Ear(address)
        self._control = control
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self._channels: dict[str, str] = {}
        self._is_listening = False
        self._asleep = False

    def listen(self, channels: Collection[str], word: str) -> None:
        """Hear these as well, under this word, from the next wait on."""
        self._channels.update(dict.fromkeys(channels, word))
        self._is_listening = False

    def reconnect(self) -> None:
        """The server was away: what was said meanwhile is lost, so listen anew."""
        self._is_listening = False

    def wake(self) -> None:
        """End the wait of the fetcher, if it waits for ends of jobs; any thread may call."""
        if self._asleep:
            self._asleep = False
            self.poke()

    def poke(self) -> None:
        """End the wait of the fetcher, also from a signal handler."""
        try:
            os.write(self._write, b".")
        except BlockingIOError:
            return  # It is full of pokes

    def wait(self, timeout_s: float, for_ends: bool, has_ends: Collection[object] = ()) -> Iterator[Heard]:
        """Wait for something to be said; with *for_ends* also until `wake`, unless *has_ends* has some already."""
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(self._read, select.POLLIN)
        was_deaf = not self._is_listening
        ear = self._listening_ear()
        if ear >= 0:
            poll.register(ear, select.POLLIN)
            if was_deaf:
                yield Heard("anew")
                timeout_s = 0.0
        self._asleep = for_ends
        if for_ends and has_ends:
            timeout_s = 0.0
        # Rounded up: a scheduled job must not make the fetcher spin through the last millisecond.
        ready = {fd for fd, _ in poll.poll(int(timeout_s * 1000) + 1 if timeout_s else 0)}
        self._asleep = False
        if self._read in ready:
            os.read(self._read, 4096)
        if self._control in ready:
            yield from self.control()
        if ear in ready:
            yield from self._bells()

    def control(self) -> Iterator[Heard]:
        """What the supervisor says; without one, this is the end."""
        if not select.select([self._control], [], [], 0)[0]:
            return
        said = os.read(self._control, 65536)
        if not said:
            # Nobody renews our lease any more.
            os._exit(1)
        for line in said.decode().splitlines():
            word, _, rest = line.partition(" ")
            yield Heard(word, rest)

    def close(self) -> None:
        """Hear nothing any more."""
        self._ear.close()
        os.close(self._read)
        os.close(self._write)

    def _listening_ear(self) -> int:
        try:
            if not self._is_listening:
                self._ear.close()
                self._ear.listen(*self._channels)
                self._is_listening = True
            return self._ear.fileno()
        except Unavailable:
            return -1

    def _bells(self) -> Iterator[Heard]:
        try:
            while (message := self._ear.hear(0)) is not None:
                channel, text = message
                word = self._channels[channel]
                yield Heard(word, channel if word == "bell" else text)
        except Unavailable:
            self._is_listening = False
