"""The release's workflow: it builds by the script, and refuses a tag that is not the version."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from cross_backend import __version__

ROOT = Path(__file__).parents[2]
JOBS = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8"))["jobs"]


@pytest.mark.parametrize(("tag", "status"), [(f"v{__version__}", 0), (__version__, 0), ("v99.0.0", 1), ("v", 1)])
def test_a_tag_is_the_version(tag: str, status: int) -> None:
    (step,) = (step["run"] for step in JOBS["linux"]["steps"] if step.get("name") == "The tag is the version")
    command = ["bash", "-e", "-c", step]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, "GITHUB_REF_NAME": tag}, check=False)
    assert done.returncode == status


def test_it_publishes_what_the_script_builds() -> None:
    assert any("deploy/release.sh" in step.get("run", "") for step in JOBS["linux"]["steps"])
    assert JOBS["publish"]["needs"] == ["linux", "others"]


def test_a_citation_names_the_version() -> None:
    found = re.search(r'^version: "(.*)"$', (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    assert found and found[1] == __version__
