"""Registry: the sorted table of backends, name → where it lives; imported on first use; open to entry points."""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.metadata
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from cross_backend.backend import Backend, Missing, Options, Unavailable
from cross_backend.errors import CrossBackendError, UnavailableError, UnsupportedError, one_line, unknown_name
from cross_backend.machine import Machine, version_of
from cross_backend.names.target import Target
from cross_backend.toolchains import TOOLCHAINS

ENTRY_POINTS = "cross_backend.backends"
"""Group under which another package registers ``name = "module:Class"``."""


class Role(StrEnum):
    """What a backend is to the reader of a ranking."""

    PRODUCT = "product"
    """People ship it."""
    BASELINE = "baseline"
    """The model as its framework runs it: speed is told against it."""
    REFERENCE = "reference"
    """Kernels that are right and not fast."""
    OWN = "own"
    """This project's accelerator."""


@dataclass(frozen=True)
class BackendRow:
    """Where a backend lives."""

    path: str
    """``module:Class``."""
    aliases: tuple[str, ...] = ()
    """Short names; the first is used in file names."""
    in_all: bool = True
    """Whether ``all`` means it, too."""
    role: Role = Role.PRODUCT
    """What advice says of it."""


_HERE = "cross_backend.backends"
BACKENDS: dict[str, BackendRow] = {
    "atalla": BackendRow(f"{_HERE}.atalla:Atalla", role=Role.OWN),
    "browser.wasm": BackendRow(f"{_HERE}.browser:Wasm", ("wasm",)),
    "browser.webgpu": BackendRow(f"{_HERE}.browser:WebGpu"),
    "executorch.atalla": BackendRow(f"{_HERE}.executorch.atalla:AtallaDelegate", role=Role.OWN),
    "executorch.coreml": BackendRow(f"{_HERE}.executorch.coreml:CoreMl", ("coreml",)),
    "executorch.ethos_u": BackendRow(f"{_HERE}.executorch.ethos_u:EthosU", ("ethos_u", "arm")),
    "executorch.mps": BackendRow(f"{_HERE}.executorch.mps:Mps", ("mps",)),
    "executorch.openvino": BackendRow(f"{_HERE}.executorch.openvino:OpenVinoDelegate"),
    "executorch.portable": BackendRow(f"{_HERE}.executorch.portable:Portable", ("portable",), role=Role.REFERENCE),
    "executorch.qnn": BackendRow(f"{_HERE}.executorch.qnn:Qnn", ("qnn",)),
    "executorch.vulkan": BackendRow(f"{_HERE}.executorch.vulkan:Vulkan", ("vulkan",)),
    "executorch.xnnpack": BackendRow(f"{_HERE}.executorch.xnnpack:Xnnpack", ("xnnpack",)),
    "iree.llvm_cpu": BackendRow(f"{_HERE}.iree.llvm_cpu:IreeLlvmCpu", ("iree",)),
    "iree.vulkan": BackendRow(f"{_HERE}.iree.vulkan:IreeVulkan"),
    "litert": BackendRow(f"{_HERE}.litert.target:LiteRt"),
    "llama_cpp": BackendRow(f"{_HERE}.llama_cpp:LlamaCpp"),
    "mnn": BackendRow(f"{_HERE}.mnn.target:Mnn"),
    "ncnn": BackendRow(f"{_HERE}.ncnn.target:Ncnn"),
    "null": BackendRow(f"{_HERE}.null:Null", in_all=False, role=Role.REFERENCE),
    "onnxruntime.acl": BackendRow(f"{_HERE}.onnxruntime.targets:Acl", ("acl",)),
    "onnxruntime.coreml": BackendRow(f"{_HERE}.onnxruntime.targets:CoreMl"),
    "onnxruntime.cpu": BackendRow(f"{_HERE}.onnxruntime.targets:Cpu", ("onnxruntime", "cpu", "ort")),
    "onnxruntime.cuda": BackendRow(f"{_HERE}.onnxruntime.targets:Cuda", ("cuda",)),
    "onnxruntime.directml": BackendRow(f"{_HERE}.onnxruntime.targets:DirectMl", ("directml",)),
    "onnxruntime.dnnl": BackendRow(f"{_HERE}.onnxruntime.targets:Dnnl", ("dnnl",)),
    "onnxruntime.genai": BackendRow(f"{_HERE}.onnxruntime.genai:OnnxRuntimeGenAi", ("genai",)),
    "onnxruntime.migraphx": BackendRow(f"{_HERE}.onnxruntime.targets:MiGraphX", ("migraphx",)),
    "onnxruntime.openvino": BackendRow(f"{_HERE}.onnxruntime.targets:OpenVino"),
    "onnxruntime.qnn": BackendRow(f"{_HERE}.onnxruntime.targets:Qnn"),
    "onnxruntime.rocm": BackendRow(f"{_HERE}.onnxruntime.targets:Rocm", ("rocm",)),
    "onnxruntime.tensorrt": BackendRow(f"{_HERE}.onnxruntime.targets:TensorRt", ("tensorrt",)),
    "onnxruntime.webgpu": BackendRow(f"{_HERE}.onnxruntime.targets:WebGpu", ("webgpu",)),
    "onnxruntime.xnnpack": BackendRow(f"{_HERE}.onnxruntime.targets:Xnnpack"),
    "openvino": BackendRow(f"{_HERE}.openvino:OpenVino"),
    "torch.aot_inductor": BackendRow(f"{_HERE}.torch.aot_inductor:TorchAotInductor", ("aot_inductor",)),
    "torch.compile": BackendRow(f"{_HERE}.torch.compile:TorchCompile", ("compile",)),
    "torch.eager": BackendRow(f"{_HERE}.torch.eager:TorchEager", ("torch", "eager"), role=Role.BASELINE),
}
assert list(BACKENDS) == sorted(BACKENDS), "keep the table sorted"


@functools.cache
def rows() -> dict[str, BackendRow]:
    """Return our table and what other packages registered, sorted by name; none takes a name of ours, full or short."""
    found = {entry.name: BackendRow(entry.value) for entry in importlib.metadata.entry_points(group=ENTRY_POINTS)}
    for ours in BACKENDS.values():
        for alias in ours.aliases:
            found.pop(alias, None)
    return dict(sorted({**found, **BACKENDS}.items()))


def full_name(name: str) -> str:
    """Resolve a short name.

    Raises:
        UsageError: no such backend; the nearest names are in the text.
    """
    table = rows()
    if name in table:
        return name
    for full, row in table.items():
        if name in row.aliases:
            return full
    raise unknown_name("backend", name, [*table, *(alias for row in table.values() for alias in row.aliases)])


def role_of(target: str) -> Role:
    """Return the role of a full target's backend; one that is not registered here is a product."""
    row = rows().get(target.partition("?")[0])
    return row.role if row else Role.PRODUCT


def short_name(name: str) -> str:
    """Return the name that file names carry: ``xnnpack``, ``openvino``, ``torch``."""
    row = rows().get(name)
    return row.aliases[0] if row and row.aliases else name.replace(".", "_")


def find_backend(name: str) -> Backend:
    """Import a backend by full or short name.

    Raises:
        UsageError: no such backend.
        UnavailableError: another package registered it and fails to import.
    """
    return _instance(full_name(name))


def backends() -> Iterator[Backend]:
    """Yield every backend that imports."""
    for name in rows():
        with contextlib.suppress(UnavailableError):
            yield _instance(name)


@functools.cache
def _instance(name: str) -> Backend:
    path = rows()[name].path
    module, _, cls = path.partition(":")
    try:
        backend: Backend = getattr(importlib.import_module(module), cls)()
    except Exception as error:
        raise UnavailableError(f"backend {name} ({path}) does not import: {one_line(error)}") from error
    return backend


def missing_here(backend: Backend) -> Missing:
    """Ask a backend what stops it here; one that fails to answer can do nothing."""
    try:
        return backend.missing(Machine.here()) or Missing()
    except Exception as error:
        unavailable = Unavailable(f"fails to say what it is missing: {one_line(error)}", "")
        return Missing(unavailable, unavailable)


def check_runs(resolved: Resolved) -> Resolved:
    """Return a target that can run here.

    Raises:
        UnavailableError: it cannot; the text has the remedy.
    """
    unavailable = missing_here(resolved.backend).run
    if unavailable is not None:
        raise UnavailableError(f"{resolved.backend.name} {unavailable.reason}", unavailable.remedy)
    return resolved


def lifecycle_here(backend: Backend) -> str:
    """Read a backend's life-cycle against the version that is installed beside us."""
    return backend.lifecycle.read(
        version_of(backend.lifecycle.distribution) if backend.lifecycle.distribution else None
    )


@dataclass(frozen=True)
class Resolved:
    """A target whose backend and options were checked."""

    target: Target
    """With the backend's full name."""
    backend: Backend
    options: Options

    @property
    def lowering(self) -> Target:
        """What makes the payload: the target without the options that only shape how a session opens it."""
        return Target(
            self.backend.payload_of or self.target.name,
            {k: v for k, v in self.target.options.items() if self.backend.options[k].shapes_payload(v)},
        )

    @property
    def lowering_python(self) -> str:
        """The interpreter that lowers it."""
        return _interpreter(self.backend.toolchain)

    @property
    def python(self) -> str:
        """The interpreter that runs it."""
        return _interpreter(self.backend.run_toolchain)

    @property
    def stem(self) -> str:
        """What follows the model's name in file names: ``xnnpack``, ``xnnpack_int8``, ``torch_threads2``."""
        options = [key + value if value.isdecimal() else value for key, value in self.target.options.items()]
        return "_".join([short_name(self.target.name), *options]).replace(".", "_")


def _interpreter(toolchain: str | None) -> str:
    return str(TOOLCHAINS[toolchain].python) if toolchain else sys.executable


def resolve(text: str | Target) -> Resolved:
    """Find a target's backend and check its options.

    Raises:
        UsageError: unknown backend or option, or a value that is not allowed.
        UnsupportedError: a precision that this backend has not.
    """
    target = text if isinstance(text, Target) else Target.parse(text)
    backend = find_backend(target.name)
    return Resolved(Target(full_name(target.name), target.options), backend, backend.parse_options(target.options))


def check_targets(texts: Iterable[str]) -> None:
    """Look up what the user wrote, before anything is built; what a backend lacks is told in its row.

    Raises:
        UsageError: unknown backend or option, or a value that is not allowed.
    """
    for text in texts:
        with contextlib.suppress(UnavailableError, UnsupportedError):
            resolve(text)


def expand_all(texts: Sequence[str]) -> list[str]:
    """Return targets with ``all`` replaced by every backend that is not named beside it."""
    every = [row.aliases[0] if row.aliases else name for name, row in rows().items() if row.in_all]
    left = [name for name in every if name not in texts]
    return [one for text in texts for one in (left if text == "all" else [text])]


def at_every_precision(text: str) -> list[str]:
    """Return a target at every precision that its backend has; itself where it names one, or where there is no choice.

    What names no backend stays: whoever exports it says so.
    """
    target = Target.parse(text)
    try:
        option = find_backend(target.name).options.get("precision")
    except CrossBackendError:
        return [text]
    if option is None or "precision" in target.options:
        return [text]
    return [str(Target(target.name, {**target.options, "precision": one})) for one in option.choices]


def with_precision(text: str, precision: str | None) -> str:
    """Ask a target that names no precision for this one, if any; what only computes in float32 stays for ``fp32``.

    What names no backend stays as well: whoever exports it says so.
    """
    if precision is None:
        return text
    try:
        target = Target.parse(text)
        options = find_backend(target.name).options
    except CrossBackendError:
        return text
    if "precision" in target.options or (precision == "fp32" and "precision" not in options):
        return text
    return str(Target(target.name, {**target.options, "precision": precision}))
