"""What every ExecuTorch backend shares: lowering with a partitioner, reading a ``.pte`` back, and running it."""

from __future__ import annotations

import functools
import mmap
import re
import struct
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from cross_backend.artifact import Artifact
from cross_backend.backend import (
    THREADS,
    Backend,
    Calibration,
    Lowered,
    Missing,
    Options,
    Recorded,
    Session,
    Unavailable,
)
from cross_backend.backends._packages import missing_packages, missing_toolchain
from cross_backend.backends._quantize import GROUP, four_bits, quantize, with_low_products
from cross_backend.backends._scripts import check_float32
from cross_backend.backends._to_torch import to_torch
from cross_backend.backends.executorch._bundled import BUNDLED, input_orders
from cross_backend.backends.executorch._half import decomposed, to_half
from cross_backend.backends.executorch._placement import read_placement, watch_rejections
from cross_backend.backends.executorch._profile import record
from cross_backend.errors import CODES, LoadError, LowerError, UnsupportedError, failing_as, one_line
from cross_backend.names.precisions import QUANTISED
from cross_backend.placement import Arithmetic, Operators, Placement, join_arithmetic, split_arithmetic
from cross_backend.program.captured import OnnxProgram, Program
from cross_backend.program.composites import without_composites
from cross_backend.program.state import state_of
from cross_backend.tensors import Tensors

if TYPE_CHECKING:
    from cross_backend.machine import Machine

_NOT_ONNX = "ExecuTorch lowers PyTorch programs; it has no ONNX importer"


class ExecuTorchBackend(Backend):
    """A backend of ExecuTorch: a subclass has its partitioners, its delegate's id, and how to read its blob."""

    suffix = ".pte"
    preload: ClassVar[tuple[str, ...]] = ("executorch.exir",)
    bundled = BUNDLED
    otherwise = "executorch.portable"
    runtime_modules: ClassVar[tuple[str, ...]] = ("torch", "executorch.extension.pybindings._C")
    distributions: ClassVar[tuple[str, ...]] = ("executorch", "torch")
    options = {"threads": THREADS}
    limits = {"onnx_program": _NOT_ONNX}
    delegate_id: ClassVar[str | None] = None
    """Id that its delegates carry in the file; None for the portable kernels."""
    rejections: ClassVar[str | None] = None
    """``module:Class.method(self, node, reason)`` that its partitioner calls with why a node is left, if it does."""
    takes_half: ClassVar[bool] = False
    """Whether ``precision=fp16`` means a program of float16."""
    cannot_run: ClassVar[Unavailable | None] = None
    """Why it does not run here, for those that the package's runtime does not hold."""
    extra: ClassVar[str] = "executorch"
    """Extra that brings its packages."""

    def missing(self, machine: Machine) -> Missing | None:
        if self.toolchain is not None:
            unavailable = missing_toolchain(self.toolchain)
            return Missing(unavailable, self.cannot_run or unavailable) or None
        absent = missing_packages(self.distributions, ("executorch", "torch"), self.extra)
        return absent or Missing(run=self.cannot_run) or None

    def prepared(self, program: Any, options: Options, calibration: Calibration) -> Any:
        """Return the program to lower: the captured one, or one of the ``precision`` that is asked for."""
        precision = options.get("precision")
        if precision in {"int8", "int8dyn"}:
            return quantize(program, self.quantizer(options), calibration)
        if precision == "int4w":
            return with_low_products(program, four_bits(), GROUP)
        if not self.takes_half or options["precision"] != "fp16":
            return program
        kept = [op for one in self.partitioners(program, options) for op in one.ops_to_not_decompose(program)[0]]
        return to_half(decomposed(program, kept))

    def quantizer(self, options: Options) -> Any:
        """Return the vendor's quantiser, for backends whose ``precision`` can be int8."""
        raise NotImplementedError

    def edge(self, program: Any, options: Options) -> Any:
        """Partition and lower; for vendors that need an entry of their own."""
        from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower

        return to_edge_transform_and_lower(
            program,
            partitioner=list(self.partitioners(program, options)),
            compile_config=EdgeCompileConfig(_core_aten_ops_exception_list=list(self.beyond_core())),
        )

    def beyond_core(self) -> Sequence[Any]:
        """Return operators that the vendor's partitioner takes though they are not of ATen's core."""
        return ()

    def partitioners(self, program: Any, options: Options) -> Sequence[Any]:
        """Return the vendor's partitioners; none means portable kernels only."""
        raise NotImplementedError

    def blob_operators(self, blob: bytes) -> Mapping[str, int]:
        """Count the operators inside one delegate's blob."""
        raise NotImplementedError

    def blob_arithmetic(self, blob: bytes) -> Arithmetic | None:
        """Tell the operators of a quantised program inside one blob apart; None where the blob does not say."""
        return None

    def unlogged(self, operator: str) -> str | None:
        """Return why ``mean.out`` was left, which the partitioner said nothing about; None where it is not known.

        For those that ask a table of operators and nothing else, that is the reason.
        """
        return "not in its table of operators"

    def lower(self, program: Program, options: Options, stem: Path, calibration: Calibration) -> Lowered:
        if isinstance(program, OnnxProgram):
            raise UnsupportedError(_NOT_ONNX)
        payload = stem.with_name(stem.name + self.suffix)
        failing = failing_as(LowerError, f"ExecuTorch cannot lower it to {self.title}")
        with watch_rejections(self.rejections) as rejections, failing:
            known = with_folded_weights(without_composites(program))
            edge = self.edge(self.prepared(known, options, calibration), options)
            finished = edge.to_executorch(_keeping_state(known))
        with payload.open("wb") as file:
            finished.write_to_file(file)
        graph = finished.exported_program().graph
        arithmetic: list[Arithmetic | None] = []

        def operators(blob: bytes) -> Mapping[str, int]:
            if options.get("precision") in QUANTISED:
                arithmetic.append(self.blob_arithmetic(blob))
            return self.blob_operators(blob)

        placement = read_placement(payload, graph, rejections, self.delegate_id, operators, self.unlogged)
        placement = replace(placement, arithmetic=_joined(arithmetic, placement.left))
        if self.toolchain is None:
            placement = replace(placement, without_kernel=_without_kernel(placement))
        return Lowered(payload, placement)

    partitioner_source: ClassVar[tuple[str, str] | None] = None
    """Line that imports what makes the vendor's partitioners, and the list of them; None for no short script."""

    def reproduction(self, options: Options) -> Sequence[str]:
        if self.partitioner_source is None:
            return super().reproduction(options)
        check_float32(self.title, options)
        imports, partitioners = self.partitioner_source
        return [
            *filter(None, [imports]),
            "from executorch.exir import to_edge_transform_and_lower",
            "from executorch.runtime import Runtime",
            f"lowered = to_edge_transform_and_lower(program, partitioner={partitioners}).to_executorch()",
            "loaded = Runtime.get().load_program(lowered.buffer)",
            'got = loaded.load_method("forward").execute(inputs)',
        ]

    def load(self, artifact: Artifact, options: Options) -> PteSession:
        return PteSession(artifact, options)

    def record(self, artifact: Artifact, options: Options, inputs: Tensors, runs: int) -> Recorded:
        return record(self.load(artifact, options), inputs, runs)


def _keeping_state(program: Any) -> Any:
    """Return the settings with which the file holds the initial state; without, it begins with what memory holds."""
    state = state_of(program)
    if not state:
        return None
    from executorch.exir import ExecutorchBackendConfig
    from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass

    warnings.filterwarnings("ignore", message="Mutation on a buffer")  # it says what these settings mend
    names = [f"b_{name.replace('.', '_')}" for name in state]
    return ExecutorchBackendConfig(passes=[InitializedMutableBufferPass(names)])


def with_folded_weights(program: Any) -> Any:
    """Return a program whose convolutions have constant weights, where they were computed of constants.

    ExecuTorch's own pass folds all that depends on constants alone, of a program of one method without control flow.
    """
    is_computed = any(
        node.op == "call_function" and "conv" in str(node.target) and node.args[1].op == "call_function"
        for node in program.graph.nodes
    )
    if not is_computed:
        return program
    from executorch.exir.passes.constant_prop_pass import constant_prop_pass

    return constant_prop_pass(program)


def _without_kernel(placement: Placement) -> tuple[str, ...]:
    """Return the ATen operators for which ExecuTorch has no kernel; custom ones may be a device's own."""
    kernels = {row.name for row in (*placement.inside, *placement.left) if row.name.startswith("aten::")}
    return tuple(sorted(kernels - set(native_runtime()._get_operator_names())))


def _joined(blobs: Sequence[Arithmetic | None], left: Sequence[Operators]) -> Arithmetic | None:
    """Return what the blobs and the kernels beside them compute in; None where a blob does not say."""
    told = [one for one in blobs if one is not None]
    if not told or len(told) < len(blobs):
        return None
    beside = split_arithmetic(
        {row.name.partition("::")[2].partition(".")[0]: row.count for row in left if "::" in row.name},
        is_low=lambda _: False,
        is_conversion=lambda name: name.startswith(("quantize_", "dequantize_")),
    )
    return join_arithmetic([*told, beside])


_STATUS = re.compile(r"error 0x([0-9a-fA-F]{1,4})\b")
_STATUSES: Mapping[int, str] = {
    0x01: "internal",
    0x02: "invalid state",
    0x03: "end of method",
    0x04: "already loaded",
    0x10: "not supported",
    0x11: "not implemented",
    0x12: "invalid argument",
    0x13: "invalid type",
    0x14: "operator missing",
    0x15: "too many kernels",
    0x16: "registered twice",
    0x20: "not found",
    0x21: "out of memory",
    0x22: "access failed",
    0x23: "invalid program",
    0x24: "invalid external data",
    0x25: "out of resources",
    0x30: "delegate: incompatible",
    0x31: "delegate: out of memory",
    0x32: "delegate: invalid handle",
}
"""``runtime/core/error.h`` of ExecuTorch 1.5."""


@functools.cache
def native_runtime() -> Any:
    """Return the package's native runtime.

    ``executorch.runtime`` wraps the same functions, but importing it pulls in the whole exporter: 4.7 s against 1.3 s.
    """
    import torch  # noqa: F401  its libraries must be loaded first
    from executorch.extension.pybindings import _C

    CODES[_STATUS] = _STATUSES
    return _C


class PteSession(Session):
    """The method ``forward`` of a file in the package's runtime."""

    records_events = False
    """Whether the runtime times what it does, for a profile; to be said before the session is opened."""

    def _open(self) -> None:
        runtime, threads = native_runtime(), self.options.get("threads")
        if threads is not None:
            runtime._unsafe_reset_threadpool(threads)
        self._check_runtime_holds_all(runtime)
        with failing_as(LoadError, f"ExecuTorch cannot load {self.artifact.payload_path.name}"):
            self.program = runtime._load_program(
                str(self.artifact.payload_path),
                enable_etdump=self.records_events,
                program_verification=runtime.Verification.InternalConsistency,
            )
            self._method = self.program.load_method("forward")
            self._orders = _input_orders(self.artifact.payload_path)

    def _check_runtime_holds_all(self, runtime: Any) -> None:
        """Compare the certificate with the runtime's tables: its own message would be an error number."""
        placement = self.artifact.placement
        absent = set(placement.delegates) - set(runtime._get_registered_backend_names())
        named = {row.name for row in (*placement.inside, *placement.left) if "." in row.name.partition("::")[2]}
        absent |= named - set(runtime._get_operator_names())
        if absent:
            raise LoadError(f"this ExecuTorch runtime does not hold {', '.join(sorted(absent))}.")

    def _bind(self, inputs: Tensors) -> Callable[[], Tensors]:
        orders = self._orders or [None] * len(inputs)
        return functools.partial(self._method, [_in_order(to_torch(x), o) for x, o in zip(inputs, orders, strict=True)])

    def _close(self) -> None:
        del self._method, self.program

    program: Any
    _method: Any
    _orders: Sequence[tuple[int, ...] | None]
    """How each input lies in memory: the runtime takes bytes as they come, in whatever order the file wants them."""


def _input_orders(path: Path) -> list[tuple[int, ...] | None]:
    """Return what ``input_orders`` finds in a file, of which little is read."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            return input_orders(data)
        except (struct.error, IndexError, ValueError) as error:
            raise LoadError(f"{path.name} is damaged: its inputs are not described ({one_line(error)}).") from error


def _in_order(tensor: Any, order: tuple[int, ...] | None) -> Any:
    """Return a tensor that lies in an order of its dimensions, outermost first; row-major where None."""
    if order is None or len(order) != tensor.dim():
        return tensor
    inverse = sorted(range(len(order)), key=order.__getitem__)
    return tensor.permute(order).contiguous().permute(inverse)


def flatbuffer_in(blob: bytes, magic: bytes) -> bytes:
    """Cut the flatbuffer out of a delegate's blob: magic at byte 4, u16 header size, then u32 offset and u32 size.

    Raises:
        LowerError: the header is another one.
    """
    if blob[4:8] != magic:
        raise LowerError(
            f"the delegate's blob does not begin with the header {magic.decode()} that this version knows."
        )
    offset, size = struct.unpack_from("<II", blob, 10)
    return blob[offset : offset + size]


def flatbuffer_json(schema_package: str, data: bytes) -> Any:
    """Decode a flatbuffer with the schema that the package ships, using its own ``flatc``."""
    import importlib.resources
    import json
    import tempfile

    from executorch.exir._serialize._flatbuffer import _flatc_decompile

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        schema_path = folder / "schema.fbs"
        schema_path.write_bytes((importlib.resources.files(schema_package) / schema_path.name).read_bytes())
        (folder / "data.bin").write_bytes(data)
        _flatc_decompile(str(folder), str(schema_path), str(folder / "data.bin"), ["--raw-binary", "--allow-non-utf8"])
        text = (folder / "data.json").read_text(errors="replace")
        return json.loads(re.sub(r": ([+-]?)inf\b", r": \1Infinity", text).replace(": nan", ": NaN"))
