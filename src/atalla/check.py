"""Check: what holds of a program between the steps of the compiler; looked at after each, in time linear in its size.

A step that breaks one of these has a bug: the error says which step, which instruction, and what does not hold.
"""

from __future__ import annotations

from collections.abc import Iterable

from atalla import ir
from atalla.dims import equal
from atalla.errors import CompileError
from atalla.isa import OPS, Layout, Op, Space

GIVEN = frozenset({Space.INPUT, Space.CONST, Space.STATE})
"""What holds something before the first instruction."""
SAME_SHAPE = frozenset({Op.COPY, Op.EW, Op.SOFTMAX, Op.NORM, Op.CUMSUM})
"""Operations whose first source has the shape of what they make."""
WITH_WEIGHTS = {Op.GEMM: Layout.PANELS, Op.CONV2D: Layout.PANELS, Op.CONV2D_WINO: Layout.WINOGRAD,
                Op.DWCONV2D: Layout.DEPTHWISE}  # fmt: skip


def check(program: ir.Program, step: str) -> None:
    """Look at a program after a step.

    Raises:
        CompileError: something does not hold.
    """
    _Look(program, step).everything()


class _Look:
    def __init__(self, program: ir.Program, step: str) -> None:
        self.program, self.step, self.at = program, step, "the program"
        self.known: set[int] = set()
        """Tensors that were looked at."""
        self.written: set[int] = set()
        """Roots that hold something."""

    def need(self, holds: bool, what: str) -> None:
        if not holds:
            raise CompileError(f"Atalla's step '{self.step}' broke the program at {self.at}: {what}")

    def everything(self) -> None:
        for place, tensor in enumerate(self.program.inputs):
            self.at = f"input {place}"
            self.need(tensor.space is Space.INPUT and tensor.root is None, f"{tensor} is no input")
            self.tensor(tensor)
        for number, instruction in enumerate(self.program.instructions):
            self.at = f"instruction {number} ({instruction.op.name} of {instruction.node or 'no node'})"
            self.instruction(instruction)
        for place, value in enumerate(self.program.outputs):
            self.at = f"output {place}"
            if isinstance(value, ir.Tensor):
                self.need(value.space is Space.OUTPUT and value.root is None, f"{value} is no output")
                self.need(id(value) in self.written, "nothing writes it")

    def instruction(self, one: ir.Instruction) -> None:
        self.form(one)
        made = ir.written(self.program, one)
        roots = {id(tensor.storage) for tensor in made}
        for tensor in one.reads:
            self.tensor(tensor)
            root = tensor.storage
            self.need(root.space in GIVEN or id(root) in self.written, f"{tensor} is read before it is written")
            self.need(id(root) not in roots, f"{tensor} is read where it is written")
        for tensor in made:
            self.tensor(tensor)
            root = tensor.storage
            self.need(root.space not in {Space.INPUT, Space.CONST}, f"{tensor} is written")
            self.need(tensor.layout is Layout.STRIDED, f"{tensor} is written, and packed")
            self.written.add(id(root))
        self.shapes(one)

    def form(self, one: ir.Instruction) -> None:
        """Check the numbers of sources and the names of attributes."""
        shape = OPS[one.op]
        self.need(
            (one.dst is None) == (one.op in {Op.CALL_HOST, Op.END}), "it writes, or it does not, against its kind"
        )
        if not (shape.sources and shape.sources[-1].endswith("…")):
            always = sum(not name.endswith("?") for name in shape.sources)
            self.need(always <= len(one.sources) <= len(shape.sources), f"{len(one.sources)} sources")
            self.need(all(source is not None for source in one.sources[:always]), "a source is absent")
        names = {name.rstrip(".…") for name in shape.attributes}
        self.need(set(one.attributes) <= names, f"attributes {sorted(set(one.attributes) - names)}")
        if one.op is Op.CALL_HOST:
            self.need(0 <= one.whole("call") < len(self.program.calls), "no such call of the host")

    def tensor(self, tensor: ir.Tensor) -> None:
        """Check a tensor once: its own description, and its place in its storage."""
        if id(tensor) in self.known:
            return
        self.known.add(id(tensor))
        root = tensor.storage
        self.need(root.root is None, f"{tensor} is a view of a view")
        self.need(len(tensor.shape) == len(tensor.strides), f"{tensor} has {len(tensor.strides)} strides")
        self.need(tensor.space is root.space, f"{tensor} is not where {root} is")
        self.need(tensor.root is not None or equal(tensor.offset, 0), f"{tensor} does not begin where it begins")
        self.need(
            (root.space in {Space.CONST, Space.STATE}) == (root.data is not None), f"{root} has elements, or lacks them"
        )
        self.need(not _negative(tensor.shape), f"{tensor} has a dim below zero")
        ends, whole = _reach(tensor), _reach(root)
        if root.layout is not Layout.STRIDED or ends is None or whole is None or tensor.root is None:
            return
        last = whole[1] + 1 if root.data is None else root.data.numel()
        fits = ends[0] >= 0 and (ends[1] + 1) * tensor.dtype.size <= last * root.dtype.size
        self.need(fits, f"{tensor} reaches out of {root}")

    def shapes(self, one: ir.Instruction) -> None:
        if one.dst is None:
            return
        if one.op in SAME_SHAPE:
            for source in one.reads if one.op is Op.EW else one.reads[:1]:
                self.need(_same(source.shape, one.dst.shape), f"{source} has not the shape of {one.dst}")
        weight = one.sources[1] if one.op in WITH_WEIGHTS and len(one.sources) > 1 else None
        if weight is not None:
            self.need(weight.storage.space is Space.CONST, f"the weight {weight} is no constant")
            packed = weight.layout is not Layout.STRIDED
            self.need(not packed or weight.layout is WITH_WEIGHTS[one.op], f"the weight {weight} is packed for another")
            channels = one.dst.shape[-1 if one.op is Op.GEMM else 1]
            self.need(equal(weight.shape[0], channels), f"the weight {weight} does not make {one.dst}")


def _same(first: Iterable[object], second: Iterable[object]) -> bool:
    one, other = tuple(first), tuple(second)
    return len(one) == len(other) and all(map(equal, one, other))


def _negative(shape: Iterable[object]) -> bool:
    return any(isinstance(extent, int) and extent < 0 for extent in shape)


def _reach(tensor: ir.Tensor) -> tuple[int, int] | None:
    """Give the first and the last element; None where there is none, or symbols say where it is."""
    if not isinstance(tensor.offset, int):
        return None
    low = high = tensor.offset
    for extent, stride in zip(tensor.shape, tensor.strides, strict=True):
        if not isinstance(extent, int) or not isinstance(stride, int) or not extent:
            return None
        low, high = low + min((extent - 1) * stride, 0), high + max((extent - 1) * stride, 0)
    return low, high
