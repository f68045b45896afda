"""Platforms: classes of deployment targets, the order in which each tries its backends, and what nobody named."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from cross_backend.errors import UsageError, unknown_name


@dataclass(frozen=True)
class Platform:
    """One class of devices."""

    name: str
    """What ``--platform`` takes."""
    title: str
    """How people call it."""
    backends: tuple[str, ...]
    """Full backend names, best first; the last is the fallback that always works."""
    why: str
    """The reason for the order, in one sentence."""

    @property
    def system(self) -> str:
        """Operating system of these devices, as ``Machine.system`` names it."""
        return self.name.partition("-")[0]


_CPU = ("executorch.xnnpack", "executorch.portable")
_SERVER = ("openvino", "onnxruntime.cpu", "torch.aot_inductor", "torch.compile", "torch.eager")

PLATFORMS: dict[str, Platform] = {
    p.name: p
    for p in (
        Platform(
            "android",
            "Android",
            ("executorch.vulkan", *_CPU),
            "Vulkan runs on the graphics processor of any vendor since Android 7; XNNPACK is the fallback.",
        ),
        Platform(
            "android-qualcomm",
            "Android (Snapdragon)",
            ("executorch.qnn", "executorch.vulkan", *_CPU),
            "QNN reaches the Hexagon NPU; then as on any Android device.",
        ),
        Platform(
            "embedded",
            "Embedded (Arm microcontrollers)",
            ("executorch.ethos_u", *_CPU),
            "The Ethos-U NPU where there is one; XNNPACK on Arm processors without it.",
        ),
        Platform(
            "ios",
            "iOS",
            ("executorch.coreml", "executorch.mps", *_CPU),
            "Core ML reaches the Neural Engine with the best battery life; MPS uses the GPU; XNNPACK is the fallback.",
        ),
        Platform(
            "linux",
            "Linux desktop and server",
            ("executorch.vulkan", "executorch.xnnpack", *_SERVER, "executorch.portable"),
            "Vulkan where a graphics driver is there; XNNPACK is good on servers without one.",
        ),
        Platform(
            "macos",
            "macOS",
            ("executorch.coreml", "executorch.mps", "executorch.xnnpack", *_SERVER, "executorch.portable"),
            "As on iOS, then the runtimes of desktops.",
        ),
        Platform("web", "Browsers", _CPU, "XNNPACK is the backend that WebAssembly builds hold."),
        Platform(
            "windows",
            "Windows desktop and server",
            ("executorch.vulkan", "executorch.xnnpack", *_SERVER, "executorch.portable"),
            "As on Linux.",
        ),
    )
}
EXPORTED = ("xnnpack",)
"""Targets of an export that names none."""
COMPARED = ("torch", "portable", "xnnpack", "onnxruntime", "openvino")
"""Targets of a comparison that names none."""
ALIASES = {"desktop": "linux"}
"""Other names: the backends guide calls Linux and Windows together *desktop*."""


def find_platform(name: str | None = None) -> Platform:
    """Look up a platform by name; without one, the platform this process runs on.

    Raises:
        UsageError: there is no such platform.
    """
    if name is None:
        name = {"darwin": "macos", "win32": "windows"}.get(sys.platform, "linux")
    if not isinstance(name, str):
        raise UsageError(f"platform: one name is expected, such as 'android', not {name!r:.40}.")
    name = ALIASES.get(name, name)
    if name not in PLATFORMS:
        raise unknown_name("platform", name, [*PLATFORMS, *ALIASES])
    return PLATFORMS[name]
