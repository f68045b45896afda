"""Tables of generation: prefill, decode and memory of each target, best first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cross_backend.generation.rows import GenerationPanel, GenerationRow, latencies, tokens_per_s
from cross_backend.report import figures

if TYPE_CHECKING:
    from cross_backend.report.terminal import Terminal

NONE = "–"


def print_generation(terminal: Terminal, panel: GenerationPanel) -> None:
    """Print the tables of one panel."""
    prompt, new = panel.length.prompt, panel.length.new
    terminal.text(f"📦 {panel.workload}: prompt of {prompt} tokens, {new} new ones", style="bold")
    for part in ("prefill", "decode"):
        ranking = panel.ranking(part)
        if not ranking.order:
            continue
        terminal.text()
        ranks, ratios = ranking.ranks, ranking.ratios
        ratio_texts = figures.aligned([figures.ratio(ratios.get(index)) for index in ranking.order])
        body = [
            (str(ranks.get(index, NONE)), panel.rows[index].title, *_figures(part, panel.rows[index], prompt), ratio)
            for index, ratio in zip(ranking.order, ratio_texts, strict=True)
        ]
        heads = ("first token", "tokens/s") if part == "prefill" else ("P50", "P90", "P99", "growth", "tokens/s")
        headers = ("#", part.capitalize(), *heads, "ratio")
        terminal.table(headers, body, right=tuple(range(2, 2 + len(heads))))
    measured = [row for row in panel.rows if row.decode is not None]
    if measured:
        terminal.text()
        rows = [
            (row.title, *map(_bytes, (row.peak_bytes, row.state_bytes, row.moved_bytes)), _joules(row))
            for row in measured
        ]
        has_energy = any(row.energy is not None for row in measured)
        headers = ("Resources", "peak", "caches", "copied per token", "energy per token")
        width = len(headers) if has_energy else len(headers) - 1
        terminal.table(headers[:width], [row[:width] for row in rows], right=range(1, width))
        for note in dict.fromkeys(row.energy_note for row in measured if row.energy is not None):
            terminal.text(f"Energy: {note}; the prompt's share is in it.")
    by_token = [row.title for row in measured if not row.whole_prompt]
    if by_token:
        terminal.text(f"Prompts go in token by token: {', '.join(by_token)}.")
    if measured:
        terminal.text(f"Verified on {min(row.verified for row in measured)} calls, on the reference's tokens.")
    for row in panel.rows:
        if row.decode is None:
            terminal.text(f"{row.title}: {row.outcome}" + (f", {row.reason}" if row.reason else ""))
    terminal.text()


def _figures(part: str, row: GenerationRow, prompt: int) -> tuple[str, ...]:
    samples = row.prefill if part == "prefill" else row.decode
    assert samples is not None, "only measured ones are ranked"
    if part == "prefill":
        return figures.duration(samples.median / 1e6), f"{tokens_per_s(samples, prompt):,.0f}"
    spread = [NONE if one.value is None else figures.duration(one.value / 1e6) for one in latencies(samples)]
    growth = NONE if row.growth is None else f"{row.growth:.2f}×"
    return (*spread, growth, f"{tokens_per_s(samples, 1):,.0f}")


def _joules(row: GenerationRow) -> str:
    return NONE if row.energy is None else f"{1e3 * row.energy.median:,.1f} mJ"


def _bytes(count: int | None) -> str:
    return NONE if count is None else f"{count / 1e6:,.1f} MB"
