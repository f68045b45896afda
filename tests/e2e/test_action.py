"""``action.yml``: its own steps, run here on two commits of a repository, of which the second is slower."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
MODEL = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(DEPTH)))

    def forward(self, x):
        return self.layers(x)

def net():
    return Net(), torch.ones(1, 512)
"""
STUDY = {
    "workloads": ["model.py:net"],
    "targets": ["cpu"],
    "settings": {"seconds": 0.4, "launches": 4, "max_launches": 4, "instruments": []},
}


def git(folder, *arguments):
    who = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path):
    """Two commits; the second network has eight times the layers."""
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "ci.yaml").write_text(json.dumps(STUDY))
    for depth in (2, 16):
        (folder / "model.py").write_text(MODEL.replace("DEPTH", str(depth)))
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", f"depth {depth}")
    return folder


def steps(folder, temp, **inputs):
    """Run the steps as a runner does; yield each one's name and how it ended."""
    given = {name: row.get("default", "") for name, row in ACTION["inputs"].items()} | inputs
    for step in ACTION["runs"]["steps"]:
        if "run" not in step:
            continue  # the upload is GitHub's own
        found = {}
        for name, text in step.get("env", {}).items():
            here = text.replace("${{ github.action_path }}", str(ROOT))
            found[name] = re.sub(r"\${{ inputs\.([\w-]+) }}", lambda match: given[match[1]], here)
        script = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        variables = {**os.environ, **found, "RUNNER_TEMP": str(temp), "GITHUB_STEP_SUMMARY": str(temp / "summary.md")}
        done = subprocess.run(script, cwd=folder, env=variables, capture_output=True, text=True, check=False)
        yield step["name"], done


@pytest.mark.slow
def test_a_slower_commit_fails_with_its_table(repository, tmp_path):
    temp = tmp_path / "temp"
    temp.mkdir()
    site = next(path for path in sys.path if path.endswith("site-packages"))
    install = (
        f"echo {site} > $($PYTHON -c 'import sysconfig; print(sysconfig.get_path(\"purelib\"))')/here.pth; "
        f"echo {ROOT / 'src'} >> $($PYTHON -c 'import sysconfig; print(sysconfig.get_path(\"purelib\"))')/here.pth"
    )
    db = str(tmp_path / "ab.sqlite")
    ended = dict(steps(repository, temp, study="ci.yaml", install=install, db=db, **{"fail-on": "slower"}))
    printed = [done.stdout + done.stderr for done in ended.values()]
    assert [done.returncode for done in ended.values()] == [0, 0, 1], printed
    table = (temp / "summary.md").read_text(encoding="utf-8")
    row = next(line for line in table.splitlines() if line.startswith("| model"))
    assert "| slower |" in row and "| workload |" in table
