"""Free batch: the file is right at any batch size, and what is wrong never replaces what was there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch

from cross_backend.cache import Cache
from cross_backend.errors import CaptureError, CrossBackendError, LowerError, UsageError
from cross_backend.exporting.onnx_file import export_onnx_file
from cross_backend.lowering import free_batch
from cross_backend.lowering.free_batch import write_onnx
from cross_backend.workloads import find_workload

MODEL = """
import torch

class Net(torch.nn.Module):
    def __init__(self, run):
        super().__init__()
        self.linear, self.run = torch.nn.Linear(4, 3), run
    def forward(self, x):
        return self.run(self.linear(x))

def pair(): return Net(lambda y: (y.relu(), y.argmax(-1))), torch.arange(4.0)[None]
def fixed(): return Net(lambda y: y.reshape(1, -1)[:, :3] if y.shape[0] == 2 else y), torch.ones(1, 4)
def expands(): return Net(lambda y: y + torch.zeros(2, 1)), torch.ones(1, 4)
class Sum(torch.nn.Module):
    def forward(self, *tensors): return sum(tensors)
def any_number(): return Sum(), (torch.ones(1, 4), torch.arange(4.0)[None])
def two_rows(): return Net(lambda y: y), torch.ones(2, 4)
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(MODEL)
    return path


def test_the_file_takes_any_batch_and_is_right(model: Path, tmp_path: Path, cache: Cache) -> None:
    path = tmp_path / "net.onnx"
    size_bytes = export_onnx_file(find_workload(f"{model}:pair"), path, cache, 300)
    assert path.stat().st_size == size_bytes
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    assert [value.shape for value in session.get_inputs()] == [["batch", 4]]
    assert [value.shape for value in session.get_outputs()] == [["batch", 3], ["batch"]]
    rows = np.random.default_rng(0).standard_normal((17, 4)).astype(np.float32)
    whole = session.run(None, {session.get_inputs()[0].name: rows})
    alone = [session.run(None, {session.get_inputs()[0].name: row[None]}) for row in rows]
    for index, output in enumerate(whole):
        assert np.allclose(output, np.concatenate([one[index] for one in alone]), atol=1e-6)
    assert {p.name for p in tmp_path.iterdir()} - {"__pycache__"} == {"mine.py", "net.onnx", "cache"}
    assert not list((cache.root / "tmp").iterdir())


def test_a_program_that_was_exported_with_a_free_batch(tmp_path: Path, cache: Cache) -> None:
    batch = torch.export.Dim("rows")
    program = torch.export.export(torch.nn.Linear(4, 2), (torch.ones(2, 4),), dynamic_shapes=({0: batch},))
    torch.export.save(program, tmp_path / "net.pt2")
    write_onnx(str(tmp_path / "net.pt2"), None, tmp_path / "net.onnx", cache)
    session = onnxruntime.InferenceSession(tmp_path / "net.onnx", providers=["CPUExecutionProvider"])
    assert session.get_inputs()[0].shape == ["batch", 4]


def test_a_model_may_take_any_number_of_inputs(model: Path, tmp_path: Path, cache: Cache) -> None:
    write_onnx(f"{model}:any_number", None, tmp_path / "net.onnx", cache)
    session = onnxruntime.InferenceSession(tmp_path / "net.onnx", providers=["CPUExecutionProvider"])
    assert [value.shape for value in session.get_inputs()] == [["batch", 4]] * 2


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("fixed", "mine_fixed cannot take a free batch dimension: "),
        ("expands", "mine_expands cannot take a free batch dimension: "),
        ("two_rows", r"example input 0 has the shape \[2, 4\]"),
    ],
)
def test_a_model_that_cannot_says_so(model: Path, tmp_path: Path, cache: Cache, function: str, message: str) -> None:
    with pytest.raises(CaptureError, match=message) as caught:
        write_onnx(f"{model}:{function}", None, tmp_path / "net.onnx", cache)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "net.onnx").exists()


def test_a_fixed_program_says_so(tmp_path: Path, cache: Cache) -> None:
    torch.export.save(torch.export.export(torch.nn.Linear(4, 2), (torch.ones(1, 4),)), tmp_path / "net.pt2")
    with pytest.raises(CaptureError, match=r"net\.pt2 was exported with a fixed batch"):
        write_onnx(str(tmp_path / "net.pt2"), None, tmp_path / "net.onnx", cache)


def test_an_onnx_file_is_no_source(tmp_path: Path, cache: Cache) -> None:
    (tmp_path / "net.onnx").write_bytes(b"any")
    with pytest.raises(UsageError, match="is an ONNX file already"):
        export_onnx_file(find_workload(str(tmp_path / "net.onnx")), tmp_path / "other.onnx", cache, 60)


def test_a_wrong_file_never_replaces_what_was_there(
    model: Path, tmp_path: Path, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(b"before")
    real = free_batch.export_onnx

    def wrong(program: torch.export.ExportedProgram, file: Path) -> None:
        other = torch.export.export(
            torch.nn.Linear(4, 3), program.example_inputs[0], dynamic_shapes=({0: torch.export.Dim("batch")},)
        )
        real(other, file)

    monkeypatch.setattr(free_batch, "export_onnx", wrong)
    with pytest.raises(LowerError, match="is wrong at a batch of 1"):
        write_onnx(f"{model}:pair", None, path, cache)
    assert path.read_bytes() == b"before"


def test_a_place_that_cannot_be_written_is_said(model: Path, tmp_path: Path, cache: Cache) -> None:
    with pytest.raises((CrossBackendError, OSError), match="nowhere"):
        export_onnx_file(find_workload(f"{model}:pair"), tmp_path / "nowhere" / "net.onnx", cache, 300)
