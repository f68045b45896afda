"""Plain text: names and reasons out of a blob, made fit to be shown; whoever made it chose them."""

from __future__ import annotations


def plain(text: str) -> str:
    """Return a text as one line that shows all of it: white space becomes a space, what prints nothing its code.

    A terminal would obey escape sequences and other controls, and overrides of the writing direction fool a reader.
    """
    return text if text.isprintable() else "".join(map(_shown, text))


def _shown(letter: str) -> str:
    if letter.isprintable():
        return letter
    return " " if letter.isspace() else letter.encode("unicode_escape").decode()
