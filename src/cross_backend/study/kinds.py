"""Kinds of machines: what must be alike for launches to be of one panel."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cross_backend.errors import CrossBackendError
from cross_backend.machine import Machine, version_of
from cross_backend.registry import resolve
from cross_backend.toolchains import EVERY


@dataclass(frozen=True)
class MachineKind:
    """A machine's identity and the versions on it. Launches of different kinds are never joined."""

    machine: Machine
    versions: Mapping[str, str]
    """Distribution → version, of what takes part in a study."""

    @functools.cached_property
    def digest(self) -> str:
        """Sixteen hexadecimal digits that change when the machine or a version does."""
        text = json.dumps([self.machine.digest, sorted(self.versions.items())])
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def versions_of(targets: Iterable[str]) -> dict[str, str]:
    """Return the version here of every distribution that targets name, those of toolchains included."""
    names = {"cross-backend", "numpy"}
    elsewhere: dict[str, str] = {}
    for text in dict.fromkeys(targets):
        with contextlib.suppress(CrossBackendError):
            backend = resolve(text).backend
            names |= set(backend.distributions)
            for toolchain in {backend.toolchain, backend.run_toolchain, backend.runtime_files} - {None}:
                if (chosen := EVERY[str(toolchain)]).added:
                    elsewhere |= {f"{name} ({toolchain})": version for name, version in chosen.pins}
    found = {name: version_of(name) for name in sorted(names)}
    return {name: version for name, version in found.items() if version is not None} | dict(sorted(elsewhere.items()))
