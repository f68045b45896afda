"""State: buffers that a program changes begin as they were exported, are kept from run to run, and can be reset."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

import atalla
from atalla.blob.reader import parse
from atalla.isa import Op

ISAS = pytest.mark.parametrize("isa", [None, "reference"])


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.ones(1))
        self.register_buffer("rows", torch.zeros((), dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        before = self.seen.clone()
        self.seen.add_(x.sum())
        self.rows.add_(x.shape[0])
        return x + self.seen, before


class Swap(nn.Module):
    """What one buffer becomes is read of the other before that changes."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("a", torch.arange(4.0))
        self.register_buffer("b", torch.arange(4.0) * -1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = self.a.clone()
        self.a.copy_(self.b)
        self.b.copy_(a)
        return x * self.a - self.b


class Cache(nn.Module):
    """One step of attention over the last four keys and values."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(8, 24)
        self.register_buffer("keys", torch.randn(1, 1, 4, 8))
        self.register_buffer("values", torch.randn(1, 1, 4, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.project(x).view(1, 1, 1, 24).split(8, -1)
        self.keys.copy_(torch.cat([self.keys[:, :, 1:], k], 2))
        self.values.copy_(torch.cat([self.values[:, :, 1:], v], 2))
        return nn.functional.scaled_dot_product_attention(q, self.keys, self.values)


class Ring(nn.Module):
    """Rows that take turns; ``reads_old``: it returns the rows that were there, too, and so they must be kept."""

    def __init__(self, *, reads_old: bool = False) -> None:
        super().__init__()
        self.reads_old = reads_old
        self.register_buffer("rows", torch.randn(3, 5, 4))
        self.register_buffer("at", torch.zeros(1, 1, dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        before = self.rows.clone() if self.reads_old else x
        self.rows.index_put_((torch.arange(3).unsqueeze(1), self.at), x.unsqueeze(1) + self.rows[:, 4:])
        self.at.add_(1).remainder_(5)
        return self.rows.sum(1), before * 2


class Rings(nn.Module):
    """Another state is made of what one became."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("a", torch.zeros(5, 4))
        self.register_buffer("b", torch.ones(5, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.a.index_put_((torch.tensor([1, 3]),), x)
        self.b.copy_(self.a + 1)
        return self.b @ x.T


@ISAS
@pytest.mark.parametrize(
    ("make", "shape"),
    [
        *((Counter, (3, 2)), (Swap, (2, 4)), (Cache, (1, 8)), (Ring, (3, 4)), (Rings, (2, 4))),
        (partial(Ring, reads_old=True), (3, 4)),
    ],
)
def test_several_calls_give_what_eager_gives(
    make: Callable[[], nn.Module], shape: tuple[int, ...], isa: str | None
) -> None:
    torch.manual_seed(0)
    module = make().eval()
    made = atalla.compile(torch.export.export(module, (torch.randn(shape),)))
    loaded, other = atalla.load(made.data, isa=isa), atalla.load(made.data, isa=isa)
    first = None
    for _ in range(4):
        x = torch.randn(shape)
        with torch.no_grad():
            wanted = torch.utils._pytree.tree_leaves(module(x))
        found = loaded.run((x,))
        torch.testing.assert_close(found, wanted, rtol=2e-5, atol=2e-5)
        first = first or (x, [one.clone() for one in found])
    torch.testing.assert_close(other.run((first[0],)), first[1])  # each has its own
    loaded.reset()
    torch.testing.assert_close(loaded.run((first[0],)), first[1])


@pytest.mark.parametrize("options", [{"executor": "device"}, {"threads": 2}], ids=["device", "threads"])
def test_rows_are_changed_in_place_by_every_executor(options: dict[str, Any]) -> None:
    module = Ring().eval()
    loaded = atalla.load(atalla.compile(torch.export.export(module, (torch.randn(3, 4),))).data, **options)
    for _ in range(7):
        x = torch.randn(3, 4)
        with torch.no_grad():
            wanted = list(module(x))
        torch.testing.assert_close(list(loaded.run((x,))), wanted)


@pytest.mark.parametrize("reads_old", [False, True])
def test_rows_are_changed_where_they_lie_unless_the_old_ones_are_read_later(reads_old: bool) -> None:
    program = torch.export.export(Ring(reads_old=reads_old).eval(), (torch.randn(3, 4),))
    made = atalla.compile(program).program.instructions
    (scatter,) = (one for one in made if one.op is Op.SCATTER)
    assert scatter.dst is not None
    copied = [one for one in made if one.op is Op.COPY and one.dst.storage is scatter.sources[0].storage]
    assert (scatter.dst is scatter.sources[0], len(copied)) == (not reads_old, int(reads_old))


def test_a_state_that_is_zeros_at_first_takes_no_place_in_the_file() -> None:
    class Large(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("sum", torch.zeros(100_000))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.sum.add_(x)
            return self.sum.max()

    data = atalla.compile(torch.export.export(Large(), (torch.zeros(1),))).data
    assert len(data) < 10_000 and parse(data).state_bytes == 400_000 and not parse(data).initial


@ISAS
def test_a_state_is_one_for_all_shapes(isa: str | None) -> None:
    torch.manual_seed(0)
    module = Counter().eval()
    program = torch.export.export(module, (torch.randn(3, 2),), dynamic_shapes=({0: Dim("rows", min=1, max=9)},))
    loaded = atalla.load(atalla.compile(program).data, isa=isa)
    for rows in (3, 1, 9, 3, 2):
        x = torch.randn(rows, 2)
        with torch.no_grad():
            wanted = list(module(x))
        torch.testing.assert_close(loaded.run((x,)), wanted)
    loaded.reset()
    assert loaded.run((torch.zeros(5, 2),))[1].item() == 1


def test_an_input_that_changes_is_refused() -> None:
    class Changes(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.add_(1)

    with pytest.raises(atalla.CompileError, match="clone the input"):
        atalla.compile(torch.export.export(Changes(), (torch.zeros(2),)))
