"""Tables of generation: prefill, decode and memory of each target, best first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cross_backend.generation.rows import GenerationPanel, GenerationRow, latencies, tokens_per_s
from cross_backend.report import figures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cross_backend.report.terminal import Terminal

NONE = "–"


def print_generation(terminal: Terminal, panel: GenerationPanel) -> None:
    """Print the tables of one panel."""
    prompt = "1 token" if panel.length.prompt == 1 else f"{panel.length.prompt} tokens"
    terminal.text(f"📦 {panel.workload}: prompt of {prompt}, {panel.length.new} new ones", style="bold")
    for part in ("prefill", "decode"):
        _print_part(terminal, panel, part)
    measured = [row for row in panel.rows if row.decode is not None]
    if measured:
        _print_resources(terminal, panel, measured)
        _print_notes(terminal, panel, measured)
    for row in panel.rows:
        if row.decode is None:
            terminal.text(f"{row.title}: {row.outcome}" + (f", {row.reason}" if row.reason else ""))
    terminal.text()


def _print_part(terminal: Terminal, panel: GenerationPanel, part: str) -> None:
    ranking = panel.ranking(part)
    if not ranking.order:
        return
    terminal.text()
    ranks, ratios = ranking.ranks, ranking.ratios
    ratio_texts = figures.aligned([figures.ratio(ratios.get(index)) for index in ranking.order])
    body = [
        (
            str(ranks.get(index, NONE)),
            panel.rows[index].title,
            *_figures(part, panel.rows[index], panel.length.prompt),
            ratio,
        )
        for index, ratio in zip(ranking.order, ratio_texts, strict=True)
    ]
    heads: tuple[str, ...] = ("P50", "P90", "P99", "growth", "tokens/s")
    if part == "prefill":
        heads = ("first token", "tokens/s") if panel.encoder is None else ("first token", "encoder", "tokens/s")
    terminal.table(("#", part.capitalize(), *heads, "ratio"), body, right=tuple(range(2, 2 + len(heads))))


def _print_resources(terminal: Terminal, panel: GenerationPanel, measured: Sequence[GenerationRow]) -> None:
    columns = {
        "Resources": [row.title for row in measured],
        "peak": [_bytes(row.peak_bytes) for row in measured],
        "encoder's peak": [_bytes(row.encoder_peak_bytes) for row in measured],
        "caches": [_bytes(row.state_bytes) for row in measured],
        "copied per token": [_bytes(row.moved_bytes) for row in measured],
        "energy per token": [_joules(row) for row in measured],
    }
    if panel.encoder is None:
        del columns["encoder's peak"]
    if not any(row.energy is not None for row in measured):
        del columns["energy per token"]
    terminal.text()
    terminal.table(tuple(columns), list(zip(*columns.values(), strict=True)), right=range(1, len(columns)))


def _print_notes(terminal: Terminal, panel: GenerationPanel, measured: Sequence[GenerationRow]) -> None:
    for note in dict.fromkeys(row.energy_note for row in measured if row.energy is not None):
        terminal.text(f"Energy: {note}; the prompt's share is in it.")
    if panel.encoder is not None:
        terminal.text(f"The first token includes one call of {panel.encoder} on the same target.")
    by_token = [row.title for row in measured if not row.whole_prompt]
    if by_token:
        terminal.text(f"Prompts go in token by token: {', '.join(by_token)}.")
    terminal.text(f"Verified on {min(row.verified for row in measured)} calls, on the reference's tokens.")


def _figures(part: str, row: GenerationRow, prompt: int) -> tuple[str, ...]:
    samples = row.prefill if part == "prefill" else row.decode
    assert samples is not None, "only measured ones are ranked"
    if part == "prefill":
        shown = [samples] if row.encoder is None else [samples, row.encoder]
        speed = tokens_per_s(row.prompt or samples, prompt)
        return (*(figures.duration(one.median / 1e6) for one in shown), f"{speed:,.0f}")
    spread = [NONE if one.value is None else figures.duration(one.value / 1e6) for one in latencies(samples)]
    growth = NONE if row.growth is None else f"{row.growth:.2f}×"
    return (*spread, growth, f"{tokens_per_s(samples, 1):,.0f}")


def _joules(row: GenerationRow) -> str:
    return NONE if row.energy is None else f"{1e3 * row.energy.median:,.1f} mJ"


def _bytes(count: int | None) -> str:
    return NONE if count is None else f"{count / 1e6:,.1f} MB"
