"""Puts a worker together from an application and its settings. Its one rule: only here does the runtime see an
application; below, it runs whatever a source opens.
"""

from __future__ import annotations

import logging

from holdfast.app import Holdfast
from holdfast.runtime.supervisor import Supervisor
from holdfast.settings import WorkerSettings
from holdfast.tasks.step import Capture


def run_worker(app: Holdfast, settings: WorkerSettings) -> None:
    """Work until told to stop; SIGTERM, SIGINT or SIGHUP lets running jobs end, a second one does not."""
    logging.getLogger().addHandler(Capture())
    client = app.client
    address = client.address
    known = client.run(client.registry.queues())
    supervisor = Supervisor(
        address, client.registry, served(app, known, settings.queues), app.source(), settings, async_share(app)
    )
    for queue in settings.queues or declared(app):
        client.announce(queue)
    supervisor.run()


def declared(app: Holdfast) -> list[str]:
    """The queues that the application's tasks name, in their order."""
    return list(dict.fromkeys(task.placing.queue for task in app.tasks.values()))


def served(app: Holdfast, known: dict[str, int], wanted: tuple[str, ...]) -> dict[str, int]:
    """The queues to serve in the order of their rank, with their numbers of partitions."""
    ours = app.settings.partitions
    queues = wanted or (*declared(app), *sorted(known))
    return {queue: max(ours.get(queue, 1), known.get(queue, 1)) for queue in queues}


def async_share(app: Holdfast) -> float:
    """Which part of the tasks is `async def`."""
    kinds = [task.definition.is_async for task in app.tasks.values()]
    return sum(kinds) / len(kinds) if kinds else 0.0
