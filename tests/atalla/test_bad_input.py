"""Bad input: what a run makes of tensors that are not as expected, from Python and through the C ABI."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

import atalla
from atalla import ir
from atalla.blob.arena import plan_arena
from atalla.blob.writer import encode
from atalla.isa import OPS, Dtype, Layout, Op, Pool, Space
from atalla.library import library, new_error
from atalla.run.kernels import Context, OpenBlob
from tests.atalla.nets import NETS, Call, some_quick
from tests.atalla.test_compile import compiled, same

BAD_ARGUMENT = 2
RUNNERS = pytest.mark.parametrize("isa", [None, "base", "reference"])


def loaded(name: str, isa: str | None = None) -> atalla.Loaded:
    return atalla.load(compiled(name)[0].data, isa=isa)


@RUNNERS
@pytest.mark.parametrize("call", ["run", "bind"])
@pytest.mark.parametrize(
    ("inputs", "told"),
    [
        ((), "0 inputs instead of 1"),
        ((torch.zeros(3, 7), torch.zeros(3, 7)), "2 inputs instead of 1"),
        ((torch.zeros(7, 3),), r"shape \[7, 3\] instead of \[3, 7\]"),
        ((torch.zeros(3, 7, 1),), r"shape \[3, 7, 1\] instead of \[3, 7\]"),
        ((torch.zeros(0, 7),), r"shape \[0, 7\] instead of \[3, 7\]"),
        ((torch.zeros(()),), r"shape \[\] instead of \[3, 7\]"),
        ((torch.zeros(3, 7, dtype=torch.float16),), "float16 instead of torch.float32"),
        ((torch.zeros(3, 7, dtype=torch.int64),), "int64 instead of torch.float32"),
        ((torch.zeros(3, 7, dtype=torch.complex64),), "complex64 instead of torch.float32"),
        ((np.zeros((3, 7), np.float32),), "ndarray instead of torch.float32"),
        ((None,), "NoneType instead of torch.float32"),
        ((torch.zeros(3, 7, device="meta"),), "on meta, not on the CPU"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_in_one_line(
    inputs: tuple[object, ...], told: str, call: str, isa: str | None
) -> None:
    with pytest.raises(atalla.InputError, match=told) as caught:
        getattr(loaded("mlp", isa), call)(inputs)
    assert "\n" not in str(caught.value)


def spread(x: torch.Tensor) -> torch.Tensor:
    return torch.zeros(*(2 * n for n in x.shape), dtype=x.dtype)[tuple(slice(None, None, 2) for _ in x.shape)].copy_(x)


def turned(x: torch.Tensor) -> torch.Tensor:
    return x.permute(*reversed(range(x.dim()))).contiguous().permute(*reversed(range(x.dim())))


def shifted(x: torch.Tensor) -> torch.Tensor:
    """One element behind where an allocation begins: vectors are not aligned."""
    return torch.zeros(x.numel() + 1, dtype=x.dtype)[1:].view(x.shape).copy_(x)


@RUNNERS
@pytest.mark.parametrize("lay", [spread, turned, shifted])
@pytest.mark.parametrize("name", ["mlp", "residual", "shapes", "whole_numbers", "fallback"])
def test_however_an_input_lies(name: str, lay: Callable[[torch.Tensor], torch.Tensor], isa: str | None) -> None:
    _, inputs, wanted = compiled(name)
    same(loaded(name, isa).run([lay(one) for one in inputs]), wanted, 2e-5)


@RUNNERS
def test_one_value_for_all_elements(isa: str | None) -> None:
    module, _ = NETS["mlp"]()
    made = atalla.compile(torch.export.export(module.eval(), (torch.zeros(3, 7),)))
    x = torch.full((1, 1), 0.5).expand(3, 7)
    same(atalla.load(made.data, isa=isa).run((x,)), [module(x).detach()], 2e-5)


@RUNNERS
def test_a_negated_view_is_what_it_means(isa: str | None) -> None:
    _, (x,), _ = compiled("mlp")
    negated = torch._neg_view(x)
    same(loaded("mlp", isa).run((negated,)), loaded("mlp", isa).run((-x,)), 0.0)


@functools.cache
def exact(name: str) -> tuple[nn.Module, tuple[torch.Tensor, ...], bytes]:
    torch.manual_seed(0)
    module, inputs = NETS[name]()
    return module, inputs, atalla.compile(torch.export.export(module.eval(), inputs), exact=True).data


@functools.cache
def empty(name: str) -> bytes:
    module, x = EMPTY[name]
    return atalla.compile(torch.export.export(module.eval(), (x,))).data


@RUNNERS
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("name", some_quick(but={"whole_numbers", "transformer"}))
def test_what_is_no_number_goes_where_eager_lets_it_go(name: str, value: float, isa: str | None) -> None:
    """Exactly, without Winograd, which spreads it."""
    module, inputs, data = exact(name)
    x = inputs[0].clone()
    x.view(-1)[:: max(x.numel() // 3, 1)] = value
    with torch.no_grad():
        wanted = module(x, *inputs[1:])
    found = atalla.load(data, isa=isa).run((x, *inputs[1:]))
    same(found, list(wanted) if isinstance(wanted, tuple) else [wanted], 2e-5)


def stacked(_: Call, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return torch.cat([x, x * 2], 0), x.sum(0), x.sum(1), torch.softmax(x, 1), (x > 0).any(0), x.prod(0)


EMPTY = {
    "linear": (nn.Linear(7, 5), torch.zeros(0, 7)),
    "no sum": (Call(lambda _, x: x @ torch.zeros(0, 5) + 1), torch.zeros(3, 0)),
    "convolution": (nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU()), torch.zeros(0, 3, 8, 8)),
    "depthwise": (nn.Conv2d(4, 4, 3, groups=4), torch.zeros(0, 4, 8, 8)),
    "norm": (nn.LayerNorm(6), torch.zeros(0, 6)),
    "rows": (Call(stacked), torch.zeros(0, 4)),
    "columns": (Call(lambda _, x: (x.sum(1), x.mean(0), x + 1, x.transpose(0, 1))), torch.zeros(4, 0)),
    "table": (nn.Embedding(9, 4), torch.zeros(0, dtype=torch.int64)),
    "products": (Call(lambda _, x: x @ x.transpose(1, 2)), torch.zeros(2, 3, 0)),
}


@RUNNERS
@pytest.mark.parametrize("name", EMPTY)
def test_tensors_without_elements(name: str, isa: str | None) -> None:
    module, x = EMPTY[name]
    with torch.no_grad():
        wanted = module(x)
    found = atalla.load(empty(name), isa=isa).run((x,))
    same(found, list(wanted) if isinstance(wanted, tuple) else [wanted], 2e-5)


@RUNNERS
def test_outputs_may_be_the_next_inputs(isa: str | None) -> None:
    """New memory is made for the outputs, so that nothing is overwritten while it is read."""
    module = nn.Sequential(nn.Linear(6, 6), nn.Tanh())
    x = torch.randn(4, 6)
    run = atalla.load(atalla.compile(torch.export.export(module, (x,))).data, isa=isa).run
    with torch.no_grad():
        same(run(run((x,))), [module(module(x))], 2e-5)


@RUNNERS
def test_an_input_given_twice(isa: str | None) -> None:
    module = Call(lambda _, a, b: a * b + a)
    made = atalla.compile(torch.export.export(module, (torch.randn(5), torch.randn(5))))
    x = torch.randn(5)
    same(atalla.load(made.data, isa=isa).run((x, x)), [x * x + x], 1e-6)


def ends(name: str) -> tuple[Context, torch.Tensor, torch.Tensor]:
    _, (x,), (wanted,) = compiled(name)
    return Context(OpenBlob(compiled(name)[0].data)), x, torch.empty_like(wanted)


def test_the_abi_refuses_outputs_in_the_memory_of_inputs() -> None:
    context, x, y = ends("mlp")
    context.run([x.data_ptr()], [y.data_ptr()])
    same([y], compiled("mlp")[2], 2e-5)
    memory = torch.zeros(x.numel() + y.numel())
    memory[: x.numel()] = x.flatten()
    context.run([memory.data_ptr()], [memory.data_ptr() + 4 * x.numel()])  # side by side
    for offset in (0, 4, 4 * x.numel() - 4):
        with pytest.raises(atalla.KernelError, match="shares memory") as caught:
            context.run([memory.data_ptr()], [memory.data_ptr() + offset])
        assert caught.value.code == BAD_ARGUMENT
    assert torch.equal(memory[: x.numel()].view(x.shape), x), "nothing was written"


def test_the_abi_refuses_outputs_in_the_memory_of_each_other() -> None:
    data, (x,) = compiled("shapes")[0].data, compiled("shapes")[1]
    outputs = [torch.empty(one.numel() * 8) for one in compiled("shapes")[2]]
    context, places = Context(OpenBlob(data)), [one.data_ptr() for one in outputs]
    context.run([x.contiguous().data_ptr()], places)
    with pytest.raises(atalla.KernelError, match="shares memory"):
        context.run([x.data_ptr()], [places[1], *places[1:]])


def test_the_abi_refuses_null_pointers() -> None:
    context, x, y = ends("mlp")
    for inputs, outputs in (([None], [y.data_ptr()]), ([x.data_ptr()], [None])):
        with pytest.raises(atalla.KernelError, match="null pointer"):
            context.run(inputs, outputs)
    run, error = library().atalla_run, new_error()
    assert run(context._handle, None, None, ctypes.byref(error)) == BAD_ARGUMENT
    assert run(None, None, None, ctypes.byref(error)) == BAD_ARGUMENT
    assert run(None, None, None, None) == BAD_ARGUMENT
    library().atalla_close(None)
    library().atalla_context_free(None)


@pytest.mark.parametrize("size", [0, 8])
def test_the_abi_refuses_structures_of_another_version(size: int) -> None:
    data = compiled("mlp")[0].data
    blob = OpenBlob(data)
    options, handle = (ctypes.c_size_t * 8)(size), ctypes.c_void_p()
    assert library().atalla_context_new(blob.handle, options, ctypes.byref(handle), None) == BAD_ARGUMENT
    assert library().atalla_describe(blob.handle, options) == BAD_ARGUMENT
    assert library().atalla_open(None, ctypes.c_size_t(0), ctypes.byref(handle), None) == BAD_ARGUMENT
    assert not handle


def test_scratch_whose_bytes_cannot_be_counted_is_out_of_memory() -> None:
    """A stride and a filter of 2^20 rows, for 2^22 columns: 2^64 bytes, which are 0 where products wrap around."""
    rows, wide = 1 << 20, 1 << 22
    image = ir.Tensor("image", Dtype.F32, (1, 1, 4, 4), (16, 1, 4, 1), Space.INPUT)
    weight = ir.Tensor("weight", Dtype.F32, (1, rows, 1), (0, 0, 0), Space.CONST, layout=Layout.PANELS)
    weight.data = torch.zeros(rows * 16)
    made = ir.Tensor("made", Dtype.F32, (1, 1, 1, wide), (wide, 1, wide, 1), Space.OUTPUT)
    words = {
        name: 1 for name in OPS[Op.CONV2D].attributes if name.startswith(("stride", "dilation", "kernel", "groups"))
    }
    words |= {"kernel_h": rows, "stride_w": 1 << 20}
    step = ir.Instruction(Op.CONV2D, made, (image, weight, None, None), words)
    program = ir.Program(inputs=[image], outputs=[made], instructions=[step])
    blob = encode(program, {}, plan_arena(program))
    with pytest.raises(atalla.KernelError, match="out of memory"):
        atalla.load(blob)


@pytest.mark.parametrize("isa", [None, "base"])
def test_a_window_far_beyond_its_image_takes_what_the_image_takes(isa: str | None) -> None:
    """2^40 taps of which 12 are in the image."""
    wide = 1 << 20
    image = ir.Tensor("image", Dtype.F32, (1, 2, 3, 4), (24, 1, 8, 2), Space.INPUT)
    made = ir.Tensor("made", Dtype.F32, (1, 2, 1, 1), (2, 1, 2, 2), Space.OUTPUT)
    words = dict.fromkeys(OPS[Op.POOL2D].attributes, 1) | {"kind": Pool.MEAN, "kernel_h": wide, "kernel_w": wide}
    words |= {"top": 5, "left": 7}
    step = ir.Instruction(Op.POOL2D, made, (image,), words)
    program = ir.Program(inputs=[image], outputs=[made], instructions=[step])
    x = torch.randn(1, 2, 3, 4).to(memory_format=torch.channels_last)
    (found,) = atalla.load(encode(program, {}, plan_arena(program)), isa=isa).run((x,))
    torch.testing.assert_close(found, x.mean((2, 3), keepdim=True))
