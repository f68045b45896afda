"""Tensors at the seams: their specification, the check of inputs against it, and NumPy conversion."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cross_backend.errors import ArtifactError, RunError, one_line

if TYPE_CHECKING:
    import numpy as np

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

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> TensorSpec:
        """Read a row of a manifest."""
        return cls(
            str(row["name"]), str(row["dtype"]), tuple(n if isinstance(n, int) else str(n) for n in row["shape"])
        )

    def to_json(self) -> dict[str, Any]:
        """Give the row of a manifest."""
        return {"name": self.name, "dtype": self.dtype, "shape": list(self.shape)}

    def accepts(self, tensor: Any) -> bool:
        """Say whether a tensor has this element type and shape (dynamic extents accept any size)."""
        given = TensorSpec.of(self.name, tensor)
        return (
            given.dtype == self.dtype
            and len(given.shape) == len(self.shape)
            and all(isinstance(want, str) or want == got for want, got in zip(self.shape, given.shape, strict=True))
        )


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
            raise RunError(f"input {spec.name!r} must be {spec}, but {TensorSpec.of(spec.name, tensor)} was given.")


def to_numpy(tensor: Any) -> np.ndarray[Any, Any]:
    """View or copy a tensor as a NumPy array; bfloat16, which NumPy lacks, becomes float32."""
    import numpy as np

    if hasattr(tensor, "detach"):
        tensor = tensor.detach().cpu()
        if str(tensor.dtype) == "torch.bfloat16":
            tensor = tensor.float()
        return tensor.numpy()  # type: ignore[no-any-return]
    return np.asarray(tensor)


def in_kind_of(inputs: Tensors, outputs: Tensors) -> tuple[Any, ...]:
    """Convert outputs to torch tensors, where the inputs lie, if an input was one; to NumPy arrays otherwise."""
    torch = sys.modules.get("torch")
    given = [x for x in inputs if torch is not None and isinstance(x, torch.Tensor)]
    if torch is not None and given:
        tensors = (y if isinstance(y, torch.Tensor) else torch.from_numpy(to_numpy(y).copy()) for y in outputs)
        return tuple(y.to(given[0].device) for y in tensors)
    return tuple(to_numpy(y).copy() for y in outputs)  # a runtime may overwrite its own memory in its next call


def random_inputs(specs: Sequence[TensorSpec], seed: int = 0) -> tuple[np.ndarray[Any, Any], ...]:
    """Draw inputs that fit: standard normal floats, integers 0 and 1, fair booleans; dynamic extents are 1."""
    import numpy as np

    rng = np.random.default_rng(seed)
    drawn: list[np.ndarray[Any, Any]] = []
    for spec in specs:
        shape = tuple(n if isinstance(n, int) else 1 for n in spec.shape)
        dtype = np.dtype(spec.dtype.replace("bfloat16", "float32"))
        if dtype.kind == "f":
            drawn.append(rng.standard_normal(shape).astype(dtype))
        elif dtype.kind == "b":
            drawn.append(rng.random(shape) < 0.5)
        else:
            drawn.append(rng.integers(0, 2, shape).astype(dtype))
    return tuple(drawn)


def save_tensors(path: Path, groups: Mapping[str, Tensors]) -> None:
    """Write groups of tensors to one ``.npz``: member ``group_index`` holds one tensor."""
    import numpy as np

    members = {f"{group}_{i}": to_numpy(t) for group, tensors in groups.items() for i, t in enumerate(tensors)}
    with path.open("wb") as file:
        np.savez(file, **members)  # type: ignore[arg-type]


def load_tensors(path: Path) -> dict[str, tuple[np.ndarray[Any, Any], ...]]:
    """Read what :func:`save_tensors` wrote, or a folder of ``.npy`` files with such names.

    Raises:
        ArtifactError: the file is missing or damaged.
    """
    import numpy as np

    groups: dict[str, dict[int, np.ndarray[Any, Any]]] = {}

    def keep(member: str, tensor: np.ndarray[Any, Any]) -> None:
        group, _, index = member.rpartition("_")
        if not index.isdecimal():
            raise ValueError(f"it holds {member!r}; names such as input_0 are wanted")
        if tensor.dtype.kind not in "biufc":
            raise ValueError(f"{member} holds {tensor.dtype} and no numbers")
        groups.setdefault(group, {})[int(index)] = np.array(tensor) if isinstance(tensor, np.memmap) else tensor

    try:
        if path.is_dir():
            for file in path.glob("*.npy"):  # mapped first, so that no header makes us allocate what the file lacks
                keep(file.stem, np.lib.format.open_memmap(file, mode="r"))
        else:
            with path.open("rb") as archive, np.load(archive, allow_pickle=False) as members:
                for member in members.files:
                    keep(member, members[member])
    except FileNotFoundError:
        raise ArtifactError(f"{path} does not exist.") from None
    except Exception as error:  # zipfile, zlib, struct and NumPy each have their own
        raise ArtifactError(f"{path} is damaged or not a tensor file ({one_line(error)}).") from error
    return {group: tuple(rows[i] for i in sorted(rows)) for group, rows in groups.items()}
