"""What generating text took on each target, and the ranks for prefill and for decode."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cross_backend.errors import UsageError
from cross_backend.measure.percentiles import percentiles
from cross_backend.measure.ranking import Ranking
from cross_backend.measurement import Measurement, median_of

PERCENTS = (50.0, 90.0, 99.0)
PARTS = ("prefill", "decode")
_LENGTH = re.compile(r"(\d{1,6}):(\d{1,6})")
LEAST_NEW = 8
"""Tokens of which a growth with the context is told: two for each quarter."""


@dataclass(frozen=True)
class Length:
    """Tokens of a prompt, and tokens generated after it."""

    prompt: int
    new: int

    @classmethod
    def parse(cls, text: str) -> Length:
        """Read ``128:64``.

        Raises:
            UsageError: the text is not of that form, or holds no prompt, or fewer than two new tokens.
        """
        found = _LENGTH.fullmatch(text)
        if found is None or int(found[1]) < 1 or int(found[2]) < 2:
            raise UsageError(f"generate: {text!r} is not PROMPT:NEW, at least 1 token and 2 new ones: 128:64.")
        return cls(int(found[1]), int(found[2]))

    def __str__(self) -> str:
        return f"{self.prompt}:{self.new}"


@dataclass(frozen=True)
class GenerationRow:
    """One target's sequences of one length."""

    target: str
    title: str
    outcome: str
    """Name of an ``Outcome``."""
    reason: str | None = None
    prefill: Measurement | None = None
    """``generation.prefill``, ns: one sample a sequence, time to the first token's logits, the encoder's included."""
    decode: Measurement | None = None
    """``generation.decode``, ns: one sample for each further token, a round for each sequence."""
    energy: Measurement | None = None
    """``energy.per_token``, J: of a whole sequence, the prompt included, over its new tokens; one sample a sequence."""
    energy_note: str = ""
    """What the energy covers, or why it is not known."""
    whole_prompt: bool = True
    """Whether the prompt went in with one call; else token by token."""
    verified: int = 0
    """Calls of the reference's sequence whose outputs are right, all of them where the outcome is OK."""
    tokens: tuple[int, ...] = ()
    """Tokens of the last sequence, chosen greedily."""
    state_bytes: int = 0
    """Bytes of the caches."""
    moved_bytes: int = 0
    """Bytes of them that each call copies in and out."""
    peak_bytes: int | None = None
    """Largest resident memory of the process since just before loading."""
    encoder: Measurement | None = None
    """``generation.encoder``, ns: one sample a sequence, its share of ``prefill``; None where the model has none."""
    encoder_peak_bytes: int | None = None
    """As ``peak_bytes``, of the encoder's process."""

    @property
    def prompt(self) -> Measurement | None:
        """Return ``prefill`` without the encoder: the calls that take the prompt."""
        if self.prefill is None or self.encoder is None:
            return self.prefill
        pairs = zip(self.prefill.rounds, self.encoder.rounds, strict=True)
        return replace(self.prefill, rounds=tuple((whole[0] - encoder[0],) for whole, encoder in pairs))

    @property
    def growth(self) -> float | None:
        """Median latency of the last quarter of a sequence's tokens over that of the first; None of few tokens."""
        if self.decode is None or len(self.decode.rounds[0]) < LEAST_NEW:
            return None
        quarter = len(self.decode.rounds[0]) // 4
        first, last = (
            [one for row in self.decode.rounds for one in row[part]]
            for part in (slice(None, quarter), slice(-quarter, None))
        )
        return median_of(last) / median_of(first)


@dataclass(frozen=True)
class GenerationPanel:
    """All targets of one model and one length, measured interleaved."""

    workload: str
    length: Length
    rows: tuple[GenerationRow, ...]
    encoder: str | None = None
    """Name of the workload that encodes the source; None where the model has no encoder."""

    def ranking(self, part: str) -> Ranking:
        """Return the ranking of ``prefill`` or ``decode``; its keys are places in ``rows``."""
        found = {index: getattr(row, part) for index, row in enumerate(self.rows)}
        return Ranking({index: one for index, one in found.items() if one is not None}, None)

    def to_json(self) -> dict[str, Any]:
        """Return it with its raw samples; see docs/json.md."""
        ranked = {part: self.ranking(part) for part in PARTS}
        return {
            "workload": self.workload,
            "encoder": self.encoder,
            "prompt": self.length.prompt,
            "new": self.length.new,
            "rows": [self._row(index, row, ranked.__getitem__) for index, row in enumerate(self.rows)],
        }

    def _row(self, index: int, row: GenerationRow, ranked: Callable[[str], Ranking]) -> dict[str, Any]:
        found: dict[str, Any] = {
            "target": row.target,
            "title": row.title,
            "outcome": row.outcome,
            "reason": row.reason,
            "whole_prompt": row.whole_prompt,
            "verified_calls": row.verified,
            "tokens": list(row.tokens),
            "state_bytes": row.state_bytes,
            "moved_bytes": row.moved_bytes,
            "peak_bytes": row.peak_bytes,
            "encoder_peak_bytes": row.encoder_peak_bytes,
            "growth": row.growth,
            "joules_per_token": None if row.energy is None else row.energy.median,
            "energy_note": row.energy_note,
        }
        found["encoder"] = None if row.encoder is None else _latency_of(row.encoder)
        for part in PARTS:
            samples: Measurement | None = getattr(row, part)
            if samples is None:
                found[part] = None
                continue
            ranking, counted = ranked(part), row.prompt if part == "prefill" else samples
            assert counted is not None, "it is a part of the samples"
            ratio = ranking.ratios.get(index)
            found[part] = {
                "rank": ranking.ranks.get(index),
                "ratio": None if ratio is None else [ratio.value, ratio.low, ratio.high],
                "tokens_per_s": tokens_per_s(counted, self.length.prompt if part == "prefill" else 1),
                **_latency_of(samples),
            }
        return found


def _latency_of(samples: Measurement) -> dict[str, Any]:
    return {
        "percentiles_ns": {f"p{one.percent:g}": one.value for one in latencies(samples)},
        "samples_ns": [list(one) for one in samples.rounds],
    }


def tokens_per_s(samples: Measurement, tokens: int) -> float:
    """Return tokens over time, of all samples together.

    Args:
        samples: ns.
        tokens: of each sample.
    """
    return 1e9 * tokens * samples.count / sum(samples.values)


def latencies(samples: Measurement) -> Sequence[Any]:
    """Return P50, P90 and P99 of samples; see :func:`percentiles`."""
    return percentiles(samples, PERCENTS)
