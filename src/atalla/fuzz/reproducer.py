"""Reproducer: a Python script that holds all that a finding needs, and fails as long as the fault is there."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from atalla.fuzz.compare import Finding
from atalla.fuzz.executors import Executor
from atalla.fuzz.graph import Graph, inputs_source, module_source, prelude

MOST_LINES = 30
"""Longer ones are of programs that could not be made small."""


def script(graph: Graph, finding: Finding, executors: Sequence[Executor]) -> str:
    """Return the script of a finding.

    Args:
        graph: the program.
        finding: what is wrong with it.
        executors: that were under test.
    """
    known = {one.name: one for one in executors}
    lines = [f"# {finding.kind}, {finding.executor}: {finding.detail}", prelude(graph)]
    executor = known.get(finding.executor)
    if executor is not None and executor.imports:
        lines.append(executor.imports)
    options = f", {graph.options}" if graph.options else ""
    lines += [
        module_source(graph),
        "model = Model().eval()",
        f"inputs = {inputs_source(graph)}",
        f"data = atalla.compile(torch.export.export(model, inputs){options}).data",
    ]
    if executor is not None:
        lines.append(f"found = {executor.source}")
    if executor is not None and finding.like:
        lines.append(f"wanted = {'model(*inputs)' if finding.like == 'eager' else known[finding.like].source}")
        lines.append("for one, other in zip(found, wanted, strict=True):")
        lines.append(
            f"    torch.testing.assert_close(one, other, rtol=0, atol={finding.tolerance:.3g}, equal_nan=True)"
        )
    return "\n".join(lines) + "\n"


def fails(text: str, seconds: float = 60.0) -> bool:
    """Whether a script ends with an error, by a signal, or not at all."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "reproducer.py"
        file.write_text(text)
        surroundings = {**os.environ, "PYTHONPATH": os.pathsep.join(one or "." for one in sys.path)}
        try:
            done = subprocess.run(
                [sys.executable, str(file)], env=surroundings, capture_output=True, check=False, timeout=seconds
            )
        except subprocess.TimeoutExpired:
            return True
        return done.returncode != 0
