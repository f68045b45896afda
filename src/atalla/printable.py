"""Printable: text that comes from a file, as a terminal may be shown it."""

from __future__ import annotations


def printable(text: str) -> str:
    """Return the text with each character that steers a terminal or turns the writing round as its escape."""
    return text if text.isprintable() else "".join(map(_shown, text))


def _shown(one: str) -> str:
    return one if one.isprintable() else one.encode("unicode_escape").decode()
