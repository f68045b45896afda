"""Small networks that together hold what the rules and passes know; each is (module, inputs)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

Net = tuple[nn.Module, tuple[torch.Tensor, ...]]


class Call(nn.Module):
    """A module of a function."""

    def __init__(self, function: Callable[..., object], **parts: nn.Module) -> None:
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *inputs: torch.Tensor) -> object:
        return self.function(self, *inputs)


def settled(module: nn.Module) -> nn.Module:
    """Give batch norms statistics that do something."""
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            nn.init.uniform_(part.running_mean, -0.5, 0.5)
            nn.init.uniform_(part.running_var, 0.5, 1.5)
            nn.init.uniform_(part.weight, 0.5, 1.5)
            nn.init.uniform_(part.bias, -0.5, 0.5)
    return module.eval()


def mlp() -> Net:
    return nn.Sequential(nn.Linear(7, 19), nn.GELU(), nn.Linear(19, 5), nn.Softmax(-1)), (torch.randn(3, 7),)


def residual() -> Net:
    block = Call(
        lambda m, x: torch.relu(m.bn2(m.b(torch.relu(m.bn1(m.a(x))))) + x),
        a=nn.Conv2d(8, 8, 3, padding=1, bias=False), bn1=nn.BatchNorm2d(8),
        b=nn.Conv2d(8, 8, 3, padding=1, bias=False), bn2=nn.BatchNorm2d(8),
    )  # fmt: skip
    return settled(
        nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), block, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4))
    ), (torch.randn(2, 3, 15, 17),)


def winograd() -> Net:
    return nn.Sequential(nn.Conv2d(32, 33, 3, padding=1), nn.Hardswish()), (torch.randn(1, 32, 9, 14),)


def squeeze() -> Net:
    net = Call(
        lambda m, x: (y := m.dw(m.up(x))) * m.out(torch.relu(m.se(y.mean((2, 3), keepdim=True)))),
        up=nn.Sequential(nn.Conv2d(5, 20, 1), nn.BatchNorm2d(20), nn.Hardswish()),
        dw=nn.Sequential(nn.Conv2d(20, 20, 5, 2, 2, groups=20), nn.BatchNorm2d(20), nn.SiLU()),
        se=nn.Conv2d(20, 6, 1), out=nn.Sequential(nn.Conv2d(6, 20, 1), nn.Hardsigmoid()),
    )  # fmt: skip
    return settled(net), (torch.randn(2, 5, 13, 11),)


def transformer() -> Net:
    layer = nn.TransformerEncoderLayer(24, 3, 40, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
    return nn.Sequential(nn.Embedding(50, 24), layer.eval(), nn.LayerNorm(24)), (torch.randint(0, 50, (2, 9)),)


def eager_attention() -> Net:
    def forward(m: Call, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part(x).view(2, 6, 3, 8).transpose(1, 2) for part in (m.q, m.k, m.v))
        shares = torch.softmax(q @ k.transpose(-1, -2) / 8**0.5, -1)
        return m.o((shares @ v).transpose(1, 2).reshape(2, 6, 24))

    return Call(forward, **{name: nn.Linear(24, 24) for name in "qkvo"}), (torch.randn(2, 6, 24),)


def masked() -> Net:
    def forward(_: Call, x: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
        ids = torch.arange(x.shape[1])
        causal = ids[:, None] >= ids[None, :]
        mask = causal[None, None] & keep[:, None, None, :]
        heads = x.unsqueeze(1)
        return torch.nn.functional.scaled_dot_product_attention(heads, heads, heads, attn_mask=mask)

    keep = torch.ones(2, 7, dtype=torch.bool)
    keep[1, 5:] = False
    return Call(forward), (torch.randn(2, 7, 8), keep)


def shapes() -> Net:
    def forward(_: Call, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a, b = x.chunk(2, 1)
        joined = torch.cat([a.transpose(1, 2), b.flip(1).transpose(1, 2)], 2)
        padded = torch.nn.functional.pad(joined, (1, 2, -1, 1), value=3.0)
        return padded, joined.repeat(2, 1, 3), torch.stack([a, b], -1), x[:, ::2, 1:-1].reshape(-1), x.sum((0, 2))

    return Call(forward), (torch.randn(3, 6, 5),)


def pools() -> Net:
    net = nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1, groups=3), nn.MaxPool2d(3, 2, 1), nn.Upsample(scale_factor=2), nn.GroupNorm(2, 6),
        nn.AvgPool2d(2, 2, 1, count_include_pad=False), nn.ReLU6(),
    )  # fmt: skip
    return net.eval(), (torch.randn(2, 3, 12, 10),)


def rows() -> Net:
    return nn.Sequential(nn.Conv1d(4, 9, 3, padding=1), nn.GELU(), nn.Conv1d(9, 5, 3, stride=2, padding=1)), (
        torch.randn(2, 4, 21),
    )


def whole_numbers() -> Net:
    def forward(_: Call, x: torch.Tensor, i: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = torch.where(i % 3 == 0, i * 2, i // 2)
        return (
            y,
            (x > 0) & (i < 4),
            x.argmax(1),
            i.cumsum(1),
            (i + x).clamp(-1, 5),
            x.masked_fill(i > 2, -7.0),
            i.sum(1),
        )

    return Call(forward), (torch.randn(3, 5), torch.randint(-6, 9, (3, 5)))


def rms() -> Net:
    def forward(m: Call, x: torch.Tensor) -> torch.Tensor:
        y = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
        return m.o(y * 0.5 * torch.tanh(x) + torch.exp(-x.abs()))

    return Call(forward, o=nn.Linear(11, 3, bias=False)), (torch.randn(4, 11),)


def fallback() -> Net:
    def forward(m: Call, x: torch.Tensor) -> torch.Tensor:
        values, places = m.a(x).sort(-1)
        return m.b(torch.relu(values.transpose(0, 1)).transpose(0, 1)) + places

    return Call(forward, a=nn.Linear(6, 6), b=nn.Linear(6, 6)), (torch.randn(4, 6),)


NETS = {
    one.__name__: one
    for one in (
        mlp, residual, winograd, squeeze, transformer, eager_attention, masked, shapes, pools, rows, whole_numbers, rms,
        fallback,
    )
}  # fmt: skip
