"""One child process, from its fork to its end. Its one rule: nothing of the supervisor's happens here, least of all its
clean-up at exit.
"""

from __future__ import annotations

import ctypes
import gc
import io
import os
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

from holdfast.engine.store import Store
from holdfast.errors import Unavailable
from holdfast.events import emit, log
from holdfast.runtime.fetcher import Fetcher, Gone
from holdfast.runtime.slots import Slots
from holdfast.settings import WorkerSettings
from holdfast.wire.connect import Address
from holdfast.work import Source

#: How a child ends that was taken for dead, or that has lost the server (EX_TEMPFAIL).
GONE = 75
#: How long a thread may hold the interpreter while the fetcher waits for it; Python's own 5 ms are an age for it.
SWITCH_S = 0.001
_PR_SET_PDEATHSIG = 1


def run_child(
    address: Address, ranks: Sequence[Sequence[Store]], token: str, source: Source, settings: WorkerSettings,
    slots: Slots, control: int, supervisor: int, async_share: float,
) -> NoReturn:  # fmt: skip
    """Be a child until the end."""
    code = 1
    try:
        _die_with(supervisor)
        os.setpgid(0, 0)
        sys.setswitchinterval(SWITCH_S)
        _print_at_once()
        fetcher = Fetcher(address, token, ranks, source, settings, slots, control, async_share)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda *_: fetcher.stop(settings.stop_timeout_s))
        signal.set_wakeup_fd(-1)
        gc.enable()
        emit("child.ready", pid=os.getpid(), token=token)
        fetcher.run()
        code = 0
    except Gone:
        log.warning("child.gone pid=%d token=%s: others took over what it held", os.getpid(), token)
        code = GONE
    except Unavailable as error:
        # No fault of its jobs.
        log.warning("child.ends pid=%d: %s", os.getpid(), error)
        code = GONE
    except BaseException:
        log.exception("child.failed pid=%d", os.getpid())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _print_at_once() -> None:
    """What a job prints is seen when it is printed, also in a file, and is not lost with a child that is killed."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)


def _die_with(supervisor: int) -> None:
    """Ask the kernel to end this process with its parent; where it cannot, the closed control pipe does."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != supervisor:
        os._exit(1)
