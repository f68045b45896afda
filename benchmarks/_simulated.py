"""Simulated measurements whose truth is known: launches, rounds and samples with the faults of real machines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cross_backend.measurement import Measurement

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Machine:
    """What disturbs; all are standard deviations of logarithms unless they say otherwise."""

    process: float = 0.02
    """Between two processes of one program."""
    kind: str = "normal"
    """Of that: ``normal``; ``bimodal``, a quarter of all processes is slower; ``heavy``, Student's t with 3 degrees."""
    noise: float = 0.05
    """Between rounds, of one target."""
    weather: float = 0.2
    """Between launches, of all targets alike; within a launch a random walk goes half as far."""
    sample: float = 0.03
    """Between calls of a round, autocorrelated by 0.7."""
    outliers: float = 0.05
    """Share of rounds and of calls that are slower by an exponential factor with mean e^0.5."""
    bursts: float = 0.0
    """Share of the calls that a neighbour's bursts hit, each of which lasts from one call to a round of all targets."""
    hit: float = 0.5
    """How much slower such a burst makes a call; varies by a factor of 1.6 from burst to burst."""


def simulate(
    rng: np.random.Generator,
    ratios: Sequence[float],
    launches: int,
    machine: Machine | None = None,
    *,
    rounds: int = 30,
    samples: int = 3,
) -> list[Measurement]:
    """Give the interleaved measurements of targets whose true latencies are 1 ms × ratios."""
    import numpy as np

    machine = machine or Machine()
    count = len(ratios)
    process = _process(rng, (count, launches, 1, 1), machine)
    between = rng.normal(0, machine.weather, (1, launches, 1, 1))
    steps = rng.normal(0, machine.weather / 2 / np.sqrt(rounds), (1, launches, rounds, 1))
    noise = rng.normal(0, machine.noise, (count, launches, rounds, 1))
    noise += _outliers(rng, noise.shape, machine.outliers)
    calls = rng.normal(0, machine.sample, (count, launches, rounds, samples))
    for k in range(1, samples):
        calls[..., k] = 0.7 * calls[..., k - 1] + np.sqrt(1 - 0.7**2) * calls[..., k]
    calls += _outliers(rng, calls.shape, machine.outliers)
    if machine.bursts:
        calls += _bursts(rng, (count, launches, rounds, samples), machine)
    truth = np.log(1e6 * np.asarray(ratios, float)).reshape(-1, 1, 1, 1)
    ns = np.exp(truth + process + between + np.cumsum(steps, axis=2) + noise + calls).round().astype(int)
    return [
        Measurement("latency", "ns", tuple(map(tuple, one.reshape(-1, samples).tolist())), (rounds,) * launches)
        for one in ns
    ]


def first_launches(measurement: Measurement, launches: int) -> Measurement:
    """Give what was there after so many launches."""
    rounds = sum(measurement.launches[:launches])
    return Measurement(
        measurement.metric, measurement.unit, measurement.rounds[:rounds], measurement.launches[:launches]
    )


def warm_up(rng: np.random.Generator, shape: str, calls: int) -> list[float]:
    """Give the durations of a fresh process' calls, milliseconds.

    Args:
        rng: source of chance.
        shape: ``none``, ``constant``, ``outlier``, ``sudden`` (twice as slow for 20 calls), ``exponential`` (three
            times as slow, falling by e every 8 calls), ``trend``, ``late jump`` or ``cycle``.
        calls: how many.
    """
    import numpy as np

    k = np.arange(calls)
    level = {
        "none": np.ones(calls),
        "constant": np.ones(calls),
        "outlier": np.where(k == 0, 50.0, 1.0),
        "sudden": np.where(k < 20, 2.0, 1.0),
        "exponential": 1 + 2 * np.exp(-k / 8),
        "trend": 1 + 0.8 * k / calls,
        "late jump": np.where(k < 0.85 * calls, 1.0, 1.3),
        "cycle": np.where(k // 15 % 2, 1.0, 1.3),
    }[shape]
    if shape != "constant":
        level = level * np.exp(rng.normal(0, 0.03, calls) + _outliers(rng, (calls,), 0.03))
    return [float(one) for one in level]


def _process(rng: np.random.Generator, shape: tuple[int, ...], machine: Machine) -> np.ndarray:
    import numpy as np

    if machine.kind == "bimodal":
        return np.where(rng.random(shape) < 0.25, 1.0, 0.0) * machine.process / np.sqrt(0.25 * 0.75)
    if machine.kind == "heavy":
        return rng.standard_t(3, shape) * machine.process / np.sqrt(3)
    return rng.normal(0, machine.process, shape)


def _bursts(rng: np.random.Generator, shape: tuple[int, int, int, int], machine: Machine) -> np.ndarray:
    """Give how much longer each call takes, a logarithm: bursts and pauses by turns, in the order of the calls.

    In a round the targets take turns in an order of chance, as they do in a launch.
    """
    import numpy as np

    count, launches, rounds, samples = shape
    longest, share = count * samples, machine.bursts
    needed = launches * rounds * count * samples
    lengths = np.exp(rng.uniform(0, np.log(longest), (needed, 2))) * (2 * share, 2 * (1 - share))
    ends = np.cumsum(lengths.reshape(-1))
    piece = np.searchsorted(ends, np.arange(needed))
    slower = np.log1p(machine.hit * np.exp(rng.normal(0, 0.5, needed)))
    in_turn = np.where(piece % 2 == 0, slower[piece // 2], 0.0).reshape(launches, rounds, count, samples)
    turns = rng.permuted(np.broadcast_to(np.arange(count), (launches, rounds, count)), axis=2)
    return np.take_along_axis(in_turn, turns[..., None], axis=2).transpose(2, 0, 1, 3)


def _outliers(rng: np.random.Generator, shape: tuple[int, ...], share: float) -> np.ndarray:
    import numpy as np

    return np.where(rng.random(shape) < share, rng.exponential(0.5, shape), 0.0)
