"""Outcomes: the mark and the meaning of each way to end, and the reasons of a panel, each told once."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping

from cross_backend.records import LOCALIZED, Outcome, Result

MARKS: Mapping[str, str] = {
    **dict.fromkeys(Outcome, "❌"),
    Outcome.OK: "✅",
    Outcome.UNAVAILABLE: "⚠️",
    Outcome.UNSUPPORTED: "⚠️",
    Outcome.NOT_PROVED: "❓",
    Outcome.NOT_MEASURED: "⚠️",
}
"""Outcome → its mark."""
MEANINGS: Mapping[str, str] = {
    "UNAVAILABLE": "not on this machine",
    "UNSUPPORTED": "the backend can never take this program",
    "LOWER_FAIL": "lowering failed",
    "LOAD_FAIL": "loading failed",
    "RUN_FAIL": "running failed",
    "TIMEOUT": "the time limit was reached",
    "MISMATCH": "it ran, and its outputs are wrong",
    "NOT_PROVED": "it ran, its outputs are those of the reference, and that proves nothing",
    "NOT_MEASURED": "the comparison was interrupted before its turn",
}
"""Outcome → what it means; all but OK, which has a rank or says why not."""


def sentence(text: str) -> str:
    """Return a text with a full stop, unless it ends with a mark already."""
    return text if text.endswith((".", "!", "?", "…", ")", "]", "'")) else f"{text}."


def reason_of(result: Result) -> str:
    """Return why a result is not OK, with the operator that went wrong where that was sought."""
    reason = result.reason or "no reason was given"
    return f"{reason}. {result.notes[LOCALIZED]}" if LOCALIZED in result.notes else reason


def to_localize(results: Iterable[Result], model: str) -> list[str]:
    """Return the commands that find the operators which targets compute wrongly."""
    wrong = [one for one in results if one.outcome is Outcome.MISMATCH and LOCALIZED not in one.notes]
    return [f"cross-backend localize {shlex.quote(model)} --backend {shlex.quote(one.target)}" for one in wrong]


def reasons(results: Iterable[Result]) -> list[tuple[Outcome, str, str]]:
    """Return (outcome, reason, targets) of what did not end well, each reason once, by its first target."""
    found: dict[tuple[Outcome, str], list[str]] = {}
    for result in results:
        if result.outcome is not Outcome.OK:
            key = (result.outcome, reason_of(result))
            found.setdefault(key, []).append(result.title)
    return [(outcome, text, ", ".join(dict.fromkeys(titles))) for (outcome, text), titles in found.items()]
