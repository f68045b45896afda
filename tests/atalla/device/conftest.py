"""What the tests of pages share: a browser, and a page that was opened in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from atalla.device import Hardware
from tests.atalla.device.report_pages import CHIP, made
from tests.browser import chromium, visits


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Any]]:
    with visits(browser) as go:
        yield go


@pytest.fixture
def show(visit: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    """Give a function that opens the page of a program."""

    def go(kind: str = "float32", hardware: Hardware = CHIP, name: str = "a model", **options: Any) -> Any:
        path = tmp_path / "out.html"
        path.write_text(made(kind, hardware, name), encoding="utf-8")
        return visit(path, **options)

    return go
