"""Where an entry can be, and where it can go from there. Its one rule: what is not here does not happen.

A test compares it with the scripts' `moves:` lines; PROTOCOL.md shows it.
"""

from __future__ import annotations


def read_moves(text: str) -> frozenset[tuple[str, str]]:
    """The moves that a script's header declares.

    Example:
        >>> sorted(read_moves("held -> ready | dead; line -> ready"))
        [('held', 'dead'), ('held', 'ready'), ('line', 'ready')]
    """
    halves = (part.split("->") for part in text.split(";"))
    return frozenset(
        (source.strip(), target.strip())
        for sources, targets in halves
        for source in sources.split("|")
        for target in targets.split("|")
    )


#: Verb -> what it may do to an entry. 'nowhere' is where it is before it was put and when it has ended. Whoever ends,
#: dies or steps back gives the lock of its key to the next in line; a new grave may cost the oldest ones.
MOVES = {
    verb: read_moves(text)
    for verb, text in {
        "put": "nowhere -> ready | later | line",
        "fire": "nowhere -> ready | later | line",
        "claim": "later -> ready | line; inbox -> ready; ready -> held; suspects -> held",
        "finish": "held -> nowhere; line -> ready",
        "settle": "held -> nowhere | later | dead | broken; dead | broken -> nowhere; line -> ready; "
        "nowhere -> ready | later | line",
        "release": "held -> ready | suspects",
        "sweep": "held -> ready | suspects | dead; dead -> nowhere; line -> ready",
        "revive": "dead | broken -> ready | line",
        "cancel": "ready | later | suspects | line | dead | broken -> nowhere; line -> ready",
        "renew": "dead | broken -> nowhere",
    }.items()
}

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
