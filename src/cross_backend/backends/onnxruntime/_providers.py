"""The table of ONNX Runtime's execution providers: what holds each, what it needs, and how it is asked for float32."""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cross_backend.backend import THREADS, Lifecycle, Missing, Option, Options, Unavailable
from cross_backend.backends._onnx import TO_LOWER
from cross_backend.backends._packages import absent_packages, at_once
from cross_backend.backends.onnxruntime import _devices as devices
from cross_backend.machine import Machine, version_of
from cross_backend.toolchains import TOOLCHAINS

_BUILD = "https://onnxruntime.ai/docs/build/eps.html"
_OF_CPU = ("fp32", "int8", "int8dyn", "int4w")
_FP32_FP16 = Option("arithmetic that the provider compiles to", "fp32", ("fp32", "fp16"), at="load")


@dataclass(frozen=True)
class Provider:
    """One execution provider."""

    name: str
    """The target's name after ``onnxruntime.``."""
    identifier: str
    """How ONNX Runtime calls it."""
    device: str
    """How a reader knows what it runs on."""
    holders: tuple[str, ...]
    """Distributions that together hold it: where they are installed beside us, it runs in this interpreter."""
    toolchain: str | None = None
    """Private environment that holds it otherwise; None where none can be made with pip."""
    build: str = ""
    """How to come by it where no package is published."""
    platform: devices.PlatformCheck = lambda _: None
    """System and processor; where they are others, nothing else helps."""
    needs: tuple[devices.Check, ...] = ()
    """Device, driver and system libraries, in the order in which they are told."""
    plugin: str = ""
    """Module that knows the path of its library, for a provider that is registered in the core package."""
    settings: Callable[[Options], Mapping[str, str]] = lambda _: {}
    """Its own settings; those that make it compute in float32 are always said."""
    emulator_settings: Mapping[str, str] = field(default_factory=dict)
    """Further ones where the plugin found no real device."""
    emulated: str = ""
    """Why durations mean nothing where the plugin found no real device."""
    options: Mapping[str, Option] = field(default_factory=lambda: {"threads": THREADS})
    """What its targets may carry."""
    prepare: Callable[[], None] = lambda: None
    """Brings the vendor's libraries into the process, before the first session."""
    is_asynchronous: bool = False
    """Whether the profile times only the handing over of work, and so says nothing about where time is spent."""
    uses_memory_pattern: bool = True
    """False where the provider forbids planning memory ahead."""
    lifecycle: Lifecycle = field(default_factory=Lifecycle)
    """What its vendor says of its future."""

    @property
    def is_installed(self) -> bool:
        """Whether this interpreter's environment holds it."""
        return all(version_of(name) for name in self.holders)

    def missing(self, machine: Machine, root: Path) -> Missing | None:
        """Return what stops lowering and running; all that running lacks is told at once.

        Args:
            machine: the computer that is asked about.
            root: where its file system begins.
        """
        return Missing(absent_packages(TO_LOWER, "onnxruntime"), self._missing_to_run(machine, root)) or None

    def _missing_to_run(self, machine: Machine, root: Path) -> Unavailable | None:
        elsewhere = self.platform(machine)
        if elsewhere is not None:
            return elsewhere
        return at_once([*(need(machine, root) for need in self.needs), self._missing_package()])

    def _missing_package(self) -> Unavailable | None:
        if self.is_installed:
            return None
        if self.toolchain is not None:
            chain = TOOLCHAINS[self.toolchain]
            if chain.added:
                return None
            pins = ", ".join(f"{name} {version}" for name, version in chain.pins)
            return Unavailable(
                f"needs {pins} in an environment of its own", f"cross-backend toolchain add {chain.name}"
            )
        if self.build:
            return Unavailable(f"needs a build of ONNX Runtime ({self.holders[0]}) that nobody publishes", self.build)
        return absent_packages(self.holders, "onnxruntime")


def _openvino(options: Options) -> Mapping[str, str]:
    threads = {} if options["threads"] is None else {"num_of_threads": str(options["threads"])}
    return {"device_type": "CPU", "precision": "FP32", **threads}  # its own default may be bfloat16


def _xnnpack(options: Options) -> Mapping[str, str]:
    return {} if options["threads"] is None else {"intra_op_num_threads": str(options["threads"])}


def _cuda_libraries() -> None:
    import onnxruntime

    onnxruntime.preload_dlls()  # finds NVIDIA's libraries where pip put them


def _tensorrt_libraries() -> None:
    os.environ["NVIDIA_TF32_OVERRIDE"] = "0"  # the provider has no option for it, and TF32 is not float32
    _cuda_libraries()
    with contextlib.suppress(ImportError):  # it may be installed for the whole system instead
        importlib.import_module("tensorrt")


def _half(key: str) -> Callable[[Options], Mapping[str, str]]:
    return lambda options: {key: str(int(options["precision"] == "fp16"))}


PROVIDERS: dict[str, Provider] = {
    p.name: p
    for p in (
        Provider(
            "acl",
            "ACLExecutionProvider",
            "Arm Compute Library",
            ("onnxruntime-acl",),
            build=f"build it with './build.sh --config Release --build_wheel --use_acl' ({_BUILD})",
            platform=devices.arm_cpu,
        ),
        Provider(
            "coreml",
            "CoreMLExecutionProvider",
            "Core ML",
            ("onnxruntime",),  # the wheel for macOS holds it
            platform=devices.macos,
            settings=lambda _: {"ModelFormat": "MLProgram", "MLComputeUnits": "ALL"},
        ),
        Provider(
            "cpu",
            "CPUExecutionProvider",
            "CPU",
            ("onnxruntime",),
            options={
                "precision": Option("arithmetic of convolutions and matrix products", "fp32", _OF_CPU),
                "threads": THREADS,
            },
        ),
        Provider(
            "cuda",
            "CUDAExecutionProvider",
            "CUDA",
            ("onnxruntime-gpu",),
            toolchain="onnxruntime_cuda",
            platform=devices.driven_by_cuda,
            needs=(devices.nvidia_gpu,),
            settings=lambda _: {"use_tf32": "0"},  # 10 bits of mantissa are not float32
            prepare=_cuda_libraries,
            is_asynchronous=True,
        ),
        Provider(
            "directml",
            "DmlExecutionProvider",
            "DirectML",
            ("onnxruntime-directml",),
            toolchain="onnxruntime_directml",
            platform=devices.windows,
            is_asynchronous=True,
            uses_memory_pattern=False,
        ),
        Provider(
            "dnnl",
            "DnnlExecutionProvider",
            "oneDNN",
            ("onnxruntime-dnnl",),
            build=f"build it with './build.sh --config Release --build_wheel --use_dnnl' ({_BUILD}); "
            "oneDNN is reached through the targets torch.compile and openvino, too",
        ),
        Provider(
            "migraphx",
            "MIGraphXExecutionProvider",
            "MIGraphX",
            ("onnxruntime-migraphx",),
            toolchain="onnxruntime_migraphx",
            platform=devices.driven_by_rocm,
            needs=(devices.amd_gpu, devices.migraphx),
            settings=_half("migraphx_fp16_enable"),
            options={"precision": _FP32_FP16, "threads": THREADS},
            is_asynchronous=True,
        ),
        Provider(
            "openvino",
            "OpenVINOExecutionProvider",
            "OpenVINO CPU",
            ("onnxruntime-openvino",),
            toolchain="onnxruntime_openvino",
            platform=devices.openvino_wheel,
            settings=_openvino,
        ),
        Provider(
            "qnn",
            "QNNExecutionProvider",
            "Qualcomm HTP",
            ("onnxruntime", "onnxruntime-qnn"),
            toolchain="onnxruntime_qnn",
            plugin="onnxruntime_qnn",
            settings=lambda _: {"backend_type": "htp", "enable_htp_fp16_precision": "1"},
            emulator_settings={"soc_model": "69", "htp_arch": "79"},  # Snapdragon 8 Elite
            emulated="Qualcomm's HTP emulator: a functional check",
            options={"precision": Option("arithmetic of the NPU", "fp16", ("fp16",), at="load"), "threads": THREADS},
        ),
        Provider(
            "rocm",
            "ROCMExecutionProvider",
            "ROCm",
            ("onnxruntime-rocm",),
            toolchain="onnxruntime_rocm",
            platform=devices.driven_by_rocm,
            needs=(devices.amd_gpu, devices.hip),
            is_asynchronous=True,
            lifecycle=Lifecycle("onnxruntime", removed="1.23", instead="onnxruntime.migraphx"),
        ),
        Provider(
            "tensorrt",
            "TensorrtExecutionProvider",
            "TensorRT",
            ("onnxruntime-gpu", "tensorrt-cu13"),
            toolchain="onnxruntime_tensorrt",
            platform=devices.driven_by_cuda,
            needs=(devices.nvidia_gpu,),
            settings=_half("trt_fp16_enable"),
            options={"precision": _FP32_FP16, "threads": THREADS},
            prepare=_tensorrt_libraries,
            is_asynchronous=True,
        ),
        Provider(
            "webgpu",
            "WebGpuExecutionProvider",
            "WebGPU",
            ("onnxruntime", "onnxruntime-ep-webgpu"),
            toolchain="onnxruntime_webgpu",
            plugin="onnxruntime_ep_webgpu",
            needs=(devices.graphics,),
            emulated="a software graphics driver: a functional check",
            is_asynchronous=True,
        ),
        Provider(
            "xnnpack",
            "XnnpackExecutionProvider",
            "XNNPACK",
            ("onnxruntime-xnnpack",),
            build="build it with './build.sh --config Release --build_wheel --use_xnnpack "
            f"--wheel_name_suffix xnnpack' ({_BUILD}); XNNPACK is reached through executorch.xnnpack, too",
            settings=_xnnpack,
        ),
    )
}
