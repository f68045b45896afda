"""Build the site into build/site: stage the pages with links that resolve there, run zensical, check what it wrote."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import links

STAGE, SITE = links.ROOT / "build" / "docs", links.ROOT / "build" / "site"
_HIDDEN = re.compile(r"^<!-- (::: [\w.]+) -->$", re.MULTILINE)
"""A place of the API reference: invisible on the forge, docstrings on the site."""
_FOREIGN = re.compile(r"<(?:script|link|img|source)\b[^>]*?(?:src|srcset|href)=\"?(?:https?:)?//[^>]*>")


def stage() -> None:
    """Copy pages and pictures, with the site's links."""
    shutil.rmtree(STAGE, ignore_errors=True)
    for file, page in links.pages().items():
        text = links.for_site(file, (links.ROOT / file).read_text(encoding="utf-8"))
        place = STAGE / page
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(_HIDDEN.sub(r"\1", text), encoding="utf-8")
    shutil.copytree(links.ROOT / "docs" / "images", STAGE / "images")
    for path in sorted((links.ROOT / "docs").rglob("*.json")):
        shutil.copy(path, STAGE / path.relative_to(links.ROOT / "docs"))


def foreign() -> list[str]:
    """Return what built pages load from the network."""
    return [
        f"{path.relative_to(SITE)}: {match[0]}"
        for path in sorted(SITE.rglob("*.html"))
        for match in _FOREIGN.finditer(path.read_text(encoding="utf-8"))
    ]


def main() -> None:
    """Build, and fail at the first warning."""
    stage()
    command = [str(Path(sys.executable).with_name("zensical")), "build", "--clean", "--strict"]
    status = subprocess.run(command, cwd=links.ROOT, check=False).returncode
    if status:
        sys.exit(status)
    if found := foreign():
        sys.exit("Pages load from the network:\n" + "\n".join(found))
    print("built: build/site. To read it: python -m http.server --directory build/site")


if __name__ == "__main__":
    main()
