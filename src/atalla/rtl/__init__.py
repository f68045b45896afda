"""RTL: the matrix unit in SystemVerilog, simulated by Verilator; the same bits as the kernels, cycle by cycle."""

from __future__ import annotations

from atalla.rtl.build import ROWS, SIZES, build, clean
from atalla.rtl.tools import missing
from atalla.rtl.unit import MatrixUnit, Product

__all__ = ["ROWS", "SIZES", "MatrixUnit", "Product", "build", "clean", "missing"]
