"""The Vulkan devices of this machine, as the system's own loader lists them; asked in a process of its own.

Drivers may crash and keep memory, so the asking is done by this file run as a script: it imports the standard
library only. Structures and numbers are those of the Vulkan 1.2 specification.
"""

from __future__ import annotations

import ctypes
import functools
import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

SOFTWARE = "cpu"
_KINDS = ("other", "integrated", "discrete", "virtual", SOFTWARE)
"""By ``VkPhysicalDeviceType``."""
_PREFERRED = ("discrete", "integrated", "virtual", "other", SOFTWARE)
_TIMEOUT_S = 60
_LOADERS = {"win32": ("vulkan-1.dll",), "darwin": ("libvulkan.1.dylib", "libMoltenVK.dylib")}
REMEDY = "install the graphics processor's driver, or Mesa's in software (Debian: apt-get install mesa-vulkan-drivers)"


@dataclass(frozen=True)
class VulkanDevice:
    """One physical device."""

    name: str
    """As its driver calls it."""
    kind: str
    """``discrete``, ``integrated``, ``virtual``, ``cpu`` (a software driver) or ``other``."""
    subgroup: int
    """Invocations that run in lock-step; the default of its pipelines."""
    uuid: str
    """``deviceUUID``, 32 hexadecimal digits."""
    driver: str
    """Name and version of the driver."""


@dataclass(frozen=True)
class Found:
    """What the loader said."""

    devices: tuple[VulkanDevice, ...] = ()
    """Best first: a discrete one before an integrated one before software."""
    why_none: str = ""
    """One clause, where there is none."""


@functools.cache
def find_devices() -> Found:
    """Ask once; a loader or driver that crashes or hangs is one that is not there."""
    try:
        asked = subprocess.run(
            [sys.executable, "-I", __file__], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return Found(why_none="the Vulkan driver did not answer")
    if asked.returncode:
        return Found(why_none=f"the Vulkan driver ended its process with status {asked.returncode}")
    answer = json.loads(asked.stdout.splitlines()[-1])
    devices = [VulkanDevice(**row) for row in answer["devices"]]
    return Found(tuple(sorted(devices, key=lambda d: _PREFERRED.index(d.kind))), answer["why_none"])


def shows_no_speed(driver: str) -> str:
    """Return why durations on a driver that computes on the processor mean nothing."""
    return f"{driver} is a software driver: it says nothing about a GPU's speed"


_U32, _Address = ctypes.c_uint32, ctypes.c_void_p


class _Structure(ctypes.Structure):
    """What every structure of Vulkan begins with; ``next`` chains those that ask for more."""

    _fields_: ClassVar[Any] = (("type", _U32), ("next", _Address))


class _Application(_Structure):
    _fields_ = (
        *(("name", ctypes.c_char_p), ("version", _U32)),
        *(("engine", ctypes.c_char_p), ("engine_version", _U32), ("api", _U32)),
    )


class _InstanceInfo(_Structure):
    _fields_ = (
        *(("flags", _U32), ("application", ctypes.POINTER(_Application))),
        *(("layer_count", _U32), ("layers", _Address), ("extension_count", _U32), ("extensions", _Address)),
    )


class _Driver(_Structure):
    _fields_ = (
        *(("id", _U32), ("name", ctypes.c_char * 256)),
        *(("info", ctypes.c_char * 256), ("conformance", ctypes.c_uint8 * 4)),
    )


class _Identity(_Structure):
    _fields_ = (("device", ctypes.c_uint8 * 16), ("rest", ctypes.c_uint8 * 32))


class _Subgroup(_Structure):
    _fields_ = (("size", _U32), ("rest", _U32 * 3))


class _Properties(_Structure):
    _fields_ = (
        *(("api", _U32), ("driver", _U32), ("vendor", _U32), ("device", _U32), ("kind", _U32)),
        ("name", ctypes.c_char * 256),
        ("rest", ctypes.c_uint64 * 128),  # cache id, limits and sparse properties: 560 bytes
    )


def _ask() -> tuple[list[VulkanDevice], str]:
    """Return the devices, or why there are none."""
    for name in _LOADERS.get(sys.platform, ("libvulkan.so.1",)):
        try:
            library = ctypes.CDLL(name)
            break
        except OSError:
            continue
    else:
        return [], "no Vulkan loader is installed"
    application = _Application(type=0, api=(1 << 22) | (2 << 12))
    info = _InstanceInfo(type=1, application=ctypes.pointer(application))
    instance = ctypes.c_void_p()
    if library.vkCreateInstance(ctypes.byref(info), None, ctypes.byref(instance)):
        return [], "no Vulkan driver is installed"
    count = ctypes.c_uint32()
    library.vkEnumeratePhysicalDevices(instance, ctypes.byref(count), None)
    handles = (ctypes.c_void_p * count.value)()
    library.vkEnumeratePhysicalDevices(instance, ctypes.byref(count), handles)
    devices = [_describe(library, handle) for handle in handles if handle]
    return devices, "" if devices else "no Vulkan driver here has a device"


def _describe(library: ctypes.CDLL, handle: int) -> VulkanDevice:
    driver = _Driver(type=1000196000)
    identity = _Identity(type=1000071004, next=ctypes.addressof(driver))
    subgroup = _Subgroup(type=1000094000, next=ctypes.addressof(identity))
    properties = _Properties(type=1000059001, next=ctypes.addressof(subgroup))
    library.vkGetPhysicalDeviceProperties2(ctypes.c_void_p(handle), ctypes.byref(properties))
    kind = _KINDS[properties.kind] if properties.kind < len(_KINDS) else "other"
    about = f"{driver.name.decode(errors='replace')} {driver.info.decode(errors='replace')}".strip()
    return VulkanDevice(
        properties.name.decode(errors="replace"), kind, subgroup.size, bytes(identity.device).hex(), about
    )


if __name__ == "__main__":
    found, why = _ask()
    print(json.dumps({"devices": [asdict(device) for device in found], "why_none": why}))  # noqa: T201
