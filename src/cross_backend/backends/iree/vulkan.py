"""iree.vulkan: IREE's compiler for graphics processors, and for Mesa's software driver."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, final

from cross_backend.artifact import Artifact
from cross_backend.backend import Missing, Option, Options, Recorded, Session, Unavailable
from cross_backend.backends._vulkan import REMEDY, SOFTWARE, VulkanDevice, find_devices, shows_no_speed
from cross_backend.backends.iree._iree import IreeBackend
from cross_backend.backends.iree._lower import default_target
from cross_backend.backends.iree._profile import record
from cross_backend.backends.iree._session import IreeSession, create_driver
from cross_backend.backends.iree._types import Types
from cross_backend.errors import LoadError, LowerError, UnavailableError, UnsupportedError
from cross_backend.records import Execution
from cross_backend.tensors import Tensors

if TYPE_CHECKING:
    from cross_backend.machine import Machine

_NOTE = "cross_backend.subgroup"
_CHOICES = re.compile(r"subgroup_size_choices = \[([0-9, ]*)\]")
_SIZES = ("4", "8", "16", "32", "64", "128")


_NARROW = frozenset(("int8", "uint8", "int16", "uint16", "float16", "bfloat16"))
_WITH_NARROW = {
    "cap:Shader": "cap:Shader,cap:StorageBuffer16BitAccess,cap:StorageBuffer8BitAccess,cap:Float16,cap:Int8,cap:Int16,"
    "ext:SPV_KHR_16bit_storage,ext:SPV_KHR_8bit_storage",
    "compute = fp32|int32": "compute = fp32|fp16|int32|int16|int8",
    "storage = b32": "storage = b32|b16|b8",
}
"""What IREE's default target leaves out, and emulates wrongly: the kernels read other elements. Devices have had it
since Vulkan 1.2."""


@final
class IreeVulkan(IreeBackend):
    """Kernels in SPIR-V.

    IREE's default target assumes subgroups of 64 invocations and leaves out barriers that fewer would need: on a device
    with smaller ones its outputs are wrong. So the size is the local device's unless a target says otherwise, and a
    module is refused by a device that has another.
    """

    name = "iree.vulkan"
    title = "IREE (Vulkan)"
    options = {
        "subgroup": Option(
            "invocations in lock-step: this machine's device's, IREE's own default unchecked, or a size",
            "auto",
            ("auto", "default", *_SIZES),
        )
    }

    def missing(self, machine: Machine) -> Missing | None:
        packages = super().missing(machine) or Missing()
        return Missing(packages.lower, packages.run or _unavailable()) or None

    def depends_on(self, options: Options) -> str | None:
        devices = find_devices().devices if options["subgroup"] == "auto" else ()
        return f"subgroup {devices[0].subgroup}" if devices else None

    def _target(self, options: Options, types: Types) -> tuple[Sequence[str], dict[str, str]]:
        """Where there is no device to ask, ``auto`` keeps IREE's default, and other devices refuse the module."""
        _check(types)
        chosen = options["subgroup"]
        if chosen == "default":
            return ["--iree-hal-target-device=vulkan"], {}
        target = default_target("vulkan")
        usual = _CHOICES.search(target)
        if usual is None:
            raise LowerError("this version of iree-compile does not say its subgroup size; use subgroup=default.")
        if chosen == "auto":
            devices = find_devices().devices
            chosen = str(devices[0].subgroup) if devices else usual[1]
        target = target.replace(usual[0], f"subgroup_size_choices = [{chosen}]")
        if types.all & _NARROW:
            for old, new in _WITH_NARROW.items():
                target = target.replace(old, new)
        return [f"--iree-hal-target-device={target}"], {_NOTE: chosen}

    def load(self, artifact: Artifact, options: Options) -> Session:
        return _VulkanSession(artifact, options)

    def record(self, artifact: Artifact, options: Options, inputs: Tensors, runs: int) -> Recorded:
        recorded = record(artifact, inputs, runs + 1, [f"--device={_uri(_device())}"], "dispatch-events")
        return [run.rows for run in recorded[1:]]

    def execution(self, artifact: Artifact, options: Options, inputs: Tensors) -> Execution | None:
        """Count what the device itself wrote times for, and what IREE ran on the processor instead."""
        device = _device()
        run = record(artifact, inputs, 1, [f"--device={_uri(device)}"], "dispatch-events")[0]
        total = run.on_device + run.on_host
        return Execution(
            f"Vulkan ({device.name})",
            nodes=run.on_device / total if total else None,
            functional_only=shows_no_speed(device.name) if device.kind == SOFTWARE else None,
        )


def _check(types: Types) -> None:
    """Refuse types with which the kernels fail or compute wrongly.

    Raises:
        UnsupportedError: names the type.
    """
    if "float64" in types.all:
        raise UnsupportedError("IREE (Vulkan) has no float64. Convert the model to float32 (module.float()).")
    if "bfloat16" in types.constants:
        raise UnsupportedError("IREE (Vulkan) has no bfloat16 weights. Convert the model to float32 (module.float()).")
    if types.has_convolution and (narrow := types.inputs & {"int8", "uint8"}):
        raise UnsupportedError(
            f"IREE (Vulkan) reads wrong elements where a convolution follows an input of {', '.join(sorted(narrow))}. "
            "Convert the input to float32 outside of the model."
        )


def _unavailable() -> Unavailable | None:
    found = find_devices()
    return None if found.devices else Unavailable(f"needs a Vulkan device: {found.why_none}", REMEDY)


def _device() -> VulkanDevice:
    """Return the best device.

    Raises:
        UnavailableError: there is none.
    """
    unavailable = _unavailable()
    if unavailable is not None:
        raise UnavailableError(f"iree.vulkan {unavailable.reason}", unavailable.remedy)
    return find_devices().devices[0]


def _uri(device: VulkanDevice) -> str:
    return f"vulkan://GPU-{device.uuid}"


class _VulkanSession(IreeSession):
    def _create_device(self) -> Any:
        self._physical = _device()
        return create_driver("vulkan").create_device_by_uri(_uri(self._physical))

    def _check(self, notes: dict[str, str]) -> None:
        made_for = notes.get(_NOTE)
        if made_for is not None and int(made_for) != self._physical.subgroup:
            raise LoadError(
                f"{self.artifact.payload} was made for subgroups of {made_for} invocations, but {self._physical.name} "
                f"has {self._physical.subgroup}, and its outputs would be wrong; lower it on this machine."
            )

    _physical: VulkanDevice
