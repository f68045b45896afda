"""Instance norms and norms of vectors, in every layout: as eager has them, without the host."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.atalla.agreement import Case, agree
from tests.atalla.nets import Call


def filled(norm: nn.Module) -> nn.Module:
    for tensor in (*norm.parameters(), *(one for one in norm.buffers() if one.dtype.is_floating_point)):
        nn.init.uniform_(tensor, 0.5, 1.5)
    return norm.eval()


def instances() -> list[Case]:
    row, image, volume = torch.randn(2, 6, 20), torch.randn(2, 21, 5, 7) * 3 + 2, torch.randn(2, 4, 3, 4, 5)
    last = image.to(memory_format=torch.channels_last)
    kept = {"affine": True, "track_running_stats": True}
    return [
        (nn.InstanceNorm2d(21), (image,)),
        (nn.InstanceNorm2d(21), (last,)),
        (filled(nn.InstanceNorm2d(21, affine=True)), (last,)),
        (filled(nn.InstanceNorm2d(21, **kept)), (image,)),
        (nn.Sequential(nn.Conv2d(21, 17, 3), filled(nn.InstanceNorm2d(17, affine=True)), nn.ReLU()), (image,)),
        (filled(nn.InstanceNorm1d(6, affine=True)), (row,)),
        (nn.InstanceNorm1d(6), (row[0],)),
        (filled(nn.InstanceNorm3d(4, eps=1e-3, affine=True)), (volume.to(memory_format=torch.channels_last_3d),)),
        (nn.InstanceNorm3d(4), (volume,)),
        (nn.InstanceNorm2d(3), (torch.randn(1, 3, 1, 2),)),
    ]


def batches() -> list[Case]:
    """Statistics of all images at once: what torch makes of a norm in training."""

    def normed(_: Call, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten._native_batch_norm_legit.no_stats(x, weight, bias, True, 0.1, 1e-5)[0]  # noqa: FBT003

    weight, bias = torch.rand(6) + 0.5, torch.randn(6)
    last = torch.randn(3, 6, 4, 5).to(memory_format=torch.channels_last)
    return [
        (Call(normed), (x, weight, bias)) for x in (last, last.contiguous(), torch.randn(1, 6, 7), torch.randn(5, 6))
    ]


def vectors() -> list[Case]:
    x, image = torch.randn(4, 9), torch.randn(2, 5, 3, 4).to(memory_format=torch.channels_last)
    x[0] = 0
    orders = (2, 1, 3, 0.5, 0, float("inf"), float("-inf"))
    return [
        *((Call(lambda _, x, o=one: torch.linalg.vector_norm(x, o, dim=1)), (x,)) for one in orders),
        (Call(lambda _, x: nn.functional.normalize(x, dim=1)), (image,)),
        (Call(lambda _, x: nn.functional.normalize(x, dim=-1, p=1)), (x,)),
        (Call(lambda _, x: x.norm(dim=(1, 3), keepdim=True)), (image,)),
        (Call(lambda _, x: x.norm()), (x,)),
        (Call(lambda _, x: torch.linalg.vector_norm(x)), (torch.tensor(-3.0),)),
    ]


def shares() -> list[Case]:
    """Softmax of rows shorter and longer than vectors, along each dim, with what is left out and what is no number."""
    found: list[Case] = []
    for length in (1, 3, 8, 16, 17, 49, 64, 261):
        x = torch.randn(3, length, 5) * 4
        x[0, : length // 2], x[1, length // 3, 2], x[2, length // 2, 1] = float("-inf"), float("inf"), float("nan")
        rows = torch.randn(4, length) * 4
        rows[0], rows[1, -1], rows[2, 0] = float("-inf"), float("-inf"), float("nan")
        found += [(Call(lambda _, x, d=dim: x.softmax(d)), (x,)) for dim in (0, 1, 2)]
        found += [(Call(lambda _, x: x.softmax(1)), (rows,)), (Call(lambda _, x: x.log_softmax(1)), (rows,))]
        found.append((Call(lambda _, x: x.log_softmax(1)), (torch.full((2, length), 3e38),)))
        found.append((Call(lambda _, x: x.softmax(1)), (torch.randn(length, 70).t().contiguous().t()[:, ::2],)))
    return found


@pytest.mark.parametrize("name", ["instances", "batches", "vectors", "shares"])
def test_norms(name: str) -> None:
    torch.manual_seed(0)
    agree(globals()[name](), 1e-5)


def test_variances_of_channels_that_are_neighbours() -> None:
    """They are summed side by side, in vectors; means far from zero take nothing from them."""
    torch.manual_seed(0)
    x = (torch.randn(2, 37, 20, 30) + 100).to(memory_format=torch.channels_last)
    agree([(Call(lambda _, x: x.var((2, 3))), (x,)), (Call(lambda _, x: x.var((2, 3), correction=0)), (x,))], 1e-4)
