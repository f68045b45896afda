"""Calibration inputs of the user's own: a seeded choice where there are many, each looked at before it is used."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cross_backend.errors import CaptureError, RunError, UsageError
from cross_backend.tensors import TensorSpec, check_inputs, kind_of, to_numpy
from cross_backend.workloads.own_inputs import files_of, read_file

if TYPE_CHECKING:
    import numpy as np

    from cross_backend.workloads.media import Media

    Arrays = tuple[np.ndarray[Any, Any], ...]

MOST = 128
"""Inputs that quantisers observe; of more, so many are chosen."""
SEED = 0
"""Of that choice."""
TOO_LARGE = 100.0
"""How many times as large as the example inputs they may be: beyond it, they are in another unit."""


@dataclass(frozen=True)
class Chosen:
    """The calibration inputs of a capture."""

    inputs: tuple[Arrays, ...]
    of: int
    """From how many they were chosen."""


def read_calibration(
    path: Path, media: Media | None, specs: Sequence[TensorSpec], examples: Sequence[Any], name: str
) -> Chosen:
    """Read calibration inputs and check them against the program.

    Args:
        path: an ``.npz`` file whose members are ``input_0``, ``input_1``, …, or one array a name of the program's with
            more rows than the program takes; a file that the media read; or a folder of such files.
        media: what the model's inputs are made of; None where that are tensors.
        specs: what the program takes.
        examples: its example inputs, flat arrays.
        name: of the model, for the reader.

    Raises:
        UsageError: there is none, or a file cannot hold one.
        CaptureError: one has another shape or type, NaN or infinity, or is out of proportion to the example inputs.
        ArtifactError: a file cannot be read.
    """
    files = files_of(path)
    if not files:
        raise UsageError(f"{path} holds no files; --calibration takes an .npz file, or a folder of inputs.")
    chance = random.Random(SEED)  # noqa: S311  no secret
    count = len(files)
    if count > MOST:
        files = sorted(chance.sample(files, MOST))
    found = [(label, row) for file in files for label, arrays in read_file(file, media) for row in _rows(arrays, specs)]
    if not found:
        raise UsageError(f"{path} holds no inputs; --calibration takes an .npz file, or a folder of inputs.")
    of = max(count, len(found))
    if len(found) > MOST:
        found = [found[index] for index in sorted(chance.sample(range(len(found)), MOST))]
    for label, row in found:
        _check(label, row, specs, examples, name)
    return Chosen(tuple(row for _, row in found), of)


def _rows(arrays: Arrays, specs: Sequence[TensorSpec]) -> list[Arrays]:
    """Cut what has more rows than the program takes into inputs of its size; anything else stays as it is."""
    if len(arrays) != len(specs) or all(spec.accepts(x) for spec, x in zip(specs, arrays, strict=True)):
        return [arrays]
    sizes = [spec.shape[0] if spec.shape else 0 for spec in specs]
    if any(not isinstance(size, int) or size < 1 or x.ndim < 1 for size, x in zip(sizes, arrays, strict=True)):
        return [arrays]
    parts = {len(x) // int(size) for size, x in zip(sizes, arrays, strict=True)}
    if len(parts) > 1 or any(len(x) % int(size) for size, x in zip(sizes, arrays, strict=True)):
        return [arrays]
    (count,) = parts
    return [
        tuple(x[int(size) * i : int(size) * (i + 1)] for size, x in zip(sizes, arrays, strict=True))
        for i in range(count)
    ]


def _check(label: str, row: Arrays, specs: Sequence[TensorSpec], examples: Sequence[Any], name: str) -> None:
    import numpy as np

    try:
        check_inputs(specs, row)
    except RunError as error:
        raise CaptureError(f"{label} calibrates no {name}: {error}") from error
    for spec, x, example in zip(specs, row, examples, strict=True):
        if kind_of(x) != "f" or not x.size:
            continue
        if not np.isfinite(x).all():
            raise CaptureError(f"{label}: input {spec.name!r} holds NaN or infinity; calibrate on finite numbers.")
        largest, usual = (float(np.abs(one).max(initial=0.0)) for one in (x, to_numpy(example)))
        if math.isfinite(usual) and 0 < usual * TOO_LARGE < largest:
            raise CaptureError(
                f"{label}: input {spec.name!r} reaches {largest:.3g}, {largest / usual:.0f} times the example input's "
                f"{usual:.3g}. Prepare it as the model's inputs are."
            )
