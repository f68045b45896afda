"""What the runner calls right, wrong and not proved: the Python package's own verdict on the same arrays."""

import itertools
import math

import numpy as np
import pytest
import torch

from cross_backend.tensors import dtype_of
from cross_backend.verify.compare import compare_outputs, tolerances_of
from cross_backend.verify.deviation import scale_of
from cross_backend.workloads import find_workload
from tests.e2e.runner.bundles import PORTABLE, QUICK, XNNPACK, artifact, edit, probe, written

SHAPES = [(), (1,), (0, 4), (3, 4), (1, 1000), (2, 9), (9, 8, 5), (1, 3, 12, 10)]
FLOATS = ["bfloat16", "float16", "float32", "float64", "complex64", "complex128"]
SPECIAL = np.array([0.0, -0.0, 6e-8, 60000.0, math.inf, -math.inf, math.nan, -1e9])


def drawn(rng, shape, dtype):
    values = rng.normal(0, 10 ** rng.uniform(-3, 3), shape)
    with np.errstate(over="ignore", invalid="ignore"):
        if dtype.startswith("complex"):
            return (values + 1j * rng.normal(0, 1, shape)).astype(dtype)
        return values.astype(dtype_of(dtype)) if "float" in dtype else rng.integers(0, 2, shape).astype(dtype)


def masked(rng, values):
    """Replace some elements by what is not finite or far from the others."""
    with np.errstate(over="ignore", invalid="ignore"):
        special = rng.choice(SPECIAL, values.shape).astype(values.dtype)
    return np.where(rng.random(values.shape) < rng.choice([0.1, 0.6, 1.0]), special, values)


def changed(rng, values):
    """Give what a target may give in its place."""
    size = rng.choice([0, 1e-8, 1e-6, 1e-4, 1e-2, 1])
    with np.errstate(over="ignore", invalid="ignore"):
        noise = size * (np.abs(values) + 1) * rng.normal(0, 1, values.shape)
        given = (values + noise).astype(values.dtype)
    if rng.random() < 0.1:
        given = given[::-1].copy() if given.ndim else given
    return given if rng.random() < 0.8 else masked(rng, given)


def tensor(array):
    return {"dtype": str(array.dtype), "shape": list(array.shape), "data": list(array.tobytes())}


def agree(built, sample, outputs, precision="fp32"):
    """Compare with both, see that they say the same, and give what that is."""
    request = {
        "expected": [[tensor(y) for y in sample[key]] for key in ("expected", "expected2") if key in sample],
        "outputs": [[tensor(y) for y in one] for one in outputs],
        "scale": [tensor(scale) for scale in sample.get("scale", ())],
        "rounding": [tensor(one) for one in sample.get("rounding", ())],
        **tolerances_of(sample, {"precision": precision}),
    }
    found, wanted = probe(built, request), compare_outputs(sample, outputs, precision)
    for key in ("max_abs", "max_rel", "sqnr_db"):
        value = getattr(wanted, key)
        assert found[key] == (pytest.approx(value, rel=1e-9) if math.isfinite(value) else None), key
    assert found["verdict"] is wanted.verdict
    assert (found["reason"] or None, found["unproved"] or None) == (wanted.reason, wanted.unproved)
    return found


@pytest.mark.parametrize("dtype", FLOATS)
def test_verdict_is_that_of_the_python_package(dtype, built):
    rng = np.random.default_rng(5)
    verdicts = set()
    for shape, has_second, has_scale in itertools.product(SHAPES, (True, False), (True, False)):
        sample = {"expected": [drawn(rng, shape, dtype), drawn(rng, (4,), "int64")]}
        if rng.random() < 0.4:
            sample["expected"][0] = masked(rng, sample["expected"][0])
        if has_second:
            first = sample["expected"][0]
            with np.errstate(over="ignore", invalid="ignore"):
                sample["expected2"] = [(first * 1.5 + 1).astype(dtype), sample["expected"][1]]
        if has_scale:
            other = sample.get("expected2", [None])[0]
            with np.errstate(over="ignore"):
                sample["scale"] = [scale_of(sample["expected"][0], other).astype(np.float32), np.zeros(4, np.float32)]
        if rng.random() < 0.5:
            sample["rounding"] = [np.array(10 ** rng.uniform(-8, -4))]
        outputs = [[changed(rng, sample[key][0]), sample[key][1]] for key in ("expected", "expected2") if key in sample]
        found = agree(built, sample, outputs, str(rng.choice(["fp32", "fp16", "int8"])))
        verdicts.add((found["verdict"], bool(found["unproved"])))
    assert {verdict for verdict, _ in verdicts} == {True, False}


@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "uint16", *FLOATS])
def test_forms_numbers_and_constants(dtype, built):
    rng = np.random.default_rng(1)
    one, other = np.arange(12).astype(dtype).reshape(3, 4), np.arange(12)[::-1].astype(dtype).reshape(3, 4)
    agree(built, {"expected": [one]}, [[other]])
    agree(built, {"expected": [one]}, [[one.T.copy()]])
    agree(built, {"expected": [one]}, [[one, one]])
    agree(built, {"expected": [one]}, [[]])
    agree(built, {"expected": [one]}, [[one.astype("complex64" if dtype == "complex128" else "complex128")]])
    assert agree(built, {"expected": [one], "expected2": [other]}, [[one], [other]])["unproved"] == ""
    assert "for the second input" in agree(built, {"expected": [one], "expected2": [other]}, [[one], [one.T]])["reason"]
    same = agree(built, {"expected": [one], "expected2": [one]}, [[one], [one]])
    assert (same["verdict"], same["unproved"]) == (True, "its outputs are the same for two different inputs")
    assert agree(built, {"expected": [one[:0]]}, [[one[:0]]])["unproved"] == "its outputs are empty"
    if dtype in FLOATS:
        special = masked(rng, np.full((3, 4), np.nan, dtype))
        special[np.isfinite(special)] = np.inf
        assert agree(built, {"expected": [special]}, [[special]])["unproved"] == "its outputs are all NaN or infinite"
        assert agree(built, {"expected": [special, one]}, [[special, one]])["unproved"] == ""


@pytest.mark.parametrize(("rounding", "proved"), [(1e-7, True), (1e-3, False), (None, False)])
def test_what_moves_little_proves_something_where_rounding_is_smaller(rounding, proved, built):
    first, second = (1000 + 0.1 * np.random.default_rng(seed).normal(size=(2, 64)) for seed in (0, 1))
    sample = {"expected": [first], "expected2": [second]} | ({"rounding": [np.array(rounding)]} if rounding else {})
    assert (agree(built, sample, [[first], [second]])["unproved"] == "") is proved


@pytest.mark.parametrize(("shape", "dtype"), [((40, 9), "float32"), ((2,), "float32"), ((3, 4), "int64")])
def test_a_second_output_of_another_form_is_judged_on_its_own_scale(shape, dtype, built):
    """A bundle may say so, and its program give it: nobody reads past the first one's scale."""
    first, second = np.ones((3, 4), dtype), np.ones(shape, np.float32)
    second.flat[0] = 1000
    given = (second * np.float32(1.0001)).astype(np.float32)
    sample = {"expected": [first], "expected2": [second]}
    assert agree(built, sample, [[first], [second]])["verdict"] is True
    if dtype == "float32":
        assert agree(built, {**sample, "scale": [np.ones((3, 4), np.float32)]}, [[first], [given]])["verdict"] is True
        assert agree(built, sample, [[first], [second * 2]])["verdict"] is False


def test_large_whole_numbers_are_not_rounded(built):
    one = np.array([2**53], np.int64)
    assert agree(built, {"expected": [one]}, [[one + 1]])["verdict"] is False
    assert agree(built, {"expected": [one], "expected2": [one + 1]}, [[one], [one + 1]])["unproved"] == ""


def test_bfloat16_is_no_float32(built):
    wide = np.ones((1, 4), np.float32)
    found = agree(built, {"expected": [wide.astype(dtype_of("bfloat16"))]}, [[wide]])
    assert found["reason"] == "output 0 has type float32 instead of bfloat16"


def doubled(bundle, *, second=None, scale=None, expected2=None):
    """Give a copied bundle of linear_regression a second input, and its outputs or others."""
    inputs = (torch.tensor([[4.0, -3.0, 2.0, 1.0]]) if second is None else second,)
    outputs = find_workload("linear_regression").build().model(*inputs).detach().numpy()

    def change(row):
        sample = row["sample"]
        sample["inputs2"] = [written(bundle, "sample/input2_0.npy", inputs[0].numpy())]
        sample["expected2"] = [written(bundle, "sample/expected2_0.npy", outputs if expected2 is None else expected2)]
        scales = np.full(outputs.shape, 1 if scale is None else scale, np.float32)
        sample["scale"] = [written(bundle, "sample/scale_0.npy", scales)]

    edit(bundle, change)
    return outputs


def test_a_second_input(bundle, rows):
    doubled(bundle)
    found = rows(bundle, *QUICK)
    assert {found[name]["outcome"] for name in (PORTABLE, XNNPACK)} == {"OK"}
    outputs = doubled(bundle, second=torch.tensor([[9.0, 0.0, 0.0, 1.0]]))
    doubled(bundle, expected2=outputs)
    found = rows(bundle, *QUICK, status=1)
    assert {found[name]["outcome"] for name in (PORTABLE, XNNPACK)} == {"MISMATCH"}
    assert "deviates by" in found[PORTABLE]["reason"]


def test_the_bundles_scale_and_mean_tolerance_count(bundle, rows):
    wrong = doubled(bundle) + np.float32(0.5)
    edit(bundle, lambda row: artifact(row, PORTABLE).update(tolerance=1e-3))
    doubled(bundle, expected2=wrong)
    assert rows(bundle, "--only", PORTABLE, *QUICK, status=1)[PORTABLE]["outcome"] == "MISMATCH"
    doubled(bundle, expected2=wrong, scale=1e4)
    row = rows(bundle, "--only", PORTABLE, *QUICK)[PORTABLE]
    assert 1e-5 < row["error"]["max_rel"] < 1e-4
    edit(bundle, lambda row: artifact(row, PORTABLE).update(mean_tolerance=1e-6))
    row = rows(bundle, "--only", PORTABLE, *QUICK, status=1)[PORTABLE]
    assert row["outcome"] == "MISMATCH"
    assert "root mean square; 1e-06 is allowed" in row["reason"]


def test_what_is_not_proved_has_no_rank(bundle, rows, runner):
    first = torch.tensor([[1.0, 2.0, 3.0, 4.0]])
    doubled(bundle, second=first)
    found = rows(bundle, *QUICK, status=3)
    for name in (PORTABLE, XNNPACK):
        row = found[name]
        assert (row["outcome"], row["latency_ms"], row["rank"]) == ("NOT_PROVED", None, None)
        assert row["reason"] == "not proved, because its outputs are the same for two different inputs"
        assert (row["error"]["verdict"], row["error"]["unproved"]) == (
            True,
            row["reason"][len("not proved, because ") :],
        )
    result = runner(bundle, *QUICK)
    assert result.returncode == 3
    assert "[warn] Portable (Reference): NOT_PROVED: not proved, because" in result.stdout
    assert result.stdout.endswith("[fail] 2 of 3 artifacts ran, and their outputs prove nothing.\n")


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda row: row["sample"]["scale"][0].update(shape=[1]), "sample.scale is not float32 in the shapes"),
        (lambda row: row["sample"]["scale"].append(row["sample"]["scale"][0]), "sample.scale is not float32"),
        (lambda row: row["sample"]["rounding"][0].update(dtype="int64"), "sample.rounding is not one float64"),
        (lambda row: row["sample"].pop("inputs2"), "inputs2"),
        (lambda row: row["sample"]["inputs2"][0].update(path="../x.npy"), "sample.inputs2[0].path"),
        (lambda row: row["sample"]["expected2"][0].update(sha256="0" * 64), "expected2_0.npy"),
        (lambda row: artifact(row, PORTABLE).update(mean_tolerance=-1), "mean_tolerance is negative"),
    ],
)
def test_manifest_that_lies(change, word, bundle, refused):
    doubled(bundle)
    edit(bundle, change)
    refused(bundle, words=(word,))
