"""Generate: a random program from a seed; the same seed makes the same program."""

from __future__ import annotations

from collections.abc import Collection

from atalla.fuzz.draw import Draw
from atalla.fuzz.graph import Graph
from atalla.fuzz.operators import makers, motifs, quantized
from atalla.fuzz.rounding import CHOICES, MOVES, SAME_BITS
from atalla.fuzz.values import RefusedError

PRECISIONS = ("float32", "int8", "bf16")


def generate(seed: int, precision: str = "float32", operators: Collection[str] | None = None) -> Graph:
    """Return a program; every node of it is one that eager torch takes, and to whose result one can be held.

    Args:
        seed: of all that is chosen.
        precision: float32; int8 for products and what lies between them quantised; bf16 for products in bfloat16.
        operators: of which single calls are made, if not of all that go with the precision.
    """
    draw = Draw(seed, precision)
    names = sorted(operators if operators is not None else _names(precision))
    for _ in range(draw.whole(2, 8) if precision != "int8" else draw.whole(1, 5)):
        _grow(draw, names)
    if not draw.nodes:
        draw.emit("aten.relu.default", draw.new(draw.theme))
    return _finished(draw)


def _names(precision: str) -> list[str]:
    if precision == "bf16":
        weighted = [name for name in makers() if "linear" in name or "conv" in name]
        return [name for name in (*makers(), *weighted * 12) if name in SAME_BITS]
    if precision == "int8":
        return [name for name in makers() if name.startswith("quantized") or name in MOVES | CHOICES]
    return [name for name in makers() if not name.startswith("quantized")]


def _grow(draw: Draw, names: list[str]) -> None:
    """Add one call, or a motif; one that is refused is drawn again, a few times."""
    for _ in range(6):
        mark = draw.mark()
        try:
            if draw.precision == "int8" and draw.maybe(0.7):
                draw.one(*quantized.MOTIFS)(draw)
            elif draw.precision == "float32" and draw.maybe(0.3):
                draw.one(*motifs.MOTIFS)(draw)
            else:
                name = draw.one(*names)
                makers()[name](draw, name)
            return
        except RefusedError:
            draw.back_to(mark)


def _finished(draw: Draw) -> Graph:
    """Return the program with its outputs: the last value, those that nothing reads, and some others."""
    read = {name for node in draw.nodes for name in node.operands}
    tensors = [name for name in draw.names() if name.startswith("v")]
    outputs = [name for name in tensors if name not in read and draw.maybe(0.8)]
    outputs += [name for name in draw.names() if draw.maybe(0.1) and name not in outputs]
    outputs = outputs or tensors[-1:]
    options = "bf16=True" if draw.precision == "bf16" else "exact=True" if draw.maybe(0.2) else ""
    draw.random.shuffle(outputs)
    return Graph(tuple(draw.leaves), tuple(draw.nodes), tuple(outputs), options, draw.precision)
