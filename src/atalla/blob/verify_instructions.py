"""Verify, the instructions: what must hold so that a kernel that trusts them stays in its tensors; as in check.c."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from atalla import isa
from atalla.blob.reader import Listing
from atalla.blob.rows import InstructionRow, TensorRow, float64_of, need, step_fields
from atalla.isa import (
    FEW_CHANNELS,
    LANE,
    OPS,
    PAIR,
    PANEL,
    QUAD,
    STEPS,
    WINOGRAD_TILES,
    Act,
    Dtype,
    Layout,
    Norm,
    Op,
    Pool,
    Reduce,
    Step,
    Verdict,
)
from atalla.isa.format import MOST_ATTRIBUTE, MOST_DEPTH, MOST_FILTER_ROWS, MOST_SCALE, MOST_STEPS, MOST_TAPS

REDUCED = frozenset({Dtype.F32, Dtype.I64, Dtype.I32, Dtype.BOOL})
_OF_ONE_DIM = frozenset({Reduce.ARGMAX, Reduce.ARGMIN, Reduce.MEDIAN})
Sources = Sequence[TensorRow | None]


def check_instruction(listing: Listing, row: InstructionRow) -> None:
    """Check one instruction."""
    spec, count = OPS[row.op], len(row.sources)
    need(spec.least <= count and (spec.most is None or count <= spec.most), Verdict.INSTRUCTION)
    need(spec.words is None or len(row.words) == spec.words, Verdict.INSTRUCTION)
    need(None not in row.sources[: None if spec.takes_any else spec.least], Verdict.INSTRUCTION)
    if row.op is Op.END:
        return
    if row.op is Op.CALL_HOST:
        need(0 <= row.words[0] < len(listing.calls), Verdict.ATTRIBUTE)
        return
    assert row.dst is not None, "the reader looked"
    dst = listing.tensors[row.dst]
    need(dst.layout is Layout.STRIDED, Verdict.OPERANDS)
    sources = [None if one is None else listing.tensors[one] for one in row.sources]
    if row.op is not Op.FILL:  # any tensor may be filled
        _TABLE[row.op](row, dst, [*sources, None, None, None, None])


def _present(row: TensorRow | None) -> TensorRow:
    assert row is not None, "the number of sources was checked"
    return row


def is_strided(row: TensorRow, dtype: Dtype = Dtype.F32) -> bool:
    """Whether it has an element type and no layout of its own."""
    return row.layout is Layout.STRIDED and row.dtype is dtype


def is_dense(row: TensorRow, dim: int) -> bool:
    """Whether one step in a dim is one element."""
    return row.strides[dim] == 1 or row.shape[dim] <= 1


def is_contiguous(row: TensorRow) -> bool:
    """Whether dims lie in memory in their own order, without gaps."""
    step = 1
    for extent, stride in zip(reversed(row.shape), reversed(row.strides), strict=True):
        if extent > 1 and stride != step:
            return False
        step *= max(extent, 1)
    return True


def _vector(row: TensorRow, count: int) -> bool:
    return is_strided(row) and row.rank == 1 and row.shape[0] == count and is_dense(row, 0)


def _weight(row: TensorRow, layout: Layout, form: Sequence[int], groups: int, deep: int = 1) -> bool:
    """Whether it is a weight whose bytes are those of its panels, of ``deep`` neighbours in depth."""
    n, taps, k = form
    panels, steps = -(-(n // groups) // PANEL), -(-taps * k // deep)
    fits = row.layout == layout and row.shape == (n, taps, k)
    return fits and row.bytes == panels * groups * steps * PANEL * LANE


def _filters(row: TensorRow, dtype: Dtype, form: tuple[int, int]) -> bool:
    fits = row.layout == Layout.DEPTHWISE and row.dtype == dtype and row.shape == form
    return fits and row.bytes == math.prod(form) * dtype.size


def _epilogue(words: Sequence[int]) -> None:
    need(0 <= words[0] <= max(Act), Verdict.ATTRIBUTE)
    need(not math.isnan(float64_of(words[1])) and not math.isnan(float64_of(words[2])), Verdict.ATTRIBUTE)


def _gemm(row: InstructionRow, dst: TensorRow, sources: Sources) -> None:
    src, weight, bias, residual = _present(sources[0]), _present(sources[1]), sources[2], sources[3]
    need(is_strided(src) and is_strided(dst) and src.rank == dst.rank >= 1, Verdict.OPERANDS)
    last = src.rank - 1
    need(src.shape[:-1] == dst.shape[:-1] and is_dense(src, last) and is_dense(dst, last), Verdict.OPERANDS)
    form = dst.shape[last], 1, src.shape[last]
    if row.op == Op.BGEMM:
        need(src.shape[last] <= MOST_DEPTH and _weight(weight, Layout.PAIRS, form, 1, PAIR), Verdict.OPERANDS)
    else:
        need(_weight(weight, Layout.PANELS, form, 1), Verdict.OPERANDS)
    need(bias is None or _vector(bias, dst.shape[last]), Verdict.OPERANDS)
    if residual is not None:
        need(is_strided(residual) and residual.shape == dst.shape and is_dense(residual, last), Verdict.OPERANDS)
    _epilogue(row.words)


def _image(row: TensorRow, dtype: Dtype = Dtype.F32) -> bool:
    return is_strided(row, dtype) and row.rank == 4 and is_dense(row, 1)


def _window(words: Sequence[int]) -> bool:
    return all((0 if 2 <= i < 6 else 1) <= word <= MOST_ATTRIBUTE for i, word in enumerate(words[:10]))


def _conv(row: InstructionRow, dst: TensorRow, sources: Sources) -> None:
    src, weight, bias, residual = _present(sources[0]), _present(sources[1]), sources[2], sources[3]
    is_few = row.op in {Op.CONV2D, Op.BCONV2D} and row.words[10] == 1 and is_strided(src) and src.rank == 4
    fits = _image(src) or (is_few and src.shape[1] <= FEW_CHANNELS)
    need(fits and _image(dst) and src.shape[0] == dst.shape[0], Verdict.OPERANDS)
    need(_window(row.words) and 1 <= row.words[10] <= MOST_ATTRIBUTE, Verdict.ATTRIBUTE)
    high, wide, groups = row.words[8:11]
    channels, columns, taps = src.shape[1], dst.shape[1], high * wide
    need(channels % groups == 0 and columns % groups == 0, Verdict.OPERANDS)
    if row.op == Op.DWCONV2D:
        need(high <= MOST_FILTER_ROWS and groups == channels == columns, Verdict.ATTRIBUTE)
        need(_filters(weight, Dtype.F32, (channels, taps)), Verdict.OPERANDS)
    elif row.op == Op.CONV2D_WINO:
        forms = [(columns, places, channels) for places in WINOGRAD_TILES]
        need(any(_weight(weight, Layout.WINOGRAD, form, 1) for form in forms), Verdict.OPERANDS)
        _, stride = WINOGRAD_TILES[weight.shape[1]]
        plain = (high, wide, groups) == (3, 3, 1) and set(row.words[6:8]) == {1}
        need(plain and set(row.words[:2]) == {stride}, Verdict.ATTRIBUTE)
    elif row.op == Op.BCONV2D:
        need(taps * (channels // groups) <= MOST_DEPTH, Verdict.ATTRIBUTE)
        need(_weight(weight, Layout.PAIRS, (columns, taps, channels // groups), groups, PAIR), Verdict.OPERANDS)
    else:
        need(_weight(weight, Layout.PANELS, (columns, taps, channels // groups), groups), Verdict.OPERANDS)
    need(bias is None or _vector(bias, columns), Verdict.OPERANDS)
    need(residual is None or (_image(residual) and residual.shape == dst.shape), Verdict.OPERANDS)
    _epilogue(row.words[11:])


def _int8_or_float(row: TensorRow) -> bool:
    return is_strided(row, Dtype.I8) or is_strided(row)


def _made(dst: TensorRow, sources: Sources, columns: int, words: Sequence[int]) -> None:
    """Check what follows the weight, and what is made of sums."""
    sums, scale, offset = (_present(one) for one in sources[2:5])
    need(is_strided(sums, Dtype.I32) and sums.shape == (columns,) and is_dense(sums, 0), Verdict.OPERANDS)
    need(_vector(scale, columns) and _vector(offset, columns), Verdict.OPERANDS)
    zero, low, high = words[0], float64_of(words[1]), float64_of(words[2])
    need(-128 <= zero <= 127 and not math.isnan(low) and not math.isnan(high), Verdict.ATTRIBUTE)
    need(dst.dtype is not Dtype.I8 or -128 <= low <= high <= 127, Verdict.ATTRIBUTE)


def _qgemm(row: InstructionRow, dst: TensorRow, sources: Sources) -> None:
    src, weight = _present(sources[0]), _present(sources[1])
    need(is_strided(src, Dtype.I8) and _int8_or_float(dst) and src.rank == dst.rank >= 1, Verdict.OPERANDS)
    last = src.rank - 1
    need(src.shape[:-1] == dst.shape[:-1] and is_dense(src, last) and is_dense(dst, last), Verdict.OPERANDS)
    need(src.shape[last] <= MOST_DEPTH, Verdict.OPERANDS)
    need(_weight(weight, Layout.QUADS, (dst.shape[last], 1, src.shape[last]), 1, QUAD), Verdict.OPERANDS)
    _made(dst, sources, dst.shape[last], row.words)


def _qconv(row: InstructionRow, dst: TensorRow, sources: Sources) -> None:
    src, weight = _present(sources[0]), _present(sources[1])
    need(is_strided(src, Dtype.I8) and src.rank == 4, Verdict.OPERANDS)
    need(_int8_or_float(dst) and dst.rank == 4 and is_dense(dst, 1), Verdict.OPERANDS)
    need(_window(row.words) and 1 <= row.words[10] <= MOST_ATTRIBUTE, Verdict.ATTRIBUTE)
    high, wide, groups = row.words[8:11]
    channels, columns, taps = src.shape[1], dst.shape[1], high * wide
    need(src.shape[0] == dst.shape[0] and channels % groups == 0 and columns % groups == 0, Verdict.OPERANDS)
    is_few = row.op == Op.QCONV2D and groups == 1 and channels <= FEW_CHANNELS
    need(is_dense(src, 1) or is_few, Verdict.OPERANDS)
    if row.op == Op.QDWCONV2D:
        fits = high <= MOST_FILTER_ROWS and taps <= MOST_TAPS and groups == channels == columns
        need(fits, Verdict.ATTRIBUTE)
        need(_filters(weight, Dtype.I8, (channels, taps)), Verdict.OPERANDS)
    else:
        need(taps * (channels // groups) <= MOST_DEPTH, Verdict.ATTRIBUTE)
        need(_weight(weight, Layout.QUADS, (columns, taps, channels // groups), groups, QUAD), Verdict.OPERANDS)
    _made(dst, sources, columns, row.words[11:])


def _pool(row: InstructionRow, dst: TensorRow, sources: Sources) -> None:
    src = _present(sources[0])
    dtype = Dtype.I8 if src.dtype is Dtype.I8 and row.words[0] == Pool.MAX else Dtype.F32  # a mean is no whole number
    need(_image(src, dtype) and _image(dst, dtype) and src.shape[:2] == dst.shape[:2], Verdict.OPERANDS)
    need(0 <= row.words[0] <= max(Pool) and _window(row.words[1:]), Verdict.ATTRIBUTE)


def _resize(row: InstructionRow, dst: TensorRow, sources: Sources) -> None:
    src, scales = _present(sources[0]), [float64_of(word) for word in row.words[1:]]
    need(_image(src) and _image(dst) and src.shape[:2] == dst.shape[:2] and 0 not in src.shape[2:], Verdict.OPERANDS)
    need(0 <= row.words[0] <= max(isa.Resize), Verdict.ATTRIBUTE)
    need(all(scale == 0 or 1 / MOST_SCALE <= scale <= MOST_SCALE for scale in scales), Verdict.ATTRIBUTE)


def _bmm(row: InstructionRow, dst: TensorRow, sources: Sources) -> None:
    a, b = _present(sources[0]), _present(sources[1])
    need(all(is_strided(one) and one.rank == dst.rank >= 2 for one in (a, b, dst)), Verdict.OPERANDS)
    need(a.shape[:-2] == b.shape[:-2] == dst.shape[:-2], Verdict.OPERANDS)
    (m, k), (k2, n) = a.shape[-2:], b.shape[-2:]
    need((m, n) == dst.shape[-2:] and k == k2 and is_dense(dst, dst.rank - 1), Verdict.OPERANDS)
    need(not math.isnan(float64_of(row.words[0])), Verdict.ATTRIBUTE)


def _attention(row: InstructionRow, dst: TensorRow, sources: Sources) -> None:
    q, k, v, mask = _present(sources[0]), _present(sources[1]), _present(sources[2]), sources[3]
    batched = all(is_strided(one) and one.rank == 4 and one.shape[:2] == q.shape[:2] for one in (q, k, v, dst))
    need(batched, Verdict.OPERANDS)
    need(k.shape[3] == q.shape[3] and v.shape[2] == k.shape[2], Verdict.OPERANDS)
    need(dst.shape[2] == q.shape[2] and dst.shape[3] == v.shape[3], Verdict.OPERANDS)
    need(is_dense(q, 3) and is_dense(dst, 3), Verdict.OPERANDS)
    need(mask is None or (is_strided(mask) and mask.shape == (*q.shape[:3], k.shape[2])), Verdict.OPERANDS)
    need(row.words[0] in {0, 1} and not math.isnan(float64_of(row.words[1])), Verdict.ATTRIBUTE)


def _ew(row: InstructionRow, dst: TensorRow, sources: Sources) -> None:
    need(dst.dtype is not Dtype.F64 and 1 <= len(row.words) <= MOST_STEPS, Verdict.OPERANDS)
    floats: list[bool] = []
    for source in sources[: len(row.sources)]:
        one = _present(source)
        good = one.layout is Layout.STRIDED and one.dtype is not Dtype.F64 and one.shape == dst.shape
        need(good, Verdict.OPERANDS)
        floats.append(one.dtype.is_float)
    for word in row.words:
        code, b, c, zero, a = step_fields(word)
        need(code <= max(Step) and zero == 0, Verdict.ATTRIBUTE)
        spec = STEPS[Step(code)]
        operands = (a, b, c) if spec.operands else ()  # a constant has its bits in the place of the first
        taken = operands[: len(spec.operands)]
        need(not any((a, b, c)[max(len(taken), 1) :]), Verdict.ATTRIBUTE)
        need(all(0 <= one < len(floats) for one in operands), Verdict.ATTRIBUTE)
        kinds = [floats[one] for one in taken]
        need(spec.takes(kinds), Verdict.ATTRIBUTE)
        floats.append(spec.is_float(kinds))
    need(floats[-1] == dst.dtype.is_float, Verdict.ATTRIBUTE)


def _gather(_: InstructionRow, dst: TensorRow, sources: Sources) -> None:
    table, index = _present(sources[0]), _present(sources[1])
    need(table.layout == Layout.STRIDED and table.dtype == dst.dtype and table.rank >= 1, Verdict.OPERANDS)
    need(index.dtype in {Dtype.I64, Dtype.I32, Dtype.U8}, Verdict.OPERANDS)
    need(dst.rank == index.rank + table.rank - 1 and is_contiguous(table) and is_contiguous(dst), Verdict.OPERANDS)
    need(dst.shape == (*index.shape, *table.shape[1:]), Verdict.OPERANDS)


def _scatter(row: InstructionRow, dst: TensorRow, sources: Sources) -> None:
    src, index, update = (_present(one) for one in sources[:3])
    need(src.layout == update.layout == Layout.STRIDED and index.dtype in {Dtype.I64, Dtype.I32}, Verdict.OPERANDS)
    need(src.dtype == update.dtype == dst.dtype and src.shape == dst.shape and dst.rank >= 1, Verdict.OPERANDS)
    need(update.shape == (*index.shape, *dst.shape[1:]), Verdict.OPERANDS)
    need(is_contiguous(update) and is_contiguous(dst), Verdict.OPERANDS)
    need(0 <= row.words[0] <= max(isa.Scatter), Verdict.ATTRIBUTE)
    need(row.words[0] == isa.Scatter.SET or dst.dtype in {Dtype.F32, Dtype.I64, Dtype.I32}, Verdict.OPERANDS)


def _sample(row: InstructionRow, dst: TensorRow, sources: Sources) -> None:
    src, grid, (kind, outside, aligned) = _present(sources[0]), _present(sources[1]), row.words
    need(_image(src) and _image(dst) and src.shape[:2] == dst.shape[:2] and 0 not in src.shape[2:], Verdict.OPERANDS)
    need(is_strided(grid) and grid.shape == (dst.shape[0], *dst.shape[2:], 2), Verdict.OPERANDS)
    need(0 <= kind <= max(isa.Sample) and 0 <= outside <= max(isa.Outside) and aligned in {0, 1}, Verdict.ATTRIBUTE)


def _reduce(row: InstructionRow, dst: TensorRow, sources: Sources) -> None:
    src, (kind, dims, correction) = _present(sources[0]), row.words
    need(0 <= kind <= max(Reduce) and 0 <= dims < 1 << src.rank, Verdict.ATTRIBUTE)
    need(src.layout == Layout.STRIDED and src.rank == dst.rank, Verdict.OPERANDS)
    need(src.dtype in REDUCED or (src.dtype is Dtype.I8 and kind == Reduce.SUM), Verdict.OPERANDS)
    kept = tuple(1 if dims >> i & 1 else extent for i, extent in enumerate(src.shape))
    need(dst.shape == kept, Verdict.OPERANDS)
    made = src.dtype
    if kind in {Reduce.ALL, Reduce.ANY}:
        made = Dtype.BOOL
    elif kind in {Reduce.ARGMAX, Reduce.ARGMIN} or (kind in {Reduce.SUM, Reduce.PROD} and src.dtype != Dtype.F32):
        made = Dtype.I64
    need(kind not in {Reduce.MEAN, Reduce.VAR} or src.dtype == Dtype.F32, Verdict.OPERANDS)
    need(kind not in _OF_ONE_DIM or dims.bit_count() == 1, Verdict.ATTRIBUTE)
    need(kind != Reduce.MEDIAN or 0 not in src.shape, Verdict.OPERANDS)
    need(not math.isnan(float64_of(correction)), Verdict.ATTRIBUTE)
    need(dst.dtype == made, Verdict.OPERANDS)


def _softmax(row: InstructionRow, dst: TensorRow, sources: Sources) -> None:
    src = _present(sources[0])
    need(is_strided(src) and is_strided(dst) and src.shape == dst.shape, Verdict.OPERANDS)
    need(0 <= row.words[0] < src.rank and row.words[1] in {0, 1}, Verdict.ATTRIBUTE)


def _norm(row: InstructionRow, dst: TensorRow, sources: Sources) -> None:
    src, (kind, dims, eps) = _present(sources[0]), row.words
    need(is_strided(src) and is_strided(dst) and src.shape == dst.shape, Verdict.OPERANDS)
    need(0 <= kind <= max(Norm) and 1 <= dims <= src.rank and not math.isnan(float64_of(eps)), Verdict.ATTRIBUTE)
    for part in sources[1:3]:
        if part is not None:
            need(is_strided(part) and part.rank == dims and is_contiguous(part), Verdict.OPERANDS)
            need(part.shape == src.shape[src.rank - dims :], Verdict.OPERANDS)


def _cumsum(row: InstructionRow, dst: TensorRow, sources: Sources) -> None:
    src = _present(sources[0])
    need(src.layout == Layout.STRIDED and src.dtype in REDUCED and src.shape == dst.shape, Verdict.OPERANDS)
    need(dst.dtype == Dtype.F32 or (dst.dtype == Dtype.I64 and src.dtype != Dtype.F32), Verdict.OPERANDS)
    need(0 <= row.words[0] < src.rank, Verdict.ATTRIBUTE)


def _copy(_: InstructionRow, dst: TensorRow, sources: Sources) -> None:
    src = _present(sources[0])
    need(src.layout == Layout.STRIDED and src.shape == dst.shape, Verdict.OPERANDS)


def _iota(_: InstructionRow, dst: TensorRow, _sources: Sources) -> None:
    need(dst.rank == 1, Verdict.OPERANDS)


_TABLE: dict[Op, Callable[[InstructionRow, TensorRow, Sources], None]] = {
    Op.COPY: _copy, Op.IOTA: _iota, Op.GATHER: _gather, Op.EW: _ew, Op.GEMM: _gemm, Op.BMM: _bmm,
    Op.CONV2D: _conv, Op.CONV2D_WINO: _conv, Op.DWCONV2D: _conv, Op.POOL2D: _pool, Op.REDUCE: _reduce,
    Op.SOFTMAX: _softmax, Op.NORM: _norm, Op.ATTENTION: _attention, Op.CUMSUM: _cumsum,
    Op.RESIZE2D: _resize, Op.SCATTER: _scatter, Op.SAMPLE2D: _sample,
    Op.QGEMM: _qgemm, Op.QCONV2D: _qconv, Op.QDWCONV2D: _qconv, Op.BGEMM: _gemm, Op.BCONV2D: _conv,
}  # fmt: skip
