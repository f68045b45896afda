"""Prose: banned phrases in pages, texts of the code, docstrings and comments, and the share of long sentences in texts.

A text of the code is a string of at least four words that is no docstring: help, errors, reasons, verdicts; of
JavaScript, C and C++, too. The descriptions of commands are docstrings, and count, as does the text of HTML.
``python docs/prose.py`` prints what to mend.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from pygments.lexers import get_lexer_for_filename
from pygments.token import Token

ROOT = Path(__file__).resolve().parents[1]
MOST_WORDS, LONG_SHARE = 25, 0.05
"""At most this share of the sentences in texts of the code have more words."""
BANNED = {
    "again and again": "repeatedly",
    "anew": "again",
    "gives": "returns, computes, prints",
    "its own sample": "the sample input",
    "proved right": "verified",
    "surely": "with 95 % power",
    "tells": "reports, shows",
    "told apart": "distinguished",
    "took none of": "delegates 0 of",
    "what was left": "not delegated",
    "whose asker": "caller",
}
"""Phrase → what to write in its place."""
UNREAD = ("CHANGELOG.md", "docs/reference/", "tests/")
"""Files that are a history, written from the code, or not for users."""
_PHRASE = re.compile(rf"\b({'|'.join(map(re.escape, BANNED))})\b", re.IGNORECASE)
_CODE = re.compile(r"^(?P<fence>```+|~~~+).*?^(?P=fence)\s*$|^(?: {4}|\t)[^\n]*$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"``.*?``", re.DOTALL)
_END = re.compile(r"(?<=[.!?])\s+|\n")
_VALUE = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}", re.DOTALL)
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")


@dataclass(frozen=True)
class Text:
    """A text that a person reads, and where it stands."""

    file: str
    line: int
    words: str


def of_page(file: str, text: str) -> Iterator[Text]:
    """Yield the lines of a Markdown page without its code."""
    prose = _CODE.sub(lambda match: "\n" * match[0].count("\n"), text)
    yield from (Text(file, number, line) for number, line in enumerate(prose.split("\n"), 1))


def of_code(file: str, source: str) -> Iterator[Text]:
    """Yield the texts of a module; values in them count as one word."""
    tree = ast.parse(source)
    unread: set[int] = set()
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for one in body if isinstance(body, list) else ():
            if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant):
                unread.add(id(one.value))  # a docstring, or the text below a field
        if isinstance(node, ast.JoinedStr):
            unread |= {id(part) for part in node.values}
    if "/cli/" in file and tree.body:
        unread -= {id(getattr(tree.body[0], "value", None))}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant | ast.JoinedStr) and id(node) not in unread:
            text = _text(node)
            if len(text.split()) >= 4:
                yield Text(file, node.lineno, text)


def asides(file: str, source: str) -> Iterator[Text]:
    """Yield the comments and docstrings of a file, which only developers read."""
    for line, text in (_of_python if file.endswith(".py") else _comments)(file, source):
        yield Text(file, line, " ".join(_INLINE.sub("X", text).split()))


def _of_python(_file: str, source: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def _comments(file: str, source: str) -> Iterator[tuple[int, str]]:
    line = 1
    for kind, value in _tokens(file, source):
        if kind in Token.Comment:
            yield line, value
        line += value.count("\n")


def of_literals(file: str, source: str) -> Iterator[Text]:
    """Yield the string literals of JavaScript, C or C++; those that follow each other are one text."""
    line, begun, words = 1, 1, ""
    for kind, value in _tokens(file, source):
        if kind in Token.Literal.String or (kind in Token.Text and words):
            begun, words = (begun if words else line), words + value
        elif words:
            if len(words.split()) >= 4:
                yield Text(file, begun, words.strip().strip("\"'`"))
            words = ""
        line += value.count("\n")


@lru_cache(1)
def _tokens(file: str, source: str) -> list[tuple[Any, str]]:
    """Split a source, which is read for its texts and for its comments."""
    return list(get_lexer_for_filename(file, stripnl=False, ensurenl=False).get_tokens(source))


class _Shown(HTMLParser):
    """Collects what a page shows or a screen reader says."""

    SAID = frozenset({"alt", "aria-label", "placeholder", "title"})
    UNSEEN = frozenset({"script", "style"})

    def __init__(self, file: str) -> None:
        super().__init__()
        self.found: list[Text] = []
        self._file, self._tag = file, ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._tag = tag
        self.found += [
            Text(self._file, self.getpos()[0], value) for name, value in attrs if name in self.SAID and value
        ]

    def handle_endtag(self, _tag: str) -> None:
        self._tag = ""

    def handle_data(self, data: str) -> None:
        if self._tag not in self.UNSEEN and data.strip():
            self.found.append(Text(self._file, self.getpos()[0], data))


def of_html(file: str, source: str) -> Iterator[Text]:
    """Yield the texts of a template; values in it count as one word."""
    parser = _Shown(file)
    parser.feed(_VALUE.sub(lambda match: "\n" * match[0].count("\n") or "X", source))
    yield from parser.found


def _text(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_text(part) for part in parts)
        case _:
            return "X"


READ = {
    ".md": of_page,
    ".py": of_code,
    **dict.fromkeys((".js", ".c", ".h", ".cpp"), of_literals),
    **dict.fromkeys((".kt.template", ".swift.template", ".dart.template", ".hpp.template"), of_page),  # comments, too
    **dict.fromkeys((".html", ".html.template"), of_html),
}
"""End of a file's name → what finds its texts."""
COMMENTED = (".py", ".js", ".css", ".c", ".h", ".inc", ".cpp")
"""Ends of names of files whose comments are read."""


def phrases(texts: list[Text]) -> list[str]:
    """Return a complaint for each banned phrase."""
    return [
        f"{text.file}:{text.line}: {match[0]!r} is banned; write: {BANNED[match[0].lower()]}."
        for text in texts
        for match in _PHRASE.finditer(text.words)
    ]


def long_sentences(texts: list[Text]) -> tuple[list[str], int]:
    """Return a complaint for each long sentence, and the number of all sentences."""
    sentences = [(text, one) for text in texts for one in _END.split(text.words) if one.strip()]
    counts = [(text, len(_QUOTED.sub("X", one).split()), one) for text, one in sentences]
    return [f"{t.file}:{t.line}: {n} words: {one[:80]} …" for t, n, one in counts if n > MOST_WORDS], len(sentences)


def main() -> None:
    """Fail where a phrase is banned or too many sentences are long."""
    listed = subprocess.run(
        ["git", "ls-files", "*.md", *(f"src/*{end}" for end in {*READ, *COMMENTED}), "runner/src/*"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    pages: list[Text] = []
    code: list[Text] = []
    beside: list[Text] = []
    for file in listed.stdout.split():
        if not file.startswith(UNREAD) and (ROOT / file).is_file():
            text = (ROOT / file).read_text(encoding="utf-8")
            read = next((way for end, way in READ.items() if file.endswith(end)), None)
            if read is of_page:
                pages += of_page(file, text)
            elif read is not None and "/template/" not in file:
                code += read(file, text)
            if file.endswith(COMMENTED):
                beside += asides(file, text)
    found = phrases(pages + code + beside)
    long, count = long_sentences(code)
    if len(long) > LONG_SHARE * count:
        found += [*long, f"{len(long)} of {count} sentences have more than {MOST_WORDS} words; {LONG_SHARE:.0%} may."]
    if found:
        sys.exit("\n".join(found))
    print(f"prose: no banned phrase; {len(long)} of {count:,} sentences have more than {MOST_WORDS} words")


if __name__ == "__main__":
    main()
