"""Tasks of the user's own: data and metric from a function, checked against what the model takes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cross_backend.cache import Cache
from cross_backend.errors import CaptureError, UsageError
from cross_backend.program.captures import capture_workload
from cross_backend.tensors import load_tensors
from cross_backend.workloads.task import file_of_task, read_task

SOURCE = """\
import numpy as np
import torch

X = np.random.default_rng(0).random((6, 4))

def right(): return X, np.arange(6) % 3
def top(): return torch.from_numpy(X), torch.arange(6) % 3, "top-5 accuracy"
def own():
    def spread(outputs, labels): return float(outputs.std())
    return (X,), X[:, 0], spread
def number(): return 5
def uneven(): return X, np.arange(5)
def none(): return X[:0], np.arange(0)
def unknown(): return X, np.arange(6), "accuracy"
def floats(): return X, X[:, 0]
def two(): return (X, X), np.arange(6)
def wide(): return np.zeros((6, 5)), np.arange(6)
def holes(): return X * np.nan, np.arange(6)
def whole(): return np.zeros((6, 4), np.int64), np.arange(6)
def tokens(): return np.arange(12).reshape(2, 6) % 7, None, "perplexity"
def listed(): return [[1, 2, 3], [4, 5, 6]], None, "perplexity"
def labelled(): return np.arange(12).reshape(2, 6), np.arange(2), "perplexity"
def one_row(): return np.arange(12), None, "perplexity"
def halves(): return X[:, :3], None, "perplexity"
def long(): return np.zeros((1, 25), int), None, "perplexity"
def large(): return np.full((1, 5), 97), None, "perplexity"
def taken():
    def perplexity(outputs, labels): return 1.0
    return X, np.arange(6), perplexity
def fails(): raise ValueError("no data here")
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "task.py"
    path.write_text(SOURCE)
    return str(path)


def test_data_and_metric_become_the_captures(file: str, tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    plain = capture_workload("linear_regression", None, cache)
    captured = capture_workload("linear_regression", None, cache, task=f"{file}:right")
    assert (plain.metric, captured.metric) == (None, "top-1 accuracy") and plain.digest != captured.digest
    assert capture_workload("linear_regression", None, cache, task=f"{file}:top").metric == "top-5 accuracy"
    one = capture_workload("linear_regression", None, cache, task=f"{file}:own")
    assert one.metric == "spread"
    Path(file).write_text(SOURCE.replace("outputs.std()", "outputs.max()"))
    read_task.cache_clear()
    other = capture_workload("linear_regression", None, cache, task=f"{file}:own")
    assert other.digest != one.digest, "what was scored by another metric is not taken for this one's"


def test_the_users_metric_is_kept(file: str) -> None:
    task = read_task(f"{file}:own")
    assert task.measure is not None and task.measure(np.array([1.0, 3.0]), None) == 1.0


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("number", "must return (samples, labels)"),
        ("uneven", "as many"),
        ("none", "one at least"),
        ("unknown", "'top-1 accuracy', 'top-5 accuracy', 'perplexity' or a function"),
        ("tokens", "takes a model with state"),
        ("taken", "name your metric otherwise"),
        ("floats", "one whole number a sample"),
        ("two", "2 input(s); linear_regression takes 1"),
        ("wide", "[6, 5]; linear_regression takes float32 [1, 4]"),
        ("holes", "NaN"),
        ("whole", "int64"),
        ("fails", "no data here"),
    ],
)
def test_what_cannot_be_scored_is_one_line(file: str, function: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(CaptureError) as caught:
        capture_workload("linear_regression", None, Cache(tmp_path / "cache"), task=f"{file}:{function}")
    assert words in str(caught.value) and "\n" not in str(caught.value)


DECODER = "llama?layers=1&hidden=16&heads=2&inner=16&vocabulary=97&context=24"


@pytest.mark.parametrize(("function", "shape"), [("tokens", (2, 6)), ("listed", (2, 3))])
def test_sequences_of_a_decoder_are_kept(file: str, function: str, shape: tuple[int, int], tmp_path: Path) -> None:
    captured = capture_workload(DECODER, None, Cache(tmp_path / "cache"), task=f"{file}:{function}")
    assert captured.metric == "perplexity"
    (ids,) = load_tensors(captured.task_path)["input"]
    assert ids.shape == shape and ids.dtype == np.int64


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("labelled", "the tokens are the labels"),
        ("one_row", "one sequence a row"),
        ("halves", "give token ids"),
        ("long", "at most 24 tokens a sequence"),
        ("large", "ids below 97"),
    ],
)
def test_sequences_that_do_not_fit_are_one_line(file: str, function: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(CaptureError) as caught:
        capture_workload(DECODER, None, Cache(tmp_path / "cache"), task=f"{file}:{function}")
    assert words in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["task.py", "task.txt:right", "nowhere.py:right", ":right"])
def test_what_names_no_function_is_told_at_once(text: str) -> None:
    with pytest.raises(UsageError):
        file_of_task(text)
