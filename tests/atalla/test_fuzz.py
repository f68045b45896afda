"""Fuzz, the small form: mutated networks in the fuzzer's own program; the long one is in docs/atalla/fuzzing.md.

``ATALLA_CORPUS=FOLDER pytest tests/atalla/test_fuzz.py`` compares the loaders on what a long run has found.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from atalla.isa import Verdict
from tests.atalla import bf16_programs, int8_programs
from tests.atalla.native import executable
from tests.atalla.one_instruction import Given
from tests.atalla.test_compile import compiled
from tests.atalla.test_dynamic import compiled as any_size
from tests.atalla.test_sanitizers import ADDRESS
from tests.atalla.test_verify import c, python

FUZZ = Path(__file__).with_name("fuzz")
CORPUS = Path(os.environ.get("ATALLA_CORPUS") or FUZZ / "corpus")
SMALL = ("any_numbers", "any_mlp", "mlp", "fallback", "masked", "pools", "rms", "rows", "shapes", "whole_numbers")


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_mutated_networks_are_refused_or_run(name: str, tmp_path: Path) -> None:
    program = executable(FUZZ / "fuzz_blob.c", ADDRESS)
    made = any_size(name.removeprefix("any_")) if name.startswith("any_") else compiled(name)[0]
    (tmp_path / "blob").write_bytes(made.data)
    command = [program, "-mutations=400", tmp_path / "blob"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.mark.slow
@pytest.mark.parametrize("make", [*int8_programs.MAKERS, *bf16_programs.MAKERS])
def test_mutated_programs_of_narrow_numbers_are_refused_or_run(make: Callable[[int], Given], tmp_path: Path) -> None:
    program = executable(FUZZ / "fuzz_blob.c", ADDRESS)
    for seed in range(12):
        (tmp_path / f"{seed}").write_bytes(make(seed)[0])
    command = [program, "-mutations=400", *sorted(tmp_path.iterdir())]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.mark.slow
def test_what_the_fuzzer_kept_does_no_harm() -> None:
    program = executable(FUZZ / "fuzz_blob.c", ADDRESS)
    done = subprocess.run([program, *sorted(CORPUS.iterdir())], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]


def test_both_loaders_give_the_same_verdict_on_what_the_fuzzer_kept() -> None:
    verdicts = set()
    for file in sorted(CORPUS.iterdir()):
        data = file.read_bytes()
        assert (python(data), file.name) == (c(data), file.name)
        verdicts.add(python(data))
    assert verdicts == set(Verdict), "the corpus reaches every verdict"
