"""Streams of a known kind in the place of standard output and standard error."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


class Stream(io.TextIOWrapper):
    """A text stream that says what it is."""

    def __init__(self, *, tty: bool, encoding: str = "utf-8") -> None:
        super().__init__(io.BytesIO(), encoding=encoding)
        self.tty = tty

    def isatty(self) -> bool:
        return self.tty

    @property
    def text(self) -> str:
        self.flush()
        assert isinstance(self.buffer, io.BytesIO)
        return self.buffer.getvalue().decode(self.encoding)


def streams(monkeypatch: pytest.MonkeyPatch, **kind: object) -> tuple[Stream, Stream]:
    out, err = Stream(**kind), Stream(**kind)  # type: ignore[arg-type]
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setattr("sys.stderr", err)
    return out, err
