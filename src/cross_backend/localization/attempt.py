"""Attempt: a reproducer's text, run in a worker as it stands; the vendor's outputs are compared with eager torch's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cross_backend.errors import one_line
from cross_backend.tensors import kind_of, to_numpy
from cross_backend.worker.question import Answering, Question

if TYPE_CHECKING:
    import numpy as np

    Arrays = Sequence[np.ndarray[Any, Any]]

SAME, DIFFERS, NOT_FINITE, SHAPE, TYPE, COUNT = "same", "differs", "not finite", "shape", "type", "count"
ERROR, CRASH, HANG = "error", "crash", "hang"
"""What became of an attempt. The last two are what a worker that is gone stands for."""
FAILS = frozenset({ERROR, CRASH, HANG})
_WORDS = 60
"""First characters of an error by which it is known again."""


@dataclass(frozen=True)
class Attempted:
    """What a program did with the vendor's package."""

    kind: str
    """``same``, ``differs``: finite values, ``not finite``, ``shape``, ``type``, ``count`` of outputs; ``error``,
    ``crash`` or ``hang``."""
    detail: str
    deviation: float = 0.0
    """Largest |expected − got| / (|expected| + largest |expected|) of an element; 1 where whole numbers differ."""
    scale: float = 0.0
    """Largest finite |expected|."""
    whole: bool = False
    """Whether all outputs are whole numbers or truths."""
    unsteady: str | None = None
    """Why no target can be held to these outputs, where that is so."""

    def resembles(self, other: Attempted) -> bool:
        """Whether another failed in the same way; an error is known by how its text begins."""
        if self.kind == ERROR == other.kind:
            return self.detail[:_WORDS] == other.detail[:_WORDS]
        return self.kind == other.kind != SAME


@dataclass(frozen=True)
class Attempt(Question[Attempted]):
    """Run the head of a script, and compare what it leaves."""

    text: str
    """Leaves ``model``, ``inputs``, ``expected``, ``program`` and ``got``."""

    def answer(self, _process: Answering) -> Attempted:
        """Return how it ended."""
        import sys

        import torch

        if "torch._dynamo" in sys.modules:
            torch._dynamo.reset()  # noqa: SLF001  it keeps what it compiled, up to a limit
        names: dict[str, Any] = {"print": _silent}
        try:
            exec(self.text, names)  # noqa: S102  it was written here, of a graph
        except Exception as error:
            return Attempted(ERROR, f"{type(error).__name__}: {one_line(error)}"[:300])
        expected = [to_numpy(one) for one in names["expected"]]
        found = compared(expected, [to_numpy(torch.as_tensor(one)) for one in names["got"]])
        if found.kind in {DIFFERS, NOT_FINITE}:
            return Attempted(
                found.kind, found.detail, found.deviation, found.scale, found.whole, _unsteady(names, expected)
            )
        return found


def _silent(*_: Any, **__: Any) -> None:
    """Print nothing."""


def compared(expected: Arrays, got: Arrays) -> Attempted:
    """Return how outputs differ from those that are expected; any difference of floats counts."""
    if len(expected) != len(got):
        return Attempted(COUNT, f"{len(got)} outputs instead of {len(expected)}")
    worst = Attempted(SAME, "the outputs are equal")
    whole = all(kind_of(want) not in "fc" for want in expected)
    for index, (want, have) in enumerate(zip(expected, got, strict=True)):
        found = _of_output(f"output {index}", want, have, whole=whole)
        if found.kind in {SHAPE, TYPE, NOT_FINITE}:
            return found
        if found.deviation > worst.deviation:
            worst = found
    return worst


def _of_output(name: str, want: Any, have: Any, *, whole: bool) -> Attempted:
    import numpy as np

    if want.shape != have.shape:
        return Attempted(SHAPE, f"{name} has shape {list(have.shape)} instead of {list(want.shape)}")
    if want.dtype != have.dtype:
        return Attempted(TYPE, f"{name} has type {have.dtype} instead of {want.dtype}")
    if kind_of(want) not in "fc":
        wrong = int((want != have).sum())
        detail = f"{name} differs in {wrong} of {want.size} elements"
        return Attempted(DIFFERS if wrong else SAME, detail, float(wrong > 0), 1.0, whole)
    wide = np.complex128 if kind_of(want) == "c" else np.float64
    a, b = want.astype(wide), have.astype(wide)
    finite = np.isfinite(a)
    scale = float(np.abs(a[finite]).max()) if finite.any() else 0.0
    if not np.array_equal(finite, np.isfinite(b)) or not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        wrong = int((finite != np.isfinite(b)).sum())
        return Attempted(NOT_FINITE, f"{name} differs in what is NaN or infinite, {wrong} elements", 1.0, scale)
    apart = np.abs(a - b)[finite]
    if not apart.size or not apart.any():
        return Attempted(SAME, "the outputs are equal", 0.0, scale)
    deviation = float((apart / (np.abs(a[finite]) + (scale or 1.0))).max())
    return Attempted(DIFFERS, f"{name} is off by up to {apart.max():.3g}", deviation, scale)


def _unsteady(names: dict[str, Any], expected: Arrays) -> str | None:
    """Return why rounding alone may change these outputs so, by the rule for probes; None where it may not."""
    import numpy as np
    import torch

    from cross_backend.program.running import Runs, run_wide
    from cross_backend.program.stability import stability_on

    with torch.no_grad():
        runs = Runs(torch.export.export(names["model"], names["inputs"]))
        if all(np.isfinite(one).all() for one in expected if kind_of(one) in "fc"):
            return stability_on(runs, expected, names["inputs"], expected).reason
        wide = run_wide(runs, names["inputs"])
    alike = wide is None or all(
        np.array_equal(np.isfinite(a), np.isfinite(b)) for a, b in zip(expected, wide, strict=True)
    )
    return None if alike else "float64 has other NaN or infinite elements"


def is_wrong(tried: Attempted, relative: float) -> bool:
    """Whether an attempt shows a fault: a difference that is larger than a limit, and no matter of rounding."""
    if tried.unsteady is not None or tried.kind == SAME:
        return False
    return tried.kind != DIFFERS or (math.isfinite(tried.deviation) and tried.deviation > relative)
