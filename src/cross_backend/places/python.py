"""Python at a place: its interpreter, and our packages, which travel there as one file."""

from __future__ import annotations

import hashlib
import json
import shlex
import subprocess
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from cross_backend.cache import Cache
from cross_backend.errors import PlaceError
from cross_backend.foreign_text import plain
from cross_backend.places.place import BEAT_S, LEASE_S
from cross_backend.places.shell import ShellPlace
from cross_backend.worker.child import SCRATCH_VARIABLE
from cross_backend.worker.process import Elsewhere, packages

KIND = "travelling"
NEEDED = ("numpy", "psutil", "platformdirs")
"""What a worker imports beside our packages; runtimes are asked for one by one."""
OLDEST = (3, 11)
_ASK = """
import importlib.util, json, sys
print(json.dumps([sys.version_info[:2], [n for n in {needed} if importlib.util.find_spec(n) is None]]))
"""


def prepare(place: ShellPlace, python: str, cache: Cache) -> Elsewhere:
    """Make a place ready for workers.

    Args:
        place: it is connected.
        python: interpreter there.
        cache: where the packages' file is kept here.

    Raises:
        PlaceError: there is no such interpreter, it is too old, or a package is missing; the text says the command.
    """
    _check(place, python)
    folder = place.push({"packages.zip": _archive(cache)})
    there = f"{place.root}/packages/{Path(folder).name}"
    made, archive = shlex.quote(f"{there}.{Path(place.scratch).name}"), shlex.quote(f"{folder}/packages.zip")
    place.run(
        f"[ -d {shlex.quote(there)} ] && exit 0\nset -e\nmkdir -p {shlex.quote(f'{place.root}/packages')}\n"
        f"{shlex.quote(python)} -m zipfile -e {archive} {made}\n"
        f"mv {made} {shlex.quote(there)} 2>/dev/null || [ -d {shlex.quote(there)} ]\n"
    )
    found = {name: f"{there}/{_inside(Path(file), Path(file))}" for name, file in packages("").items()}
    variables = {SCRATCH_VARIABLE: place.scratch, "CROSS_BACKEND_CACHE": f"{place.root}/cache"}

    def start(log: Path, command: Sequence[str], given: Mapping[str, str] | None) -> subprocess.Popen[bytes]:
        return place.start(log, command, {**variables, **(given or {})})

    return Elsewhere(start, found, (), LEASE_S, BEAT_S)


def _check(place: ShellPlace, python: str) -> None:
    script = f"{shlex.quote(python)} -c {shlex.quote(_ASK.replace('{needed}', repr(NEEDED)))}\n"
    try:
        told = place.run(script)
        version, missing = json.loads(told)
        version, missing = tuple(map(int, version)), [str(name) for name in missing]
    except (PlaceError, ValueError, TypeError) as error:
        if place.lost() is not None:
            raise
        raise PlaceError(
            f"{place.name} has no usable Python at {plain(python)!r} ({plain(str(error))[:150]}). Name one: "
            "ssh://HOST?python=/path/to/python3, or use --via runner."
        ) from error
    if version < OLDEST:
        raise PlaceError(
            f"{place.name} has Python {'.'.join(map(str, version))}; {'.'.join(map(str, OLDEST))} or newer is needed. "
            "Name another: ssh://HOST?python=/path/to/python3, or use --via runner."
        )
    if missing:
        raise PlaceError(f"{place.name} lacks {', '.join(missing)}. {install_command(place, python, missing)}")


def install_command(place: ShellPlace, python: str, requirements: list[str]) -> str:
    """Return the one command that installs packages there."""
    host = place.name.removeprefix("ssh://").partition("?")[0].partition(":")
    port = f"-p {host[2]} " if host[2] else ""
    return f"Run: ssh {port}{host[0]} {python} -m pip install {' '.join(requirements)}"


def _inside(path: Path, package: Path) -> str:
    """Return the name in the archive of a package's file; ``package`` is its ``__init__.py``, or its only file."""
    return path.relative_to(package.parents[package.name == "__init__.py"]).as_posix()


def _files() -> Iterator[tuple[str, Path]]:
    """Yield name in the archive → file, of all packages that travel."""
    for file in map(Path, packages("").values()):
        for path in sorted(file.parent.rglob("*")) if file.name == "__init__.py" else [file]:
            if path.is_file() and "__pycache__" not in path.parts:
                yield _inside(path, file), path


def _archive(cache: Cache) -> Path:
    """Return one file with all packages; the same content has the same bytes."""
    files = dict(_files())
    state = [(name, path.stat().st_size, path.stat().st_mtime_ns) for name, path in files.items()]
    key = hashlib.sha256(json.dumps(state).encode()).hexdigest()[:32]
    folder = cache.find(KIND, key)
    if folder is None:
        with cache.scratch() as scratch:
            with zipfile.ZipFile(scratch / "packages.zip", "w", zipfile.ZIP_DEFLATED) as archive:
                for name, path in files.items():
                    archive.writestr(zipfile.ZipInfo(name), path.read_bytes(), zipfile.ZIP_DEFLATED)
            folder = cache.publish(scratch, KIND, key)
    return folder / "packages.zip"
