"""How much to have in hand. Its one rule: short jobs travel by the hundred, and no long job waits here for another one
while a neighbour idles. Pure arithmetic; the time is told to it.
"""

from __future__ import annotations

#: As many jobs as end within this time may wait here beside those that run.
AHEAD_S = 0.020
#: What waits longer than this is given back.
PATIENCE_S = 0.100
MOST = 4000


class Pace:
    """Jobs a second, as they ended lately.

    Example:
        >>> pace = Pace()
        >>> pace.begin(now_s=0.0)
        >>> pace.note(100, now_s=0.01)
        >>> pace.ahead
        200
    """

    def __init__(self) -> None:
        self._rate = 0.0
        self._since_s = 0.0
        self._count = 0
        self._idle_s: float | None = 0.0

    @property
    def ahead(self) -> int:
        """How many jobs may wait here."""
        return min(int(self._rate * AHEAD_S), MOST)

    @property
    def patience(self) -> int:
        """How many of the jobs that wait here will have been started before patience is over."""
        return int(self._rate * PATIENCE_S)

    def begin(self, now_s: float) -> None:
        """There is something to run again; the time without work does not count."""
        if self._idle_s is not None:
            self._since_s += now_s - self._idle_s
            self._idle_s = None

    def rest(self, now_s: float) -> None:
        """There is nothing to run any more."""
        if self._idle_s is None:
            self._idle_s = now_s

    def note(self, ended: int, now_s: float) -> None:
        """So many have ended since the last call."""
        self._count += ended
        passed_s = now_s - self._since_s
        # A rate needs some ends to be one; without ends it falls as the time goes by.
        if self._count >= 5 or passed_s >= PATIENCE_S:
            self._rate = self._count / max(passed_s, 1e-6)
            self._since_s, self._count = now_s, 0
