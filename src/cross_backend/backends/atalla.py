"""atalla: our own accelerator; its blobs run on C kernels, and what it lacks on torch."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from cross_backend.artifact import Artifact
from cross_backend.backend import (
    THREADS,
    Backend,
    Calibration,
    Keeper,
    Lowered,
    Missing,
    Option,
    Options,
    Recorded,
    Session,
)
from cross_backend.backends._atalla import (
    NO_SCRIPT,
    PRECISION,
    compiler_digest,
    instruction_arithmetic,
    instruction_counts,
    missing_kernels,
)
from cross_backend.backends._packages import absent_packages, missing_packages
from cross_backend.backends._quantize import int8_quantizer, quantize
from cross_backend.backends._simulated import EXECUTOR, check_tools, simulated
from cross_backend.backends._to_torch import to_torch
from cross_backend.errors import LoadError, LowerError, UnsupportedError, failing_as, one_line
from cross_backend.placement import Operators, Placement, count_operators, group_left
from cross_backend.program.captured import OnnxProgram, Program
from cross_backend.records import Execution, Timing
from cross_backend.tensors import Tensors

if TYPE_CHECKING:
    from atalla.blob.reader import Listing
    from atalla.blob.rows import InstructionRow
    from atalla.run.runtime import Loaded
    from cross_backend.machine import Machine

_NOT_ONNX = "Atalla compiles PyTorch programs; it has no ONNX importer"


@final
class Atalla(Backend):
    """One blob; operators that the accelerator lacks are calls back into torch, and count as left."""

    name = "atalla"
    title = "Atalla (CPU kernels)"
    suffix = ".atalla"
    distributions = ("torch",)
    runtime_modules = ("torch", "atalla.run.runtime")
    options = {
        "exact": Option("never reorder sums: no convolution by Winograd's", "no", ("no", "yes")),
        "executor": EXECUTOR,
        "precision": PRECISION,
        "threads": THREADS,
    }
    limits = {"onnx_program": _NOT_ONNX}

    def missing(self, machine: Machine) -> Missing | None:
        absent = missing_packages(self.distributions, self.distributions, "torch")
        return absent or Missing(run=missing_kernels()) or None

    def depends_on(self, options: Options) -> str | None:
        return compiler_digest()

    def reproduction(self, options: Options) -> Sequence[str]:
        raise UnsupportedError(NO_SCRIPT)

    def lower(self, program: Program, options: Options, stem: Path, calibration: Calibration) -> Lowered:
        import atalla

        if isinstance(program, OnnxProgram):
            raise UnsupportedError(_NOT_ONNX)
        whole = _quantized(program, calibration) if options["precision"] == "int8" else program
        try:
            compiled = atalla.compile(whole, exact=options["exact"] == "yes", bf16=options["precision"] == "bf16")
        except atalla.AtallaError as error:
            raise LowerError(f"Atalla cannot compile it: {one_line(error)}") from error
        payload = stem.with_name(stem.name + self.suffix)
        payload.write_bytes(compiled.data)
        arithmetic = instruction_arithmetic(compiled.data) if options["precision"] == "int8" else None
        return Lowered(payload, replace(_placement(payload), arithmetic=arithmetic))

    def code_in(self, artifact: Artifact) -> str | None:
        """Name an operator that is none of torch's own: whoever registered it says what it does."""
        from atalla import AtallaError
        from atalla.blob.reader import parse
        from atalla.hosted import foreign
        from atalla.run.pages import map_file

        with contextlib.suppress(AtallaError, OSError):  # opening says what is wrong with it
            names = foreign(call.target for call in parse(map_file(artifact.payload_path)).calls)
            return f"a call of {names[0]}" if names else None
        return None

    def load(self, artifact: Artifact, options: Options) -> Session:
        return _AtallaSession(artifact, options)

    def record(self, artifact: Artifact, options: Options, inputs: Tensors, runs: int) -> Recorded:
        if options["executor"] != "fast":
            raise UnsupportedError(
                "a simulated device has no times to profile; 'atalla run --executor device' has cycles."
            )
        session = _AtallaSession(artifact, options)
        session.times = True
        recorded = []
        with session:
            run = session.bind(inputs)
            for _ in range(runs + 1):
                run()
                recorded.append(session.timings())
        return recorded[1:]

    def execution(self, artifact: Artifact, options: Options, inputs: Tensors) -> Execution | None:
        executor = options["executor"]
        if executor == "fast":
            return None
        return simulated(artifact.payload_path, executor, [x.shape for x in inputs], options["precision"])


def _quantized(program: Any, calibration: Calibration) -> Any:
    """Return the program with int8 where XNNPACK's quantiser, of ExecuTorch, wants it."""
    absent = absent_packages(("executorch", "torchao"), "executorch")
    if absent is not None:
        raise UnsupportedError(f"precision=int8 {absent}")
    with failing_as(LowerError, "the program cannot be quantised"):
        return quantize(program, int8_quantizer(), calibration)


def _placement(payload: Path) -> Placement:
    """Read a blob back; it holds the compiler's reasons, by the nodes of its calls."""
    from atalla.blob.reader import parse
    from atalla.isa import Op

    data = payload.read_bytes()
    listing = parse(data)
    why = listing.meta["fallbacks"]
    calls = [
        Operators(_called(listing, row), 1, why[row.node], _flops(listing, row), (row.line,) if row.line else ())
        for row in listing.instructions
        if row.op is Op.CALL_HOST
    ]
    return Placement(
        inside=count_operators(instruction_counts(data)),
        left=group_left(calls),
        planned_bytes=listing.arena_bytes,
        constant_bytes=listing.constant_bytes,
    )


def _called(listing: Listing, row: InstructionRow) -> str:
    return str(listing.calls[row.attributes["call"]].target)


def _flops(listing: Listing, row: InstructionRow) -> int:
    """Count a call of the host with torch's own formulas; what has none there counts nothing."""
    import operator

    import torch
    from torch.utils.flop_counter import flop_registry

    from atalla.run.host import arguments

    call = listing.calls[row.attributes["call"]]
    found = operator.attrgetter(call.target)(torch.ops)
    formula = flop_registry.get(found.overloadpacket)
    if formula is None:
        return 0

    def empty(number: int) -> Any:
        return torch.empty(listing.tensors[number].shape, device="meta")

    positional, named, _ = arguments(call.arguments, [empty(number) for number in row.sources if number is not None])
    return int(formula(*positional, **named, out_val=empty(call.outputs[0])))


def _name(row: InstructionRow, listing: Listing) -> str:
    from atalla.isa import Op

    return f"{_called(listing, row) if row.op is Op.CALL_HOST else row.op.name} {row.node}".rstrip()


class _AtallaSession(Session):
    times = False
    """Whether each instruction is timed, for a profile; to be said before the session is opened."""

    def _open(self) -> None:
        import atalla

        threads, executor = self.options["threads"] or 1, self.options["executor"]
        if executor == "rtl":
            check_tools()
        try:
            path = self.artifact.payload_path
            # Whoever opens a session has looked at code_in before.
            self._loaded = atalla.load(path, threads=threads, profile=self.times, trust=True, executor=executor)
        except (atalla.AtallaError, OSError) as error:
            raise LoadError(f"Atalla cannot load {self.artifact.payload_path.name}: {one_line(error)}") from error
        if self._loaded.listing.calls:
            import torch

            torch.set_num_threads(threads)

    def timings(self) -> list[Timing]:
        """Return a row for each instruction of the last run."""
        from atalla.isa import Op

        listing = self._loaded.listing
        return [
            Timing(_name(row, listing), "host" if row.op is Op.CALL_HOST else "instruction", 1, ns / 1e6)
            for row, ns in zip(listing.instructions, self._loaded.times_ns(), strict=True)
            if row.op is not Op.END
        ]

    def _bind(self, inputs: Tensors) -> Callable[[], Tensors]:
        return self._loaded.bind([to_torch(x) for x in inputs])

    def keeper(self, initial: Sequence[Any]) -> Keeper:
        """Keep the state in the blob's own memory."""
        return _Blob(self._loaded, self.target, self.bind)

    def _close(self) -> None:
        del self._loaded

    _loaded: Loaded


class _Blob(Keeper):
    """Keeps the state in the memory of an open blob, which says itself how it begins."""

    def __init__(self, loaded: Loaded, target: str, bind: Callable[[Tensors], Callable[[], Tensors]]) -> None:
        self._loaded, self._target, self._bind = loaded, target, bind

    def bind(self, inputs: Tensors) -> Callable[[], Tensors]:
        return self._bind(inputs)

    def reset(self) -> None:
        self._loaded.reset()

    def read(self) -> Sequence[Any]:
        raise UnsupportedError(f"{self._target} keeps its state inside, and does not expose it.")

    def write(self, values: Sequence[Any]) -> None:
        self.read()
