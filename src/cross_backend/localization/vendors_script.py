"""Vendor's script: the part that was found wrong becomes a reproducer, with the values that enter it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cross_backend.cache import Cache
from cross_backend.errors import UnsupportedError
from cross_backend.localization.judging import cases_of
from cross_backend.localization.localize import STATE
from cross_backend.localization.part import part
from cross_backend.localization.reproducer import Budget, Reproducer, Show, reproduce
from cross_backend.localization.torch_whole import TorchWhole
from cross_backend.program.captured import Captured, OnnxProgram
from cross_backend.program.kept_probes import with_kept_probes
from cross_backend.registry import resolve
from cross_backend.tensors import from_numpy, load_tensors
from cross_backend.verify.compare import precision_of

if TYPE_CHECKING:
    from cross_backend.localization.found import Localized


def reproducer_for(
    captured: Captured, found: Localized, folder: Path, cache: Cache, show: Show, budget: Budget | None = None
) -> Reproducer:
    """Write a reproducer of the part that was found, as ``WORKLOAD_TARGET.py`` and ``.md``.

    Raises:
        UnsupportedError: no part is wrong by itself, or there is no script for it; the text says why.
    """
    program, resolved = captured.program(), resolve(found.target)
    if isinstance(program, OnnxProgram):
        raise UnsupportedError("a reproducer needs a PyTorch program; this one is an ONNX file.")
    if any(shape.name == STATE for shape in found.shapes):
        raise UnsupportedError("the state is lost between calls, and no operator is wrong, so there is no reproducer.")
    if not found.operators or not found.is_sure:
        raise UnsupportedError("no part is known that is wrong by itself in every run, so there is no reproducer.")
    sample = with_kept_probes(load_tensors(captured.sample_path), cache, captured.digest)
    cases = cases_of(sample, captured.inputs, precision_of(resolved.options), every=True)
    given = next(one.known.inputs for one in cases if one.name == found.input_name)
    whole = TorchWhole(program, given)
    values = whole.values(given)
    cut = part(whole.program, [one.node for one in found.operators])
    inputs = [from_numpy(values[name]) for name in cut.inputs]
    stem = f"{captured.workload}_{resolved.stem}".replace("/", "_")
    return reproduce(cut.program, inputs, resolved, folder, stem, budget, show, cache)
