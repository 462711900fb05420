"""Where a verb that never imports the application finds the store. Its one rule: looking at nothing makes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from holdfast.client import Client

_OPTIONS = (
    click.option("--url", help="The server. [HOLDFAST_URL, REDIS_URL, VALKEY_URL, or the embedded one]"),
    click.option("--namespace", default="app", show_default=True, help="What the application calls itself."),
    click.option(
        "--data",
        type=click.Path(file_okay=False, path_type=Path),
        default=".holdfast",
        show_default=True,
        help="The data directory of the embedded server.",
    ),
    click.option("--json", "as_json", is_flag=True, help="For programs."),
)


def store_options(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Give a verb the options that say where the store is, and a client in their place."""

    @wraps(verb)
    def wrapped(url: str | None, namespace: str, data: Path, **rest: Any) -> Any:
        from holdfast.errors import HoldfastError

        try:
            with client_of(url, namespace, data) as client:
                return verb(client=client, **rest)
        except HoldfastError as error:
            raise click.ClickException(str(error)) from None

    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped


@contextmanager
def client_of(url: str | None, namespace: str, data: Path) -> Iterator[Client]:
    """A client of the store that an application with these settings would use."""
    from holdfast.client import Client
    from holdfast.engine.keys import checked_name
    from holdfast.errors import UsageError
    from holdfast.settings import Settings, url_from_env

    checked_name(namespace, "namespace")
    settings = Settings(url=url or url_from_env(), namespace=namespace, data=data)
    if not settings.url and not data.exists():
        raise UsageError(f"there is no server's URL and no data in {data}: say --url or --data")
    with closing(Client(settings)) as client:
        yield client
