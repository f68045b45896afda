"""Check: what holds of a program between the steps of the compiler; looked at after each, in time linear in its size.

A step that breaks one of these has a bug: the error says which step, which instruction, and what does not hold.
"""

from __future__ import annotations

from collections.abc import Iterable

from atalla import ir
from atalla.blob.verify import verify
from atalla.dims import equal, reach
from atalla.errors import BlobError, CompileError
from atalla.isa import OPS, Layout, Op, Space

GIVEN = frozenset({Space.INPUT, Space.CONST, Space.STATE})
"""What holds something before the first instruction."""
SAME_SHAPE = frozenset({Op.COPY, Op.EW, Op.SOFTMAX, Op.NORM, Op.CUMSUM})
"""Operations whose first source has the shape of what they make."""
WITH_WEIGHTS = {Op.GEMM: Layout.PANELS, Op.CONV2D: Layout.PANELS, Op.CONV2D_WINO: Layout.WINOGRAD,
                Op.DWCONV2D: Layout.DEPTHWISE, Op.QGEMM: Layout.QUADS, Op.QCONV2D: Layout.QUADS,
                Op.QDWCONV2D: Layout.DEPTHWISE, Op.BGEMM: Layout.PAIRS, Op.BCONV2D: Layout.PAIRS}  # fmt: skip


def check_program(program: ir.Program, step: str) -> None:
    """Look at a program after a step.

    Raises:
        CompileError: something does not hold.
    """
    _Checker(program, step).everything()


def check_blob(data: bytes) -> None:
    """Look at the bytes that the last step made, as a loader will.

    Raises:
        CompileError: they are no sound blob.
    """
    try:
        verify(data, trust=True)  # a program may hold custom operators
    except BlobError as error:
        raise CompileError(f"Atalla's step 'encode' made {error}") from error


class _Checker:
    def __init__(self, program: ir.Program, step: str) -> None:
        self.program, self.step = program, step
        self.part, self.number = "input", 0
        self.known: set[int] = set()
        """Tensors that were looked at."""
        self.written: set[int] = set()
        """Roots that hold something."""

    def need(self, holds: bool, what: str, *things: object) -> None:
        if not holds:  # the text is made only now: it would take longer than the checks
            told, where = what.format(*things), f"{self.part} {self.number}"
            if self.part == "instruction":
                one = self.program.instructions[self.number]
                where += f" ({one.op.name} of {one.node or 'no node'})"
            raise CompileError(f"Atalla's step '{self.step}' broke the program at {where}: {told}")

    def everything(self) -> None:
        for number, tensor in enumerate(self.program.inputs):
            self.number = number
            self.need(tensor.space is Space.INPUT and tensor.root is None, "{} is no input", tensor)
            self.tensor(tensor)
        self.part = "instruction"
        for number, instruction in enumerate(self.program.instructions):
            self.number = number
            self.instruction(instruction)
        self.part = "output"
        for number, value in enumerate(self.program.outputs):
            self.number = number
            if isinstance(value, ir.Tensor):
                self.need(value.space is Space.OUTPUT and value.root is None, "{} is no output", value)
                self.need(id(value) in self.written, "nothing writes it")

    def instruction(self, one: ir.Instruction) -> None:
        self.form(one)
        made = ir.written(self.program, one)
        roots = {id(tensor.storage) for tensor in made}
        for tensor in one.reads:
            self.tensor(tensor)
            root = tensor.storage
            self.need(root.space in GIVEN or id(root) in self.written, "{} is read before it is written", tensor)
            is_in_place = ir.is_in_place(one) and tensor is one.dst
            self.need(id(root) not in roots or is_in_place, "{} is read where it is written", tensor)
        for tensor in made:
            self.tensor(tensor)
            root = tensor.storage
            self.need(root.space not in {Space.INPUT, Space.CONST}, "{} is written", tensor)
            self.need(tensor.layout is Layout.STRIDED, "{} is written, and packed", tensor)
            self.written.add(id(root))
        self.shapes(one)

    def form(self, one: ir.Instruction) -> None:
        """Check the numbers of sources and the names of attributes."""
        spec = OPS[one.op]
        self.need(
            (one.dst is None) == (one.op in {Op.CALL_HOST, Op.END}), "it writes, or it does not, against its kind"
        )
        if not spec.takes_any:
            self.need(spec.least <= len(one.sources) <= len(spec.sources), "{} sources", len(one.sources))
            self.need(None not in one.sources[: spec.least], "a source is absent")
        names = {name.rstrip(".…") for name in spec.attributes}
        self.need(set(one.attributes) <= names, "attributes {}", sorted(set(one.attributes) - names))
        if one.op is Op.CALL_HOST:
            self.need(0 <= one.whole("call") < len(self.program.calls), "no such call of the host")

    def tensor(self, tensor: ir.Tensor) -> None:
        """Check a tensor once: its own description, and its place in its storage."""
        if id(tensor) in self.known:
            return
        self.known.add(id(tensor))
        root = tensor.storage
        self.need(root.root is None, "{} is a view of a view", tensor)
        self.need(len(tensor.shape) == len(tensor.strides), "{} has {} strides", tensor, len(tensor.strides))
        self.need(tensor.space is root.space, "{} is not where {} is", tensor, root)
        self.need(tensor.root is not None or equal(tensor.offset, 0), "{} does not begin where it begins", tensor)
        self.need(
            (root.space in {Space.CONST, Space.STATE}) == (root.data is not None),
            "{} has elements, or lacks them",
            root,
        )
        self.need(all(not isinstance(one, int) or one >= 0 for one in tensor.shape), "{} has a dim below zero", tensor)
        ends, whole = _reach(tensor), _reach(root)
        if root.layout is not Layout.STRIDED or ends is None or whole is None or tensor.root is None:
            return
        last = whole[1] + 1 if root.data is None else root.data.numel()
        fits = ends[0] >= 0 and (ends[1] + 1) * tensor.dtype.size <= last * root.dtype.size
        self.need(fits, "{} reaches out of {}", tensor, root)

    def shapes(self, one: ir.Instruction) -> None:
        if one.dst is None:
            return
        if one.op in SAME_SHAPE:
            for source in one.reads if one.op is Op.EW else one.reads[:1]:
                self.need(_same(source.shape, one.dst.shape), "{} has not the shape of {}", source, one.dst)
        weight = one.sources[1] if one.op in WITH_WEIGHTS and len(one.sources) > 1 else None
        if weight is not None:
            self.need(weight.storage.space is Space.CONST, "the weight {} is no constant", weight)
            packed = weight.layout is not Layout.STRIDED
            self.need(
                not packed or weight.layout is WITH_WEIGHTS[one.op], "the weight {} is packed for another", weight
            )
            channels = one.dst.shape[-1 if one.op in {Op.GEMM, Op.QGEMM, Op.BGEMM} else 1]
            self.need(equal(weight.shape[0], channels), "the weight {} does not make {}", weight, one.dst)


def _same(first: Iterable[object], second: Iterable[object]) -> bool:
    one, other = tuple(first), tuple(second)
    return len(one) == len(other) and all(map(equal, one, other))


def _reach(tensor: ir.Tensor) -> tuple[int, int] | None:
    """Return the first and the last element; None where there is none, or symbols say where it is."""
    if not all(isinstance(one, int) for one in (tensor.offset, *tensor.shape, *tensor.strides)):
        return None
    return reach(tensor.offset, tensor.shape, tensor.strides)
