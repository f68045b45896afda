"""Spectra on Atalla beside PyTorch's FFT, and where two products are faster than one, in interleaved calls.

python benchmarks/atalla_spectra.py [--rounds 150]

All on one thread. Above 1 Atalla is faster, and two products are faster than one: the median of the ratios of
neighbouring calls.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from _table import show
from torch import nn

import atalla
from atalla.passes.rules import spectra


class Spectrum(nn.Module):
    """Magnitudes of frames that overlap by half, under a window."""

    def __init__(self, samples: int) -> None:
        super().__init__()
        self.samples = samples
        self.window = nn.Buffer(torch.hann_window(samples))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return them, ``[frames, samples / 2 + 1]``."""
        framed = x.unfold(-1, self.samples, self.samples // 2)
        found: torch.Tensor = torch.fft.rfft(framed * self.window).abs()
        return found


class Mel(nn.Module):
    """An audio front end: the logarithm of the energy in 80 bands, 400 samples each 160."""

    def __init__(self) -> None:
        super().__init__()
        self.window = nn.Buffer(torch.hann_window(400))
        self.bands = nn.Buffer(torch.rand(80, 201) / 201)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return it, ``[1, 80, frames]``."""
        power = torch.stft(x, 400, 160, window=self.window, return_complex=True)[..., :-1].abs() ** 2
        return torch.clamp(self.bands @ power, min=1e-10).log10()


def bound(module: nn.Module, x: torch.Tensor) -> Callable[[], Any]:
    """Compile a module, and bind it to an input."""
    made = atalla.compile(torch.export.export(module.eval(), (x,)))
    assert not made.fallbacks, made.fallbacks
    return atalla.load(made.data, threads=1).bind((x,))


def ratio(one: Callable[[], Any], other: Callable[[], Any], rounds: int) -> tuple[float, float]:
    """Return how many times as fast the other is, and how long it takes, microseconds."""
    times: tuple[list[float], list[float]] = ([], [])
    with torch.inference_mode():
        for _ in range(rounds):
            for run, seconds in zip((one, other), times, strict=True):
                began = time.perf_counter()
                run()
                seconds.append(time.perf_counter() - began)
    return statistics.median(a / b for a, b in zip(*times, strict=True)), 1e6 * statistics.median(times[1])


def main() -> int:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=150)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    cases = {
        "mel, 1 s of 16 kHz": (Mel(), torch.randn(1, 16_000)),
        "mel, 10 s of 16 kHz": (Mel(), torch.randn(1, 160_000)),
        **{f"100 frames of {n}": (Spectrum(n), torch.randn(101 * n // 2)) for n in (64, 256, 400, 512, 1024, 2048)},
        "1 frame of 128": (Spectrum(128), torch.randn(128)),
    }
    rows = []
    for name, (module, x) in cases.items():
        eager = torch.export.export(module.eval(), (x,)).module()
        faster, us = ratio(lambda eager=eager, x=x: eager(x), bound(module, x), rounds)  # type: ignore[misc]
        rows.append([name, f"{us:.0f}", f"{faster:.2f}"])
    show("Spectra", ("", "Atalla, µs", "PyTorch / Atalla"), rows)
    rows = []
    for n in (64, 128, 200, 256, 320, 400, 512):
        module, x = Spectrum(n), torch.randn(51 * n // 2)
        ways = []
        for pays in (spectra.MOST, 1):
            spectra.PAYS = pays
            ways.append(bound(module, x))
        rows.append([str(n), f"{ratio(ways[0], ways[1], rounds)[0]:.2f}"])
    show("Samples", ("", "one product / two"), rows)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
