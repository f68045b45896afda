"""What goes wrong with one artifact costs one row."""

import hashlib
import os
import subprocess

import numpy as np
import psutil
import pytest
from executorch.exir._serialize._program import deserialize_pte_binary, serialize_pte_binary

from tests.e2e.runner.bundles import PORTABLE, QUICK, VULKAN, XNNPACK, artifact, edit, forge, resample


def test_changed_payload_never_reaches_the_runtime(bundle, rows):
    payload = bundle / f"{XNNPACK}.pte"
    content = bytearray(payload.read_bytes())
    content[-1] ^= 1
    payload.write_bytes(content)
    found = rows(bundle, *QUICK)
    assert found[XNNPACK]["outcome"] == "LOAD_FAIL"
    assert "sha256" in found[XNNPACK]["reason"]
    assert found[XNNPACK]["latency_ms"] is None
    assert found[PORTABLE]["outcome"] == "OK"


def test_missing_payload(bundle, rows):
    (bundle / f"{XNNPACK}.pte").unlink()
    found = rows(bundle, *QUICK)
    assert (found[XNNPACK]["outcome"], found[PORTABLE]["outcome"]) == ("LOAD_FAIL", "OK")
    assert "missing" in found[XNNPACK]["reason"]


@pytest.mark.parametrize("content", [b"", b"\x00" * 64, hashlib.shake_128(b"seed").digest(4096)])
def test_payload_that_is_no_program(content, bundle, rows):
    forge(bundle, PORTABLE, content)
    found = rows(bundle, *QUICK)
    assert (found[PORTABLE]["outcome"], found[XNNPACK]["outcome"]) == ("LOAD_FAIL", "OK")
    assert "ExecuTorch cannot load" in found[PORTABLE]["reason"]


def test_runtime_that_aborts_costs_one_row(sound, bundle, rows):
    """A program that names a value which it does not have makes ExecuTorch's runtime end its process."""
    file = deserialize_pte_binary((sound / f"{PORTABLE}.pte").read_bytes())
    file.program.execution_plan[0].inputs[0] = 60_000
    forge(bundle, PORTABLE, bytes(serialize_pte_binary(file)))
    found = rows(bundle, *QUICK)
    assert found[PORTABLE]["outcome"] == "RUN_FAIL", "it is opened, and takes no inputs"
    assert "crashed" in found[PORTABLE]["reason"]
    assert "assert failed (i < n_value_): 60000" in found[PORTABLE]["reason"], "the runtime's last words are given"
    assert found[XNNPACK]["outcome"] == "OK"


@pytest.mark.parametrize(
    ("body", "outcome", "words"),
    [
        ('fputs("my last words\\n", stderr); abort();', "LOAD_FAIL", ("crashed", "my last words")),
        (
            r'fputs("\033[2J\033]0;mine\007 \233 last\tword\n", stderr); abort();',
            "LOAD_FAIL",
            (r"\x1b[2J\x1b]0;mine\x07 \x9b last word",),
        ),
        ("_exit(7);", "LOAD_FAIL", ("status 7",)),
        ('puts("{}"); fflush(stdout); *(volatile int*)0 = 0;', "LOAD_FAIL", ("crashed",)),
        ("for (;;) pause();", "TIMEOUT", ("1.5 s",)),
    ],
)
def test_delegate_that_harms_its_process(body, outcome, words, bundle, harmful, rows):
    found = rows(bundle, *QUICK, "--timeout", "1.5", **harmful(body))
    assert found[PORTABLE]["outcome"] == outcome
    for word in words:
        assert word in found[PORTABLE]["reason"]
    assert found[XNNPACK]["outcome"] == "OK"


def test_bench_that_hangs_does_not_outlive_the_runner(bundle, harmful, built, until):
    command = [built / "cross_backend_runner", bundle, "--only", PORTABLE]
    environment = {**os.environ, **harmful("for (;;) pause();")}
    with psutil.Popen(command, stdout=subprocess.DEVNULL, env=environment) as process:
        until(lambda: "libharm" in mapped(process.children()), "the bench hangs", of=process)
        children = process.children()
        process.kill()
        process.wait()
    assert psutil.wait_procs(children, timeout=10)[1] == []


def mapped(processes):
    """Give the names of the libraries that processes have loaded."""
    return " ".join(row.path for process in processes for row in process.memory_maps())


def test_delegate_whose_library_is_missing_says_what_to_do(bundle, rows):
    edit(bundle, lambda row: artifact(row, PORTABLE)["placement"].update(delegates={"OpenvinoBackend": 1}))
    row = rows(bundle, *QUICK, OPENVINO_LIB_PATH="/nowhere/libopenvino_c.so")[PORTABLE]
    assert row["outcome"] == "UNAVAILABLE"
    assert "OPENVINO_LIB_PATH" in row["reason"]


def test_runtime_that_is_not_linked_in(bundle, rows):
    edit(bundle, lambda row: artifact(row, PORTABLE).update(target="torch?precision=1.5"))
    row = rows(bundle, *QUICK)[PORTABLE]
    assert row["outcome"] == "UNAVAILABLE"
    assert "'torch'" in row["reason"]
    assert "executorch" in row["reason"]


def test_wrong_outputs_have_no_latency(bundle, rows, runner):
    resample(bundle, "expected", 0, np.full((1, 1), 3, np.float32))
    found = rows(bundle, *QUICK, status=1)
    for name in (PORTABLE, XNNPACK):
        assert (found[name]["outcome"], found[name]["latency_ms"], found[name]["rank"]) == ("MISMATCH", None, None)
        assert found[name]["error"]["verdict"] is False
        assert 0.02 < found[name]["error"]["max_rel"] < 0.2
    text = runner(bundle, *QUICK)
    assert text.returncode == 1
    assert "MISMATCH" in text.stdout
    assert " ms " not in text.stdout
    assert "2 of 3 artifacts gave wrong outputs" in text.stdout


def test_one_wrong_artifact_fails_the_run_and_the_others_are_measured(bundle, rows):
    forge(bundle, XNNPACK, (bundle / f"{PORTABLE}.pte").read_bytes())
    edit(bundle, lambda row: artifact(row, PORTABLE).update(tolerance=1e-6))
    edit(bundle, lambda row: artifact(row, XNNPACK).update(tolerance=1e-6))
    assert rows(bundle, *QUICK)[XNNPACK]["outcome"] == "OK", "the portable kernels give what eager gives"
    resample(bundle, "expected", 0, np.ones((1, 4), np.float32))
    found = rows(bundle, *QUICK, status=1)
    assert "shape [1, 1] instead of [1, 4]" in found[XNNPACK]["reason"]
    assert found[XNNPACK]["error"]["max_rel"] is None


def test_sample_that_does_not_fit_the_program(bundle, rows):
    def change(row):
        row["sample"]["inputs"] = row["sample"]["inputs"] * 2

    edit(bundle, change)
    found = rows(bundle, *QUICK, status=1)
    assert found[PORTABLE]["outcome"] == found[XNNPACK]["outcome"] == "RUN_FAIL"
    assert "1 input(s)" in found[PORTABLE]["reason"]


def test_nothing_to_run(bundle, runner, rows):
    assert rows(bundle, "--only", VULKAN, status=1)[VULKAN]["outcome"] == "UNAVAILABLE"
    edit(bundle, lambda row: row.update(artifacts=[], orders={}))
    result = runner(bundle)
    assert result.returncode == 1
    assert "holds no artifacts" in result.stdout
