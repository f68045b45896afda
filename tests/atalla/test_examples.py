"""The examples: each runs as its README says, and prints what it promises."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples" / "atalla"


def printed(name: str, *arguments: str) -> str:
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_capture_basics() -> None:
    out = printed("export_basics.py")
    assert "output torch.Size([128, 128])" in out and "output torch.Size([32, 64])" in out
    assert re.search(r"call_function +relu +aten\.relu\.default", out) and "torch.ops.aten.linear.default(" in out
    assert "input p_0_weight: parameter 0.weight" in out
    assert "3 × aten.linear.default" in out and "output sum 8.0000" in out


@pytest.mark.slow
def test_explore_the_graph() -> None:
    out = printed("explore_fx_graph.py")
    assert re.search(r"call_function +mul +aten\.mul\.Tensor +\(4, 8\)", out)
    assert "mul: op=call_function target=aten.mul.Tensor args=(linear, sigmoid) kwargs={}" in out
    assert "def forward(self, p_value_weight," in out
    assert re.search(r"GEMM +sigmoid:f32\[4×8\]@arena.* explore_fx_graph\.py:\d+ in forward \(gate\)", out)


@pytest.mark.slow
def test_the_prototype_of_a_backend() -> None:
    out = printed("my_accel_backend_prototype.py")
    assert re.search(r"2 × aten\.linear\.default +supported", out)
    assert re.search(r"1 × aten\.sort\.default +fallback: no instruction does it", out)
    assert "Compiling graph -> " in out and re.search(r"Program length: \d+ instructions, [\d,]+ bytes", out)
    assert len(re.findall(r"EXECUTING ON ATALLA \(\w+\), call \d", out)) == 2
    assert len(re.findall(r"1  CALL_HOST  sort +[\d.]+ µs", out)) == 2
    first, second = re.findall(r"output \(8, 4\), sum (\S+), equal to eager", out)
    assert first != second


@pytest.mark.slow
def test_the_whole_pipeline(tmp_path: Path) -> None:
    out = printed("backend_pipeline_demo.py", str(tmp_path / "m.atalla"))
    partition = out.split("== Compile")[0].splitlines()[1:-1]
    assert [line.split()[2] for line in partition] == ["accelerator", "fallback", "accelerator"]
    readme = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert "\n".join(partition) in readme, "the README shows what it prints"
    assert f"blob {(tmp_path / 'm.atalla').stat().st_size:,} bytes" in out
    assert out.count("equal to eager") == 2
