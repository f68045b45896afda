"""Small networks that together hold what the rules and passes know; each is (module, inputs)."""

from __future__ import annotations

from collections.abc import Callable, Collection

import pytest
import torch
from torch import nn

Net = tuple[nn.Module, tuple[torch.Tensor, ...]]


class Call(nn.Module):
    """A module of a function."""

    def __init__(self, function: Callable[..., object], **parts: nn.Module | nn.Parameter) -> None:
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


def small_images() -> Net:
    """Winograd's with tiles of 2 × 2, and those at the edges stand out."""
    block = Call(
        lambda m, x: torch.relu(m.b(torch.relu(m.a(x))) + x),
        a=nn.Conv2d(32, 32, 3, padding=1), b=nn.Conv2d(32, 32, 3, padding=1, bias=False),
    )  # fmt: skip
    return block, (torch.randn(2, 32, 7, 5),)


def halved() -> Net:
    """Winograd's with stride 2, and tiles at the edges stand out."""
    return nn.Sequential(nn.Conv2d(96, 97, 3, 2, 1), nn.ReLU()), (torch.randn(1, 96, 13, 16),)


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


def assigned() -> Net:
    """Elements that are written in place, and the dim of a number."""

    def forward(m: Call, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = m.a(x).clone()
        y[:, 0] = y[:, 1] * 2
        y[1] = 3
        y[0].copy_(x[:1].sum())
        return y, y.sum().squeeze(0)

    return Call(forward, a=nn.Linear(6, 4)), (torch.randn(5, 6),)


def spectrum() -> Net:
    """Complex numbers: of a window's transform, of a filter that is a parameter, and of a number in the source."""

    def forward(m: Call, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        whole = torch.stft(x, 16, 4, window=m.a.weight[0], return_complex=True)
        filtered = torch.fft.rfft2(x.unflatten(-1, (6, 8))) * m.filter
        bands = torch.chunk(filtered.conj() * (0.5 + 2j), 2, dim=-2)
        return m.b(whole.abs()), torch.fft.irfft2(filtered), torch.view_as_real(bands[1]).sum(-1)

    return Call(forward, a=nn.Linear(16, 1), b=nn.Linear(13, 4), filter=nn.Parameter(torch.randn(6, 5) * (1 + 1j))), (
        torch.randn(3, 48),
    )


def relative_attention() -> Net:
    """A block of T5's encoder."""

    def normal(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))

    def forward(m: Call, x: torch.Tensor) -> torch.Tensor:
        ids = torch.arange(7)
        distance = ids[None, :] - ids[:, None]
        near = distance.abs()
        far = 4 + (torch.log(near.float() / 4) / torch.log(torch.tensor(4.0)) * 4).to(torch.long)
        bucket = (distance > 0).long() * 8 + torch.where(near < 4, near, torch.clamp(far, max=7))
        bias = m.bias(bucket).permute(2, 0, 1).unsqueeze(0)
        y = normal(x, m.norms.weight[0])
        q, k, v = (part(y).view(2, 7, 3, 8).transpose(1, 2) for part in (m.q, m.k, m.v))
        shares = torch.softmax((q @ k.transpose(3, 2) + bias).float(), -1)
        x = x + m.o((shares @ v).transpose(1, 2).contiguous().view(2, -1, 24))
        return x + m.down(torch.relu(m.up(normal(x, m.norms.weight[1]))))

    linears = {name: nn.Linear(24, 24, bias=False) for name in "qkvo"}
    return Call(
        forward, bias=nn.Embedding(16, 3), norms=nn.Embedding(2, 24), up=nn.Linear(24, 48, bias=False),
        down=nn.Linear(48, 24, bias=False), **linears,
    ), (torch.randn(2, 7, 24),)  # fmt: skip


def causal_block() -> Net:
    """A block of GPT-2: queries, keys and values of one product, and a mask that is made of a smaller one."""

    def forward(m: Call, x: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.view(2, 5, 2, 12).transpose(1, 2) for part in m.qkv(m.norm(x)).split(24, 2))
        rows, columns = torch.arange(5)[:, None], torch.arange(5)[None, :]
        whose = torch.arange(2)[:, None, None, None]
        mask = (columns <= rows)[None, None] & keep[whose, columns[None, None]]
        x = x + m.o(nn.functional.scaled_dot_product_attention(q, k, v, mask).transpose(1, 2).reshape(2, 5, 24))
        h = m.up(x)
        return x + m.down(0.5 * h * (1.0 + torch.tanh(0.7978845608 * (h + 0.044715 * torch.pow(h, 3.0)))))

    keep = torch.ones(2, 5, dtype=torch.bool)
    keep[1, 3:] = False
    return Call(
        forward, norm=nn.LayerNorm(24), qkv=nn.Linear(24, 72), o=nn.Linear(24, 24), up=nn.Linear(24, 32),
        down=nn.Linear(32, 24),
    ), (torch.randn(2, 5, 24), keep)  # fmt: skip


def windows() -> Net:
    """Shifted windows of Swin, padded to whole ones, with a table of biases."""

    def forward(m: Call, x: torch.Tensor) -> torch.Tensor:
        y = nn.functional.pad(m.norm(x), (0, 0, 0, 1, 0, 2))
        y = torch.roll(y, (-1, -2), (1, 2)).view(2, 2, 4, 2, 4, 8).permute(0, 1, 3, 2, 4, 5).reshape(8, 16, 8)
        place = torch.arange(16)[:, None] * 3 + torch.arange(16)
        y = torch.softmax(y @ y.transpose(1, 2) + m.bias.weight[place.view(-1) % 49].view(16, 16), -1) @ y
        y = y.view(2, 2, 2, 4, 4, 8).permute(0, 1, 3, 2, 4, 5).reshape(2, 8, 8, 8)
        return x + torch.roll(y, (1, 2), (1, 2))[:, :6, :7]

    return Call(forward, norm=nn.LayerNorm(8), bias=nn.Embedding(49, 1)), (torch.randn(2, 6, 7, 8),)


def detector() -> Net:
    """YOLO's parts: pools of pools, two scales that are joined, boxes as expectations of distributions."""

    def block(inputs: int, outputs: int, size: int = 1, stride: int = 1) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False), nn.BatchNorm2d(outputs), nn.SiLU()
        )

    def head(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return m(x).flatten(2)

    def forward(m: Call, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        fine = m.stem(x)
        half = m.down(fine)
        left, right = m.split(half).chunk(2, 1)
        pools = [left]
        for _ in range(2):
            pools.append(nn.functional.max_pool2d(pools[-1], 5, 1, 2))
        coarse = m.spp(torch.cat([*pools, right + m.bottle(right)], 1))
        fine = m.neck(torch.cat([nn.functional.interpolate(coarse, scale_factor=2.0, mode="nearest"), fine], 1))
        scales = [(fine, 4), (coarse, 8)]
        joined = torch.cat([head(m.head, one) for one, _ in scales], 2)
        boxes, classes = joined.split((16, 3), 1)
        boxes = boxes.view(2, 4, 4, -1).transpose(2, 1).softmax(1)
        sides = (boxes * torch.arange(4.0).view(1, 4, 1, 1)).sum(1)
        centres, strides = [], []
        for one, stride in scales:
            high, wide = one.shape[2:]
            y, z = torch.meshgrid(torch.arange(high) + 0.5, torch.arange(wide) + 0.5, indexing="ij")
            centres.append(torch.stack((z, y), -1).view(-1, 2))
            strides.append(torch.full((high * wide, 1), float(stride)))
        centre, stride = torch.cat(centres).T, torch.cat(strides).T
        first, last = sides.chunk(2, 1)
        low, high = centre - first, centre + last
        best, number = classes.sigmoid().max(1)
        return torch.cat(((low + high) / 2, high - low), 1) * stride, best, number

    return settled(
        Call(
            forward, stem=block(3, 8, 3, 2), down=block(8, 8, 3, 2), split=block(8, 16), bottle=block(8, 8, 3),
            spp=block(32, 8), neck=block(16, 8), head=nn.Conv2d(8, 19, 1),
        )
    ), (torch.randn(2, 3, 24, 32),)  # fmt: skip


def kept_strides() -> Net:
    """Outputs that share elements, and a frame around what another instruction makes."""

    def forward(m: Call, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        framed = nn.functional.pad(torch.relu(m.a(x)), (1, 1, 2, 0), value=-3.0)
        return framed, x[:, :1].expand(4, 6), x.unfold(1, 4, 1), torch.addmm(x, x, m.a.weight, beta=0.5, alpha=2)

    return Call(forward, a=nn.Linear(6, 6)), (torch.randn(4, 6),)


def decoder() -> Net:
    """A U-Net: down by pools and convolutions, up by transposed ones and between neighbours, joined at each level."""

    def block(inputs: int, outputs: int) -> nn.Module:
        return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU())

    def forward(m: Call, x: torch.Tensor) -> torch.Tensor:
        fine = m.first(x)
        half = m.second(nn.functional.max_pool2d(fine, 2, ceil_mode=True))
        deep = m.third(nn.functional.max_pool2d(half, 2, ceil_mode=True))
        up = m.up(deep)[:, :, : half.shape[2], : half.shape[3]]
        half = m.fourth(torch.cat([half, up], 1))
        up = nn.functional.interpolate(half, size=fine.shape[2:], mode="bilinear", align_corners=False)
        return m.last(torch.cat([fine, up], 1))

    up = nn.Sequential(nn.ConvTranspose2d(12, 8, 2, 2), nn.BatchNorm2d(8), nn.ReLU())
    return settled(
        Call(
            forward, first=block(3, 6), second=block(6, 8), third=block(8, 12), up=up, fourth=block(16, 6),
            last=nn.Conv2d(12, 2, 1),
        )
    ), (torch.randn(2, 3, 13, 18),)  # fmt: skip


def warped() -> Net:
    """A style net's parts: instance norms, nearest pixels, a volume, and an image where a grid says."""

    def forward(m: Call, x: torch.Tensor, shift: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = nn.functional.interpolate(torch.relu(m.norm(m.a(x))), scale_factor=1.5)
        grid = torch.tanh(y[:, :2].permute(0, 2, 3, 1) + shift)
        y = nn.functional.grid_sample(y, grid, padding_mode="reflection", align_corners=False)
        volume = m.b(y.unflatten(1, (2, 3)).transpose(1, 2).unsqueeze(1)[:, :, 0])
        return nn.functional.normalize(y, dim=1), nn.functional.adaptive_max_pool3d(volume, (1, 3, 4))

    return Call(
        forward, a=nn.Conv2d(3, 6, 3), norm=nn.InstanceNorm2d(6, affine=True), b=nn.Conv3d(1, 2, 2, padding=1)
    ), (torch.randn(2, 3, 9, 8), torch.zeros(2))  # fmt: skip


def messages() -> Net:
    """A graph's: messages along edges are gathered, added where they arrive, and divided by how many there are."""

    def forward(m: Call, x: torch.Tensor, edges: torch.Tensor, image: torch.Tensor) -> tuple[torch.Tensor, ...]:
        sent = m.a(x)[edges[0]]
        index = edges[1][:, None].expand(-1, 4)
        summed = torch.zeros(5, 4).scatter_add(0, index, sent)
        most = summed.scatter_reduce(0, index, sent, "amax")
        count = torch.zeros(5, dtype=torch.int64).index_add(0, edges[1], torch.ones_like(edges[1])).clamp(min=1)
        level = torch.log2(count * 8 // count).floor()
        chosen = image.gather(2, (edges[0] % count[edges[1]]).view(1, 1, 7).expand(2, 3, 7))
        return summed / count[:, None] + level[:, None], most.median(0).values, chosen, image.median()

    edges = torch.tensor([[0, 1, 2, 3, 4, 0, 2], [1, 1, 0, 4, 4, 4, 1]])
    return Call(forward, a=nn.Linear(3, 4)), (torch.randn(5, 3), edges, torch.randn(2, 3, 8))


NETS = {
    one.__name__: one
    for one in (
        mlp, residual, winograd, small_images, halved, squeeze, transformer, eager_attention, masked, shapes, pools,
        rows, whole_numbers, rms, fallback, spectrum, assigned, relative_attention, causal_block, windows, detector,
        kept_strides, decoder, warped, messages,
    )
}  # fmt: skip
HOSTED = {"fallback", "spectrum"}
"""Those that the accelerator cannot do alone."""
_STAND_FOR_ALL = ("residual", "transformer", "shapes", "fallback", "windows", "detector", "warped", "messages")


def some_quick(but: Collection[str] = ()) -> list[object]:
    """Return all names, or all but some, for what ``make test`` proves of a few."""
    names = [name for name in NETS if name not in but]
    return [name if name in _STAND_FOR_ALL else pytest.param(name, marks=pytest.mark.slow) for name in names]
