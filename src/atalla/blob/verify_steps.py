"""Verify, the instructions: what must hold so that a kernel that trusts them stays in its tensors; as in check.c."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence

from atalla.blob.records import NOTHING
from atalla.blob.verify import Parts, Row, Step, need, rows_of
from atalla.isa import FEW_CHANNELS, OPS, PANEL, Act, Dtype, Layout, Norm, Op, Pool, Reduce, Verdict
from atalla.isa import Step as Code

MOST_ATTRIBUTE, MOST_STEPS, MOST_FILTER_ROWS = 1 << 20, 40, 64
FLOATS = frozenset({Dtype.F32, Dtype.F64, Dtype.F16, Dtype.BF16})
REDUCED = frozenset({Dtype.F32, Dtype.I64, Dtype.I32, Dtype.BOOL})
Sources = Sequence[Row | None]
ANY_NUMBER = {Op.CALL_HOST, Op.EW}


def instruction(parts: Parts, step: Step) -> None:
    """Check one instruction."""
    op = Op(step.op)
    names = OPS[op].sources
    least = 0 if op in ANY_NUMBER else sum(not name.endswith("?") for name in names)
    most = math.inf if op is Op.CALL_HOST else 8 if op is Op.EW else len(names)
    need(least <= len(step.sources) <= most, Verdict.INSTRUCTION)
    count = sum(not name.endswith("…") for name in OPS[op].attributes)
    need(op is Op.EW or len(step.words) == count, Verdict.INSTRUCTION)
    always = len(step.sources) if op in ANY_NUMBER else least
    need(NOTHING not in step.sources[:always], Verdict.INSTRUCTION)
    if op is Op.END:
        return
    if op is Op.CALL_HOST:
        need(0 <= step.words[0] < len(parts.calls), Verdict.ATTRIBUTE)
        return
    dst = parts.tensors[step.dst]
    need(dst.layout == Layout.STRIDED, Verdict.OPERANDS)
    sources = [*rows_of(parts, step.sources), None, None, None, None]
    if op is not Op.FILL:  # any tensor may be filled
        _TABLE[op](step, dst, sources)


def number(word: int) -> float:
    """Return the float64 of a word."""
    return float(struct.unpack("<d", struct.pack("<q", word))[0])


def _there(row: Row | None) -> Row:
    assert row is not None, "the number of sources was checked"
    return row


def shape(row: Row) -> Sequence[int]:
    """Return the dims that count."""
    return row.dim[: row.rank]


def strided(row: Row, dtype: Dtype = Dtype.F32) -> bool:
    """Whether it has an element type and no layout of its own."""
    return row.layout == Layout.STRIDED and row.dtype == dtype


def dense(row: Row, dim: int) -> bool:
    """Whether one step in a dim is one element."""
    return row.stride[dim] == 1 or row.dim[dim] <= 1


def contiguous(row: Row) -> bool:
    """Whether dims lie in memory in their own order, without gaps."""
    step = 1
    for extent, stride in zip(reversed(shape(row)), reversed(row.stride[: row.rank]), strict=True):
        if extent > 1 and stride != step:
            return False
        step *= max(extent, 1)
    return True


def _vector(row: Row, count: int) -> bool:
    return strided(row) and row.rank == 1 and row.dim[0] == count and dense(row, 0)


def _weight(row: Row, layout: Layout, form: Sequence[int], groups: int) -> bool:
    n, taps, k = form
    panels = (n // groups + PANEL - 1) // PANEL
    fits = row.layout == layout and tuple(row.dim[:3]) == (n, taps, k)
    return fits and row.bytes == panels * groups * PANEL * taps * k * 4


def _epilogue(words: Sequence[int]) -> None:
    need(0 <= words[0] <= max(Act), Verdict.ATTRIBUTE)
    need(not math.isnan(number(words[1])) and not math.isnan(number(words[2])), Verdict.ATTRIBUTE)


def _gemm(step: Step, dst: Row, sources: Sources) -> None:
    src, weight, bias, residual = _there(sources[0]), _there(sources[1]), sources[2], sources[3]
    need(strided(src) and strided(dst) and src.rank == dst.rank >= 1, Verdict.OPERANDS)
    last = src.rank - 1
    need(shape(src)[:-1] == shape(dst)[:-1] and dense(src, last) and dense(dst, last), Verdict.OPERANDS)
    need(_weight(weight, Layout.PANELS, (dst.dim[last], 1, src.dim[last]), 1), Verdict.OPERANDS)
    need(bias is None or _vector(bias, dst.dim[last]), Verdict.OPERANDS)
    if residual is not None:
        need(strided(residual) and shape(residual) == shape(dst) and dense(residual, last), Verdict.OPERANDS)
    _epilogue(step.words)


def _image(row: Row) -> bool:
    return strided(row) and row.rank == 4 and dense(row, 1)


def _window(words: Sequence[int]) -> bool:
    return all((0 if 2 <= i < 6 else 1) <= word <= MOST_ATTRIBUTE for i, word in enumerate(words[:10]))


def _conv(step: Step, dst: Row, sources: Sources) -> None:
    src, weight, bias, residual = _there(sources[0]), _there(sources[1]), sources[2], sources[3]
    is_few = step.op == Op.CONV2D and step.words[10] == 1 and strided(src) and src.rank == 4
    fits = _image(src) or (is_few and src.dim[1] <= FEW_CHANNELS)
    need(fits and _image(dst) and src.dim[0] == dst.dim[0], Verdict.OPERANDS)
    need(_window(step.words) and 1 <= step.words[10] <= MOST_ATTRIBUTE, Verdict.ATTRIBUTE)
    high, wide, groups = step.words[8:11]
    channels, columns, taps = src.dim[1], dst.dim[1], high * wide
    need(channels % groups == 0 and columns % groups == 0, Verdict.OPERANDS)
    if step.op == Op.DWCONV2D:
        need(high <= MOST_FILTER_ROWS and groups == channels == columns, Verdict.ATTRIBUTE)
        need(weight.layout == Layout.DEPTHWISE and tuple(weight.dim[:2]) == (channels, taps), Verdict.OPERANDS)
        need(weight.bytes == channels * taps * 4, Verdict.OPERANDS)
    elif step.op == Op.CONV2D_WINO:
        plain = (high, wide, groups) == (3, 3, 1) and set(step.words[:2]) | set(step.words[6:8]) == {1}
        need(plain, Verdict.ATTRIBUTE)
        need(_weight(weight, Layout.WINOGRAD, (columns, 36, channels), 1), Verdict.OPERANDS)
    else:
        need(_weight(weight, Layout.PANELS, (columns, taps, channels // groups), groups), Verdict.OPERANDS)
    need(bias is None or _vector(bias, columns), Verdict.OPERANDS)
    need(residual is None or (_image(residual) and shape(residual) == shape(dst)), Verdict.OPERANDS)
    _epilogue(step.words[11:])


def _pool(step: Step, dst: Row, sources: Sources) -> None:
    src = _there(sources[0])
    need(_image(src) and _image(dst) and shape(src)[:2] == shape(dst)[:2], Verdict.OPERANDS)
    need(0 <= step.words[0] <= max(Pool) and _window(step.words[1:]), Verdict.ATTRIBUTE)


def _bmm(step: Step, dst: Row, sources: Sources) -> None:
    a, b = _there(sources[0]), _there(sources[1])
    need(all(strided(one) and one.rank == dst.rank >= 2 for one in (a, b, dst)), Verdict.OPERANDS)
    need(shape(a)[:-2] == shape(b)[:-2] == shape(dst)[:-2], Verdict.OPERANDS)
    (m, k), (k2, n) = shape(a)[-2:], shape(b)[-2:]
    need((m, n) == tuple(shape(dst)[-2:]) and k == k2 and dense(dst, dst.rank - 1), Verdict.OPERANDS)
    need(not math.isnan(number(step.words[0])), Verdict.ATTRIBUTE)


def _attention(step: Step, dst: Row, sources: Sources) -> None:
    q, k, v, mask = _there(sources[0]), _there(sources[1]), _there(sources[2]), sources[3]
    need(all(strided(one) and one.rank == 4 and one.dim[:2] == q.dim[:2] for one in (q, k, v, dst)), Verdict.OPERANDS)
    need(k.dim[3] == q.dim[3] and v.dim[2] == k.dim[2], Verdict.OPERANDS)
    need(dst.dim[2] == q.dim[2] and dst.dim[3] == v.dim[3], Verdict.OPERANDS)
    need(dense(q, 3) and dense(dst, 3), Verdict.OPERANDS)
    if mask is not None:
        need(
            strided(mask) and mask.rank == 4 and mask.dim[:3] == q.dim[:3] and mask.dim[3] == k.dim[2], Verdict.OPERANDS
        )
    need(step.words[0] in {0, 1} and not math.isnan(number(step.words[1])), Verdict.ATTRIBUTE)


_SAME = {Code.ADD, Code.SUB, Code.MUL, Code.MIN, Code.MAX, Code.EQ, Code.NE, Code.LT, Code.LE, Code.GT, Code.GE,
         Code.FLOOR_DIV, Code.REMAINDER}  # fmt: skip
_TWO_FLOATS, _TWO_WHOLE = {Code.DIV, Code.POW}, {Code.AND, Code.OR, Code.XOR}
_ONE_WHOLE, _ONE_ANY = {Code.NOT, Code.BIT_NOT, Code.TO_FLOAT}, {Code.NEG, Code.ABS, Code.RELU, Code.SIGN}
_LIKE_FIRST = {Code.ADD, Code.SUB, Code.MUL, Code.MIN, Code.MAX, Code.POW, Code.NEG, Code.ABS, Code.RELU, Code.SIGN,
               Code.REMAINDER, Code.FLOOR_DIV}  # fmt: skip
_WHOLE = {Code.INT, Code.TO_INT, Code.EQ, Code.NE, Code.LT, Code.LE, Code.GT, Code.GE, Code.AND, Code.OR, Code.XOR,
          Code.NOT, Code.IS_NAN, Code.BIT_NOT}  # fmt: skip


def _ew(step: Step, dst: Row, sources: Sources) -> None:
    need(dst.dtype != Dtype.F64 and 1 <= len(step.words) <= MOST_STEPS, Verdict.OPERANDS)
    floats: list[bool] = []
    for source in sources[: len(step.sources)]:
        one = _there(source)
        good = one.layout == Layout.STRIDED and one.dtype != Dtype.F64 and shape(one) == shape(dst)
        need(good, Verdict.OPERANDS)
        floats.append(one.dtype in FLOATS)
    for word in step.words:
        code, b, c, zero, a = struct.unpack("<BBBBI", struct.pack("<q", word))
        need(code <= max(Code) and zero == 0, Verdict.ATTRIBUTE)
        if code in {Code.FLOAT, Code.INT}:
            need(b == c == 0, Verdict.ATTRIBUTE)
            floats.append(code == Code.FLOAT)
            continue
        need(max(a, b, c) < len(floats), Verdict.ATTRIBUTE)
        need(_kinds(Code(code), floats, (a, b, c)), Verdict.ATTRIBUTE)
        made = floats[a] if code in _LIKE_FIRST else floats[b] if code == Code.WHERE else code not in _WHOLE
        floats.append(made)
    need(floats[-1] == (dst.dtype in FLOATS), Verdict.ATTRIBUTE)


def _kinds(code: Code, floats: Sequence[bool], operands: tuple[int, int, int]) -> bool:
    """Whether a step's operands are of the kinds that it takes, and those it has not are zero."""
    a, b, c = operands
    if code is Code.WHERE:
        return not floats[a] and floats[b] == floats[c]
    if code in _SAME:
        return floats[a] == floats[b] and not c
    if code in _TWO_FLOATS | _TWO_WHOLE:
        wanted = code in _TWO_FLOATS
        return floats[a] == wanted and floats[b] == wanted and not c
    if b or c:
        return False
    return code in _ONE_ANY or floats[a] == (code not in _ONE_WHOLE)


def _gather(_: Step, dst: Row, sources: Sources) -> None:
    table, index = _there(sources[0]), _there(sources[1])
    need(table.layout == Layout.STRIDED and table.dtype == dst.dtype and table.rank >= 1, Verdict.OPERANDS)
    need(index.dtype in {Dtype.I64, Dtype.I32}, Verdict.OPERANDS)
    need(dst.rank == index.rank + table.rank - 1 and contiguous(table) and contiguous(dst), Verdict.OPERANDS)
    need(tuple(shape(dst)) == (*shape(index), *shape(table)[1:]), Verdict.OPERANDS)


def _reduce(step: Step, dst: Row, sources: Sources) -> None:
    src, (kind, dims, correction) = _there(sources[0]), step.words
    need(0 <= kind <= max(Reduce) and 0 <= dims < 1 << src.rank, Verdict.ATTRIBUTE)
    need(src.layout == Layout.STRIDED and src.rank == dst.rank and src.dtype in REDUCED, Verdict.OPERANDS)
    kept = tuple(1 if dims >> i & 1 else extent for i, extent in enumerate(shape(src)))
    need(tuple(shape(dst)) == kept, Verdict.OPERANDS)
    made = src.dtype
    if kind in {Reduce.ALL, Reduce.ANY}:
        made = Dtype.BOOL
    elif kind in {Reduce.ARGMAX, Reduce.ARGMIN} or (kind in {Reduce.SUM, Reduce.PROD} and src.dtype != Dtype.F32):
        made = Dtype.I64
    need(kind not in {Reduce.MEAN, Reduce.VAR} or src.dtype == Dtype.F32, Verdict.OPERANDS)
    need(kind not in {Reduce.ARGMAX, Reduce.ARGMIN} or dims.bit_count() == 1, Verdict.ATTRIBUTE)
    need(not math.isnan(number(correction)), Verdict.ATTRIBUTE)
    need(dst.dtype == made, Verdict.OPERANDS)


def _softmax(step: Step, dst: Row, sources: Sources) -> None:
    src = _there(sources[0])
    need(strided(src) and strided(dst) and shape(src) == shape(dst), Verdict.OPERANDS)
    need(0 <= step.words[0] < src.rank and step.words[1] in {0, 1}, Verdict.ATTRIBUTE)


def _norm(step: Step, dst: Row, sources: Sources) -> None:
    src, (kind, dims, eps) = _there(sources[0]), step.words
    need(strided(src) and strided(dst) and shape(src) == shape(dst), Verdict.OPERANDS)
    need(0 <= kind <= max(Norm) and 1 <= dims <= src.rank and not math.isnan(number(eps)), Verdict.ATTRIBUTE)
    for part in sources[1:3]:
        if part is not None:
            need(strided(part) and part.rank == dims and contiguous(part), Verdict.OPERANDS)
            need(shape(part) == shape(src)[src.rank - dims :], Verdict.OPERANDS)


def _cumsum(step: Step, dst: Row, sources: Sources) -> None:
    src = _there(sources[0])
    need(src.layout == Layout.STRIDED and src.dtype in REDUCED and shape(src) == shape(dst), Verdict.OPERANDS)
    need(dst.dtype == Dtype.F32 or (dst.dtype == Dtype.I64 and src.dtype != Dtype.F32), Verdict.OPERANDS)
    need(0 <= step.words[0] < src.rank, Verdict.ATTRIBUTE)


def _copy(_: Step, dst: Row, sources: Sources) -> None:
    src = _there(sources[0])
    need(src.layout == Layout.STRIDED and shape(src) == shape(dst), Verdict.OPERANDS)


def _iota(_: Step, dst: Row, _sources: Sources) -> None:
    need(dst.rank == 1, Verdict.OPERANDS)


_TABLE: dict[Op, Callable[[Step, Row, Sources], None]] = {
    Op.COPY: _copy, Op.IOTA: _iota, Op.GATHER: _gather, Op.EW: _ew, Op.GEMM: _gemm, Op.BMM: _bmm,
    Op.CONV2D: _conv, Op.CONV2D_WINO: _conv, Op.DWCONV2D: _conv, Op.POOL2D: _pool, Op.REDUCE: _reduce,
    Op.SOFTMAX: _softmax, Op.NORM: _norm, Op.ATTENTION: _attention, Op.CUMSUM: _cumsum,
}  # fmt: skip
