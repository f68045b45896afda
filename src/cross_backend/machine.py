"""Machine: the identity of the computer that measured."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class MachineIdentity:
    """The part of a machine that evidence in a bundle keeps, and by which a device finds it."""

    cpu: str
    """Processor model, or the system on a chip."""
    arch: str
    system: str
    digest: str
    """:attr:`Machine.digest`."""

    def __str__(self) -> str:
        """Return the machine as reports name it."""
        return f"{self.cpu} ({self.arch}, {self.system})"

    def likeness(self, other: MachineIdentity) -> int:
        """Return how much another machine is like this one: 3 same processor, 2 architecture and system, 1 system."""
        if (self.cpu, self.arch) == (other.cpu, other.arch):
            return 3
        if self.system != other.system:
            return 0
        return 2 if self.arch == other.arch else 1


@dataclass(frozen=True)
class Machine:
    """What a measurement depends on and a reader needs to know."""

    cpu: str
    """Processor model as the operating system names it."""
    isa: tuple[str, ...]
    """Vector extensions that kernels choose by (``avx2``, ``avx512f``, ``neon``, …); empty where unknown."""
    physical_cores: int
    """Cores, without simultaneous threads."""
    usable_cpus: int
    """Logical processors this process may use."""
    memory_bytes: int
    """Installed memory."""
    system: str
    """``linux``, ``macos``, ``windows`` or ``android``."""
    arch: str
    """``x86_64``, ``arm64``, …"""
    release: str
    """Operating system release."""
    python: str
    """Python version of this process."""

    @property
    def digest(self) -> str:
        """Sixteen hexadecimal digits that change when anything above does."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:16]

    @property
    def identity(self) -> MachineIdentity:
        """The part that evidence keeps."""
        return MachineIdentity(self.cpu, self.arch, self.system, self.digest)

    def to_json(self) -> dict[str, object]:
        """Return the rows of a report."""
        return {**asdict(self), "digest": self.digest}

    @classmethod
    @functools.cache
    def here(cls) -> Machine:
        """Describe this computer."""
        import psutil

        name = {"darwin": "macos", "win32": "windows"}.get(sys.platform, "linux")
        usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        arch = platform.machine().lower()
        model, isa = _processor(name)
        return cls(
            cpu=model or platform.processor() or arch,
            isa=isa,
            physical_cores=psutil.cpu_count(logical=False) or usable,
            usable_cpus=usable,
            memory_bytes=psutil.virtual_memory().total,
            system=name,
            arch={"amd64": "x86_64", "aarch64": "arm64"}.get(arch, arch),
            release=platform.release(),
            python=platform.python_version(),
        )


def _processor(system: str) -> tuple[str, tuple[str, ...]]:
    """Read the model and the vector extensions from where each system keeps them."""
    wanted = ("sse4_2", "avx", "avx2", "fma", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile", "asimd", "sve")
    if system == "linux":
        rows: dict[str, str] = {}
        for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
            key, _, value = line.partition(":")
            rows.setdefault(key.strip(), value.strip())
        flags = set((rows.get("flags") or rows.get("Features") or "").split())
        return rows.get("model name", ""), tuple(flag for flag in wanted if flag in flags)
    if system == "macos":
        shown = subprocess.run(
            ["sysctl", "-n", "machdep.cpu.brand_string"], capture_output=True, text=True, check=False
        )
        return shown.stdout.strip(), ()
    return os.environ.get("PROCESSOR_IDENTIFIER", ""), ()


@functools.cache
def version_of(distribution: str) -> str | None:
    """Return the installed version of a distribution without importing it, or None."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None
