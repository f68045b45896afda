"""Nets that the tests share, seeded, with their inputs; what the chip can run, and what it cannot."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

Net = tuple[nn.Module, tuple[torch.Tensor, ...]]


class _Residual(nn.Module):
    """A layer without bias, an addition, a product, and two results."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(12, 12, bias=False), nn.Linear(12, 12)
        self.register_buffer("scale", torch.rand(2, 3, 12))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        more = x + torch.relu(self.first(x))
        return self.second(more) * self.scale, more


class _Same(nn.Module):
    """One tensor as both operands; an input is a result as well."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x + x, y, x * y


class _Mixed(nn.Module):
    """Softmax is not the chip's, and lies between two layers that are."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.softmax(torch.relu(self.first(x)), dim=-1))


class _Double(nn.Module):
    """A linear layer that is taken apart because the chip cannot do it, and one that arrives whole."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 4).double()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x).double())


def _of(make: Callable[[], nn.Module], *shapes: tuple[int, ...]) -> Net:
    torch.manual_seed(0)
    return make().eval(), tuple(torch.randn(shape) for shape in shapes)


def runs() -> dict[str, Net]:
    """Return what the chip runs wholly."""
    return {
        "linear": _of(lambda: nn.Linear(5, 3), (1, 5)),
        "mlp": _of(lambda: nn.Sequential(nn.Linear(33, 40), nn.ReLU(inplace=True), nn.Linear(40, 7)), (17, 33)),
        "residual": _of(_Residual, (2, 3, 12)),
        "same": _of(_Same, (4,), (4,)),
    }


def mixed() -> dict[str, Net]:
    """Return what the chip runs in parts."""
    return {"softmax": _of(_Mixed, (3, 8)), "double": _of(_Double, (3, 8))}


def eager(net: Net) -> list[torch.Tensor]:
    """Return what is right, as a list."""
    module, inputs = net
    with torch.no_grad():
        made = module(*(one.clone() for one in inputs))
    return list(made) if isinstance(made, tuple) else [made]
