"""Given leaf: a tensor with values of its own in a program that is Python text, written as plainly as they allow."""

from __future__ import annotations

import base64
import functools
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from atalla.fuzz.graph import Leaf
from cross_backend.tensors import dtype_of, kind_of

if TYPE_CHECKING:
    import numpy as np
    import torch

GIVEN, ZEROS, ONES, COUNTED, WHOLE, TENTHS, DRAWN = "given", "zeros", "ones", "counted", "whole", "tenths", "drawn"
"""How values are written: as they are; all 0; all 1; 0, 1, 2, …; rounded to whole numbers, to tenths; from a seed."""
PLAINER = {"f": (ONES, ZEROS, COUNTED, WHOLE, TENTHS, DRAWN), "i": (ONES, ZEROS, COUNTED), "b": (ONES, ZEROS)}
"""Kind of the element type → plainer ways, the plainest first."""
LITERAL = 64
"""Elements that are written one by one; more are packed."""
DRAWING = 48
"""What a function that draws adds to the length of a source."""
HELPERS = {
    "rand(": "def rand(seed, *shape): return torch.randn(shape, generator=torch.Generator().manual_seed(seed))",
    "base64.": "import base64, zlib",
}
"""Text in a source → the line that it needs."""


@dataclass(frozen=True)
class GivenLeaf(Leaf):
    """A leaf that holds values; of a smaller shape it is their first ones along each axis."""

    dtype: str = "float32"
    whole: tuple[int, ...] = ()
    """Shape of the values that it holds."""
    data: bytes = b""
    """Those values, row by row."""

    @classmethod
    def of(cls, name: str, tensor: torch.Tensor) -> GivenLeaf:
        """Return a leaf that holds a tensor's values."""
        from cross_backend.tensors import to_numpy

        array, shape = to_numpy(tensor.detach().contiguous()), tuple(tensor.shape)
        dtype = str(tensor.dtype).removeprefix("torch.")
        return cls(name, GIVEN, shape, "plain", int(name[1:]), 0, dtype, shape, array.tobytes())

    @property
    def source(self) -> str:
        """Return the Python expression that makes it."""
        return _source(self.kind, self.seed, self.shape, self.dtype, self.whole, self.data)

    @property
    def oddness(self) -> int:
        """Return the length of its source; what is drawn needs a function, too."""
        return len(self.source) + DRAWING * (self.kind == DRAWN)

    @property
    def plainer(self) -> tuple[str, ...]:
        """Return the ways in which its values can be written."""
        return PLAINER.get({"u": "i"}.get(self._kind, self._kind), ())

    @property
    def _kind(self) -> str:
        import numpy as np

        return kind_of(np.empty(0, dtype_of(self.dtype)))


@functools.lru_cache(256)
def _source(kind: str, seed: int, shape: tuple[int, ...], dtype: str, whole: tuple[int, ...], data: bytes) -> str:
    import numpy as np

    sizes = ", ".join(map(str, shape)) or "()"
    typed = "" if dtype == "float32" else f", dtype=torch.{dtype}"
    count = int(np.prod(shape))
    if not count:
        kind = ZEROS
    if kind in {ZEROS, ONES}:
        return f"torch.{kind}({sizes}{typed})"
    if kind == COUNTED:
        start = f"{count}{'.0' if dtype == 'float32' else ''}"
        kept = "" if dtype == "int64" else typed
        return f"torch.arange({start}{kept})" + ("" if shape == (count,) else f".reshape({sizes})")
    if kind == DRAWN:
        drawn = f"rand({', '.join(map(str, (seed, *shape)))})"
        return drawn if dtype == "float32" else f"{drawn}.to(torch.{dtype})"
    array = np.frombuffer(data, dtype_of(dtype)).reshape(whole)[tuple(slice(n) for n in shape)]
    if kind in {WHOLE, TENTHS}:
        array = array.astype(np.float64).round(0 if kind == WHOLE else 1).astype(array.dtype)
    if count <= LITERAL:
        implied = "" if dtype in {"int64", "bool"} and count else typed
        return f"torch.tensor({_literal(array)}{implied})"
    packed = base64.b64encode(zlib.compress(np.ascontiguousarray(array).tobytes(), 9)).decode()
    unpacked = f'bytearray(zlib.decompress(base64.b64decode("{packed}")))'
    return f"torch.frombuffer({unpacked}, dtype=torch.{dtype}).reshape({sizes})"


def _literal(array: np.ndarray[Any, Any]) -> str:
    """Return an array as nested lists; numbers are the shortest that are read back as they are."""
    import numpy as np

    if array.ndim:
        rows: Sequence[Any] = list(array)
        return f"[{', '.join(map(_literal, rows))}]"
    if kind_of(array) != "f":
        return str(array.item())
    value = float(array)
    if not np.isfinite(value):
        return f'float("{value}")'
    narrow = np.float64(value) if array.dtype == np.float64 else np.float32(value)
    return str(narrow)
