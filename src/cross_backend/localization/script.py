"""Script: a reproducer's text, which needs torch and the vendor's package alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from atalla.fuzz.graph import Graph, inputs_source, module_source
from cross_backend.localization.given_leaf import HELPERS

MOST_LINES = 30
"""A longer script is of a program that could not be made small."""


@dataclass(frozen=True)
class Limits:
    """From which difference on a script ends with status 1."""

    relative: float
    absolute: float
    whole: bool
    """Whether all outputs are whole numbers or truths, which are equal or wrong."""

    @property
    def condition(self) -> str:
        """Return the Python expression that is true where ``have`` is like ``want``."""
        if self.whole:
            return "torch.equal(have, want)"
        return f"torch.allclose(have, want, rtol={self.relative:.1g}, atol={self.absolute:.1g}, equal_nan=True)"


def head(graph: Graph, vendor: Sequence[str]) -> str:
    """Return the part of a script that leaves eager torch's outputs in ``expected`` and the vendor's in ``got``."""
    made = module_source(graph)
    inputs = inputs_source(graph)
    helpers = [line for text, line in HELPERS.items() if text in made or text in inputs]
    imports = [line for line in vendor if line.startswith(("import ", "from "))]
    return "\n".join(
        [
            "import torch",
            *imports,
            *helpers,
            made,
            f"model, inputs = Model().eval(), {inputs}",
            "with torch.no_grad():",
            "    expected = model(*inputs)",
            'print("expected", *expected, sep="\\n")',
            "program = torch.export.export(model, inputs)",
            *(line for line in vendor if line not in imports),
        ]
    )


def script(graph: Graph, vendor: Sequence[str], title: str, limits: Limits | None) -> str:
    """Return a script that prints the outputs of both, and ends with status 1 where they differ.

    Of a vendor that fails it ends with the vendor's error, and with what it returns once that is mended.

    Args:
        graph: the program with its inputs.
        vendor: what the backend's ``reproduction`` returned.
        title: what is wrong, one line.
        limits: largest difference that is none; None where the vendor fails.
    """
    ends = [
        "got = [torch.as_tensor(one) for one in got]",
        'print("got", *got, sep="\\n")',
    ]
    if limits is not None:
        ends += [
            "is_wrong = len(got) != len(expected)",
            "for want, have in zip(expected, got):",
            "    is_alike = want.shape == have.shape and want.dtype == have.dtype",
            f"    is_wrong |= not (is_alike and {limits.condition})",
            "raise SystemExit(int(is_wrong))",
        ]
    return "\n".join([f"# {title}", head(graph, vendor), *ends]) + "\n"


def limits_of(scale: float, relative: float, *, whole: bool) -> Limits:
    """Return the limits for outputs up to a size."""
    size = scale if math.isfinite(scale) and scale > 0 else 1.0
    return Limits(relative, relative * size, whole)
