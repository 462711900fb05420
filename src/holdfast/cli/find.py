"""`module:attribute` to an application, as uvicorn finds it. Its one rule: every way to miss it has its own answer."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from holdfast.app import Holdfast


def find_app(place: str) -> Holdfast:
    """The application at `module:attribute`, or a click error that says what to change."""
    from holdfast.app import Holdfast

    module_name, _, attribute = place.partition(":")
    if not module_name or module_name.endswith(".py") or "/" in module_name:
        wanted = place.removesuffix(".py").replace("/", ".")
        raise click.UsageError(f"{place!r} is not module:attribute; did you mean {wanted}:app?")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise click.UsageError(f"there is no module {module_name!r} in {Path.cwd()} nor on the path") from None
    found: object = module
    for name in (attribute or "app").split("."):
        if not hasattr(found, name):
            apps = [key for key, value in vars(module).items() if isinstance(value, Holdfast)]
            hint = f"; it has {', '.join(f'{module_name}:{key}' for key in apps)}" if apps else ""
            raise click.UsageError(f"{module_name!r} has no attribute {attribute or 'app'!r}{hint}")
        found = getattr(found, name)
    if not isinstance(found, Holdfast):
        raise click.UsageError(f"{place!r} is a {type(found).__name__}, not an application: Holdfast()")
    return found
