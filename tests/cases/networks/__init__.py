"""Small networks that were refused or passed wrongly; ``NAME_wrong`` is a twin that must not pass for ``NAME``."""

from __future__ import annotations

import torch

from tests.cases.networks import kinds, singles, twins

PARTS = (singles, kinds, twins)
torch.manual_seed(0)
