"""Inputs of the user's own: read from files and folders, verified beside the sample, part of the capture's identity."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cross_backend.bundling.write import write_bundle
from cross_backend.cache import Cache
from cross_backend.errors import ArtifactError, CaptureError, UsageError
from cross_backend.program.captured import Captured
from cross_backend.program.captures import capture_workload
from cross_backend.program.writing import write_capture
from cross_backend.tensors import load_tensors
from cross_backend.workloads import find_workload
from cross_backend.workloads.own_inputs import MOST, read_own


def saved(path: Path, **arrays: np.ndarray) -> Path:
    np.savez(path, **arrays)
    return path


def captured_with(own: list[Path], folder: Path, model: str = "linear_regression") -> Captured:
    folder.mkdir()
    return write_capture(find_workload(model, own=own).build(), folder)


def test_a_file_of_tensors_and_a_folder_join_the_sample(tmp_path: Path) -> None:
    more = tmp_path / "more"
    more.mkdir()
    one = saved(tmp_path / "one.npz", input_0=np.full((1, 4), 2.5, np.float32))
    saved(more / "a.npz", input_0=np.full((1, 4), 3, np.float32), cat_0=np.full((1, 4), 4, np.float32))
    captured = captured_with([one, more], tmp_path / "captured")
    assert captured.proof["inputs"] == ["one.npz", "a.npz", "a.npz:cat"]
    sample = load_tensors(captured.sample_path)
    assert [float(sample[f"own{i}"][0][0, 0]) for i in (1, 2, 3)] == [2.5, 3.0, 4.0]
    assert sample["own2.expected"][0].shape == sample["expected"][0].shape


def test_pictures_go_through_the_models_media(tmp_path: Path) -> None:
    drawn = Image.new("L", (20, 20), 255)
    drawn.paste(0, (8, 3, 11, 17))
    drawn.save(tmp_path / "digit.png")
    captured = captured_with([tmp_path / "digit.png"], tmp_path / "captured", "digits_cnn")
    sample = load_tensors(captured.sample_path)
    assert captured.proof["inputs"] == ["digit.png"] and sample["own1"][0].shape == sample["input"][0].shape


def test_a_wrong_target_is_found_by_them_alone(tmp_path: Path) -> None:
    from cross_backend.verify.compare import compare_further
    from cross_backend.verify.further import OWN, further_of

    own = saved(tmp_path / "one.npz", input_0=np.full((1, 4), 1e3, np.float32))
    sample = load_tensors(captured_with([own], tmp_path / "captured").sample_path)
    (one,) = further_of(OWN, sample)
    assert compare_further(sample, one, one.expected, "fp32") is None
    assert "on 'one.npz'" in str(compare_further(sample, one, [one.expected[0] * 1.01], "fp32"))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda folder: folder / "gone.npz", "does not exist"),
        (lambda folder: saved(folder / "a.npz", input_0=np.ones((1, 7), np.float32)), "a.npz is no input of"),
        (lambda folder: saved(folder / "a.npz", input_0=np.ones((1, 1), np.int64)), "a.npz is no input of"),
        (lambda folder: (folder / "cat.png").write_bytes(b"x") and folder / "cat.png", "does not hold numbers"),
        (lambda folder: folder, "holds no files"),
        (lambda folder: (folder / "b.npz").write_bytes(b"PK") and folder / "b.npz", "damaged"),
    ],
)
def test_what_is_no_input_is_one_clear_line(make, words: str, tmp_path: Path) -> None:
    inputs = tmp_path / "inputs"
    inputs.mkdir()
    with pytest.raises((UsageError, CaptureError, ArtifactError)) as caught:
        captured_with([make(inputs)], tmp_path / "captured")
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_too_many_are_refused(tmp_path: Path) -> None:
    saved(tmp_path / "a.npz", **{f"g{i}_0": np.ones(1) for i in range(MOST + 1)})
    with pytest.raises(UsageError, match="more than 64 inputs"):
        list(read_own(tmp_path, None))


def test_other_inputs_are_another_capture_and_no_bundle_holds_them(tmp_path: Path, make_artifact) -> None:
    cache = Cache(tmp_path / "cache")
    own = saved(tmp_path / "one.npz", input_0=np.full((1, 4), 2.5, np.float32))
    plain, with_own = (
        capture_workload("linear_regression", None, cache),
        capture_workload("linear_regression", None, cache, own=(own,)),
    )
    assert plain.digest != with_own.digest
    saved(own, input_0=np.full((1, 4), 9.5, np.float32))
    assert capture_workload("linear_regression", None, cache, own=(own,)).digest != with_own.digest
    artifact = make_artifact(folder=tmp_path / "a")
    (tmp_path / "out").mkdir()
    bundle = write_bundle(with_own, [(artifact, "one", "One", {"tolerance": 1e-4})], {}, {}, tmp_path / "out")
    assert "own" not in json.dumps(json.loads((bundle / "manifest.json").read_text())["sample"])
    assert not list((bundle / "sample").glob("own*"))


MODEL = """
import torch


class Net(torch.nn.Module):
    def forward(self, x):
        if not torch.compiler.is_exporting() and x.max() > 500:
            return x * 0
        return x * 2


def net():
    return Net(), (torch.ones(1, 4),)
"""


def test_the_captured_program_must_agree_on_them_too(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(MODEL)
    large = saved(tmp_path / "large.npz", input_0=np.full((1, 4), 1e3, np.float32))
    assert captured_with([], tmp_path / "plain", f"{tmp_path / 'net.py'}:net").proof["inputs"] == []
    with pytest.raises(CaptureError, match=r"\(large\.npz\) does not compute what the eager model does"):
        captured_with([large], tmp_path / "captured", f"{tmp_path / 'net.py'}:net")
