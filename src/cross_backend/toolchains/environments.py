"""Private environments for packages that cannot live in the main one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cross_backend.cache import key_of
from cross_backend.errors import unknown_name
from cross_backend.toolchains._steps import root, run_step

_OWN_NEEDS = ("ml-dtypes", "numpy", "packaging", "platformdirs", "psutil", "rich")
"""What a worker itself imports; any version does."""


@dataclass(frozen=True)
class Toolchain:
    """One environment: exact versions, and why they cannot live beside the others."""

    name: str
    why: str
    pins: tuple[tuple[str, str], ...]
    """(distribution, version); the first is installed alone, so that nothing else chooses torch's build.

    Without torch it can only run what was lowered elsewhere."""
    extra: str = ""
    """Extra of the last pin, for what it pins itself."""

    @property
    def requirements(self) -> list[str]:
        """What pip is asked for after the first pin; that again, too, where the extra is its own."""
        *others, (last, version) = self.pins
        named = f"{last}[{self.extra}]" if self.extra else last
        return [*(f"{name}=={pin}" for name, pin in others[1:]), f"{named}=={version}", *_OWN_NEEDS]

    @property
    def folder(self) -> Path:
        """Where it lies; other pins, other folder."""
        return root() / f"{self.name}-{key_of({'pins': self.pins, 'extra': self.extra})[:8]}"

    @property
    def python(self) -> Path:
        """Its interpreter; there only once it was added."""
        return self.folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")

    @property
    def added(self) -> bool:
        """Whether it was installed to the end, and the Python that it was made of is still there."""
        return (self.folder / "ready").is_file() and self.python.is_file()

    def install(self, tell: Callable[[str], None]) -> None:
        """Install it with pip; what was cut off is begun again by :func:`add`."""
        pip = [str(self.python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        name, version = self.pins[0]
        steps = (
            ("creating the environment", [sys.executable, "-m", "venv", str(self.folder)]),
            (f"installing {name} {version}", [*pip, f"{name}=={version}"]),
            (f"installing {', '.join(self.requirements)}", [*pip, *self.requirements]),
        )
        for number, (doing, command) in enumerate(steps, start=1):
            tell(f"[{number}/{len(steps)}] {self.name}: {doing}")
            run_step(self.name, doing, command)


_ONE_FOLDER = "all builds of ONNX Runtime install into one folder and overwrite each other"

TOOLCHAINS: dict[str, Toolchain] = {
    t.name: t
    for t in (
        Toolchain(
            "ethos_u",
            "Arm's compilers want an older NumPy and FlatBuffers than the other runtimes",
            (("torch", "2.13.0"), ("ethos-u-vela", "5.1.0"), ("executorch", "1.5.1")),
            extra="ethos-u",
        ),
        Toolchain(
            "litert",
            "LiteRT's converter brings JAX and 900 MB more, and wants an older typing_extensions; its runtime does not",
            (
                *(("torch", "2.13.0"), ("ai-edge-litert", "2.3.0"), ("ai-edge-quantizer", "0.10.0"), ("jax", "0.10.2")),
                *(("litert-converter", "0.5.0"), ("litert-torch", "0.10.0")),
            ),
        ),
        Toolchain(
            "llama_cpp",
            "llama.cpp is compiled when it is added: some minutes, a C++ compiler, and no other target needs it",
            (("llama-cpp-python", "0.3.36"),),
        ),
        Toolchain(
            "mps",
            "the MPS backend was removed in executorch 1.5; 1.4.1 is the last version that has it",
            (("torch", "2.13.0"), ("executorch", "1.4.1")),
        ),
        Toolchain("onnxruntime_cuda", _ONE_FOLDER, (("onnxruntime-gpu", "1.31.1"),), extra="cuda,cudnn"),
        Toolchain("onnxruntime_directml", _ONE_FOLDER, (("onnxruntime-directml", "1.24.4"),)),
        Toolchain("onnxruntime_migraphx", _ONE_FOLDER, (("onnxruntime-migraphx", "1.27.1"),)),
        Toolchain("onnxruntime_openvino", _ONE_FOLDER, (("onnxruntime-openvino", "1.24.1"),)),
        Toolchain(
            "onnxruntime_qnn",
            "Qualcomm's plugin brings 300 MB of compilers and emulator that no other target needs",
            (("onnxruntime", "1.31.1"), ("onnxruntime-qnn", "2.7.0")),
        ),
        Toolchain("onnxruntime_rocm", _ONE_FOLDER, (("onnxruntime-rocm", "1.22.2.post3"),)),
        Toolchain(
            "onnxruntime_tensorrt",
            _ONE_FOLDER,
            (("tensorrt-cu13", "10.16.1.11"), ("onnxruntime-gpu", "1.31.1")),
            extra="cuda,cudnn",
        ),
        Toolchain(
            "onnxruntime_webgpu",
            "the WebGPU plugin is bound to the version of ONNX Runtime that it was made for",
            (("onnxruntime", "1.31.1"), ("onnxruntime-ep-webgpu", "0.4.0")),
        ),
        Toolchain(
            "openvino_delegate",
            "ExecuTorch's OpenVINO delegate wants an OpenVINO older than 2026",
            (("torch", "2.13.0"), ("nncf", "3.1.0"), ("openvino", "2025.4.1"), ("executorch", "1.5.1")),
            extra="openvino",
        ),
    )
}


def find_toolchain(name: str) -> Toolchain:
    """Look up a toolchain that has an interpreter.

    Raises:
        UsageError: there is none of that name.
    """
    if name not in TOOLCHAINS:
        raise unknown_name("toolchain", name, TOOLCHAINS)
    return TOOLCHAINS[name]
