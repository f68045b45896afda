"""Damage that no digest tells: it reaches the native runtime, which may abort; the caller lives and falls back."""

import io
import json
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.e2e.bundle_fuzz.cases import OPENVINO, XNNPACK, flip, garbage, manifest, sha256
from tests.e2e.bundle_fuzz.test_tensors import LIES
from tests.e2e.conftest import variables

SCRIPT = """
import json, sys
import numpy as np
import cross_backend as xb
for path in sys.argv[1:]:
    try:
        with xb.load_best(path, timeout_s=60) as session:
            reasons = {row.target: row.reason for row in session.rejected}
            said = {"target": session.target, "output": session(np.array([[1, 2, 3, 4]], np.float32)).item()}
    except xb.CrossBackendError as error:
        reasons, said = {}, {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps({**said, "reasons": reasons}), flush=True)
"""


def forge(sound, folder, damage=bytes, sample=None):
    """A bundle of two ExecuTorch files whose first was damaged, or the sample, and whose digests were made to fit."""
    bundle = Path(shutil.copytree(sound, folder))
    row = manifest(bundle)
    row["artifacts"] = [one for one in row["artifacts"] if one["name"] != OPENVINO]
    row["orders"], row["evidence"] = {}, []
    path = bundle / f"{XNNPACK}.pte"
    path.write_bytes(damage(path.read_bytes()))
    row["artifacts"][0].update(size_bytes=path.stat().st_size, sha256=sha256(path))
    if sample is not None:
        path = bundle / "sample" / "expected_0.npy"
        path.write_bytes(sample)
        row["sample"]["expected"][0]["sha256"] = sha256(path)
    (bundle / "manifest.json").write_text(json.dumps(row))
    return bundle


def load_all(bundles, cache):
    """Run ``load_best`` on all of them in one process, which must live; give what each said."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *map(str, bundles)],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=500, env=variables(cache), check=False,
    )  # fmt: skip
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    assert "Traceback" not in done.stderr
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(said) == len(bundles)
    for row in said:
        assert "".join([*row["reasons"].values(), row.get("error", "")]).isprintable(), "each reason is one line"
    return said


WHOLE = 8
"""Bytes of a file's beginning: root offset and magic."""
DAMAGES = {
    "garbage": lambda data: garbage(len(data)),
    "cut": lambda data: data[: len(data) // 2],
    "empty": lambda data: b"",
    "garbage after the magic": lambda data: data[:WHOLE] + garbage(len(data) - WHOLE),
    **{f"bits {seed}": lambda data, seed=seed: flip(data, random.Random(seed), 3) for seed in range(8)},
}


@pytest.mark.slow
def test_the_caller_survives_payloads_that_abort_the_runtime(sound, tmp_path):
    """Whatever the damage does, the outputs that come out are right."""
    bundles = [forge(sound, tmp_path / what, damage) for what, damage in DAMAGES.items()]
    said = dict(zip(DAMAGES, load_all(bundles, tmp_path / "cache"), strict=True))
    for what, row in said.items():
        assert row["output"] == pytest.approx(2.7182, abs=1e-3), (what, row)
        passed_over = [] if row["target"] == "executorch.xnnpack" else ["executorch.xnnpack"]
        assert list(row["reasons"]) == passed_over and row["target"] in {"executorch.xnnpack", "executorch.portable"}
    for what in ("garbage", "cut", "empty", "garbage after the magic"):
        assert said[what]["target"] == "executorch.portable"
    assert "SIGABRT" in said["garbage"]["reasons"]["executorch.xnnpack"], "the damage is one that kills a process"


def saved(tensor):
    file = io.BytesIO()
    np.save(file, tensor)
    return file.getvalue()


@pytest.mark.slow
def test_the_caller_survives_samples_that_lie(sound, tmp_path):
    """The sample is the same for all artifacts, so nothing can be verified and nothing is opened."""
    samples = {
        "a petabyte": LIES["a petabyte"],
        "objects": LIES["objects"],
        "nothing, very often": LIES["nothing, very often"],
        "rows of two": LIES["rows of two"],
        "complex": saved(np.array([[1 + 2j]])),
        "another shape": saved(np.zeros((3, 3), np.float32)),
        "no elements": saved(np.zeros((0,), np.float32)),
    }
    bundles = [forge(sound, tmp_path / what, sample=sample) for what, sample in samples.items()]
    for what, row in zip(samples, load_all(bundles, tmp_path / "cache"), strict=True):
        assert row["error"].startswith("LoadError: nothing in "), (what, row)
        assert "executorch.xnnpack: " in row["error"] and "executorch.portable: " in row["error"]


def test_run_survives_them_too(sound, cli, complaint, tmp_path):
    bundle = forge(sound, tmp_path / "bundle", DAMAGES["garbage"])
    done = cli("run", bundle, "--num-runs", "6")
    assert done.returncode == 0, done.stderr
    assert re.search("executorch.xnnpack passed over: .*SIGABRT", done.stderr) and "Traceback" not in done.stderr
    assert "on executorch.portable: outputs are right" in done.stdout
    complaint(cli("run", bundle / f"{XNNPACK}.pte"), 1, "SIGABRT")
    lying = forge(sound, tmp_path / "lying", sample=LIES["a petabyte"])
    done = cli("run", lying)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith(f"cross-backend run: nothing in {lying} works here. ")
