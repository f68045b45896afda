"""A real browser with the runtime that was fetched from npm."""

from __future__ import annotations

import pytest

from tests import needs
from tests.runtimes import bring


@pytest.fixture(scope="session")
def browser() -> None:
    """Skip where there is no browser, or nothing that fetches the runtime."""
    needs.program("chromium")
    needs.program("npm")
    bring("browser")
