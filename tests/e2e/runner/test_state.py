"""Programs that remember: the runner verifies a sequence of calls, a second one after a reset, and measures."""

import json
import shutil

import numpy as np
import pytest

from tests.e2e.runner.build import once
from tests.e2e.runner.bundles import edit, written

COUNTER = """
import torch

class Counter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(2))

    def forward(self, x):
        self.total.add_(x)
        return self.total * 2

def counter():
    return Counter(), (torch.tensor([1.0, 3.0]),)
"""


@pytest.fixture(scope="session")
def counted(cli, shared_folder):
    """A bundle of a counter on both runtimes; not to be changed."""

    def make(place):
        place.mkdir(exist_ok=True)
        (place / "model.py").write_text(COUNTER)
        command = ("bundle", f"{place}/model.py:counter", "--backends", "portable", "atalla", "--strict")
        done = cli(*command, "--output-dir", place)
        assert done.returncode == 0, done.stdout + done.stderr

    return once(shared_folder, "runner_bundle_counter", make) / "model_counter"


@pytest.fixture
def bundle(counted, tmp_path):
    return shutil.copytree(counted, tmp_path / "bundle")


def outcomes(result):
    return {row["target"]: (row["outcome"], row["reason"]) for row in json.loads(result.stdout)["results"]}


def test_a_sequence_is_verified_and_calls_are_measured(runner, counted):
    result = runner(counted, "--json", "--num-runs", 20)
    assert result.returncode == 0, result.stderr
    assert outcomes(result) == {"executorch.portable": ("OK", None), "atalla": ("OK", None)}


def test_a_later_call_that_is_wrong_is_a_mismatch(runner, bundle):
    def change(manifest):
        rows = manifest["sample"]["steps"]
        at = next(at for at, row in enumerate(rows) if row["path"].endswith("step2.expected_0.npy"))
        rows[at] = written(bundle, rows[at]["path"], np.array([1, 2], np.float32))

    edit(bundle, change)
    result = runner(bundle, "--json", "--num-runs", 20)
    assert result.returncode == 1
    for outcome, reason in outcomes(result).values():
        assert outcome == "MISMATCH" and "call 3: " in reason and reason.endswith("it loses the program's state"), (
            reason
        )


def test_a_call_without_what_it_must_give_is_a_damaged_bundle(runner, bundle):
    def change(manifest):
        rows = manifest["sample"]["steps"]
        manifest["sample"]["steps"] = [row for row in rows if "step3.expected" not in row["path"]]

    edit(bundle, change)
    result = runner(bundle)
    assert result.returncode != 0 and len(result.stderr.splitlines()) == 1
    assert "sample.steps holds a call without what it must give" in result.stderr


def test_tensors_before_the_first_call_are_left_aside(runner, bundle):
    def change(manifest):
        rows = manifest["sample"]["steps"]
        (bundle / "sample" / "step0_0.npy").write_bytes((bundle / rows[0]["path"]).read_bytes())
        manifest["sample"]["steps"] = [{**rows[0], "path": "sample/step0_0.npy"}, *rows]

    edit(bundle, change)
    assert runner(bundle, "--json", "--num-runs", 20).returncode == 0
