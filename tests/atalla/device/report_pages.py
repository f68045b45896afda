"""Pages for tests: programs of every element type, and odd ones; one of them has hostile names, and needs much room."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

import atalla
from atalla import ir
from atalla.device import Hardware
from atalla.isa import Dtype, Op
from atalla.report.page import page
from atalla.report.what_if import Grid, explore
from atalla.run.device import DryProgram
from tests.atalla import int8_nets, one_instruction
from tests.atalla.nets import Call

HOSTILE = "</script><img src=x onerror=alert(1)><!-- \"'`&amp; {{data}} $& \u202e\u2066\x1b[2J 🦀 " + "long" * 60
CHIP = Hardware(name="chip", scratchpad_bytes=96 << 10, dma_bytes_per_cycle=24, queue=3, issue_cycles=5)
"""Whose scratchpads and DMA are no stop of the sliders."""


class Mixed(nn.Module):
    """Dense, depthwise and Winograd's convolutions, a product with many columns, and a call of the host."""

    def __init__(self) -> None:
        super().__init__()
        self.images = nn.Sequential(
            nn.Conv2d(3, 32, 3, 2, 1), nn.Hardswish(), nn.Conv2d(32, 32, 5, padding=2, groups=32), nn.SiLU(),
            nn.Conv2d(32, 80, 1), nn.Conv2d(80, 33, 3, padding=1), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        )  # fmt: skip
        self.head = nn.Linear(33, 1500)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.sort(torch.softmax(self.head(self.images(x)), -1))


@functools.cache
def blob(kind: str) -> bytes:
    """Return a program: ``float32``, ``bfloat16``, ``int8``; ``hostile``, whose names are; ``hosted``; ``nothing``."""
    torch.manual_seed(0)
    if kind == "hostile":
        src = one_instruction.given("x", Dtype.F32, (2, 20_000))
        dst = one_instruction.result(Dtype.F32, (2, 20_000))
        step = ir.Instruction(Op.SOFTMAX, dst, (src,), {"axis": 1, "log": 0}, HOSTILE, HOSTILE)
        return one_instruction.program(step, [src], [torch.randn(2, 20_000)])[0]
    net, inputs = {
        "int8": int8_nets.network,
        "hosted": lambda: (Call(lambda _, x: torch.sort(x)), (torch.randn(2, 5),)),
        "nothing": lambda: (Call(lambda _, x: 3), (torch.randn(2),)),
    }.get(kind, lambda: (Mixed().eval(), (torch.randn(1, 3, 40, 40),)))()
    with torch.no_grad():
        program = torch.export.export(net, inputs)
    return bytes(atalla.compile(program, bf16=kind == "bfloat16").data)


@functools.cache
def explored(kind: str, hardware: Hardware) -> Grid:
    """Return a program on all devices around some hardware."""
    return explore(DryProgram(blob(kind)), hardware, lambda done, of: None)


@functools.cache
def made(kind: str, hardware: Hardware, name: str = "a model") -> str:
    """Return the page of a program."""
    simulation = DryProgram(blob(kind)).simulate(hardware, events=True)
    return page(name, simulation, explored(kind, hardware))


def devices(axes: Mapping[str, Sequence[int]], hardware: Hardware) -> Sequence[tuple[list[int], Hardware]]:
    """Return the places and the hardware of each device of a grid's axes, in the order of its cells."""
    first, second, third = axes
    return [
        ([i, j, k], hardware.replaced(**{first: a, second: b, third: c}))
        for i, a in enumerate(axes[first])
        for j, b in enumerate(axes[second])
        for k, c in enumerate(axes[third])
    ]


def slide(page: Any, axis: str, stop: int) -> None:
    """Move a slider as a hand does: with the keys, from its least stop on."""
    page.locator(f"#{axis}").press("Home")
    for _ in range(stop):
        page.keyboard.press("ArrowRight")


def total(page: Any, name: str) -> float:
    return float(page.locator(f"#total-{name}").get_attribute("data-value"))


def column(page: Any, name: str) -> list[str]:
    """Return the texts of a column of the layer table."""
    names: list[str] = page.locator("#layer-table thead th").evaluate_all(
        "(cells) => cells.map((c) => c.dataset.column)"
    )
    found: list[str] = page.locator(f"#layer-table tbody tr > :nth-child({names.index(name) + 1})").all_inner_texts()
    return found


def overflow(page: Any) -> int:
    found: int = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return found
