"""Atalla's own blobs in the runner: right, refused with a reason, or damaged."""

import json
import random
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
import torch

import atalla
from tests.atalla.test_verify import mutated, signed
from tests.e2e.runner.bundles import ATALLA, DELEGATE, QUICK, XNNPACK, artifact, edit, forge, resample

pytestmark = pytest.mark.slow  # its runner holds the kernels, a minute of a compiler


class Doubled(torch.nn.Module):
    def __init__(self, *more):
        super().__init__()
        self.more = more

    def forward(self, x):
        return x * 2, *self.more


class Largest(torch.nn.Module):
    def forward(self, x):
        return x.topk(3).values, (-x).topk(2).values


class Counter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(1, 4))

    def forward(self, x):
        self.seen.add_(x)
        return self.seen * 2


class Scores(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(7, 5)

    def forward(self, x):
        return self.linear(x).softmax(-1), x.sum(1).long()


@pytest.fixture
def bundle(accelerated, tmp_path):
    """A copy that a test may damage."""
    return Path(shutil.copytree(accelerated, tmp_path / "bundle"))


@pytest.fixture
def bundled(cli, tmp_path):
    """Bundle a program for some targets."""

    def make(program, *targets):
        torch.export.save(program, tmp_path / "net.pt2")
        done = cli("bundle", tmp_path / "net.pt2", "--backends", *targets, "--strict", "--output-dir", tmp_path / "out")
        assert done.returncode == 0, done.stdout + done.stderr
        return tmp_path / "out" / "net"

    return make


def compiled(module, *inputs):
    return atalla.compile(torch.export.export(module, inputs)).data


@pytest.mark.parametrize("threads", [1, 2])
def test_alone_and_as_a_delegate(threads, accelerated, rows):
    """Compiled into the runner from src/atalla; its threads are those that were asked for."""
    found = rows(accelerated, "--threads", threads, *QUICK)
    assert set(found) == {ATALLA, DELEGATE, XNNPACK}
    for row in found.values():
        assert row["outcome"] == "OK", row
        assert row["error"]["max_rel"] <= 1e-6
        assert row["rank"] in {1, 2, 3}
        assert row["latency_ms"]["n"] == 60


def test_operators_that_only_pytorch_has(bundled, rows):
    found = rows(bundled(torch.export.export(Largest(), (torch.randn(2, 7),)), "atalla", "portable"), *QUICK)
    row = found["net_atalla"]
    assert (row["outcome"], row["latency_ms"]) == ("UNAVAILABLE", None)
    assert row["reason"].startswith("2 operator(s) of it run in PyTorch")
    assert "cross-backend run" in row["reason"]
    assert "executorch.atalla" in row["reason"]
    assert found["net_portable"]["outcome"] == "OK"


def test_state_is_as_at_first(bundle, rows):
    """The sample is right for the first run only, and warm-ups and rounds follow it."""
    x = torch.randn(1, 4)
    forge(bundle, ATALLA, compiled(Counter(), x))
    resample(bundle, "inputs", 0, x.numpy())
    resample(bundle, "expected", 0, (2 * x).numpy())
    row = rows(bundle, "--only", ATALLA, *QUICK)[ATALLA]
    assert row["outcome"] == "OK", row


def test_inputs_and_outputs_that_lie_otherwise(bundle, rows):
    x = torch.arange(2 * 3 * 4 * 5, dtype=torch.float32).reshape(2, 3, 4, 5)
    forge(bundle, ATALLA, compiled(Doubled(), x.to(memory_format=torch.channels_last)))
    resample(bundle, "inputs", 0, x.numpy())
    resample(bundle, "expected", 0, (x * 2).numpy())
    row = rows(bundle, "--only", ATALLA, *QUICK)[ATALLA]
    assert (row["outcome"], row["error"] and row["error"]["max_abs"]) == ("OK", 0), row


@pytest.mark.parametrize(("value", "another"), [(7, 8), (2.5, 3.5), (True, False)])
def test_outputs_that_are_numbers(value, another, bundle, rows):
    """As the Python package gives them to NumPy."""
    x = np.arange(4, dtype=np.float32).reshape(1, 4)
    forge(bundle, ATALLA, compiled(Doubled(value), torch.from_numpy(x)))
    edit(bundle, lambda row: row["sample"]["expected"].append({**row["sample"]["expected"][0], "path": "sample/more"}))
    resample(bundle, "inputs", 0, x)
    resample(bundle, "expected", 0, x * 2)
    resample(bundle, "expected", 1, np.asarray(value))
    row = rows(bundle, "--only", ATALLA, *QUICK)[ATALLA]
    assert row["outcome"] == "OK", row
    resample(bundle, "expected", 1, np.asarray(another))
    assert rows(bundle, "--only", ATALLA, *QUICK, status=1)[ATALLA]["outcome"] == "MISMATCH"


def test_output_that_is_nothing(bundle, rows):
    forge(bundle, ATALLA, compiled(Doubled(None), torch.zeros(1, 4)))
    row = rows(bundle, "--only", ATALLA, status=1)[ATALLA]
    assert (row["outcome"], row["reason"]) == ("RUN_FAIL", "output 1 is not a tensor")


@pytest.mark.parametrize("batch", [1, 3, 8])
def test_another_batch_than_the_example_s(batch, bundled, rows):
    torch.manual_seed(0)
    net = Scores().eval()
    shapes = ({0: torch.export.Dim("batch", min=1, max=8)},)
    folder = bundled(torch.export.export(net, (torch.randn(3, 7),), dynamic_shapes=shapes), "atalla")
    x = torch.randn(batch, 7)
    resample(folder, "inputs", 0, x.numpy())
    for i, expected in enumerate(net(x)):
        resample(folder, "expected", i, expected.detach().numpy())
    (row,) = rows(folder, "--threads", 2, *QUICK).values()
    assert row["outcome"] == "OK", row
    resample(folder, "inputs", 0, torch.randn(9, 7).numpy())
    (row,) = rows(folder, *QUICK, status=1).values()
    assert row["outcome"] == "RUN_FAIL"
    assert "goes from 1 to 8" in row["reason"]


@pytest.mark.parametrize(
    ("sample", "words"),
    [
        (np.zeros((2, 4), np.float32), "input 0 has shape [2, 4], not [1, 4]"),
        (np.zeros(4, np.float32), "input 0 has shape [4], not [1, 4]"),
        (np.zeros((1, 4), np.float64), "input 0 is float64, not float32"),
        (np.zeros((1, 4), np.uint32), "input 0 is uint32, not float32"),
    ],
)
def test_sample_that_does_not_fit_the_program(sample, words, bundle, rows):
    resample(bundle, "inputs", 0, sample)
    row = rows(bundle, "--only", ATALLA, status=1)[ATALLA]
    assert (row["outcome"], row["reason"]) == ("RUN_FAIL", words)


def test_sample_of_too_many_inputs(bundle, rows):
    edit(bundle, lambda row: row["sample"].update(inputs=row["sample"]["inputs"] * 2))
    row = rows(bundle, "--only", ATALLA, status=1)[ATALLA]
    assert (row["outcome"], "1 input(s)" in row["reason"]) == ("RUN_FAIL", True)


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (lambda blob: b"", "the size"),
        (lambda blob: b"\x00" * 4096, "no Atalla blob"),
        (lambda blob: blob[:-1], "the size"),
        (lambda blob: blob[: len(blob) // 2], "the size"),
        (lambda blob: blob[:8] + b"\x07" + blob[9:], "a version"),
        (lambda blob: blob[:300] + bytes([blob[300] ^ 1]) + blob[301:], "damaged"),
        (lambda blob: blob + b"\x00", "the size"),
    ],
    ids=["empty", "zeros", "one byte too few", "half", "a later version", "changed", "one byte too many"],
)
def test_damaged_blob_whose_digest_is_right(harm, words, bundle, rows):
    row = artifact(json.loads((bundle / "manifest.json").read_text()), ATALLA)
    forge(bundle, ATALLA, harm((bundle / row["path"]).read_bytes()))
    found = rows(bundle, *QUICK)
    assert found[ATALLA]["outcome"] == "LOAD_FAIL"
    assert found[ATALLA]["reason"].startswith("Atalla cannot load the blob: ")
    assert words in found[ATALLA]["reason"]
    assert "\n" not in found[ATALLA]["reason"]
    assert found[XNNPACK]["outcome"] == found[DELEGATE]["outcome"] == "OK"


def test_changed_blob_never_reaches_the_runtime(bundle, rows):
    payload = bundle / f"{ATALLA}.atalla"
    payload.write_bytes(payload.read_bytes()[:-1])
    row = rows(bundle, *QUICK)[ATALLA]
    assert (row["outcome"], "sha256" in row["reason"]) == ("LOAD_FAIL", True)


def test_blob_that_is_a_folder(bundle, rows):
    from cross_backend.artifact import digest_path

    (bundle / "payload").mkdir()
    (bundle / "payload" / "x").write_bytes(b"1")
    edit(bundle, lambda row: artifact(row, ATALLA).update(path="payload", sha256=digest_path(bundle / "payload")))
    row = rows(bundle, *QUICK)[ATALLA]
    assert row["outcome"] == "LOAD_FAIL"
    assert row["reason"].startswith("Atalla cannot read the blob: ")


def test_whatever_a_blob_says_nothing_crashes(accelerated, bundle, rows):
    """Checksums and digest are made right again, so that what lies behind them is looked at."""
    blob, chance, outcomes = (accelerated / f"{ATALLA}.atalla").read_bytes(), random.Random(0), set()
    for _ in range(40):
        forge(bundle, ATALLA, mutated(blob, chance))
        row = rows(bundle, "--only", ATALLA, "--iterations", 1, status=None)[ATALLA]
        assert "crashed" not in (row["reason"] or ""), row
        outcomes.add(row["outcome"])
    assert "LOAD_FAIL" in outcomes
    assert "TIMEOUT" not in outcomes


def test_memory_that_no_machine_has(accelerated, bundle, rows):
    """The header asks for an arena of a tebibyte."""
    blob = bytearray((accelerated / f"{ATALLA}.atalla").read_bytes())
    struct.pack_into("<Q", blob, 32, 1 << 40)
    forge(bundle, ATALLA, signed(blob))
    row = rows(bundle, "--only", ATALLA, status=None)[ATALLA]
    assert row["outcome"] in {"OK", "LOAD_FAIL"}, "the system may promise memory that is never touched"
    assert row["outcome"] == "OK" or "out of memory" in row["reason"]
