"""Tensors at the seams: their specification, the check of inputs against it, and NumPy conversion."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from cross_backend.errors import ArtifactError, RunError, UnavailableError, one_line
from cross_backend.foreign_files import MAX_UNPACKED, open_member, open_regular, open_zip
from cross_backend.serialization import from_json

if TYPE_CHECKING:
    import numpy as np

MAX_PACKED_ZEROS = 256 << 20
"""Bytes that every ``.npz`` may unpack to: masks and the like may pack a thousandfold."""
MAX_DRAWN = 1 << 28
"""Numbers of one random input: a specification may come from a stranger's manifest."""
MAX_MEMBERS = 10_000
"""Tensors of a file."""
_PIECE_BYTES = 1 << 20
MAX_ELEMENTS = 1 << 46
"""Of a tensor; more than any address space holds."""
_DTYPE = re.compile(
    r"bool|u?int(4|8|16|32|64)|bfloat16|float(16|32|64)|float8_\w{1,20}|float4_\w{1,20}|complex(32|64|128)"
)

BFLOAT16 = "bfloat16"
"""The one element type here that NumPy itself lacks; ``ml_dtypes`` has it."""
_STORED_BFLOAT16 = "V2"
"""What NumPy writes into a file in place of its name: two bytes of nothing that it knows."""

Tensors = Sequence[Any]
"""Positional tensors, flat: NumPy arrays, torch tensors, or whatever a runtime hands out that NumPy can read."""


@dataclass(frozen=True)
class TensorSpec:
    """What one input or output looks like."""

    name: str
    """Name in the program's signature."""
    dtype: str
    """Element type in NumPy's spelling (``float32``, ``int64``, ``bool``) plus ``bfloat16``."""
    shape: tuple[int | str, ...]
    """Extent of every dimension; a text is the name of a dynamic one."""

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"

    @classmethod
    def of(cls, name: str, tensor: Any) -> TensorSpec:
        """Describe a concrete tensor."""
        return cls(name, str(tensor.dtype).removeprefix("torch."), tuple(int(n) for n in tensor.shape))

    def accepts(self, tensor: Any) -> bool:
        """Whether a tensor has this element type and shape (dynamic extents accept any size)."""
        given = TensorSpec.of(self.name, tensor)
        return (
            given.dtype == self.dtype
            and len(given.shape) == len(self.shape)
            and all(isinstance(want, str) or want == got for want, got in zip(self.shape, given.shape, strict=True))
        )


def read_specs(rows: Any) -> tuple[TensorSpec, ...]:
    """Read specifications of a manifest.

    Raises:
        ValueError: no tensor of numbers has such a type or shape.
        KeyError, TypeError, ...: as :func:`serialization.from_json`.
    """
    specs = from_json(tuple[TensorSpec, ...], rows)
    for spec in specs:
        extents = [n for n in spec.shape if isinstance(n, int)]
        if not _DTYPE.fullmatch(spec.dtype):
            raise ValueError(f"{spec.name!r} has type {spec.dtype[:40]!r}, which is no type of numbers")
        if min(extents, default=0) < 0 or math.prod(max(n, 1) for n in extents) > MAX_ELEMENTS:
            raise ValueError(f"{spec.name!r} has shape {list(spec.shape)}, which no tensor has")
    return specs


def check_inputs(specs: Sequence[TensorSpec], inputs: Tensors) -> None:
    """Compare inputs with what a program takes.

    Raises:
        RunError: the count, an element type or a shape differs; the text names both sides.
    """
    wanted = ", ".join(f"{spec.name}: {spec}" for spec in specs)
    if len(inputs) != len(specs):
        raise RunError(f"the program takes {len(specs)} input(s) ({wanted}), but {len(inputs)} were given.")
    for spec, tensor in zip(specs, inputs, strict=True):
        if not hasattr(tensor, "dtype") or not hasattr(tensor, "shape"):
            raise RunError(f"input {spec.name!r} must be an array {spec}, but a {type(tensor).__name__} was given.")
        if not spec.accepts(tensor):
            given = TensorSpec.of(spec.name, tensor)
            is_type = spec.dtype == BFLOAT16 != given.dtype
            remedy = " Give a torch tensor, or x.astype(ml_dtypes.bfloat16)." if is_type else ""
            raise RunError(f"input {spec.name!r} must be {spec}, but {given} was given.{remedy}")


def dtype_of(name: str) -> np.dtype[Any]:
    """Return NumPy's element type of a specification's ``dtype``.

    Raises:
        TypeError: NumPy has none.
        UnavailableError: it is bfloat16, and ``ml_dtypes`` is not installed.
    """
    import numpy as np

    if name != BFLOAT16:
        return np.dtype(name)
    try:
        import ml_dtypes
    except ImportError as error:
        raise UnavailableError("bfloat16 needs ml_dtypes", f"{sys.executable} -m pip install ml_dtypes") from error
    found: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return found


def kind_of(tensor: np.ndarray[Any, Any]) -> str:
    """Return NumPy's letter for an array's kind of numbers; bfloat16 is ``f`` as other floating point types are."""
    return "f" if tensor.dtype.name == BFLOAT16 else tensor.dtype.kind


def to_numpy(tensor: Any) -> np.ndarray[Any, Any]:
    """View or copy a tensor as a NumPy array; bfloat16 is that of ``ml_dtypes``."""
    import numpy as np

    if hasattr(tensor, "detach"):
        tensor = tensor.detach().cpu()
        if str(tensor.dtype) == "torch.bfloat16":
            bits = tensor.contiguous().view(sys.modules["torch"].uint16).numpy()
            return bits.view(dtype_of(BFLOAT16))  # type: ignore[no-any-return]
        return tensor.numpy()  # type: ignore[no-any-return]
    return np.asarray(tensor)


def from_numpy(array: np.ndarray[Any, Any]) -> Any:
    """Copy a NumPy array to a torch tensor of the same type, in row-major order; torch must be imported already."""
    import numpy as np

    torch = sys.modules["torch"]  # not imported here: reports use this file, and do without torch
    own = np.array(array, order="C")
    if own.dtype.name == BFLOAT16:
        return torch.from_numpy(own.view(np.uint16)).view(torch.bfloat16)
    return torch.from_numpy(own)


def in_kind_of(inputs: Tensors, outputs: Tensors) -> tuple[Any, ...]:
    """Convert outputs to torch tensors, where the inputs lie, if an input was one; to NumPy arrays otherwise."""
    torch = sys.modules.get("torch")
    given = [x for x in inputs if torch is not None and isinstance(x, torch.Tensor)]
    if torch is not None and given:
        tensors = (y if isinstance(y, torch.Tensor) else from_numpy(to_numpy(y)) for y in outputs)
        return tuple(y.to(given[0].device) for y in tensors)
    return tuple(to_numpy(y).copy() for y in outputs)  # a runtime may overwrite its own memory in its next call


def random_inputs(specs: Sequence[TensorSpec], seed: int = 0) -> tuple[np.ndarray[Any, Any], ...]:
    """Draw inputs that fit: standard normal floats, integers 0 and 1, fair booleans; dynamic extents are 1.

    Raises:
        RunError: they are no numbers, or too many.
    """
    import numpy as np

    rng = np.random.default_rng(seed)
    drawn: list[np.ndarray[Any, Any]] = []
    for spec in specs:
        shape = tuple(n if isinstance(n, int) else 1 for n in spec.shape)
        try:
            dtype = dtype_of(spec.dtype)
        except (TypeError, ValueError, SyntaxError):
            dtype = np.dtype(object)
        kind = kind_of(np.empty(0, dtype))
        if kind not in "biufc" or min(shape, default=0) < 0:
            raise RunError(f"input {spec.name!r} is {spec}, and no such inputs can be drawn at random.")
        if math.prod(shape) > MAX_DRAWN:
            raise RunError(
                f"input {spec.name!r} is {spec}, and more than {MAX_DRAWN:,} numbers are not drawn at random."
            )
        if kind == "f":
            drawn.append(rng.standard_normal(shape).astype(dtype))
        elif kind == "b":
            drawn.append(rng.random(shape) < 0.5)
        else:
            drawn.append(rng.integers(0, 2, shape).astype(dtype))
    return tuple(drawn)


def save_tensors(path: Path, groups: Mapping[str, Tensors]) -> None:
    """Write groups of tensors to one ``.npz``: member ``group_index`` holds one tensor.

    NumPy writes bfloat16 as elements of two bytes without a type (``V2``), which :func:`load_tensors` knows.
    """
    import numpy as np

    members = {f"{group}_{i}": to_numpy(t) for group, tensors in groups.items() for i, t in enumerate(tensors)}
    with path.open("wb") as file:
        np.savez(file, **members)  # type: ignore[arg-type]


def load_tensors(path: Path) -> dict[str, tuple[np.ndarray[Any, Any], ...]]:
    """Read what :func:`save_tensors` wrote, or a folder of ``.npy`` files with such names.

    Raises:
        ArtifactError: the file is missing or damaged, holds other things than numbers, or unpacks to far more than it
            is.
    """
    groups: dict[str, dict[int, np.ndarray[Any, Any]]] = {}
    try:
        for member, tensor in _folder(path) if path.is_dir() else _archive(path):
            group, _, index = member.rpartition("_")
            if not index.isdecimal():
                raise ValueError(f"it holds {member!r}; names such as input_0 are wanted")
            groups.setdefault(group, {})[int(index)] = tensor
    except ArtifactError:
        raise
    except Exception as error:  # zipfile, zlib, struct and NumPy each have their own
        raise ArtifactError(f"{path} is damaged or not a tensor file ({one_line(error)}).") from error
    return {group: tuple(rows[i] for i in sorted(rows)) for group, rows in groups.items()}


def _folder(path: Path) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    """Read all ``.npy`` files of a folder."""
    for one in path.glob("*.npy"):
        with open_regular(one) as file:
            yield one.stem, _read_array(one.name, file, one.stat().st_size)


def _archive(path: Path) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    """Read all members of an ``.npz``.

    Raises:
        ValueError: it would unpack to far more than it is.
    """
    with open_zip(path) as archive:
        members = archive.infolist()
        whole = sum(member.file_size for member in members)
        if len(members) > MAX_MEMBERS or whole > MAX_UNPACKED * path.stat().st_size + MAX_PACKED_ZEROS:
            raise ValueError(f"{len(members)} tensors of {whole} bytes are too many for a file of its size")
        for member in members:
            with open_member(archive, member) as file:
                yield member.filename.removesuffix(".npy"), _read_array(member.filename, file, member.file_size)


def _read_array(name: str, file: IO[bytes], size_bytes: int) -> np.ndarray[Any, Any]:
    """Read an array from a file of a size that is known.

    Raises:
        ValueError: it holds other things than numbers, or more or less of them than its header says.
    """
    import numpy as np

    version = np.lib.format.read_magic(file)
    if version not in {(1, 0), (2, 0), (3, 0)}:
        raise ValueError(f"{name} is of an unknown version")
    # Version 3.0 is 2.0 with names of fields in UTF-8, and arrays of fields are refused.
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, is_transposed, dtype = read_header(file)
    if dtype == np.dtype(_STORED_BFLOAT16):
        dtype = dtype_of(BFLOAT16)
    elif dtype.kind not in "biufc":
        raise ValueError(f"{name} holds {dtype} and no numbers")
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != size_bytes - file.tell():
        raise ValueError(f"{name} is not as long as its header says")
    flat = np.empty(math.prod(shape), dtype)
    filled, data = 0, flat.view(np.uint8)
    while filled < data.size:
        piece = np.frombuffer(file.read(_PIECE_BYTES), np.uint8)
        if not piece.size:
            raise ValueError(f"{name} is cut short")
        data[filled : filled + piece.size] = piece
        filled += piece.size
    return flat.reshape(shape, order="F" if is_transposed else "C")
