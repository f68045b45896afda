"""Mismatches: the targets of a study with wrong outputs, and where the operator that is wrong is shown or sought."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from urllib.parse import quote, urlencode

from cross_backend.records import Outcome, Panel, PanelKey
from cross_backend.web.state import State


@dataclass(frozen=True)
class Mismatch:
    """A target of a study with wrong outputs, and where its operator is shown or sought."""

    panel: str
    title: str
    reason: str
    page: str | None
    """Address of what was found."""
    artifact: str | None
    """Address of the artifact, whose page begins a search; None where it is not here."""
    command: str


def mismatches(state: State, number: int, views: Sequence[tuple[str, Panel]]) -> list[Mismatch]:
    """Return the targets of a study with wrong outputs.

    Args:
        state: the server's.
        number: of the study.
        views: label and panel.
    """
    wrong = [(label, panel, one) for label, panel in views for one in panel.results if one.outcome is Outcome.MISMATCH]
    models = state.catalogue.models() if wrong else {}
    found = []
    for label, panel, one in wrong:
        choices = models[panel.workload].usable if panel.workload in models else []
        key = next((choice.key for choice in choices if choice.target == one.target), None)
        asked = {**asdict(PanelKey.of(panel)), "target": one.target}
        kept = f"/results/{number}/localized?{urlencode(asked)}" if one.localized is not None else None
        artifact = f"/artifacts/{quote(key)}#localize" if key is not None else None
        command = f"cross-backend localize {panel.workload} --backend '{one.target}'"
        found.append(Mismatch(label, one.title, one.reason or "", kept, artifact, command))
    return found
