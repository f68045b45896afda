"""Foreign text: what manifests, models, runtimes, file names and databases say, made fit to be shown.

A terminal obeys escape sequences, carriage returns and the controls from U+0080 to U+009F; a reader believes what
overrides of the writing direction and characters without width make of a line. Every text that others wrote passes one
of these functions where it goes out: in the terminal, in reports, in error messages.
"""

from __future__ import annotations


def plain(text: str) -> str:
    """Return a text as one line that shows all of it: white space becomes a space, what prints nothing its code."""
    return text if text.isprintable() else "".join(map(_shown, text))


def _shown(letter: str) -> str:
    if letter.isprintable():
        return letter
    return " " if letter.isspace() else letter.encode("unicode_escape").decode()
