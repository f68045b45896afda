"""Spectra are products, complex numbers' views and magnitudes are ordinary instructions, and the host does the rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import atalla
from tests.atalla.agreement import agree


class Made(nn.Module):
    """A function with a window that is a constant."""

    def __init__(self, function: Callable[[Any, torch.Tensor], Any], window: int = 4) -> None:
        super().__init__()
        self.function = function
        self.register_buffer("window", torch.hann_window(window))

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(self, x)


def test_transforms_of_every_length_and_dim() -> None:
    """Short ones by one product, long ones by two, of even, odd and prime numbers of samples."""
    agree(
        [
            *((Made(lambda _, x: torch.view_as_real(torch.fft.rfft(x))), (torch.randn(3, n),)) for n in (2, 3, 16, 37)),
            *((Made(lambda _, x: torch.fft.rfft(x).abs()), (torch.randn(2, 3, n),)) for n in (361, 400, 509, 1024)),
            (Made(lambda _, x: torch.view_as_real(torch.fft.fft(x))), (torch.randn(2, 420),)),
            (Made(lambda _, x: torch.fft.rfft(x, dim=0, norm="ortho").abs()), (torch.randn(12, 5, 2),)),
            (Made(lambda _, x: torch.fft.rfft(x, dim=1, norm="forward").abs()), (torch.randn(2, 441, 3),)),
            (Made(lambda _, x: torch.fft.rfft(x, n=9).imag), (torch.randn(2, 7),)),
        ]
    )


def test_a_spectrogram_needs_no_host() -> None:
    def power(m: Any, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = torch.stft(x, 400, 160, window=m.window, return_complex=True)[..., :-1].abs() ** 2
        return found

    def plain(m: Any, x: torch.Tensor) -> torch.Tensor:
        return torch.view_as_real(torch.stft(x, 16, 4, window=m.window, center=False, return_complex=True))

    agree([(Made(power, 400), (torch.randn(2, 1600),)), (Made(plain, 16), (torch.randn(48),))])


def test_a_window_is_taken_in_only_where_nothing_else_reads_the_product() -> None:
    def both(m: Any, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        framed = x.unfold(-1, 8, 2) * m.window
        return torch.fft.rfft(framed).abs(), framed

    agree(
        [
            (Made(both, 8), (torch.randn(20),)),
            (Made(lambda m, x: torch.fft.rfft(m.window * x, dim=0).abs(), 8), (torch.randn(8, 8),)),
            (Made(lambda m, x: torch.fft.rfft(x * m.window).abs(), 8), (torch.randn(3, 1),)),  # made as wide as it
            (Made(lambda _, x: torch.fft.rfft(x * x).abs()), (torch.randn(3, 8),)),
        ]
    )


def test_views_and_parts_of_complex_numbers() -> None:
    def views(_: Any, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        z = torch.fft.rfft(x)  # [2, 6, 5]
        split = torch.split(z, 2, dim=-2)
        return (
            z.permute(2, 0, 1).abs(),
            z.transpose(-1, -2).real,
            z[:, 1:-1, ::2].imag,
            z.unsqueeze(-1).abs(),
            z.reshape(12, 5).abs(),
            z.transpose(0, 1).reshape(12, 5).abs(),
            z[:, -1].abs(),
            z[:1].squeeze(0).abs(),
            split[2].abs(),
            torch.unbind(z, -1)[3].abs(),
            torch.view_as_complex(x.reshape(2, 6, 4, 2)).abs(),
        )

    agree([(Made(views), (torch.randn(2, 6, 8),))])


def test_no_square_of_a_magnitude_overflows_or_vanishes() -> None:
    most, none = float("inf"), float("nan")
    pairs = torch.tensor(
        [[3e30, 4e30], [3e-30, 4e-30], [0.0, 0.0], [-5.0, 0.0], [0.0, -2e38], [-most, most], [most, none], [none, 1.0]]
    )
    program = torch.export.export(Made(lambda _, x: torch.view_as_complex(x).abs()), (pairs,))
    (found,) = atalla.load(atalla.compile(program).data).run((pairs,))
    torch.testing.assert_close(
        found, torch.tensor([5e30, 5e-30, 0.0, 5.0, 2e38, most, most, none]), rtol=1e-6, atol=0, equal_nan=True
    )


def test_a_table_stays_exact_where_weights_are_bfloat16() -> None:
    module, x = Made(lambda m, x: torch.fft.rfft(x * m.window).abs(), 64), torch.randn(4, 64)
    made = atalla.compile(torch.export.export(module, (x,)), bf16=True)
    (found,) = atalla.load(made.data).run((x,))
    torch.testing.assert_close(found, module(x), rtol=1e-5, atol=1e-5)


def test_any_number_of_frames() -> None:
    module = Made(lambda m, x: torch.fft.rfft(x * m.window).abs(), 400)
    frames = torch.export.Dim("frames", min=1, max=64)
    program = torch.export.export(module, (torch.randn(5, 400),), dynamic_shapes=({0: frames},))
    made = atalla.compile(program)
    assert not made.fallbacks
    loaded = atalla.load(made.data)
    for count in (1, 5, 64):
        x = torch.randn(count, 400)
        torch.testing.assert_close(loaded.run((x,))[0], module(x), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(
    ("function", "x", "reason"),
    [
        (lambda x: torch.fft.rfft(x).abs(), torch.randn(1, 997), "at most 4096 samples, 512 where"),
        (lambda x: torch.fft.rfft(x).abs(), torch.randn(1, 4100), "at most 4096 samples"),
        (lambda x: torch.fft.rfft(x).abs(), torch.randn(2, 8, dtype=torch.float64), "must be float32"),
        (lambda x: (torch.fft.rfft(x) * 1j).abs(), torch.randn(2, 8), "no instruction computes with complex"),
        (lambda x: torch.fft.irfft(torch.fft.rfft(x)), torch.randn(2, 8), "no instruction computes with complex"),
    ],
    ids=["prime", "long", "float64", "product", "inverse"],
)
def test_the_host_does_the_rest(function: Callable[[Any], Any], x: torch.Tensor, reason: str) -> None:
    module = Made(lambda _, x: function(x))
    made = atalla.compile(torch.export.export(module, (x,)))
    assert any(reason in one.reason for one in made.fallbacks), made.fallbacks
    torch.testing.assert_close(atalla.load(made.data).run((x,))[0], module(x))
