"""Metrics of tasks: those known by name, of which smaller is better, and how much worse one value is than another."""

from __future__ import annotations

TOP = ("top-1 accuracy", "top-5 accuracy")
"""Metrics that need no code: among how many largest outputs the label is."""
PERPLEXITY = "perplexity"
"""Of a decoder: exp of the mean negative log-likelihood of each next token."""
NAMED = (*TOP, PERPLEXITY)
SMALLER_IS_BETTER = frozenset({PERPLEXITY})
"""Metrics of which less is better; of every other one more is."""


def drop(metric: str, value: float, reference: float) -> float:
    """Return how much worse than a reference a value is, as a share; negative where it is better.

    Where larger is better, the difference; where smaller is better, the relative increase: a perplexity of 4.04 beside
    4 has a drop of 1 %.
    """
    return value / reference - 1 if metric in SMALLER_IS_BETTER else reference - value
