"""Arguments: each wrong one ends in a UsageError of one line that names it, what fits and what came."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cross_backend as xb
from cross_backend.errors import UsageError

X = torch.ones(1, 4)
LINEAR = torch.nn.Linear(4, 2).eval()
WORKLOAD = xb.Workload("net", LINEAR, (X,))
CAPTURED = "the captured program"
"""Stands for what only a fixture can make."""
PLATFORMS = r"platform=.*android"

WRONG: dict[str, tuple[Callable[..., Any], dict[str, Any], str]] = {
    "a number as model": (xb.compare, {"model": 5}, r"model: a model's name, .* is expected, not 5\."),
    "a list as model": (xb.compare, {"model": []}, r"model: .* is expected, not a list\."),
    "a class": (xb.compare, {"model": torch.nn.Linear}, r"model: an instance .* Linear\(\), not the class Linear\."),
    "an unknown model": (xb.compare, {"model": "digits_cn"}, r"unknown model 'digits_cn'\. Did you mean 'digits_cnn'"),
    "a file that is not there": (xb.compare, {"model": Path("none.onnx")}, r"none\.onnx does not exist"),
    "a module alone": (xb.compare, {"model": LINEAR}, r"inputs: a torch module needs .* inputs=\(x,\)\."),
    "NumPy inputs": (xb.compare, {"model": LINEAR, "inputs": (np.ones((1, 4)),)}, r"inputs: torch tensors .* NumPy"),
    "a number as inputs": (xb.compare, {"model": LINEAR, "inputs": 3}, r"inputs: a tuple .* not 3\."),
    "inputs of a workload": (xb.compare, {"model": WORKLOAD, "inputs": (X,)}, r"inputs: .* a Workload holds its own"),
    "inputs of a program": (xb.compare, {"model": CAPTURED, "inputs": (X,)}, r"inputs: .* a captured program holds"),
    "tensors for a name": (xb.compare, {"inputs": (X,)}, r"inputs: a named model .* Paths"),
    "a path that is not there": (xb.compare, {"inputs": ["none.npz"]}, r"inputs: none\.npz does not exist\."),
    "a name for a name": (xb.compare, {"name": "net"}, r"name: 'net' came, but 'digits_cnn' has a name"),
    "weights of a module": (xb.compare, {"model": LINEAR, "inputs": (X,), "weights": "a.pt"}, r"weights: goes with"),
    "no calibration": (xb.export, {"calibration": "none.npz"}, r"calibration: none\.npz does not exist\."),
    "a number as calibration": (xb.export, {"calibration": 3}, r"calibration: a path is expected, not 3\."),
    "inputs as targets": (xb.compare, {"targets": (X,)}, r"targets: a list of backends .* not a Tensor\."),
    "a tensor as targets": (xb.compare, {"targets": X}, r"targets: a list of backends .* not a Tensor\."),
    "no targets": (xb.compare, {"targets": []}, r"targets: .* not an empty list\."),
    "an unknown target": (xb.compare, {"targets": "openvin"}, r"targets: unknown backend .* Did you mean 'openvino'"),
    "an unknown option": (xb.compare, {"targets": ["xnnpack?thread=1"]}, r"targets: .*'thread'.*'threads'"),
    "targets twice": (xb.compare, {"targets": ["cpu"], "platform": "linux"}, r"targets and platform are both given"),
    "an unknown platform": (xb.compare, {"platform": "lunix"}, r"unknown platform 'lunix'\. Did you mean 'linux'"),
    "a number as platform": (xb.compare, {"platform": 5}, r"platform: one of .* is expected, not 5\."),
    "an unknown precision": (xb.compare, {"precision": "fp17"}, r"precision: unknown precision 'fp17'.*'fp16'"),
    "no threads": (xb.compare, {"threads": 0}, r"threads: a whole number from 1 to 4096 is expected, not 0\."),
    "threads as a word": (xb.compare, {"threads": "two"}, r"threads: a whole number .* not 'two'\."),
    "many threads": (xb.compare, {"threads": 4096}, r"threads: this process may use \d+ processor\(s\), not 4096\."),
    "no time": (xb.compare, {"seconds": None}, r"seconds: a number from 0\.001 to 86400 is expected, not nothing\."),
    "negative time": (xb.compare, {"seconds": -1}, r"seconds: a number .* not -1\."),
    "NaN": (xb.compare, {"seconds": float("nan")}, r"seconds: a number .* not nan\."),
    "a tensor as time": (xb.compare, {"seconds": X}, r"seconds: a number from"),
    "half a run": (xb.compare, {"num_runs": 1.5}, r"num_runs: a whole number .* not 1\.5\."),
    "a truth as runs": (xb.compare, {"num_runs": True}, r"num_runs: a whole number .* not True\."),
    "no launch": (xb.compare, {"launches": 0}, r"launches: a whole number from 1 to 1000"),
    "a wide margin": (xb.compare, {"margin": 2}, r"margin: a share from 0\.001 to 0\.5, such as 1%, is .* not 2\."),
    "a negative seed": (xb.compare, {"seed": -1}, r"seed: a whole number from 0"),
    "no timeout": (xb.compare, {"timeout_s": 0}, r"timeout_s: a number from 0\.001"),
    "an odd size": (xb.compare, {"memory_limit_bytes": "4 XB"}, r"memory_limit_bytes: a size such as 4 GB, .* '4 XB'"),
    "a share of more": (xb.compare, {"min_on_device": 1.5}, r"min_on_device: a share from 0 to 1"),
    "an unknown place": (xb.compare, {"on": "mars"}, r"on: 'mars' is no place\. Places: local, ssh://"),
    "a number as place": (xb.compare, {"on": 5}, r"on: a text is expected, not 5\."),
    "a batch of nothing": (xb.compare, {"batch": 0}, r"batch: a whole number from 1"),
    "an unknown backend": (xb.localize, {"backend": "openvin"}, r"backend: unknown backend .* Did you mean 'openvino'"),
    "a list as backend": (xb.localize, {"backend": ["cpu"]}, r"backend: the name of one backend .* not a list\."),
    "an unknown second": (xb.localize, {"backend": "cpu", "against": "openvin"}, r"against: unknown backend"),
    "a search of no time": (xb.localize, {"backend": "cpu", "adversarial": 0}, r"adversarial: a number from 0\.001"),
    "a number as folder": (
        xb.localize,
        {"backend": "cpu", "reproducer": 3},
        r"reproducer: a path is expected, not 3\.",
    ),
    "nothing to keep out": (xb.keep_out, {"backend": "cpu"}, r"nodes and max_drop: one .* neither came\."),
    "both ways": (
        xb.keep_out,
        {"backend": "cpu", "nodes": "a", "max_drop": 0.1},
        r"nodes and max_drop: .* both came\.",
    ),
    "numbers as nodes": (xb.keep_out, {"backend": "cpu", "nodes": [1]}, r"nodes: a text is expected, not 1\."),
    "a tensor as nodes": (xb.keep_out, {"backend": "cpu", "nodes": X}, r"nodes: a list of texts .* not a Tensor\."),
    "an odd drop": (xb.keep_out, {"backend": "cpu", "max_drop": "x"}, r"max_drop: a share from 0 to 1, such as 1%"),
    "no threads to profile": (xb.explain, {"backend": "cpu", "threads": 0}, r"threads: a whole number"),
    "a module to lower": (
        xb.lower,
        {"program": LINEAR, "target": "cpu"},
        r"program: what xb\.capture returns .* Linear",
    ),
    "a number as target": (xb.lower, {"program": LINEAR, "target": 5}, r"target: the name of one backend .* not 5\."),
    "negative jobs": (xb.export, {"jobs": -1}, r"jobs: a whole number from 0 to 4096 is expected, not -1\."),
    "an odd truth": (xb.export, {"bundled": "maybe"}, r"bundled: yes or no is expected, not 'maybe'\."),
    "an odd coverage": (xb.export, {"min_coverage": "x"}, r"min_coverage: a share from 0 to 1, such as 90%"),
    "a bundle for nothing": (xb.bundle, {}, PLATFORMS),
    "a bundle for both": (xb.bundle, {"targets": ["cpu"], "platform": "ios"}, PLATFORMS),
    "platforms as numbers": (xb.bundle, {"platform": [5]}, r"platform: names of platforms are expected, not a list\."),
    "measured by no platform": (xb.bundle, {"targets": ["cpu"], "measured": True}, r"measured: orders platforms"),
    "no inputs to ship": (xb.bundle, {"targets": ["cpu"], "ship_inputs": True}, r"ship_inputs: needs inputs"),
    "a large drop": (xb.tune, {"max_drop": 2}, r"max_drop: a share from 0 to 1, such as 1%, is expected, not 2\."),
    "an odd largest size": (xb.tune, {"max_size": "big"}, r"max_size: a size such as 4 GB, .* not 'big'\."),
    "one precision": (xb.tune, {"precisions": "int8"}, r"precisions: a list is expected, .* not 'int8'\."),
    "a precision of none": (xb.tune, {"precisions": ["int9"]}, r"precisions: unknown precision 'int9'"),
    "one number of threads": (xb.tune, {"threads": 2}, r"threads: a list is expected, such as \[1, 4\], not 2\."),
    "a workload to tune": (xb.tune, {"model": WORKLOAD}, r"model: .* is expected, not a Workload\."),
    "a module to tune": (xb.tune, {"model": LINEAR}, r"model: a torch module needs its example inputs"),
    "a number as study": (
        xb.Study.load,
        {"source": 5},
        r"source: the path of a study file or a mapping .* not 5\.",
    ),
    "an unknown key": (
        xb.Study.load,
        {"source": {"target": ["cpu"]}},
        r"unknown key 'target' in a study\. .*'targets'",
    ),
    "a study of nothing": (xb.Study.load, {"source": {"targets": ["cpu"]}}, r"the key 'workloads' is missing\."),
    "a wrong study": (
        xb.Study.load,
        {"source": {"workloads": ["digits_cnn"], "targets": ["cpu"], "settings": {"seconds": "long"}}},
        r"seconds: a number from 0\.1 to 86400 is expected, not 'long'\.",
    ),
}


@pytest.fixture(scope="module")
def program() -> torch.export.ExportedProgram:
    return xb.capture(LINEAR, (X,))


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_argument_is_one_line_that_names_it(
    case: str, program: torch.export.ExportedProgram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    function, given, words = WRONG[case]
    if function not in {xb.lower, xb.Study.load}:
        given = {"model": "digits_cnn", **given}
    given = {key: program if value is CAPTURED else value for key, value in given.items()}
    with pytest.raises(UsageError, match=words) as caught:
        function(**given)
    assert len(str(caught.value).splitlines()) == 1
    assert list(tmp_path.iterdir()) == [], "nothing was done"


def test_numbers_of_numpy_fit(program: torch.export.ExportedProgram) -> None:
    panel = xb.compare(program, "torch", threads=np.int64(1), num_runs=np.int32(30), seconds=np.float32(0.5))
    assert panel.settings["threads"] == 1 and panel.settings["num_runs"] == 30
    assert panel.ranked[0].target == "torch.eager"
