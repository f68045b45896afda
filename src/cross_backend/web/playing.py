"""Playing: one input on one or several backends, each step timed, the outputs shown and compared."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from cross_backend.errors import CrossBackendError, UsageError, WorkerError, one_line
from cross_backend.web.benches import sample_of
from cross_backend.web.catalogue import Choice, Playable
from cross_backend.web.state import State
from cross_backend.web.visitor import Ticket, handed_out
from cross_backend.workloads.media import Media, Prepared, Shown, fitted

if TYPE_CHECKING:
    import numpy as np

    Arrays = tuple[np.ndarray[Any, Any], ...]

MOST_SIDES = 8
"""Backends beside each other."""
SOURCE_ONLY = frozenset({"audio", "boxes", "text"})
"""Kinds whose answer is shown on its source, which a sample of tensors is not."""


def play(
    state: State,
    model: Playable,
    choices: Sequence[Choice],
    data: bytes | None,
    name: str | None,
    visitor: Choice | None = None,
) -> dict[str, Any]:
    """Run each choice on one input, one after the other.

    Args:
        state: the server's.
        model: whose input it is.
        choices: of that model.
        data: what a person gave; the model's own sample where None.
        name: of the file, where it was one.
        visitor: what the asking page's own browser will run on the same input, which it is handed; None where nothing.

    Raises:
        UsageError: the input is not what the model works on.
    """
    media = model.media
    prepared: Prepared | None = None
    began = time.perf_counter()
    if data is not None:
        if media is None:
            raise UsageError(f"{model.name} runs on the sample input here; send no input.")
        prepared = media.prepare(data, name)
    prepare_ms = (time.perf_counter() - began) * 1e3
    rows: list[dict[str, Any]] = []
    first: Arrays | None = None
    for choice in choices:
        row: dict[str, Any] = {"artifact": choice.key, "target": choice.target, "title": choice.title}
        rows.append(row)
        try:
            ran = state.benches.run(choice, _fitted(prepared, choice))
            began = time.perf_counter()
            shown = _shown(media, ran.outputs, prepared)
            present_ms = (time.perf_counter() - began) * 1e3
        except CrossBackendError as error:
            row["outcome"] = "CRASH" if isinstance(error, WorkerError) else "FAIL"
            row["error"] = one_line(error, 500)
            state.counters.count("cross_backend_runs_total", target=choice.target, outcome=row["outcome"])
            continue
        state.counters.count("cross_backend_runs_total", target=choice.target, outcome="OK")
        state.counters.observe("cross_backend_inference_seconds", ran.called.run_ns / 1e9, target=choice.target)
        row |= {
            "outcome": "OK",
            "error": None,
            "shown": shown,
            "prepare_ms": prepare_ms,
            "bind_ms": ran.called.bind_ns / 1e6,
            "inference_ms": ran.called.run_ns / 1e6,
            "present_ms": present_ms,
            "memory_bytes": ran.rss_bytes,
            "opened": ran.opened,
            "proof": asdict(ran.proof),
            "difference": None if first is None else difference(first, ran.outputs),
        }
        first = ran.outputs if first is None else first
    answer: dict[str, Any] = {"model": model.name, "kind": None if media is None else media.kind, "runs": rows}
    if visitor is not None:
        inputs = _fitted(prepared, visitor)
        given = handed_out(sample_of(visitor) if inputs is None else inputs)
        ticket = state.tickets.issue(Ticket(model.name, prepared, first))
        answer["visitor"] = {"ticket": ticket, "prepare_ms": prepare_ms, "inputs": given}
    return answer


def present(media: Media | None, ticket: Ticket, outputs: Arrays) -> dict[str, Any]:
    """Return what is shown of the outputs of the visitor's browser, and how far they are from the first backend's.

    Raises:
        RunError: they cannot be shown.
    """
    began = time.perf_counter()
    shown = _shown(media, outputs, ticket.prepared)
    return {
        "shown": shown,
        "present_ms": (time.perf_counter() - began) * 1e3,
        "difference": None if ticket.first is None else difference(ticket.first, outputs),
    }


def _fitted(prepared: Prepared | None, choice: Choice) -> Arrays | None:
    if prepared is None or choice.artifact is None:  # what was not exported is refused by the benches
        return None
    return fitted(prepared, choice.artifact.inputs)


def _shown(media: Media | None, outputs: Arrays, prepared: Prepared | None) -> dict[str, Any]:
    if media is None:
        return {"kind": "numbers", "numbers": numbers_of(outputs)}
    if prepared is None:
        prepared = Prepared([], Shown(media.kind, caveats=media.caveats()))
        if media.kind in SOURCE_ONLY:
            return {**prepared.seen.to_json(), "numbers": numbers_of(outputs)}
    return media.present(outputs, prepared).to_json()


def numbers_of(outputs: Sequence[Any]) -> list[float]:
    """Return the first values of the first output; what is no number in JSON is left out."""
    import numpy as np

    values = np.asarray(outputs[0]).reshape(-1)[:8].real.astype(np.float64) if outputs else np.zeros(0)
    return [float(value) for value in values if np.isfinite(value)]


def difference(first: Arrays, other: Arrays) -> dict[str, Any]:
    """Return how far outputs are from those of the first backend: the largest difference, and as a share of its scale.

    Both are None where the outputs are not finite or not of one shape, which can be compared by no number.
    """
    import numpy as np

    nothing = {"max_abs": None, "of_scale": None}
    if len(first) != len(other):
        return nothing
    worst = scale = 0.0
    for one, two in zip(first, other, strict=True):
        if one.shape != two.shape or not (np.isfinite(one).all() and np.isfinite(two).all()):
            return nothing
        if one.size:
            worst = max(worst, float(np.max(np.abs(one.astype(np.float64) - two.astype(np.float64)))))
            scale = max(scale, float(np.max(np.abs(one.astype(np.float64)))))
    return {"max_abs": worst, "of_scale": worst / scale if scale else None}
