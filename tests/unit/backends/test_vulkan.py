"""What is known of this machine's Vulkan devices, and what is said where there is none."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from cross_backend.backends._packages import spaces_in_path
from cross_backend.backends._vulkan import REMEDY, SOFTWARE, find_devices
from tests import needs

if TYPE_CHECKING:
    import pytest

ASK = """
from cross_backend.machine import Machine
from cross_backend.registry import find_backend
print(find_backend("iree.vulkan").missing(Machine.here()))
"""


def test_says_what_vulkans_own_tool_says() -> None:
    needs.vulkan()
    summary = subprocess.run(
        [needs.program("vulkaninfo"), "--summary"], capture_output=True, text=True, check=True
    ).stdout
    rows = [line.partition("=") for line in summary.splitlines()]
    told = {
        key: [v.strip() for k, _, v in rows if k.strip() == key] for key in ("deviceName", "deviceUUID", "deviceType")
    }
    found = find_devices().devices
    assert sorted(d.name for d in found) == sorted(told["deviceName"])
    assert sorted(d.uuid for d in found) == sorted(uuid.replace("-", "") for uuid in told["deviceUUID"])
    assert sum(d.kind == SOFTWARE for d in found) == told["deviceType"].count("PHYSICAL_DEVICE_TYPE_CPU")
    assert all(d.subgroup in {1, 2, 4, 8, 16, 32, 64, 128} and d.driver for d in found)


DRIVERS = ("VK_ICD_FILENAMES", "VK_DRIVER_FILES")
"""Older loaders read the first, newer ones the second."""


def test_a_machine_without_a_driver_says_so(run_python: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    needs.vulkan_loader()
    for name in DRIVERS:
        monkeypatch.setenv(name, "/nowhere")
    said = run_python(ASK)
    assert ("lower=None" in said) == (spaces_in_path() is None), "it lowers without a device"
    assert "no Vulkan driver is installed" in said and REMEDY[:40] in said


def test_a_driver_that_crashes_is_one_that_is_not_there(
    run_python: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loader that reads a driver whose library ends the process."""
    needs.vulkan_loader()
    (tmp_path / "bad.c").write_text(
        "#include <stdlib.h>\n__attribute__((constructor)) static void end(void) { abort(); }\n"
    )
    subprocess.run([needs.program("cc"), "-shared", "-fPIC", "-o", "bad.so", "bad.c"], cwd=tmp_path, check=True)
    icd = {"file_format_version": "1.0.0", "ICD": {"library_path": str(tmp_path / "bad.so"), "api_version": "1.2.0"}}
    (tmp_path / "bad.json").write_text(json.dumps(icd))
    for name in DRIVERS:
        monkeypatch.setenv(name, str(tmp_path / "bad.json"))
    said = run_python(ASK)
    assert "the Vulkan driver ended its process" in said and REMEDY[:40] in said
