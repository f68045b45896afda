"""``load_best`` over backends that crash, hang or lie: the caller lives, and nobody is trusted twice without reason."""

import json
import shutil
import subprocess
import sys
import time

import pytest

from tests.e2e.conftest import variables

CRASHING = {
    "load_segfault": "SIGSEGV",
    "call_segfault": "SIGSEGV",
    "call_hangs": "no answer to 'verify' within 3 s",
}
FAILING = {
    "load_raises": "ValueError: the vendor's runtime refuses it",
    "call_raises": "ZeroDivisionError: the vendor's kernel divides by zero",
}
LYING = {"gives_nan": "NaN", "gives_wrong": "deviates by", "gives_shape": "shape [1]", "gives_fewer": "0 output(s)"}
GOOD, MOODY = "linear_regression_onnxruntime", "linear_regression_faulty_load_moody"
SCRIPT = """
import json, sys
import numpy as np
import cross_backend as xb

started = []
sys.addaudithook(lambda event, given: started.append(given[1]) if event == "subprocess.Popen" else None)
said = {"output": None}
try:
    with xb.load_best(sys.argv[1], **json.loads(sys.argv[2])) as session:
        said["target"] = session.target
        said["rejected"] = {row.target: row.reason for row in session.rejected}
        said["output"] = session(np.array([[1, 2, 3, 4]], np.float32)).item()
except xb.CrossBackendError as error:
    said["error"] = f"{type(error).__name__}: {error}"
said["children"] = sum("cross_backend" in " ".join(map(str, words)) for words in started)
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def made(faulty, cli, tmp_path_factory):
    folder = tmp_path_factory.mktemp("bundles")
    targets = [f"faulty.{name}" for name in (*CRASHING, *FAILING, *LYING, "load_moody")]
    result = cli(
        "bundle", "linear_regression", "--backends", *targets, "cpu", "--output-dir", folder, "--strict", **faulty
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return folder / "linear_regression"


@pytest.fixture
def pack(made, tmp_path):
    """Give a function that copies some artifacts of the bundle, in this order, into one of their own."""

    def copy(*names):
        bundle = shutil.copytree(made, tmp_path / "bundle")
        row = json.loads((bundle / "manifest.json").read_text())
        rows = {one["name"]: one for one in row["artifacts"]}
        row["artifacts"] = [rows[name] for name in names]
        (bundle / "manifest.json").write_text(json.dumps(row))
        return bundle

    return copy


@pytest.fixture
def load(popen, faulty, tmp_path):
    """Run ``load_best`` in a process of its own, with a memory of this test; give what it said."""

    def run(bundle, site=None, **options):
        process = popen(
            [sys.executable, "-c", SCRIPT, str(bundle), json.dumps({"timeout_s": 5, **options})],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=variables(tmp_path / "cache", FAULTY_MARKS=str(tmp_path), **(site or faulty)),
        )
        stdout, stderr = process.communicate(timeout=120)
        assert process.returncode == 0, (process.returncode, stderr)
        assert "Traceback" not in stderr
        return json.loads(stdout)

    return run


@pytest.fixture
def mood(tmp_path):
    """Break the moody backend's driver in a way, or mend it (None)."""

    def change(how):
        (tmp_path / "mood").unlink(missing_ok=True)
        if how is not None:
            (tmp_path / "mood").write_text(how)

    return change


def opened_the_good_one(said):
    assert said["target"] == "onnxruntime.cpu", said
    assert said["output"] == pytest.approx(2.7182, abs=1e-4)
    (reason,) = said["rejected"].values()
    assert "\n" not in reason
    return reason


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(one, marks=() if one in {"call_segfault", "load_raises"} else pytest.mark.slow)
        for one in CRASHING | FAILING
    ],
)
def test_what_failed_once_is_tried_last_until_told_otherwise(name, pack, load):
    why = (CRASHING | FAILING)[name]
    bundle = pack(f"linear_regression_faulty_{name}", GOOD)
    box = {"timeout_s": 3} if name == "call_hangs" else {}
    started = time.monotonic()
    first = load(bundle, **box)
    assert time.monotonic() - started < 60, "the time box holds"
    assert why in opened_the_good_one(first) and first["children"] == 2

    second = load(bundle)
    reason = opened_the_good_one(second)
    assert reason.startswith(f"it {'crashed' if name in CRASHING else 'failed'} here before (") and why in reason
    assert reason.endswith("so it is tried last; retry=True forgets that")
    assert second["children"] == 0, "neither the one nor the other needs a child now"

    again = load(bundle, retry=True, **box)
    assert why in opened_the_good_one(again) and "before" not in opened_the_good_one(again)
    assert again["children"] == 1


@pytest.mark.parametrize("name", LYING)
def test_wrong_outputs_are_never_opened_again(name, pack, load):
    bundle = pack(f"linear_regression_faulty_{name}", GOOD)
    first = load(bundle)
    reason = opened_the_good_one(first)
    assert reason.startswith("its outputs are wrong: ") and LYING[name] in reason
    (bundle / f"{GOOD}.onnx").unlink()
    for retry in (False, True):
        last = load(bundle, retry=retry)
        assert last["error"].startswith("LoadError: nothing in ") and last["children"] == 0
        assert f"faulty.{name}: its outputs were wrong here before: " in last["error"]
        assert f"{GOOD}.onnx is missing" in last["error"] and "\n" not in last["error"]


def test_when_nothing_else_works_the_demoted_one_is_tried_again(pack, load, mood):
    bundle = pack(MOODY, GOOD)
    mood("segfault")
    assert "SIGSEGV" in opened_the_good_one(load(bundle))
    (bundle / f"{GOOD}.onnx").unlink()

    nothing = load(bundle)
    assert nothing["error"].startswith("LoadError: nothing in ") and nothing["children"] == 1
    assert nothing["error"].count("SIGSEGV") == 2, "then and now"

    mood(None)
    mended = load(bundle)
    assert mended["target"] == "faulty.load_moody" and mended["children"] == 1
    assert list(mended["rejected"]) == ["onnxruntime.cpu"] and "is missing" in mended["rejected"]["onnxruntime.cpu"]
    assert load(bundle) == {**mended, "rejected": {}, "children": 0}, "it is the first again, and needs no child"


def test_a_mended_driver_is_found_by_retry(pack, load, mood):
    bundle = pack(MOODY, GOOD)
    mood("segfault")
    load(bundle)
    mood(None)
    assert "crashed here before" in opened_the_good_one(load(bundle))
    retried = load(bundle, retry=True)
    assert retried["target"] == "faulty.load_moody" and retried["children"] == 1 and retried["rejected"] == {}
    later = load(bundle)
    assert later["target"] == "faulty.load_moody" and later["children"] == 0


def test_another_version_of_the_runtime_forgets_the_verdict(pack, load, mood, faulty, tmp_path):
    bundle = pack(MOODY, GOOD)
    mood("segfault")
    load(bundle)
    mood(None)
    site = shutil.copytree(faulty["PYTHONPATH"], tmp_path / "site")
    metadata = site / "faulty-1.0.dist-info" / "METADATA"
    metadata.write_text(metadata.read_text().replace("Version: 1.0", "Version: 1.1"))
    newer = load(bundle, site={"PYTHONPATH": str(site)})
    assert newer["target"] == "faulty.load_moody" and newer["children"] == 1
    assert "crashed here before" in opened_the_good_one(load(bundle)), "of version 1.0 we still know it"


def test_what_worked_once_and_refuses_now_is_passed_over(pack, load, mood):
    """It opens without a child, so its exception, which is none of ours, arises in the caller."""
    bundle = pack(MOODY, GOOD)
    assert load(bundle)["target"] == "faulty.load_moody"
    mood("the device was unplugged")
    said = load(bundle)
    assert "ValueError: the device was unplugged" in opened_the_good_one(said)


def test_run_passes_over_what_crashes_in_a_bundle(pack, faulty, cli, tmp_path):
    bundle = pack("linear_regression_faulty_load_segfault", "linear_regression_faulty_gives_wrong", GOOD)
    result = cli("run", bundle, "--num-runs", "6", FAULTY_MARKS=str(tmp_path), **faulty)
    assert result.returncode == 0, result.stderr
    assert "faulty.load_segfault passed over" in result.stderr and "SIGSEGV" in result.stderr
    assert "faulty.gives_wrong passed over" in result.stderr
    assert "on onnxruntime.cpu: outputs are right" in result.stdout
