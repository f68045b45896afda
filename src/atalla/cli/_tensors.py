"""Tensors of a run: random ones that fit a blob, files of them, and what people see of them."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from atalla.cli import UsageError, check_file, one_line, print_table
from atalla.dtypes import torch_dtype_of
from atalla.errors import InputError
from atalla.files.archive import check_stored, check_whole
from atalla.isa import Dtype, Op

if TYPE_CHECKING:
    import torch

    from atalla.blob.reader import Listing


MAX_UNPACKED = 100
"""How many times its own size an ``.npz`` may unpack to, beside what every one may: masks pack a thousandfold."""
MAX_PACKED_ZEROS = 256 << 20


def check_ending(path: Path) -> None:
    """Refuse a file of another kind.

    Raises:
        UsageError: it ends otherwise.
    """
    if path.suffix not in {".npz", ".pt"}:
        raise UsageError(f"{path} is neither .npz nor .pt")


def random_inputs(listing: Listing, seed: int) -> list[torch.Tensor]:
    """Return inputs: floats are normal; whole numbers are 0 or 1, or rows of the table that they choose from."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    found = []
    for number in listing.inputs:
        row = listing.tensors[number]
        dtype = torch_dtype_of(row.dtype)
        if row.dtype in {Dtype.F32, Dtype.F64, Dtype.F16, Dtype.BF16}:
            found.append(torch.randn(row.shape, generator=generator).to(dtype))
        else:
            found.append(torch.randint(0, _choices(listing, number), row.shape, generator=generator).to(dtype))
    return found


def _choices(listing: Listing, number: int) -> int:
    """Return how many values an input of whole numbers may have: rows of the smallest table that it indexes, else 2."""
    tables = (row.sources for row in listing.instructions if row.op is Op.GATHER)
    roots = ((table, index) for table, index in tables if table is not None and index is not None)
    return min(
        (listing.tensors[table].shape[0] for table, index in roots if listing.tensors[index].root == number), default=2
    )


def _check_archive(file: IO[bytes]) -> None:
    """Refuse an archive that is ambiguous, or unpacks to far more than it is.

    Raises:
        ValueError: it does.
    """
    check_whole(file)
    with zipfile.ZipFile(file) as archive:
        whole = sum(member.file_size for member in archive.infolist())
    if whole > MAX_UNPACKED * file.seek(0, 2) + MAX_PACKED_ZEROS:
        raise ValueError(f"{whole} bytes are too many for a file of its size")
    file.seek(0)


def read_inputs(path: Path, listing: Listing) -> list[torch.Tensor]:
    """Read inputs from a file: by the names of the blob's inputs where it has them, else in order.

    Raises:
        UsageError: the file has another ending.
        InputError: it does not hold them.
    """
    import numpy as np
    import torch

    check_ending(path)
    check_file(path)
    try:
        if path.suffix == ".npz":
            with path.open("rb") as archive:
                _check_archive(archive)
                with np.load(archive, allow_pickle=False) as file:
                    held: Any = {name: torch.from_numpy(file[name]) for name in file.files}
        else:
            with path.open("rb") as archive:
                check_stored(archive)
                held = torch.load(archive, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except Exception as error:
        raise InputError(f"{path} cannot be read: {one_line(error)}") from error
    if isinstance(held, Mapping):
        names = [listing.tensors[number].name for number in listing.inputs]
        missing = [name for name in names if name not in held]
        is_unnamed = list(held) == [f"arr_{i}" for i in range(len(held))]  # as NumPy names arrays without a name
        held = list(held.values()) if missing and is_unnamed else [held.get(name) for name in names]
        if missing and any(value is None for value in held):
            raise InputError(f"{path} holds no input {', '.join(missing)}")
    return [held] if isinstance(held, torch.Tensor) else list(held)


def write_outputs(path: Path, outputs: Sequence[Any]) -> None:
    """Write outputs to a file, in order.

    Raises:
        UsageError: NumPy has no such element type.
    """
    import numpy as np
    import torch

    if path.suffix == ".pt":
        torch.save(list(outputs), path)
        return
    try:
        arrays = [one.numpy() if isinstance(one, torch.Tensor) else np.array(one) for one in outputs]
    except TypeError as error:
        raise UsageError(f"{path}: {one_line(error)}; a .pt file holds it") from error
    np.savez(path, *arrays)


def print_tensors(listing: Listing, inputs: Sequence[torch.Tensor], outputs: Sequence[Any]) -> None:
    """Print what went in and what came out."""
    import torch

    rows = [
        ("  input", listing.tensors[number].name, *_seen(value))
        for number, value in zip(listing.inputs, inputs, strict=True)
    ]
    for (kind, number), value in zip(listing.outputs, outputs, strict=True):
        if kind == "tensor" and isinstance(value, torch.Tensor):
            rows.append(("  output", listing.tensors[number].name, *_seen(value)))
        else:
            rows.append(("  output", "", str(value), ""))
    print_table(rows)


def _seen(value: torch.Tensor) -> tuple[str, str]:
    """Return what a tensor is, and what lies in it."""
    kind = f"{str(value.dtype).removeprefix('torch.')}[{'×'.join(map(str, value.shape)) or 'scalar'}]"
    if value.numel() == 0:
        return kind, "no elements"
    wide = value.double()
    return kind, f"min {wide.min():.4g}, mean {wide.mean():.4g}, max {wide.max():.4g}"
