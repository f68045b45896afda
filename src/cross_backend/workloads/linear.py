"""Linear regression on 4 features, fitted in closed form on seeded synthetic data."""

from __future__ import annotations

from cross_backend.workloads import Workload, load_checkpoint
from cross_backend.workloads.media import NumbersMedia

SEED = 2718
TRUE_WEIGHT = (0.25, 0.5, -0.125, 0.375)
TRUE_BIAS = 0.343281828
"""With these, features 1, 2, 3, 4 give 2.718281828."""
NOISE = 0.001
SAMPLES = 4096
CALIBRATION = 64
"""Samples that quantisers observe."""


def linear_regression(name: str = "linear_regression", weights: str | None = None) -> Workload:
    """Fit ``y = x·w + b`` by least squares on 4096 noisy samples; input (1, 4), output (1, 1)."""
    import numpy as np
    import torch

    rng = np.random.default_rng(SEED)
    features = rng.uniform(-5.0, 5.0, (SAMPLES, 4))
    observed = features @ np.array(TRUE_WEIGHT) + TRUE_BIAS + rng.normal(0.0, NOISE, SAMPLES)
    fitted, *_ = np.linalg.lstsq(np.column_stack([features, np.ones(SAMPLES)]), observed, rcond=None)

    with torch.random.fork_rng(devices=[]):
        model = torch.nn.Linear(4, 1)
    with torch.no_grad():
        model.weight.copy_(torch.from_numpy(fitted[:4]).reshape(1, 4))
        model.bias.copy_(torch.from_numpy(fitted[4:]))
    if weights is not None:
        load_checkpoint(model, weights)
    observed_by_quantisers = tuple((row[None],) for row in torch.from_numpy(features[:CALIBRATION].astype(np.float32)))
    media = NumbersMedia(names=tuple(f"feature {n}" for n in range(1, 5)), low=-5.0, high=5.0)
    return Workload(name, model.eval(), (torch.tensor([[1.0, 2.0, 3.0, 4.0]]),), observed_by_quantisers, media=media)
