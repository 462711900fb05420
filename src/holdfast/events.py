"""What happened, by name, for logs and for whoever listens. Its one rule: no listener can hurt who reports.

Example:
    >>> events.subscribe(lambda name, facts: print(name, facts))
    >>> events.emit("child.started", pid=4711)
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

log = logging.getLogger("holdfast")
Listener = Callable[[str, dict[str, Any]], None]
_listeners: list[Listener] = []


def subscribe(listener: Listener) -> None:
    """Call this for every event from now on."""
    _listeners.append(listener)


def emit(name: str, level: int = logging.INFO, **facts: Any) -> None:
    """Report an event: one line of the log, one call of each listener."""
    if log.isEnabledFor(level):
        log.log(level, "%s %s", name, " ".join(f"{key}={value}" for key, value in facts.items()))
    for listener in _listeners:
        try:
            listener(name, facts)
        except Exception:
            log.exception("a listener failed at %s", name)


def warn(name: str, **facts: Any) -> None:
    """Report an event that somebody should look at."""
    emit(name, logging.WARNING, **facts)
