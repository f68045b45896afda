"""How long a worker is waited for, and which tests need new processes."""

from __future__ import annotations

import pytest

fresh = pytest.mark.fresh_workers
"""Of what is about a new process: its streams, its memory, its parent. What is about answers and ends can be a fork."""

PATIENCE_S = 60.0
