"""Keeps children running and their leases fresh. Its one rule: it never runs a job, so nothing that a job does can make
it miss a renewal or a death.
"""

from __future__ import annotations

import gc
import json
import os
import random
import select
import signal
import socket
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from typing import NoReturn

from holdfast.clock import mono_s, wall_ms
from holdfast.engine.keys import Partition
from holdfast.engine.model import Renewed
from holdfast.engine.store import Registry, Store
from holdfast.errors import HoldfastError, Unavailable
from holdfast.events import emit, warn
from holdfast.ids import new_token
from holdfast.runtime.child import GONE, run_child
from holdfast.runtime.relay import relay
from holdfast.runtime.slots import Slots
from holdfast.runtime.sweeper import Sweep, sweep_silent, take_back
from holdfast.settings import WorkerSettings
from holdfast.wire.connect import Address
from holdfast.wire.sync import Link
from holdfast.work import Source

#: How often the slots are searched for jobs over their hard limit.
LIMIT_POLL_S = 0.1
IDLE_POLL_S = 0.5
#: A child that dies without having run anything is started again after this long, then twice as long, up to the most.
PAUSE_S, MOST_PAUSE_S = 0.1, 5.0
#: The kernel needs a moment to bring a killed child to its end.
KILL_GRACE_S = 5.0


@dataclass
class Child:
    """A child process as its supervisor sees it."""

    pid: int
    token: str
    slots: Slots
    #: The two ends of the pipe over which it is told things; its end of file tells it that the supervisor is gone.
    ear: int
    mouth: int
    #: The job over its hard limit for which this child was killed.
    overdue: str = ""
    #: Killed by us for no fault of its jobs.
    is_unwanted: bool = False

    def tell(self, line: str) -> None:
        """Say something. A child that is dead already will be found so, one that does not listen must not stop us."""
        with suppress(BrokenPipeError, BlockingIOError):
            os.write(self.mouth, f"{line}\n".encode())

    def kill(self) -> None:
        """End it; it is our child and not waited for yet, so the pid is its own."""
        os.kill(self.pid, signal.SIGKILL)

    def sweep(self, code: int, started: list[str]) -> Sweep:
        """Why it died, and who may have been at fault."""
        if self.overdue:
            return Sweep(self.token, "died", (self.overdue,), "over its hard limit")
        if code in (0, GONE) or self.is_unwanted:
            return Sweep(self.token, "left")
        return Sweep(self.token, "died", tuple(started), f"its process {how_it_ended(code)}")

    def close(self) -> None:
        """It is dead."""
        os.close(self.mouth)
        self.slots.close()


@dataclass
class Vacancy:
    """Where a child should be, and from when on."""

    from_s: float = 0.0
    pause_s: float = PAUSE_S
    child: Child | None = None


def how_it_ended(code: int) -> str:
    """An exit code in words."""
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


class Supervisor:
    """The parent of a worker's children.

    Example:
        >>> Supervisor(address, registry, queues, app.source(), WorkerSettings(processes=2)).run()
    """

    def __init__(
        self, address: Address, registry: Registry, queues: Mapping[str, int], source: Source,
        settings: WorkerSettings, async_share: float = 0.0,
    ) -> None:  # fmt: skip
        self._address = address
        # A call that hangs keeps the supervisor from seeing its children: it must not do so for long.
        self._link = Link(address.within(min(address.timeout_s, settings.lease_s / 5)))
        self._registry = registry
        self._source = source
        self._settings = settings
        self._async_share = async_share
        self._ranks: dict[str, list[Store]] = {}
        self._vacancies = [Vacancy() for _ in range(settings.processes)]
        self._sweeps: deque[tuple[Store, Sweep]] = deque()
        self._renew_s = 0.0
        self._stop_s = float("inf")
        self._is_stopping = False
        self._is_away = False
        self._mercy_s = 0.0
        self._signals: deque[int] = deque()
        self._read, self._write = os.pipe()
        for queue, count in queues.items():
            self._add_queue(queue, count)

    def run(self) -> None:
        """Keep the children running until told to stop."""
        self._listen_to_signals()
        # What is here before the fork is shared by all children, as long as nobody writes to it.
        gc.collect()
        gc.freeze()
        try:
            while True:
                for step in (self._heed_signals, self._reap, self._sweep, self._renew, self._fill, self._limit):
                    self._despite_outages(step)
                if self._is_over():
                    return
                self._wait()
        finally:
            self._end()

    def _is_over(self) -> bool:
        if self._children or not (self._is_stopping or self._settings.drain):
            return False
        # Nobody waits for a server that may never come back: then the leases do what the sweeps should.
        return not self._sweeps or (self._is_stopping and self._is_away)

    @property
    def _children(self) -> list[Child]:
        return [vacancy.child for vacancy in self._vacancies if vacancy.child is not None]

    @property
    def _stores(self) -> list[Store]:
        return [store for rank in self._ranks.values() for store in rank]

    def _add_queue(self, queue: str, count: int) -> None:
        namespace = self._registry.namespace
        self._ranks[queue] = [Store(Partition(namespace, queue, index)) for index in range(count)]

    def _despite_outages(self, step: Callable[[], None]) -> None:
        try:
            step()
        except Unavailable as error:
            if not self._is_away:
                warn("server.away", error=error)
            self._is_away = True

    @contextmanager
    def _apart(self, store: Store) -> Iterator[None]:
        """What is wrong with one partition must not keep us from the others."""
        try:
            yield
        except Unavailable:
            raise
        except HoldfastError as error:
            warn("partition.broken", partition=store.partition, error=error)

    # -- signals and waiting ----------------------------------------------------------------------

    def _listen_to_signals(self) -> None:
        for fd in (self._read, self._write):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            # `nohup` asks that a closed terminal does not matter.
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, lambda number, _: self._signals.append(number))

    def _heed_signals(self) -> None:
        while self._signals:
            number = self._signals.popleft()
            if self._is_stopping:
                emit("worker.killing", signal=signal.Signals(number).name)
                self._kill_all()
            else:
                self.stop()

    def stop(self) -> None:
        """Let the children end what runs, as long as they may."""
        self._is_stopping = True
        timeout_s = self._settings.stop_timeout_s
        self._stop_s = mono_s() + timeout_s + KILL_GRACE_S
        emit("worker.stopping", timeout_s=timeout_s, children=len(self._children))
        for child in self._children:
            child.tell(f"stop {timeout_s}")

    def _kill_all(self) -> None:
        for child in self._children:
            child.is_unwanted = True
            child.kill()

    def _wait(self) -> None:
        limited = any(job.deadline_s for child in self._children for job in child.slots.started())
        pause = LIMIT_POLL_S if limited or self._sweeps else IDLE_POLL_S
        pending = [vacancy.from_s for vacancy in self._vacancies if vacancy.child is None and not self._is_stopping]
        until = min([mono_s() + pause, self._renew_s, *pending])
        if select.select([self._read], [], [], max(until - mono_s(), 0.001))[0]:
            os.read(self._read, 4096)

    # -- children ---------------------------------------------------------------------------------

    def _fill(self) -> None:
        """Start a child wherever one is missing."""
        for vacancy in self._vacancies:
            if vacancy.child is None and vacancy.from_s <= mono_s() and not self._is_stopping:
                vacancy.child = self._start()

    def _start(self) -> Child:
        token = new_token()
        # Known to the store before it can claim anything: whatever becomes of it, its jobs are found.
        self._renewals([token], self._stores, enlist=True)
        self._link.run(self._registry.announce(token, self._presence()))
        count = self._settings.threads + self._settings.async_slots
        child = Child(0, token, Slots(count), *os.pipe())
        os.set_blocking(child.mouth, False)
        supervisor = os.getpid()
        child.pid = os.fork()
        if not child.pid:
            self._become(child, supervisor)
        os.close(child.ear)
        emit("child.started", pid=child.pid, token=token)
        return child

    def _become(self, child: Child, supervisor: int) -> NoReturn:
        for other in [child, *self._children]:
            os.close(other.mouth)
        self._link.close()
        signal.set_wakeup_fd(-1)
        os.close(self._read)
        os.close(self._write)
        run_child(
            self._address, list(self._ranks.values()), child.token, self._source, self._settings, child.slots,
            child.ear, supervisor, self._async_share,
        )  # fmt: skip

    def _renewals(
        self, tokens: Sequence[str], stores: Sequence[Store], enlist: bool = False
    ) -> list[tuple[Store, Renewed]]:
        """Renew these leases wherever one can, in one round trip."""
        lease_ms = int(self._settings.lease_s * 1000)
        answers = self._link.run_each([store.renew(lease_ms, tokens, enlist) for store in stores])
        renewals = []
        for store, answer in zip(stores, answers, strict=True):
            with self._apart(store):
                if isinstance(answer, HoldfastError):
                    raise answer
                renewals.append((store, answer))
        return renewals

    def _presence(self) -> bytes:
        return json.dumps(
            {"host": socket.gethostname(), "supervisor": os.getpid(), "queues": list(self._ranks), "since": wall_ms()}
        ).encode()

    def _reap(self) -> None:
        for vacancy in self._vacancies:
            child = vacancy.child
            if child is None:
                continue
            pid, status = os.waitpid(child.pid, os.WNOHANG)
            if pid:
                vacancy.child = None
                self._bury(vacancy, child, os.waitstatus_to_exitcode(status))

    def _bury(self, vacancy: Vacancy, child: Child, code: int) -> None:
        started = [job.id for job in child.slots.started()]
        sweep = child.sweep(code, started)
        self._sweeps.extend((store, sweep) for store in self._stores)
        child.close()
        if code == 0:
            emit("child.ended", pid=child.pid)
        else:
            warn("child.died", pid=child.pid, how=how_it_ended(code), jobs=",".join(started) or "none")
        vacancy.from_s = mono_s()
        if code == 0 and self._settings.drain:
            vacancy.from_s = float("inf")
        elif code not in (0, GONE) and not started:
            # It is not a job that ends it: to start it again and again would help nobody.
            vacancy.from_s += vacancy.pause_s
            vacancy.pause_s = min(vacancy.pause_s * 2, MOST_PAUSE_S)
        else:
            vacancy.pause_s = PAUSE_S

    def _sweep(self) -> None:
        """Take back what dead children held."""
        while self._sweeps:
            store, sweep = self._sweeps[0]
            with self._apart(store):
                take_back(self._link, store, sweep, self._settings.max_crashes)
                relay(self._link, store)
            if all(later is not sweep for _, later in islice(self._sweeps, 1, None)):
                self._forget([sweep.token])
            self._sweeps.popleft()

    def _limit(self) -> None:
        """End children with a job over its hard limit, and those that do not stop."""
        now = mono_s()
        if self._stop_s <= now:
            self._stop_s = float("inf")
            self._kill_all()
        for child in self._children:
            overdue = next((job for job in child.slots.started() if 0 < job.deadline_s <= now), None)
            if overdue is not None and not child.overdue:
                warn("job.overdue", id=overdue.id, pid=child.pid)
                child.overdue = overdue.id
                child.kill()

    # -- leases -----------------------------------------------------------------------------------

    def _renew(self) -> None:
        now = mono_s()
        if now < self._renew_s:
            return
        lease_s = self._settings.lease_s
        # Until it has worked it is tried more often: there is less than a lease left.
        self._renew_s = now + min(lease_s / 10, 1.0)
        renewals = self._renewals([child.token for child in self._children], self._stores)
        for _, renewed in renewals:
            self._heed_renewal(renewed)
        self._renew_s = now + min(lease_s / 3 * random.uniform(0.9, 1.1), 5.0)  # noqa: S311 - spreading load
        if self._is_away:
            emit("server.back")
            self._is_away = False
            # Nobody could renew meanwhile: all get the time for it before anybody is taken for dead.
            self._mercy_s = now + lease_s
        for store, renewed in renewals:
            with self._apart(store):
                if self._mercy_s <= now:
                    silent = sweep_silent(self._link, store, renewed.now, self._settings.max_crashes)
                    self._forget(silent)
                relay(self._link, store)
        self._look_for_queues()

    def _heed_renewal(self, renewed: Renewed) -> None:
        for child in self._children:
            if child.token in renewed.gone:
                # Others run its jobs already: the less it still does, the better.
                warn("child.gone", pid=child.pid, token=child.token)
                child.is_unwanted = True
                child.kill()
            for id in renewed.cancels:
                child.tell(f"cancel {id}")

    def _forget(self, tokens: Sequence[str]) -> None:
        if tokens:
            self._link.run(self._registry.forget(tokens))

    def _look_for_queues(self) -> None:
        """A worker that was not told which queues to serve serves those as well that appear later."""
        if self._settings.queues:
            return
        for queue, count in self._link.run(self._registry.queues()).items():
            if queue not in self._ranks:
                self._add_queue(queue, count)
                self._renewals([child.token for child in self._children], self._ranks[queue], enlist=True)
                for child in self._children:
                    child.tell(f"feed {queue} {count}")

    def _end(self) -> None:
        """Leave nothing behind, however this ends."""
        signal.set_wakeup_fd(-1)
        for child in self._children:
            child.kill()
            os.waitpid(child.pid, 0)
            child.close()
        self._link.close()
        for fd in (self._read, self._write):
            os.close(fd)
