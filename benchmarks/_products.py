"""Products of matrices that networks are made of: [pixels, taps · channels] × [taps · channels, filters] of a layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from atalla.torchvision import torchvision_models

if TYPE_CHECKING:
    import torch

TOKENS = 128
"""That BERT reads."""


@dataclass(frozen=True, order=True)
class Product:
    """``[rows, depth] × [depth, columns]``."""

    rows: int
    depth: int
    columns: int

    @property
    def macs(self) -> int:
        """Multiplications."""
        return self.rows * self.depth * self.columns

    def parts(self, rows: int) -> list[Product]:
        """Cut it into those of at most so many rows."""
        return [Product(min(rows, self.rows - first), self.depth, self.columns) for first in range(0, self.rows, rows)]

    def __str__(self) -> str:
        return f"{self.rows} × {self.depth} × {self.columns}"


def resnet50() -> list[Product]:
    """Return all convolutions, and the classifier, at 224 × 224."""
    return _layers("resnet50")


def mobilenet_v2() -> list[Product]:
    """Return convolutions of 1 × 1, and the classifier, at 224 × 224."""
    return _layers("mobilenet_v2", kernel=(1, 1))


def bert_base() -> list[Product]:
    """Return those of 12 blocks of 12 heads: 768 wide, 3072 inside, of ``TOKENS`` tokens."""
    projection = Product(TOKENS, 768, 768)
    scores, mixed = Product(TOKENS, 64, TOKENS), Product(TOKENS, TOKENS, 64)
    inside = [Product(TOKENS, 768, 3072), Product(TOKENS, 3072, 768)]
    return 12 * [*3 * [projection], *12 * [scores, mixed], projection, *inside]


NETWORKS = {"ResNet-50": resnet50, "BERT-base": bert_base, "MobileNetV2, 1 × 1": mobilenet_v2}


def _layers(name: str, kernel: tuple[int, int] | None = None) -> list[Product]:
    """Return one for each layer, or for those of one kernel, in the order in which they run."""
    import torch

    found: list[Product] = []

    def note(module: Any, _: tuple[torch.Tensor, ...], made: torch.Tensor) -> None:
        columns, depth = module.weight.shape[0], module.weight[0].numel()
        found.append(Product(made.numel() // columns, depth, columns))

    with torch.device("meta"):
        model = torchvision_models().get_model(name).eval()
        for module in model.modules():
            if not isinstance(module, torch.nn.Conv2d | torch.nn.Linear):
                continue
            if kernel is None or getattr(module, "kernel_size", kernel) == kernel:
                assert getattr(module, "groups", 1) == 1
                module.register_forward_hook(note)
        model(torch.empty(1, 3, 224, 224))
    return found
