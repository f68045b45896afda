"""Support: what becomes of each ATen operator, generated from the rules and their constraints.

An operator is *native* where a rule makes instructions of it, *decomposed* where torch takes it apart first, and else a
*fallback*: a call of the host, as is a native one whose constraints do not hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from atalla.passes.constraints import reason
from atalla.passes.normalize import COMPOSITES
from atalla.passes.rules import all_rules

Counts = Mapping[str, Mapping[str, Mapping[str, int]]]
"""Overload → element type → verdict → cases of PyTorch's own that have it."""


@dataclass(frozen=True)
class OperatorSupport:
    """What becomes of an operator."""

    name: str
    """``aten.add.Tensor``."""
    kind: str
    """native, decomposed or fallback."""
    makes: tuple[str, ...] = ()
    """Instructions; none of what is only a view."""
    needs: tuple[str, ...] = ()
    """Constraints in words; where one does not hold, the operator runs on the host."""


def rows() -> list[OperatorSupport]:
    """Return the native operators, by name."""
    return [
        OperatorSupport(name, "native", tuple(op.name for op in rule.makes), tuple(map(reason, rule.constraints)))
        for name, rule in sorted(all_rules().items())
    ]


def find(name: str) -> OperatorSupport:
    """Return the row of any operator of torch; ``aten.`` may be left out.

    Raises:
        KeyError: torch has none of that name.
    """
    import torch

    full = name if name.startswith("aten.") else f"aten.{name}"
    native = {row.name: row for row in rows()}
    if full in native:
        return native[full]
    _, packet, overload = (*full.split(".", 2), "default")[:3]
    operator = getattr(getattr(torch.ops.aten, packet, None), overload, None)
    if operator is None:
        raise KeyError(f"torch has no operator {full}")
    kept = overload and f"{packet}.{overload}" in COMPOSITES
    is_taken_apart = not kept and operator in torch.export.default_decompositions()
    return OperatorSupport(f"aten.{packet}.{overload}", "decomposed" if is_taken_apart else "fallback")


def table() -> str:
    """Return the native operators as text for a terminal."""
    found = rows()
    width = max(len(row.name) for row in found)
    lines = []
    for row in found:
        lines.append(f"{row.name:{width}}  {' '.join(row.makes) or 'view'}")
        lines += [f"{'':{width}}    - {need}" for need in row.needs]
    return "\n".join([*lines, "", f"{len(found)} native; torch takes apart what it can; all else runs on the host."])


def markdown(evidence: Counts, operators: Mapping[str, Mapping[str, int]], known: int) -> str:
    """Return docs/atalla/operators.md.

    Args:
        evidence: what became of each overload in PyTorch's samples.
        operators: what became of each of PyTorch's operators, by verdict.
        known: how many operators PyTorch's table has.
    """
    constraints: dict[str, int] = {}
    for row in rows():
        for need in row.needs:
            constraints.setdefault(need, len(constraints) + 1)
    lines = [
        "# Operators",
        "",
        "Written by `make docs` from the rules of `src/atalla/passes/rules` and from the evidence.",
        "",
        *_summary(operators, known),
        "## Native",
        "",
        f"A rule makes instructions of each of these {len(rows())} overloads. Where a constraint does not hold, it",
        "runs on the host, and the compiler says so in the words below. `view`: no instruction.",
        "",
        "| operator | instructions | constraints | cases that pass, by element type | on the host |",
        "| --- | --- | --- | --- | --- |",
    ]
    for row in rows():
        found = evidence.get(row.name, {})
        cells = (
            f"`{row.name}`",
            ", ".join(f"`{name}`" for name in row.makes) or "view",
            " ".join(str(constraints[need]) for need in row.needs) or "–",
            _cases(found, "native") or (_cases(found, "decomposed") and "as decomposed") or "*none*",
            _cases(found, "fallback") or "–",
        )
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "### Constraints", ""]
    lines += [f"{number}. {need}." for need, number in constraints.items()]
    native = set(all_rules())
    for kind, title, text in (
        ("decomposed", "Decomposed", "torch takes these apart into operators above."),
        ("fallback", "On the host", "These run through `torch.ops`, with the strides that the program has."),
    ):
        names = sorted(
            name
            for name, found in evidence.items()
            if name not in native and name.startswith("aten.") and _most(found, ("decomposed", "fallback")) == kind
        )
        lines += ["", f"## {title}", "", text, "", ", ".join(f"`{name}`" for name in names) + "."]
    return "\n".join(lines) + "\n"


def _summary(operators: Mapping[str, Mapping[str, int]], known: int) -> list[str]:
    cases: dict[str, int] = {}
    for counts in operators.values():
        for verdict, count in counts.items():
            cases[verdict] = cases.get(verdict, 0) + count
    return [
        "## Evidence",
        "",
        "`python -m tests.atalla.evidence` runs PyTorch's own samples of its operators (`OpInfo`): every element type",
        "that Atalla has, broadcasting, tensors that lie in memory with gaps or the other way round. Each is exported,",
        "compiled, run by the C kernels and by the reference, and compared with eager under `torch.testing`'s",
        "tolerances. An operator counts as supported only where these pass.",
        f"{len(operators):,} of the {known:,} rows of PyTorch's table were run.",
        "",
        "| what became of it | cases | operators with such cases |",
        "| --- | --- | --- |",
        *(
            f"| {text} | {cases.get(kind, 0):,} | {sum(kind in counts for counts in operators.values()):,} |"
            for kind, text in VERDICTS.items()
        ),
        f"| no cases: random, complex or large ones only | – | {sum(not counts for counts in operators.values()):,} |",
        "",
    ]


VERDICTS = {
    "native": "native: instructions, and right",
    "decomposed": "decomposed: taken apart into instructions, and right",
    "fallback": "fallback: some of it runs on the host, and right",
    "refused": "refused: a clear error when it is compiled (shapes that depend on data; what no blob may call)",
    "wrong": "wrong",
    "untested": "untested: `torch.export` cannot",
}


def _cases(found: Mapping[str, Mapping[str, int]], kind: str) -> str:
    """Return ``float32 24, int64 3``."""
    return ", ".join(f"{dtype} {counts[kind]}" for dtype, counts in found.items() if counts.get(kind))


def _most(found: Mapping[str, Mapping[str, int]], kinds: Sequence[str]) -> str:
    """Return the verdict that most cases have."""
    return max(kinds, key=lambda kind: sum(counts.get(kind, 0) for counts in found.values()))
