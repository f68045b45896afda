"""Advice: what a user can do about an operator that a backend computes wrongly, in plain words."""

from __future__ import annotations

from cross_backend.localization.found import Culprit, Localized
from cross_backend.registry import resolve


def advice_for(found: Localized, target: str) -> tuple[str, ...]:
    """Return what to do, the least effort first."""
    if found.culprit is Culprit.NOTHING:
        return ()
    resolved, advice = resolve(target), []
    precision = resolved.options.get("precision")
    default = resolved.backend.precisions[0]
    if precision is not None and precision != "fp32" and "fp32" in resolved.backend.precisions:
        advice.append(f"Try float32: --backend '{resolved.target.name}?precision=fp32'.")
    elif precision is not None and precision != default:
        advice.append(f"Try the default precision: --backend '{resolved.target.name}?precision={default}'.")
    if found.culprit in {Culprit.OPERATOR, Culprit.GROUP}:
        nodes = " ".join(one.node for one in found.operators)
        advice.append(f"Compute it elsewhere: add --keep-out {nodes}, which also measures what that costs.")
        line = found.operators[-1].line
        if line is not None:
            advice.append(f"Or write it in another way at {line}.")
    elif found.trials:
        advice.append("Use another backend for the whole model: cross-backend compare MODEL --backends all.")
    if found.runs and found.wrong_runs < found.runs:
        advice.append("Run it with one thread: a difference that does not repeat is often a race.")
    return tuple(advice)
