"""Reference: every instruction in torch, slow and plain; the living definition of what the kernels compute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from atalla.chains import made_by
from atalla.errors import KernelError
from atalla.isa import Act, Norm, Op, Pool, Reduce, Scatter
from atalla.library import BAD_INDEX
from atalla.run import reference_bf16 as bf16
from atalla.run import reference_images as images
from atalla.run import reference_int8 as int8

if TYPE_CHECKING:
    import torch

    from atalla.ir import Instruction

    Tensors = Sequence[torch.Tensor | None]
    Execute = Callable[[Instruction, torch.Tensor, Tensors], None]


def execute(instruction: Instruction, dst: torch.Tensor, sources: Tensors) -> None:
    """Run one instruction; all tensors are views of the memory in which they lie.

    Weights are plain: GEMM's ``[N, K]``, those of convolutions as ``torch.nn.functional.conv2d`` takes them.
    """
    _TABLE[instruction.op](instruction, dst, sources)


def copy(_: Instruction, dst: torch.Tensor, sources: Tensors) -> None:
    """COPY."""
    dst.copy_(_present(sources[0]))


def fill(instruction: Instruction, dst: torch.Tensor, _: Tensors) -> None:
    """FILL."""
    dst.fill_(instruction.number("value") if dst.dtype.is_floating_point else instruction.whole("whole"))


def iota(instruction: Instruction, dst: torch.Tensor, _: Tensors) -> None:
    """IOTA."""
    import torch

    numbers = torch.arange(dst.numel(), dtype=torch.float64)
    dst.copy_(instruction.number("start") + numbers * instruction.number("step"))


def gather(_: Instruction, dst: torch.Tensor, sources: Tensors) -> None:
    """GATHER."""
    table, index = _present(sources[0]), _present(sources[1])
    if index.numel() and (int(index.min()) < 0 or int(index.max()) >= table.shape[0]):
        raise KernelError(BAD_INDEX, f"an index is out of the table's {table.shape[0]} rows")
    dst.copy_(table[index.long()])


def scatter(instruction: Instruction, dst: torch.Tensor, sources: Tensors) -> None:
    """SCATTER."""
    import torch

    src, index, update = (_present(one) for one in sources)
    if index.numel() and (int(index.min()) < 0 or int(index.max()) >= src.shape[0]):
        raise KernelError(BAD_INDEX, f"an index is out of the table's {src.shape[0]} rows")
    kind = Scatter(instruction.whole("kind"))
    result, numbers = src.reshape(src.shape[0], -1).clone(), index.reshape(-1).long()
    rows = update.reshape(numbers.numel(), result.shape[1])
    if kind is Scatter.ADD:
        result.index_add_(0, numbers, rows)
    elif kind is Scatter.SET:  # the last one that is meant for a row
        last = torch.full((result.shape[0],), -1).scatter_reduce(0, numbers, torch.arange(len(numbers)), "amax")
        result = torch.where((last >= 0)[:, None], rows[last], result) if len(numbers) else result
    else:
        how = {Scatter.MUL: "prod", Scatter.MIN: "amin", Scatter.MAX: "amax"}[kind]
        result.scatter_reduce_(0, numbers[:, None].expand(rows.shape), rows, how)
    dst.copy_(result.reshape(dst.shape))


def gemm(instruction: Instruction, dst: torch.Tensor, sources: Tensors) -> None:
    """GEMM."""
    from torch.nn import functional

    src, weight, bias, residual = _padded(sources, 4)
    _store(instruction, dst, functional.linear(_present(src), _present(weight), bias), residual)


def bgemm(instruction: Instruction, dst: torch.Tensor, sources: Tensors) -> None:
    """BGEMM."""
    src, weight, bias, residual = _padded(sources, 4)
    _store(instruction, dst, bf16.linear(_present(src), _present(weight), bias), residual)


def bmm(instruction: Instruction, dst: torch.Tensor, sources: Tensors) -> None:
    """BMM."""
    dst.copy_((_present(sources[0]) @ _present(sources[1])) * instruction.number("scale"))


def convolution(instruction: Instruction, dst: torch.Tensor, sources: Tensors) -> None:
    """CONV2D, CONV2D_WINO, DWCONV2D."""
    from torch.nn import functional

    src, weight, bias, residual = _padded(sources, 4)
    whole = instruction.whole
    image = functional.pad(_present(src), (whole("left"), whole("right"), whole("top"), whole("bottom")))
    stride, dilation = (whole("stride_h"), whole("stride_w")), (whole("dilation_h"), whole("dilation_w"))
    result = functional.conv2d(image, _present(weight), bias, stride, 0, dilation, whole("groups"))
    _store(instruction, dst, result[..., : dst.shape[2], : dst.shape[3]], residual)


def bconvolution(instruction: Instruction, dst: torch.Tensor, sources: Tensors) -> None:
    """BCONV2D."""
    src, weight, bias, residual = _padded(sources, 4)
    _store(instruction, dst, bf16.convolution(instruction, dst.shape, _present(src), _present(weight), bias), residual)


def pool(instruction: Instruction, dst: torch.Tensor, sources: Tensors) -> None:
    """POOL2D: windows begin at multiples of the stride; what lies outside of the input is left out."""
    import torch
    from torch.nn import functional

    whole, kind = instruction.whole, Pool(instruction.whole("kind"))
    src = _present(sources[0])
    high, wide = dst.shape[2:]
    reach = [(whole(f"kernel_{d}") - 1) * whole(f"dilation_{d}") + 1 for d in "hw"]
    bottom = (high - 1) * whole("stride_h") + reach[0] - src.shape[2] - whole("top")
    right = (wide - 1) * whole("stride_w") + reach[1] - src.shape[3] - whole("left")
    frame = (whole("left"), right, whole("top"), bottom)
    windows, inside = (
        _windows(functional.pad(one, frame, value=value), instruction, (high, wide))
        for one, value in ((src, _least(src.dtype) if kind is Pool.MAX else 0.0), (torch.ones_like(src), 0.0))
    )
    if kind is Pool.MAX:
        dst.copy_(windows.amax(-1))
    else:
        dst.copy_(windows.sum(-1) / (windows.shape[-1] if kind is Pool.MEAN_PADDED else inside.sum(-1)))


def _least(dtype: torch.dtype) -> float:
    """Return what no element is less than."""
    import torch

    return -torch.inf if dtype.is_floating_point else torch.iinfo(dtype).min


def _windows(image: torch.Tensor, instruction: Instruction, size: tuple[int, int]) -> torch.Tensor:
    """Return ``[N, C, H, W, kernel]``."""
    import torch

    whole, parts = instruction.whole, []
    for y in range(whole("kernel_h")):
        for x in range(whole("kernel_w")):
            top, left = y * whole("dilation_h"), x * whole("dilation_w")
            rows = image[:, :, top :: whole("stride_h"), left :: whole("stride_w")]
            parts.append(rows[:, :, : size[0], : size[1]])
    return torch.stack(parts, -1)


def reduce(instruction: Instruction, dst: torch.Tensor, sources: Tensors) -> None:
    """REDUCE."""
    import torch

    src, kind = _present(sources[0]), Reduce(instruction.whole("kind"))
    dims = [i for i in range(src.dim()) if instruction.whole("dims") >> i & 1]
    if kind in {Reduce.ARGMAX, Reduce.ARGMIN}:
        src = src.byte() if src.dtype is torch.bool else src
        dst.copy_((torch.argmax if kind is Reduce.ARGMAX else torch.argmin)(src, dims[0], keepdim=True))
    elif kind is Reduce.MEDIAN:
        dst.copy_(_median(src, dims[0]))
    elif kind is Reduce.VAR:
        dst.copy_(torch.var(src, dims, correction=instruction.number("correction"), keepdim=True))
    elif kind is Reduce.PROD:
        for place in dims:
            src = torch.prod(src, place, keepdim=True)
        dst.copy_(src)
    else:
        one: dict[Reduce, Callable[..., torch.Tensor]] = {
            Reduce.SUM: torch.sum, Reduce.MEAN: torch.mean, Reduce.MAX: torch.amax, Reduce.MIN: torch.amin,
            Reduce.ALL: torch.all, Reduce.ANY: torch.any,
        }  # fmt: skip
        dst.copy_(one[kind](src, dims, keepdim=True))


def _median(src: torch.Tensor, dim: int) -> torch.Tensor:
    """Return the lower one of the two elements in the middle; NaN if there is any."""
    import torch

    ordered = (src.byte() if src.dtype is torch.bool else src).sort(dim=dim, stable=True).values  # NaN comes last
    middle, last = (ordered.narrow(dim, place, 1) for place in ((src.shape[dim] - 1) // 2, src.shape[dim] - 1))
    return torch.where(last.isnan(), last, middle)


def softmax(instruction: Instruction, dst: torch.Tensor, sources: Tensors) -> None:
    """SOFTMAX."""
    import torch

    function = torch.log_softmax if instruction.whole("log") else torch.softmax
    dst.copy_(function(_present(sources[0]), instruction.whole("axis")))


def norm(instruction: Instruction, dst: torch.Tensor, sources: Tensors) -> None:
    """NORM."""
    import torch

    src, weight, bias = _padded(sources, 3)
    src, eps = _present(src), instruction.number("eps")
    dims = list(range(src.dim() - instruction.whole("dims"), src.dim()))
    if Norm(instruction.whole("kind")) is Norm.RMS:
        result = src * torch.rsqrt(src.square().mean(dims, keepdim=True) + eps)
    else:
        variance, mean = torch.var_mean(src, dims, correction=0, keepdim=True)
        result = (src - mean) * torch.rsqrt(variance + eps)
    result = result if weight is None else result * weight
    dst.copy_(result if bias is None else result + bias)


def attention(instruction: Instruction, dst: torch.Tensor, sources: Tensors) -> None:
    """ATTENTION."""
    from torch.nn import functional

    q, k, v, mask = _padded(sources, 4)
    causal, scale = bool(instruction.whole("causal")), instruction.number("scale")
    dst.copy_(
        functional.scaled_dot_product_attention(_present(q), _present(k), _present(v), mask, 0.0, causal, scale=scale)
    )


def cumsum(instruction: Instruction, dst: torch.Tensor, sources: Tensors) -> None:
    """CUMSUM."""
    dst.copy_(_present(sources[0]).cumsum(instruction.whole("axis")))


def elementwise(instruction: Instruction, dst: torch.Tensor, sources: Tensors) -> None:
    """EW."""
    import torch

    result = made_by(instruction.steps, [_present(one) for one in sources])
    dst.copy_(result if dst.dtype is not torch.bool else result != 0)


def _store(instruction: Instruction, dst: torch.Tensor, result: torch.Tensor, residual: torch.Tensor | None) -> None:
    """Add the residual, apply the activation, and store."""
    import torch
    from torch.nn import functional

    if residual is not None:
        result = result + residual
    act = Act(instruction.whole("act"))
    functions: dict[Act, Callable[[Any], torch.Tensor]] = {
        Act.NONE: lambda a: a, Act.RELU: torch.relu, Act.HARDSWISH: functional.hardswish,
        Act.HARDSIGMOID: functional.hardsigmoid,
        Act.CLAMP: lambda a: a.clamp(instruction.number("low"), instruction.number("high")),
        Act.SIGMOID: torch.sigmoid, Act.SILU: functional.silu, Act.GELU: functional.gelu,
        Act.GELU_TANH: lambda a: functional.gelu(a, approximate="tanh"), Act.TANH: torch.tanh,
    }  # fmt: skip
    dst.copy_(functions[act](result))


def _present(tensor: torch.Tensor | None) -> torch.Tensor:
    assert tensor is not None, "this source is never absent"
    return tensor


def _padded(sources: Tensors, count: int) -> list[Any]:
    return [*sources, *([None] * (count - len(sources)))]


_TABLE: dict[Op, Execute] = {
    Op.COPY: copy,
    Op.FILL: fill,
    Op.IOTA: iota,
    Op.GATHER: gather,
    Op.EW: elementwise,
    Op.GEMM: gemm,
    Op.BMM: bmm,
    Op.CONV2D: convolution,
    Op.CONV2D_WINO: convolution,
    Op.DWCONV2D: convolution,
    Op.POOL2D: pool,
    Op.REDUCE: reduce,
    Op.SOFTMAX: softmax,
    Op.NORM: norm,
    Op.ATTENTION: attention,
    Op.CUMSUM: cumsum,
    Op.RESIZE2D: images.resize,
    Op.SCATTER: scatter,
    Op.SAMPLE2D: images.sample,
    Op.QGEMM: int8.gemm,
    Op.QCONV2D: int8.convolution,
    Op.QDWCONV2D: int8.convolution,
    Op.BGEMM: bgemm,
    Op.BCONV2D: bconvolution,
}
