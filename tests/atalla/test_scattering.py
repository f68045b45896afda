"""Gathering, scattering and the middle of rows: kernels give the reference's bits, and both what eager gives."""

from __future__ import annotations

import struct

import pytest
import torch

import atalla
from atalla.isa import Op, Verdict
from tests.atalla.agreement import Case, agree, compiled
from tests.atalla.native import sets_here
from tests.atalla.nets import Call
from tests.atalla.test_verify import c, python, with_word


def taken() -> list[Case]:
    x, index = torch.randn(4, 5, 6), torch.randint(0, 4, (3, 5, 2))
    rows, whole = torch.randint(0, 5, (7,)), torch.randint(-9, 9, (4, 5))
    return [
        (Call(lambda _, x, i: x.gather(0, i)), (x, index)),
        (Call(lambda _, x, i: x.gather(-1, i.int().long())), (x, index[:, :, :1])),
        (Call(lambda _, x, i: x.gather(1, i[None, :, None].expand(4, 7, 6))), (x, rows)),
        (Call(lambda _, x, i: torch.take_along_dim(x, i, 1)), (whole.bool(), torch.randint(0, 5, (4, 1)))),
        (Call(lambda _, x, i: x.gather(0, i)), (torch.randn(()), torch.tensor(0))),
        (Call(lambda _, x, i: x.gather(0, i)), (torch.randn(()), torch.tensor([0]))),
        (Call(lambda _, x, i: x.gather(0, i)), (torch.randn(3), torch.tensor(2))),
    ]


def put() -> list[Case]:
    """What is added to the same place is added in order; of what is set there, the last one stays."""
    x, index, update = torch.randn(4, 5, 6), torch.randint(0, 4, (3, 5, 2)), torch.randn(4, 5, 6)
    rows, whole = torch.randint(0, 5, (9,)), torch.randint(-9, 9, (5, 3))
    nodes = torch.randn(9, 3)
    nodes[2, 1] = float("nan")

    def in_place(_: Call, x: torch.Tensor, i: torch.Tensor, update: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y[i, 1] = update
        y[:, i] += 2
        return y

    return [
        (Call(lambda _, x, i, u: x.scatter_add(0, i, u)), (x, index, update)),
        (Call(lambda _, x, i, u: x.scatter(2, i, u)), (x, torch.randint(0, 6, (1, 2, 1)), update)),
        (Call(lambda _, x, i: x.scatter(1, i, 2.5)), (x, index)),
        (Call(lambda _, i, u: torch.zeros(5, 3).scatter_add(0, i[:, None].expand(9, 3), u)), (rows, nodes)),
        (Call(lambda _, i, u: torch.zeros(5, 3).index_add(0, i, u)), (rows, nodes)),
        (Call(lambda _, x, i, u: x.index_add(1, i, u)), (x, rows, torch.randn(4, 9, 6))),
        (Call(lambda _, x, i, u: x.scatter_reduce(0, i[:, None].expand(9, 3), u, "amax")), (nodes[:5], rows, nodes)),
        (Call(lambda _, x, i, u: x.scatter_reduce(0, i[:, None].expand(9, 3), u, "amin")), (nodes[:5], rows, nodes)),
        (Call(lambda _, x, i, u: x.scatter_reduce(1, i, u, "prod")), (x, index, update)),
        (Call(lambda _, x, i, u: x.scatter_reduce(0, i, u, "sum")), (whole[:, 0], rows, whole.flatten()[:9])),
        (Call(in_place), (torch.randn(5, 5), torch.tensor([4, -5, 2]), torch.randn(3))),
        (Call(lambda _, x, i, k, u: x.index_put((i, k), u, accumulate=True)),
         (x, torch.tensor([[1], [-1]]), rows[:3] - 2, torch.randn(6))),
        (Call(lambda _, x, i, u: torch.ops.aten._unsafe_index_put(x, [None, i], u, True)), (x, rows, torch.ones(6))),  # noqa: FBT003
        (Call(lambda _, x, u: x.index_put((torch.tensor(2),), u)), (x, torch.randn(6))),
        (Call(lambda _, x, u: x.index_put((x[..., 0] > 0,), u)), (x, torch.tensor(7.0))),
        (Call(lambda _, x, u: torch.slice_scatter(x, u, 1, -4, -1)), (x, torch.randn(4, 3, 6))),
        (Call(lambda _, x, u: torch.slice_scatter(x, u, 0, 3, 99)), (x, torch.randn(1, 5, 6))),
        (Call(lambda _, x, u: torch.slice_scatter(x, u, 2, 0, 0)), (x, torch.randn(4, 5, 0))),
        (Call(lambda _, x, i: x.scatter(0, i, 1)), (torch.tensor(3), torch.tensor(0))),
        (Call(lambda _, x, i, u: x.scatter_add(0, i, u)), (torch.randn(3), torch.tensor(1), torch.randn(()))),
        (Call(lambda _, x, i, u: x.scatter_add(0, i, u)), (torch.tensor(1.5), torch.tensor([0]), torch.randn(1))),
    ]  # fmt: skip


def middle() -> list[Case]:
    x = torch.randn(5, 8, 3)
    odd = x.clone()
    odd[2, 3, 1], odd[0, :, 0], odd[4, 1, 2] = float("nan"), 0.0, float("inf")
    odd[0, 1::2, 0] = -0.0
    whole = torch.randint(-3, 3, (7, 9))
    return [
        (Call(lambda _, x: x.median(1).values), (odd,)),
        (Call(lambda _, x: torch.stack([x.median(0, keepdim=True)[0], x.median(0)[0][None]])), (odd,)),
        (Call(lambda _, x: x.median()), (x,)),
        (Call(lambda _, x: x.median(-1).values), (whole,)),
        (Call(lambda _, x: x.median()), (whole.int() + 2**30,)),
        (Call(lambda _, x: x.median()), (torch.tensor(4.0),)),
        (Call(lambda _, x: x.median(0).values), (torch.randn(1001, 2),)),
        (Call(lambda _, x: x.median(0).values), (torch.zeros(300, 1),)),
    ]


@pytest.mark.parametrize("name", ["taken", "put", "middle"])
def test_numbers_say_where(name: str) -> None:
    torch.manual_seed(0)
    agree(globals()[name](), 0 if name != "put" else 1e-6, bits=True)


@pytest.mark.parametrize("isa", [None, "reference"])
@pytest.mark.parametrize("wrong", [4, -1])
def test_an_index_out_of_bounds_is_an_error(wrong: int, isa: str | None) -> None:
    x, index = torch.randn(4, 5), torch.zeros(2, 5, dtype=torch.int64)
    for function in (lambda _, x, i: x.gather(0, i), lambda _, x, i: x.scatter_add(0, i, x)):
        made, _, _ = compiled([(Call(function), (x, index))])
        loaded, bad = atalla.load(made.data, isa=isa), index.clone()
        bad[1, 3] = wrong
        with pytest.raises(atalla.KernelError, match="out of the table"):
            loaded.run((x, bad))
        torch.testing.assert_close(loaded.run((x, index))[0], function(None, x, index))


def test_many_updates_on_many_threads() -> None:
    """More than one item's worth: every thread takes rows of its own, in the same order."""
    torch.manual_seed(0)
    x, rows, update = torch.randn(50, 64), torch.randint(0, 50, (400,)), torch.randn(400, 64)
    agree([(Call(lambda _, x, i, u: x.index_add(0, i, u)), (x, rows, update))], 1e-4, bits=True)
    agree([(Call(lambda _, x, i: x.index_select(0, i)), (torch.randn(50, 700), rows))], 0, bits=True)


def division() -> list[Case]:
    a, b = torch.tensor([7, -7, 7, -7, 0, 2**40]), torch.tensor([2, 2, -2, -2, -5, 3])
    modes = ("floor", "trunc")
    return [
        (Call(lambda _, a, b: a // b), (a, b)),
        (Call(lambda _, a, b: a % b), (a, b)),
        *((Call(lambda _, a, b, m=mode: torch.div(a, b, rounding_mode=m)), (a.int(), b.int())) for mode in modes),
        *((Call(lambda _, a, m=mode: torch.div(a, -4, rounding_mode=m)), (a,)) for mode in modes),
    ]


def test_whole_numbers_are_divided() -> None:
    agree(division(), 0, bits=True)


@pytest.mark.parametrize("isa", [*sorted(sets_here()), "reference"])
def test_a_whole_number_by_zero_is_an_error_as_in_eager(isa: str) -> None:
    a = torch.arange(300)
    for function in (lambda _, a, b: a // b, lambda _, a, b: a % b):
        made, _, _ = compiled([(Call(function), (a, a + 1))])
        loaded = atalla.load(made.data, isa=isa)
        with pytest.raises(atalla.KernelError, match="a whole number is divided by zero"):
            loaded.run((a, a - 299))
        assert torch.equal(loaded.run((a, a + 1))[0], function(None, a, a + 1))


def test_logarithms_of_powers_are_exact() -> None:
    twos, tens = 2.0 ** torch.arange(-149, 128), torch.tensor([1e-3, 1.0, 10.0, 100.0, 1e10])
    odd = torch.tensor([0.0, -1.0, float("inf"), float("nan")])
    agree([(Call(lambda _, x: x.log2()), (torch.cat([twos, odd]),)), (Call(lambda _, x: x.log2().floor()), (twos,))], 0)
    agree([(Call(lambda _, x: x.log10()), (torch.cat([tens, odd, torch.rand(99)]),))], 1e-6)


@pytest.mark.parametrize(
    ("function", "inputs", "told"),
    [
        (lambda _, x: x.median(0), (torch.randn(5, 2),), "Only the median itself must be used"),
        (lambda _, x, i: x.scatter_reduce(0, i, x, "mean"), (torch.randn(3), torch.tensor([0, 0, 1])),
         "An element must be one of those that it is combined with"),
        (lambda _, x: x.index_put((x > 0,), torch.ones(3)), (torch.ones(3),), "or one mask for one number"),
    ],
)  # fmt: skip
def test_what_is_left_to_the_host_is_told(function: object, inputs: tuple[torch.Tensor, ...], told: str) -> None:
    assert callable(function)
    made, _, _ = compiled([(Call(function), inputs)])
    assert any(told in one.reason for one in made.fallbacks), made.fallbacks


@pytest.mark.parametrize(("kind", "verdict"), [(5, Verdict.ATTRIBUTE), (-1, Verdict.ATTRIBUTE), (1, Verdict.OPERANDS)])
def test_what_scatter_does_not_do_is_refused(kind: int, verdict: Verdict) -> None:
    """Bools are only set."""
    case: Case = (
        Call(lambda _, x, i: x.scatter(0, i, value=True)),
        (torch.zeros(4, dtype=torch.bool), torch.tensor([1])),
    )
    made, _, _ = compiled([case])
    damaged = with_word(made.data, Op.SCATTER, 0, struct.pack("<q", kind))
    assert python(damaged) == c(damaged) == verdict
