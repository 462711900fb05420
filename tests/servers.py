"""A real server for tests: on a unix socket in a directory of its own, ended by whoever started it, by its pid."""

from __future__ import annotations

import signal
import subprocess
import tempfile
from pathlib import Path
from shutil import rmtree

from holdfast.errors import HoldfastError
from holdfast.server.config import environment
from holdfast.server.find import find_binary
from holdfast.wire.connect import Address
from holdfast.wire.sync import Link

DURABLE = ("--appendonly", "yes", "--appendfsync", "always")


class Server:
    """One valkey-server; `options` are added to its command line."""

    def __init__(self, *options: str) -> None:
        # A socket's path may have 107 characters at most, and pytest's own directories are longer than that.
        self.directory = Path(tempfile.mkdtemp(prefix="hf-"))
        self.socket = self.directory / "v.sock"
        self.options = options
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"unix://{self.socket}"

    @property
    def address(self) -> Address:
        return Address(self.url)

    def start(self) -> None:
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    find_binary(), "--port", "0", "--unixsocket", str(self.socket), "--dir", str(self.directory),
                    "--save", "", "--enable-debug-command", "local", *self.options,
                ],
                stdout=log, stderr=log, start_new_session=True, env=environment(),
            )  # fmt: skip
        self.wait_until_ready()

    def wait_until_ready(self) -> None:
        """Ask until the server answers, also while it loads its data; it must do so within ten seconds."""
        link = Link(self.address.within(10.0))
        while True:
            assert self.process is not None
            assert self.process.poll() is None, (self.directory / "log").read_text()
            try:
                link.command("PING")
            except HoldfastError:
                link.close()
            else:
                link.close()
                return

    def flush(self) -> None:
        """Forget all data; scripts stay known."""
        link = Link(self.address)
        link.command("FLUSHALL")
        link.close()

    def kill(self, sig: int = signal.SIGKILL) -> None:
        """End it the hard way, and wait until it is gone."""
        assert self.process is not None
        self.process.send_signal(sig)
        self.process.wait()

    def restart(self) -> None:
        self.kill()
        self.start()

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.kill()
        rmtree(self.directory, ignore_errors=True)
