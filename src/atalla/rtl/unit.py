"""Unit: a simulated matrix unit, opened by ctypes; matrices of any size, cut into its tiles."""

from __future__ import annotations

import ctypes
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from atalla.errors import InputError, KernelError
from atalla.rtl.build import ROWS, SOURCES, Kind, build

if TYPE_CHECKING:
    import numpy as np
    import torch

ABI_VERSION = 1


class CTile(ctypes.Structure):
    """``atalla_rtl_tile``."""

    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("a", ctypes.c_void_p),
        ("a_stride", ctypes.c_int64),
        ("b", ctypes.c_void_p),
        ("b_row_stride", ctypes.c_int64),
        ("b_column_stride", ctypes.c_int64),
        ("sums", ctypes.c_void_p),
        ("sums_stride", ctypes.c_int64),
        ("m", ctypes.c_int64),
        ("k", ctypes.c_int64),
        ("n", ctypes.c_int64),
        ("accumulate", ctypes.c_int32),
        ("stalls", ctypes.c_uint32),
        ("edges", ctypes.c_uint64),
        ("compute_edges", ctypes.c_uint64),
    )


@dataclass(frozen=True)
class Product:
    """What a unit made."""

    sums: torch.Tensor
    """``[M, N]``, int32 or float32."""
    cycles: int
    """Clock edges of all."""
    compute_cycles: int
    """Those of them from a tile's first weight to its last sum, without reading and writing accumulators."""


class MatrixUnit:
    """A matrix unit of ``size × size`` elements, in simulation; for one thread at a time, and closed by ``with``.

    Each of its two types is a library of its own, built when it is first used.
    """

    def __init__(self, size: int = 32, sources: Path = SOURCES, *, stalls: int = 0) -> None:
        """Say what unit.

        Args:
            size: 8, 16 or 32.
            sources: the folder with its SystemVerilog and shim.
            stalls: seed of random clocks in which it is offered nothing, to try its handshake; 0 for none.
        """
        self.size = size
        self._stalls = stalls
        self._sources = sources
        self._units: dict[Kind, _Simulation] = {}

    def matmul_int8(
        self, a: torch.Tensor | np.ndarray, b: torch.Tensor | np.ndarray, start: torch.Tensor | np.ndarray | None = None
    ) -> Product:
        """Return ``start + a @ b``, exact modulo 2^32.

        Args:
            a: ``[M, K]``, int8. A zero point z is no business of the unit: let ``start`` be ``-z · sum(b, 0)``.
            b: ``[K, N]``, int8.
            start: ``[M, N]``, int32; zeros if not given.

        Raises:
            InputError: types or shapes are others.
            AtallaError: the unit cannot be built.
        """
        return self._matmul("int8", a, b, start)

    def matmul_bf16(
        self, a: torch.Tensor | np.ndarray, b: torch.Tensor | np.ndarray, start: torch.Tensor | np.ndarray | None = None
    ) -> Product:
        """Return ``start + a @ b``, added as ``run/reference_bf16.py`` says.

        Args:
            a: ``[M, K]``, bfloat16; of numpy, its bits as uint16.
            b: ``[K, N]``, likewise.
            start: ``[M, N]``, float32; zeros if not given.

        Raises:
            InputError: types or shapes are others.
            AtallaError: the unit cannot be built.
        """
        return self._matmul("bf16", a, b, start)

    def _matmul(
        self,
        kind: Kind,
        a: torch.Tensor | np.ndarray,
        b: torch.Tensor | np.ndarray,
        start: torch.Tensor | np.ndarray | None,
    ) -> Product:
        import torch

        taken, dtype = (torch.int8, torch.int32) if kind == "int8" else (torch.bfloat16, torch.float32)
        a, b = _given(a, taken), _given(b, taken)
        start = None if start is None else _given(start, dtype)
        if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
            raise InputError(f"no product of {list(a.shape)} and {list(b.shape)}")
        (rows, depth), columns = a.shape, b.shape[1]
        if start is not None and start.shape != (rows, columns):
            raise InputError(f"sums are {[rows, columns]}, and begin with {list(start.shape)}")
        sums = torch.zeros(rows, columns, dtype=dtype) if start is None else start.clone().contiguous()
        a, cycles, compute_cycles = a.contiguous(), 0, 0
        if depth == 0:
            return Product(sums, 0, 0)
        unit = self._unit(kind)
        for m in range(0, rows, ROWS):
            for n in range(0, columns, self.size):
                height, wide = min(ROWS, rows - m), min(self.size, columns - n)
                tile = CTile(ctypes.sizeof(CTile), a[m].data_ptr(), depth, b[:, n:].data_ptr(), *b.stride())
                tile.sums, tile.sums_stride = sums[m, n:].data_ptr(), columns
                tile.m, tile.k, tile.n, tile.accumulate = height, depth, wide, start is not None
                tile.stalls = self._stalls
                unit.multiply(tile)
                cycles += tile.edges
                compute_cycles += tile.compute_edges
        return Product(sums, cycles, compute_cycles)

    def entry(self, kind: Kind) -> tuple[object, int]:
        """Return the function of a library, and what it is called with, for C to call as long as the unit is open.

        Raises:
            AtallaError: the unit cannot be built.
        """
        return self._unit(kind).entry

    def _unit(self, kind: Kind) -> _Simulation:
        if kind not in self._units:
            self._units[kind] = _Simulation(build(self.size, kind, self._sources), kind)
        return self._units[kind]

    def close(self) -> None:
        """Free what was made; the unit may be used again."""
        for unit in self._units.values():
            unit.free()
        self._units.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Simulation:
    """One unit of a library."""

    def __init__(self, path: Path, kind: Kind) -> None:
        try:
            library = ctypes.CDLL(str(path))
        except OSError as error:
            raise KernelError(0, f"{path} cannot be opened: {error}; delete it, and it is built again") from error
        version = library.atalla_rtl_version()
        if version != ABI_VERSION:
            raise KernelError(0, f"{path} has version {version} of the ABI; this package needs {ABI_VERSION}")
        library.atalla_rtl_new.restype = ctypes.c_void_p
        library.atalla_rtl_free.argtypes = (ctypes.c_void_p,)
        self._run = getattr(library, f"atalla_rtl_matmul_{kind}")
        self._run.argtypes = (ctypes.c_void_p, ctypes.POINTER(CTile))
        self._unit = library.atalla_rtl_new()
        if not self._unit:
            raise KernelError(0, "there is no memory for the matrix unit")
        self.free = weakref.finalize(self, library.atalla_rtl_free, self._unit)  # called once, at the latest then
        self.entry = (self._run, int(self._unit))

    def multiply(self, tile: CTile) -> None:
        """Run one tile of sums."""
        status = self._run(self._unit, ctypes.byref(tile))
        if status:
            raise KernelError(status, f"the matrix unit takes no tile of {tile.m} × {tile.k} × {tile.n}")


def _given(x: torch.Tensor | np.ndarray, dtype: torch.dtype) -> torch.Tensor:
    """Return a tensor of this type, of a tensor or an array."""
    import torch

    made = torch.as_tensor(x)
    if made.dtype == torch.uint16 and dtype == torch.bfloat16:
        made = made.view(dtype)
    if made.dtype != dtype:
        raise InputError(f"the matrix unit takes {dtype} here, not {made.dtype}")
    return made
