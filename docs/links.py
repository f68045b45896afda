"""Links: those of every Markdown page, whether they resolve in the repository, and where they lead on the site."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SOURCE = "https://github.com/cross-backend/cross-backend/blob/main/"
"""Where the site's links to files lead that are none of its pages."""
BESIDE = {
    "CHANGELOG.md": "reference/changes.md",
    "CONTRIBUTING.md": "how-to/contributing.md",
    "examples/atalla/README.md": "tutorials/atalla.md",
    "runner/README.md": "how-to/runner.md",
}
"""File of the repository that is a page of the site and lies outside of docs/ → that page."""
_LINK = re.compile(r"(?P<before>!?\[[^\]]*\]\(|(?:src|srcset|href)=\")(?P<target>[^)\s\"]+)(?=[)\"])")
_CODE = re.compile(r"^(?P<fence>```+|~~~+).*?^(?P=fence)\s*$|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def pages() -> dict[str, str]:
    """Return every page of the site: file of the repository → path on the site."""
    docs = sorted((ROOT / "docs").rglob("*.md"))
    return {path.relative_to(ROOT).as_posix(): path.relative_to(ROOT / "docs").as_posix() for path in docs} | BESIDE


def navigation() -> list[str]:
    """Return the pages that the site's navigation names, in its order."""

    def walk(node: Any) -> Iterator[str]:
        for entry in node:
            for target in entry.values():
                yield from [target] if isinstance(target, str) else walk(target)

    return list(walk(tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]))


def _local(target: str) -> bool:
    return not re.match(r"[a-z][a-z+.-]*:|#|//", target)


def _resolved(page: str, target: str) -> str:
    """Return the file of the repository that a page's link leads to."""
    return os.path.normpath(PurePosixPath(page).parent / target).replace(os.sep, "/")


def for_site(page: str, text: str) -> str:
    """Return a page's text with links that resolve on the site.

    Args:
        page: its path in the repository.
        text: its Markdown.
    """
    known = pages()
    here = PurePosixPath(known[page]).parent

    def moved(match: re.Match[str]) -> str:
        target, mark, anchor = match["target"].partition("#")
        if not target or not _local(target):
            return match[0]
        file = _resolved(page, target)
        if file in known:
            place = os.path.relpath(known[file], here)
        elif file.startswith("docs/") and (ROOT / file).is_file() and not file.endswith(".py"):
            place = os.path.relpath(file.removeprefix("docs/"), here)
        else:
            place = SOURCE + file
        return f"{match['before']}{place}{mark}{anchor}"

    return _LINK.sub(moved, text)


def mistakes() -> list[str]:
    """Return links that do not resolve, and pages that the navigation lacks or has twice."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    found = []
    for page in listed.stdout.split():
        prose = _CODE.sub("", (ROOT / page).read_text(encoding="utf-8"))
        for match in _LINK.finditer(prose):
            target = match["target"].partition("#")[0]
            if target and _local(target) and not (ROOT / _resolved(page, target)).exists():
                found.append(f"{page}: {match['target']} does not exist.")
    named, known = navigation(), set(pages().values())
    found += [
        f"zensical.toml: {one} is in the navigation twice." for one in sorted({n for n in named if named.count(n) > 1})
    ]
    found += [f"zensical.toml: {one} is not a page." for one in named if one not in known]
    found += [f"zensical.toml: the navigation lacks {one}." for one in sorted(known - set(named))]
    return found
