"""Attention: every size around that of a vector, masks, and scores that lie far apart, under every instruction set."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import nn

import atalla
from tests.atalla.native import sets_here
from tests.atalla.test_compile import same

SETS = sorted(sets_here())


class Attention(nn.Module):
    """Shares of keys: all of them, those behind a query, those that a mask leaves; and products of two inputs."""

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> list[torch.Tensor]:
        attend = nn.functional.scaled_dot_product_attention
        mask = torch.where(q[:, :, :, :1] > k[:, :, :, 0].unsqueeze(2), 0.5, -torch.inf)
        return [
            attend(q, k, v),
            attend(q, k, v, is_causal=True),
            attend(q, k, v, mask),
            q @ k.mT,
            (q @ k.mT / k.shape[2]) @ v,
        ]


def attention_of(length: int, keys: int, size: int) -> tuple[torch.Tensor, ...]:
    """Give queries, keys and values; a query's mask leaves at least one key."""
    q, k, v = torch.randn(1, 2, length, size), torch.randn(1, 2, keys, size), torch.randn(1, 2, keys, size + 3)
    q[..., 0], k[:, :, 0, 0] = q[..., 0].clamp(-1, 1), -2.0
    return q, k, v


@pytest.mark.parametrize(
    ("length", "keys", "size"), [(1, 1, 1), (5, 17, 3), (16, 16, 16), (70, 45, 20), (300, 130, 33)]
)
def test_attention_gives_what_float64_gives(length: int, keys: int, size: int) -> None:
    torch.manual_seed(0)
    given = attention_of(length, keys, size)
    blob = atalla.compile(torch.export.export(Attention(), given)).data
    wanted = [one.float() for one in Attention()(*(x.double() for x in given))]
    for isa, threads in itertools.product(SETS, (1, 2)):
        same(atalla.load(blob, isa=isa, threads=threads).run(given), wanted, 1e-5)


@pytest.mark.parametrize("keys", [1, 2, 7, 8, 9, 31, 33, 64, 70, 133])
def test_attention_takes_the_largest_of_each_row_however_far_it_is_from_those_of_its_neighbours(keys: int) -> None:
    """Scores rise from key to key by more than an exponential bears, or fall, in turn; one alone has a share."""
    signs = torch.tensor([1.0, -1.0]).repeat(keys)[:keys].reshape(1, 1, keys, 1)
    q, k = signs.expand(1, 1, keys, 4) * 10, torch.arange(keys).reshape(1, 1, keys, 1).expand(1, 1, keys, 4) * 10.0
    v = torch.randn(1, 1, keys, 5)
    blob = atalla.compile(torch.export.export(Attention(), (q, k, v))).data
    up = signs[0, 0] > 0  # of shape keys × 1
    for isa in SETS:
        found = atalla.load(blob, isa=isa).run((q, k, v))
        assert torch.equal(found[0][0, 0], torch.where(up, v[0, 0, -1], v[0, 0, 0])), isa
        assert torch.equal(found[1][0, 0], torch.where(up, v[0, 0], v[0, 0, 0])), isa
