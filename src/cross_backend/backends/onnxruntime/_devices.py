"""Devices and drivers that providers need: looked for where the operating system keeps them, no vendor imported."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from cross_backend.backend import Unavailable
from cross_backend.machine import Machine

PlatformCheck = Callable[[Machine], Unavailable | None]
"""Says which other system or processor it would have to be; None for this one."""
Check = Callable[[Machine, Path], Unavailable | None]
"""Says what is missing on a machine whose file system begins at a folder; None when nothing is."""

SOFTWARE_WEBGPU = "ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER"
"""The WebGPU plugin's own variable: 1 lets it use a graphics driver that computes on the CPU."""
_WSL = "dev/dxg"
"""Through which Windows lends its graphics processors to Linux."""


def driven_by_cuda(machine: Machine) -> Unavailable | None:
    """A system that NVIDIA has drivers for."""
    if machine.system != "macos":
        return None
    return Unavailable("needs an NVIDIA GPU, which macOS does not drive", "use Linux or Windows with an NVIDIA GPU")


def driven_by_rocm(machine: Machine) -> Unavailable | None:
    """A system that ROCm and its wheels exist for."""
    if (machine.system, machine.arch) == ("linux", "x86_64"):
        return None
    return Unavailable("needs an AMD GPU under x86-64 Linux", "use that, or onnxruntime.directml under Windows")


def windows(machine: Machine) -> Unavailable | None:
    """Windows, whose part DirectML is."""
    return (
        None if machine.system == "windows" else Unavailable("needs Windows (DirectML is a part of it)", "use Windows")
    )


def macos(machine: Machine) -> Unavailable | None:
    """Apple's systems, whose part Core ML is."""
    return None if machine.system == "macos" else Unavailable("needs macOS (Core ML is a part of it)", "use a Mac")


def arm_cpu(machine: Machine) -> Unavailable | None:
    """A 64-bit Arm processor."""
    return (
        None if machine.arch == "arm64" else Unavailable(f"needs a 64-bit Arm processor, not {machine.arch}", "use one")
    )


def openvino_wheel(machine: Machine) -> Unavailable | None:
    """A system that the OpenVINO wheel is published for."""
    if machine.arch == "x86_64" and machine.system != "macos":
        return None
    where = f"{machine.arch} {machine.system}"
    return Unavailable(f"is published for x86-64 Linux and Windows, not for {where}", "use the target openvino")


def nvidia_gpu(machine: Machine, root: Path) -> Unavailable | None:
    """An NVIDIA GPU and its driver."""
    driver = "Windows/System32/nvcuda.dll" if machine.system == "windows" else "dev/nvidiactl"
    if _any(root, [driver, "usr/lib/wsl/lib/libcuda.so.1"]):
        return None
    return Unavailable(
        f"needs an NVIDIA GPU and its driver (/{driver} is not here)",
        "install NVIDIA's driver (https://www.nvidia.com/drivers) on a computer with one of its GPUs",
    )


def amd_gpu(_machine: Machine, root: Path) -> Unavailable | None:
    """An AMD GPU and the driver of ROCm."""
    if _any(root, ["dev/kfd"]) or (_any(root, [_WSL]) and _any(root, ["opt/rocm*/lib/libhsa-runtime64.so*"])):
        return None
    return Unavailable(
        "needs an AMD GPU and its driver amdgpu (/dev/kfd is not here)",
        "install the driver amdgpu on a computer with one of AMD's GPUs",
    )


def hip(_machine: Machine, root: Path) -> Unavailable | None:
    """ROCm 7's libraries."""
    return _library(root, "libamdhip64.so.7", "ROCm 7", "install ROCm 7 (https://rocm.docs.amd.com)")


def migraphx(_machine: Machine, root: Path) -> Unavailable | None:
    """MIGraphX, AMD's graph compiler."""
    return _library(
        root, "libmigraphx_c.so.3", "MIGraphX", "install ROCm's package migraphx (https://rocm.docs.amd.com)"
    )


def graphics(machine: Machine, root: Path) -> Unavailable | None:
    """A graphics processor, or leave to use a software driver."""
    if machine.system != "linux" or os.environ.get(SOFTWARE_WEBGPU) == "1":
        return None
    if _any(root, ["dev/dri/renderD*", "dev/nvidiactl", _WSL]):
        return None
    return Unavailable(
        "needs a graphics processor (/dev/dri has none)",
        f"install its driver, or allow a software Vulkan driver such as SwiftShader with {SOFTWARE_WEBGPU}=1",
    )


def _library(root: Path, name: str, title: str, remedy: str) -> Unavailable | None:
    folders = ("opt/rocm*/lib", "opt/rocm*/lib64", "usr/lib", "usr/lib64", "usr/lib/x86_64-linux-gnu")
    listed = [Path(p) / name for p in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) if p]
    if _any(root, [f"{folder}/{name}" for folder in folders]) or any(path.exists() for path in listed):
        return None
    return Unavailable(f"needs {title} ({name} is not here)", remedy)


def _any(root: Path, patterns: Iterable[str]) -> bool:
    return any(True for pattern in patterns for _ in root.glob(pattern))
