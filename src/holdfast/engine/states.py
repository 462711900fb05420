"""Where an entry can be and where it can go from there. Its one rule: what is not in this table does not happen.

A test compares it with the scripts' `moves:` lines; PROTOCOL.md shows it.
"""

from __future__ import annotations

#: Verb -> (from, to) pairs. '-' is outside: not put yet, or gone.
MOVES: dict[str, frozenset[tuple[str, str]]] = {
    "put": frozenset({("-", "ready"), ("-", "later"), ("-", "line")}),
    "fire": frozenset({("-", "ready"), ("-", "later"), ("-", "line")}),
    "claim": frozenset(
        {
            ("later", "ready"),
            ("later", "line"),
            ("inbox", "ready"),
            ("ready", "held"),
            ("suspects", "held"),
        }
    ),
    "finish": frozenset({("held", "-")}),
    "settle": frozenset(
        {
            ("held", "-"),
            ("held", "later"),
            ("held", "dead"),
            ("held", "broken"),
            ("-", "ready"),
            ("-", "later"),
            ("-", "line"),
        }
    ),
    "release": frozenset({("held", "ready"), ("held", "suspects")}),
    "sweep": frozenset({("held", "ready"), ("held", "suspects"), ("held", "dead")}),
    "revive": frozenset({("dead", "ready"), ("broken", "ready"), ("dead", "line"), ("broken", "line")}),
    "cancel": frozenset((place, "-") for place in ("ready", "later", "suspects", "line", "dead", "broken")),
}
# Whoever ends, dies or steps back gives the lock of its key to the next in line.
for verb in ("finish", "settle", "sweep", "cancel"):
    MOVES[verb] |= {("line", "ready")}

#: The place of an entry -> the status of its job, as users know it.
STATUS = {
    "ready": "queued",
    "suspects": "queued",
    "later": "scheduled",
    "line": "waiting",
    "held": "running",
    "dead": "dead",
    "broken": "dead",
}
