"""Rounding errors, drawn at random: what a program's weights, inputs and intermediate values are disturbed by."""

from __future__ import annotations

import random
from typing import Any


class Noise:
    """Whole numbers around 0, drawn once: a tensor's are a window of them, which costs far less than drawing again."""

    SIZE = 1 << 16

    def __init__(self, seed: int, steps: int) -> None:
        """Draw them.

        Args:
            seed: of what is drawn.
            steps: the largest; those of ``-steps`` are the same with the other sign.
        """
        import torch

        self._places = random.Random(seed)  # noqa: S311  no secret: which errors are drawn
        most, generator = abs(steps), torch.Generator().manual_seed(seed)
        drawn = torch.randint(-most, most + 1, (2 * self.SIZE,), generator=generator)
        self._drawn = drawn if steps > 0 else -drawn
        self._factors: dict[Any, Any] = {}

    def disturbed(self, x: Any) -> Any:
        """Return a tensor with each element changed by so many rounding errors; it keeps its layout."""
        import torch

        if not isinstance(x, torch.Tensor) or not (x.is_floating_point() or x.is_complex()):
            return x
        if x.dtype not in self._factors:
            self._factors[x.dtype] = (1 + self._drawn.double() * torch.finfo(x.dtype).eps).to(x.dtype)
        factors, x = self._factors[x.dtype], x.detach()
        made = torch.empty_like(x)
        if made.stride() != x.stride():  # some of its elements are one
            return x * self._window(factors, x.numel()).reshape(x.shape)
        flat, result = (one.as_strided((x.numel(),), (1,), one.storage_offset()) for one in (x, made))
        whole = x.numel() // self.SIZE * self.SIZE
        start = self._places.randrange(self.SIZE)
        if whole:
            rows = flat[:whole].view(-1, self.SIZE), factors[start : start + self.SIZE]
            torch.mul(*rows, out=result[:whole].view(-1, self.SIZE))
        torch.mul(flat[whole:], factors[start : start + x.numel() - whole], out=result[whole:])
        return made

    def rounded_means(self, x: Any, groups: int) -> Any:
        """Change a normalisation's input as much as the rounding of its means does: by about √n·u·|mean| for n terms.

        A sum of n like terms in order is off by so much (N. J. Higham, *Accuracy and Stability*, 2002, section 4.2),
        and where a group hardly varies its mean is all that counts.
        """
        import torch

        if not x.is_floating_point() or not x.numel():
            return x
        rows = x.detach().reshape(groups, -1)
        off = rows.shape[1] ** 0.5 * torch.finfo(x.dtype).eps * rows.mean(1, keepdim=True)
        return (rows + self._window(self._drawn, rows.numel()).reshape(rows.shape) * off).reshape(x.shape).to(x.dtype)

    def _window(self, drawn: Any, count: int) -> Any:
        start = self._places.randrange(self.SIZE)
        window = drawn[start : start + self.SIZE]
        return window.repeat(-(-count // self.SIZE))[:count]
