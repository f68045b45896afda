"""Interpreter: runs a blob instruction by instruction with the reference; slow, plain, without a C compiler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from atalla import ir
from atalla.blob.reader import Listing
from atalla.blob.rows import InstructionRow
from atalla.errors import KernelError
from atalla.isa import PAIR, QUAD, WEIGHTED, Layout, Op
from atalla.isa.format import LINE
from atalla.layouts import unpack_deep, winograd_filters
from atalla.library import BUSY
from atalla.run import reference
from atalla.run.memory import Memory, typed

if TYPE_CHECKING:
    import torch

Host = Callable[[int, "list[torch.Tensor]", "list[torch.Tensor]"], None]
"""Called with the number of a call, its operands, and where its outputs go."""


class Interpreter:
    """A sound blob and the memory that it needs."""

    def __init__(
        self,
        listing: Listing,
        host: Host,
        state: torch.Tensor | None = None,
        after: Callable[[int], bool] | None = None,
    ) -> None:
        """Reserve the memory and unpack the weights.

        Args:
            listing: of the blob.
            host: what calls of the host are given to.
            state: what another of the same blob goes on with.
            after: called after each instruction with its number; the run ends there if it says so.
        """
        import torch

        self._listing, self._host, self._is_busy = listing, host, False
        self._after = after or (lambda _number: False)
        self.state = torch.empty(max(listing.state_bytes, LINE), dtype=torch.uint8) if state is None else state
        arena = torch.zeros(max(listing.arena_bytes, LINE), dtype=torch.uint8)
        self.memory = Memory(listing, arena, self.state)
        if state is None:
            self.reset()
        self._weights = {row.sources[1]: self._unpacked(row) for row in listing.instructions if row.op in WEIGHTED}

    def reset(self) -> None:
        """Bring the state to what it is at first."""
        self.memory.reset()

    def run(self, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor | None]) -> None:
        """Run once; outputs are written in place.

        Raises:
            KernelError: an instruction failed, or an operator of the host runs the blob that calls it.
        """
        if self._is_busy:
            raise KernelError(BUSY, "the blob is running already: one call at a time")
        self._is_busy = True
        try:
            self._run(inputs, outputs)
        finally:
            self._is_busy = False

    def _run(self, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor | None]) -> None:
        def at(number: int | None) -> torch.Tensor | None:
            if number is None:
                return None
            return self._weights[number] if number in self._weights else self.memory.view(number, inputs, outputs)

        for number, row in enumerate(self._listing.instructions):
            if number > 0 and self._after(number - 1):
                return
            if row.op is Op.END:
                return
            if row.op is Op.CALL_HOST:
                call = self._listing.calls[row.attributes["call"]]
                operands, made = ([at(one) for one in numbers] for numbers in (row.sources, call.outputs))
                self._host(row.attributes["call"], operands, made)  # type: ignore[arg-type]  # none is absent
                continue
            dst = at(row.dst)
            assert dst is not None, "all operations but two write something"
            reference.execute(
                ir.Instruction(row.op, None, (), row.attributes), dst, [at(source) for source in row.sources]
            )

    def _unpacked(self, instruction: InstructionRow) -> torch.Tensor:
        number = instruction.sources[1]
        assert number is not None, "weights are always there"
        row = self._listing.tensors[number]
        data = typed(self.memory.constants, row.place, row.bytes, row)
        high, wide = (instruction.attributes.get(name, 1) for name in ("kernel_h", "kernel_w"))
        if row.layout is Layout.DEPTHWISE:
            return data.reshape(-1, row.shape[0]).t().reshape(row.shape[0], 1, high, wide)
        if row.layout is Layout.WINOGRAD:
            return winograd_filters(data, row.shape)
        n, _, k = row.shape
        groups = instruction.attributes.get("groups", 1)
        deep = {Layout.QUADS: QUAD, Layout.PAIRS: PAIR}.get(row.layout, 1)
        taps = unpack_deep(data, row.shape, groups, deep)
        if instruction.op in {Op.GEMM, Op.QGEMM, Op.BGEMM}:
            return taps.reshape(n, k)
        return taps.transpose(1, 2).reshape(n, k, high, wide)
