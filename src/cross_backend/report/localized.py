"""The operator that went wrong, as ``localize`` prints it: the answer, the errors along the graph, what to do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cross_backend.localization.found import ESTIMATED

if TYPE_CHECKING:
    from cross_backend.localization.found import KeptOut, LayerCost, Localized, NodeError, Suspect
    from cross_backend.report.terminal import Terminal

SHOWN = 16
"""Values of the chart; ``--json`` has all."""
BAR = 16
"""Characters of its longest bar."""
FLOOR = 1e-8
"""Error at which a bar begins; it grows with the logarithm."""


def print_localized(terminal: Terminal, found: Localized) -> None:
    """Print what was found."""
    terminal.text(f"📦 {found.workload} on {found.target} against {found.against}", style="bold")
    if found.reason is None:
        terminal.text(f"✅ {found.says}")
        if found.layers:
            _print_layers(terminal, found.layers)
        return
    what = "it fails" if found.crash else "wrong outputs"
    terminal.text(f"❌ {what} on {found.input_name}: {found.reason}")
    if found.wrong_runs < found.runs:
        terminal.text(f"⚠️ The difference does not repeat: {found.wrong_runs} of {found.runs} calls are wrong.")
    terminal.text()
    _print_part(terminal, found)
    if found.nodes:
        _print_nodes(terminal, found.nodes)
    for index, line in enumerate(found.advice):
        if not index:
            terminal.text()
        terminal.text(f"• {line}")
    if found.bound:
        terminal.text()
        cached = sum(trial.cached for trial in found.trials)
        terminal.text(
            f"{found.lowerings} parts lowered of at most {found.bound} ({cached} from the cache); "
            f"{found.count} operators; {found.seconds:.1f} s"
        )


def _print_layers(terminal: Terminal, layers: Sequence[LayerCost]) -> None:
    """Print the operators that cost a quantised program most."""
    _print_costs(terminal, "Cost of each operator's own rounding", layers)
    terminal.text("• Keep the fewest of them in float: add --max-drop 1%.")


def _print_costs(terminal: Terminal, title: str, layers: Sequence[LayerCost]) -> None:
    terminal.text()
    terminal.text(f"📈 {title}, dB of SQNR (less is worse)", style="bold")
    rows = [(one.node, one.outputs_text, one.own_text, one.line or "") for one in layers[:SHOWN]]
    terminal.table(("node", "outputs", "own values", "line"), rows, right=(1, 2))
    if len(layers) > SHOWN:
        terminal.text(f"   {SHOWN} of {len(layers)} operators; --json has all")
    if any(one.is_estimated for one in layers[:SHOWN]):
        terminal.text(f"   {ESTIMATED}")


def _print_part(terminal: Terminal, found: Localized) -> None:
    """Print the part that is wrong, and what the difference looks like."""
    terminal.text(f"{'🎯' if found.is_sure else '❓'} {found.says}", style="bold")
    for suspect in found.operators[:SHOWN]:
        _print_suspect(terminal, suspect)
    if len(found.operators) > SHOWN:
        terminal.text(f"   … and {len(found.operators) - SHOWN} more; --json has all")
    if found.expected:
        terminal.text(
            f"   expected {numbers_text(found.expected)}; got {numbers_text(found.got)} (largest differences)"
        )
    for shape in found.shapes:
        terminal.text(f"   {shape.name}: {shape.evidence}")


def _print_suspect(terminal: Terminal, one: Suspect) -> None:
    terminal.text(f"   {one.node}: {one.operator}({', '.join(one.inputs)}) → {', '.join(one.outputs)}")
    if one.attributes:
        terminal.text(f"   attributes: {', '.join(f'{key}={value}' for key, value in one.attributes.items())}")
    if one.line is not None:
        terminal.text(f"   {one.line}")


def _print_nodes(terminal: Terminal, nodes: Sequence[NodeError]) -> None:
    """Print the errors along the graph: those around the first that differs, and the largest bars."""
    terminal.text()
    terminal.text("📈 Error by node (logarithmic), in the order of the program", style="bold")
    rows = [
        (row.node, bar(row.error), error_text(row.error), row.kind, error_text(row.rounding)) for row in _around(nodes)
    ]
    headers = ("node", "", "error", "", "rounding")
    terminal.table(headers, rows, right=(2, 4))
    if len(nodes) > len(rows):
        terminal.text(f"   {len(rows)} of {len(nodes)} values; --json has all")


def _around(nodes: Sequence[NodeError]) -> Sequence[NodeError]:
    first = next((at for at, row in enumerate(nodes) if row.parts), 0)
    start = max(0, min(first - SHOWN // 4, len(nodes) - SHOWN))
    return nodes[start : start + SHOWN]


def bar(error: float) -> str:
    """Return a bar that is as long as the error is large."""
    if error <= FLOOR:
        return ""
    share = 1.0 if math.isinf(error) else (math.log10(error) - math.log10(FLOOR)) / -math.log10(FLOOR)
    return "█" * max(1, min(BAR, round(BAR * share)))


def error_text(value: float) -> str:
    """Return an error as a reader sees it."""
    if math.isinf(value):
        return "not finite"
    return f"{value:.1e}" if value else "0"


def numbers_text(values: Sequence[float]) -> str:
    """Return a few values, with commas between."""
    return ", ".join(f"{one:.6g}" for one in values)


def print_kept_out(terminal: Terminal, workload: str, target: str, kept: KeptOut) -> None:
    """Print what the program does without some operators on the backend."""
    nodes = ", ".join(kept.nodes) or "no operator"
    terminal.text(f"📦 {workload} on {target}, {nodes} on {kept.elsewhere}", style="bold")
    terminal.text("✅ right" if kept.right else f"❌ still wrong: {kept.reason}")
    if kept.drop is not None and kept.drop_before is not None:
        terminal.text(
            f"🎯 drop {kept.drop:.2%}; {kept.drop_before:.2%} with all operators quantised ({kept.inputs} inputs)"
        )
    change = (kept.parts_ms / kept.whole_ms - 1) * 100
    terminal.text(
        f"⏱️ {kept.parts_ms:.3f} ms a call in {kept.count} parts; {kept.whole_ms:.3f} ms as a whole ({change:+.0f} %); "
        "copies between parts are not counted"
    )
    if kept.layers:
        _print_costs(terminal, "Kept in float: what their rounding costs", kept.layers)
