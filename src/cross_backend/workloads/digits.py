"""A small CNN trained in seconds on scikit-learn's 8×8 handwritten digits, with held-out accuracy as its task."""

from __future__ import annotations

from cross_backend.workloads import Task, Workload, load_checkpoint
from cross_backend.workloads.media import DigitMedia

SEED = 0
EPOCHS = 12
BATCH = 64
CALIBRATION = 32
"""Training images that quantisers observe."""


def digits_cnn(name: str = "digits_cnn", weights: str | None = None) -> Workload:
    """Train on 1,437 digits, hold out 360; input (1, 1, 8, 8) in 0…1, output (1, 10) logits."""
    import numpy as np
    import torch
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split
    from torch import nn

    data = load_digits()
    images = (data.images / 16.0).astype(np.float32)[:, None]
    train_x, test_x, train_y, test_y = train_test_split(
        images, data.target.astype(np.int64), test_size=0.2, random_state=SEED, stratify=data.target
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        model = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1, bias=False),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1, bias=False),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(32 * 4 * 4, 10),
        )
        if weights is None:
            _train(model, torch.from_numpy(train_x), torch.from_numpy(train_y))
        else:
            load_checkpoint(model, weights)
    calibration = tuple((image[None],) for image in torch.from_numpy(train_x[:CALIBRATION]))
    task = Task("top-1 accuracy", test_x, test_y)
    labels = tuple(str(digit) for digit in range(10))
    sample = (torch.from_numpy(test_x[:1]),)
    return Workload(name, model.eval(), sample, calibration, task, labels, media=DigitMedia(labels=labels))


def _train(model, images, labels) -> None:  # type: ignore[no-untyped-def]  # torch is not imported at module top
    """Minimise cross entropy with AdamW, in place."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the network is tiny: threads only wait for each other
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    model.train()
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(images)).split(BATCH):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(images[batch]), labels[batch]).backward()
            optimizer.step()
    torch.set_num_threads(threads)
