"""Machine: this computer as the operating system shows it, and a digest that moves with every field."""

from __future__ import annotations

import dataclasses
import json
import os
import platform

import psutil
import pytest

from cross_backend.machine import Machine, version_of


def test_describes_this_computer(machine: Machine) -> None:
    assert machine.cpu.strip()
    assert machine.system in {"linux", "macos", "windows"}
    assert machine.arch not in {"amd64", "aarch64"}
    assert machine.python == platform.python_version()
    assert machine.memory_bytes == psutil.virtual_memory().total
    assert 1 <= machine.usable_cpus <= (os.cpu_count() or 1)
    assert machine.physical_cores >= 1
    assert Machine.here() is machine


def test_its_digest_moves_with_every_field(machine: Machine) -> None:
    digests = {machine.digest}
    for field in dataclasses.fields(machine):
        value = getattr(machine, field.name)
        other = value + 1 if isinstance(value, int) else (*value, "x") if isinstance(value, tuple) else value + "x"
        digests.add(dataclasses.replace(machine, **{field.name: other}).digest)
    assert len(digests) == 1 + len(dataclasses.fields(machine))
    assert all(len(digest) == 16 and int(digest, 16) >= 0 for digest in digests)


def test_goes_into_json_whole(machine: Machine) -> None:
    row = json.loads(json.dumps(machine.to_json()))
    assert row["digest"] == machine.digest
    assert set(row) == {"digest", *(field.name for field in dataclasses.fields(machine))}


@pytest.mark.parametrize(("name", "installed"), [("pytest", True), ("no-such-distribution", False)])
def test_versions_come_from_metadata(name: str, installed: bool) -> None:
    version = version_of(name)
    assert version == (pytest.__version__ if installed else None)
