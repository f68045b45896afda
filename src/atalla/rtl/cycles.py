"""Cycles: the clock edges that the matrix unit takes, in closed form; the RTL counts the same, with no difference.

One tile. Loading weights takes ``size`` edges, a row each. The last of ``rows`` rows of activations is then taken in
edge ``size + rows``. Its last element is delayed by ``size - 1`` and meets the last row of elements, its sum goes on to
the last column in ``size - 1`` more, and one edge writes it into its accumulator::

    size + rows + (size - 1) + (size - 1) + 1 = rows + 3 · size - 1

That is 2 R + C + T - 2 of a weight-stationary array of R rows, C columns and T rows of activations (SCALE-Sim: Samajdar
et al., *A Systematic Methodology for Characterizing Scalability of DNN Accelerators using SCALE-Sim*, ISPASS 2020),
and one edge for the accumulator, which SCALE-Sim does not have.

Tiles behind each other, along the depth. A tile begins when its weights are there, which takes ``size + 1`` edges from
the beginning of the one before: the other plane is free then, and is filled in ``size`` edges. Row m begins when row m
of the tile before has left its accumulator, which takes ``size + 1`` as well. So each takes ``max(rows, size + 1)``.
"""

from __future__ import annotations

from atalla.rtl.build import ROWS


def tile(rows: int, size: int) -> int:
    """Return the edges of one tile of weights, from its first weight to its last sum in an accumulator.

    Args:
        rows: of activations, 1 to ``ROWS``.
        size: rows, and columns, of the unit.
    """
    return rows + 3 * size - 1


def chain(rows: int, depth: int, size: int) -> int:
    """Return the edges of the tiles along a depth, whose sums are those of the same rows and columns.

    Args:
        rows: of activations, 1 to ``ROWS``.
        depth: 1 or more.
        size: rows, and columns, of the unit.
    """
    return (-(-depth // size) - 1) * max(rows, size + 1) + tile(rows, size)


def matmul(rows: int, depth: int, columns: int, size: int, *, accumulate: bool = False) -> int:
    """Return the edges of a whole product, ``[rows, depth] × [depth, columns]``.

    Rows are cut into parts of ``ROWS``, columns into parts of ``size``. Of each the sums are read, and with
    ``accumulate`` written first, a row an edge.
    """
    if depth == 0:
        return 0
    parts = [min(ROWS, rows - first) for first in range(0, rows, ROWS)]
    ways = 2 if accumulate else 1
    return -(-columns // size) * sum(chain(part, depth, size) + ways * part for part in parts)
