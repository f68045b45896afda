"""Build the site of this version into build/site/VERSION: stage the pages, run zensical, check what it wrote.

Other versions' sites stay; ``versions.json`` lists all for the theme's selector, and the root leads to the newest.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import links
from packaging.version import InvalidVersion, Version

from cross_backend._version import __version__

STAGE, BUILT, SITES = (links.ROOT / "build" / name for name in ("docs", "built-site", "site"))
_ROOT_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>cross-backend</title>
<meta http-equiv="refresh" content="0; url={newest}/index.html">
<p><a href="{newest}/index.html">cross-backend {newest}</a></p></html>
"""
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
        f"{path.relative_to(BUILT)}: {match[0]}"
        for path in sorted(BUILT.rglob("*.html"))
        for match in _FOREIGN.finditer(path.read_text(encoding="utf-8"))
    ]


def versions() -> list[str]:
    """Return the versions whose sites lie in build/site, the newest first; an older layout's folders are none."""

    def version(path: Path) -> list[Version]:
        try:
            return [Version(path.name)] if (path / "index.html").is_file() else []
        except InvalidVersion:
            return []

    return [str(one) for one in sorted((one for path in SITES.iterdir() for one in version(path)), reverse=True)]


def publish() -> None:
    """Move the built site to its version's folder, and write what leads there."""
    shutil.rmtree(SITES / __version__, ignore_errors=True)
    SITES.mkdir(exist_ok=True)
    shutil.move(BUILT, SITES / __version__)
    found = versions()
    listed = [{"version": one, "title": one, "aliases": ["latest"] if one == found[0] else []} for one in found]
    (SITES / "versions.json").write_text(json.dumps(listed, indent=1), encoding="utf-8")
    (SITES / "index.html").write_text(_ROOT_PAGE.format(newest=found[0]), encoding="utf-8")


def main() -> None:
    """Build, and fail at the first warning."""
    stage()
    command = [str(Path(sys.executable).with_name("zensical")), "build", "--clean", "--strict"]
    status = subprocess.run(command, cwd=links.ROOT, check=False).returncode
    if status:
        sys.exit(status)
    if found := foreign():
        sys.exit("Pages load from the network:\n" + "\n".join(found))
    publish()
    print(f"built: build/site/{__version__}. To read it: python -m http.server --directory build/site")


if __name__ == "__main__":
    main()
