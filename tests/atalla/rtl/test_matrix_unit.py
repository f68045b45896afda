"""Matrix unit: in simulation, bit by bit against the definitions, and edge by edge against the closed form."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from atalla.errors import AtallaError, InputError
from atalla.rtl import ROWS, SIZES, MatrixUnit, build
from atalla.rtl.build import SOURCES, VARIABLE
from atalla.rtl.cycles import chain, matmul
from atalla.run.reference_bf16 import linear

pytestmark = pytest.mark.slow
INT8_ODD = torch.tensor([-128, -127, -1, 0, 1, 127], dtype=torch.int8)
INFINITY, NAN = float("inf"), float("nan")
LEAST = 2.0**-126
BF16_ODD = torch.tensor(
    [0.0, -0.0, 1.0, -1.0, LEAST, -LEAST, LEAST / 2, -(2.0**-133), 2.0**-63, 2.0**-64, -(2.0**-63), 3.3e38, -3.3e38]
).bfloat16()
"""Zeros, the smallest normal number, subnormals, what multiplies to them, and what overflows."""


@pytest.fixture(params=[SIZES[0], *(pytest.param(size, marks=pytest.mark.nightly) for size in SIZES[1:])])
def unit(request: pytest.FixtureRequest) -> Iterator[MatrixUnit]:
    with MatrixUnit(request.param) as made:
        yield made


def drawn(values: torch.Tensor, *shape: int) -> torch.Tensor:
    """Return a tensor of some of these values."""
    return values[torch.randint(len(values), shape)]


def any_int8(*shape: int) -> torch.Tensor:
    return torch.randint(-128, 128, shape, dtype=torch.int8)


def any_bf16(*shape: int) -> torch.Tensor:
    return torch.randint(-(2**15), 2**15, shape, dtype=torch.int16).view(torch.bfloat16)


def same_bits(found: torch.Tensor, wanted: torch.Tensor) -> bool:
    """Whether float32 are the same, whatever a NaN is made of."""
    is_nan = wanted.isnan()
    bits = [x.masked_fill(is_nan, 0).view(torch.int32) for x in (found, wanted)]
    return torch.equal(found.isnan(), is_nan) and torch.equal(*bits)


def shapes(count: int, size: int) -> Iterator[tuple[int, int, int]]:
    """Return rows, depths and columns: edges of the unit first, then any."""
    draw = random.Random(size)
    edges = (1, size - 1, size, size + 1)
    yield from ((m, k, n) for m in edges for k in (*edges, 32, 33) for n in (1, size + 1))
    yield from ((draw.randint(1, 90), draw.randint(1, 140), draw.randint(1, 70)) for _ in range(count))


def test_int8_is_exact_and_takes_the_cycles_of_the_closed_form(unit: MatrixUnit) -> None:
    torch.manual_seed(0)
    for m, k, n in shapes(60, unit.size):
        a, b = any_int8(m, k), any_int8(k, n)
        found = unit.matmul_int8(a, b)
        assert torch.equal(found.sums, a.int() @ b.int())
        assert found.cycles == matmul(m, k, n, unit.size), (m, k, n)
        assert found.compute_cycles == -(-n // unit.size) * chain(m, k, unit.size)


def test_int8_of_extremes(unit: MatrixUnit) -> None:
    torch.manual_seed(0)
    a, b = drawn(INT8_ODD, 70, 300), drawn(INT8_ODD, 300, 70)
    assert torch.equal(unit.matmul_int8(a, b).sums, a.int() @ b.int())
    least = torch.full((33, 1000), -128, dtype=torch.int8)
    assert (unit.matmul_int8(least, least.t()).sums == 128 * 128 * 1000).all()


def test_int8_with_a_zero_point_by_the_sums_it_begins_with(unit: MatrixUnit) -> None:
    torch.manual_seed(0)
    a, b = any_int8(40, 77), any_int8(77, 35)
    for zero in (-128, 3, 127):
        start = (-zero * b.int().sum(0, dtype=torch.int32)).expand(40, -1)
        assert torch.equal(unit.matmul_int8(a, b, start).sums, (a.int() - zero) @ b.int())


def test_int8_wraps_and_adds_across_products(unit: MatrixUnit) -> None:
    torch.manual_seed(0)
    a, b, most = any_int8(9, 100), any_int8(100, 50), 2**31
    start = torch.randint(-most, most, (9, 50)).int()
    found = unit.matmul_int8(a, b, start)
    assert torch.equal(found.sums, start + a.int() @ b.int())
    assert found.cycles == matmul(9, 100, 50, unit.size, accumulate=True)
    parts = unit.matmul_int8(a[:, 64:], b[64:], unit.matmul_int8(a[:, :64], b[:64], start).sums)
    assert torch.equal(parts.sums, found.sums)


def test_more_rows_than_accumulators(unit: MatrixUnit) -> None:
    torch.manual_seed(0)
    a, b = any_int8(ROWS + 5, 40), any_int8(40, 9)
    found = unit.matmul_int8(a.numpy(), b.numpy())
    assert torch.equal(found.sums, a.int() @ b.int()) and found.cycles == matmul(ROWS + 5, 40, 9, unit.size)


def test_bf16_is_the_reference_and_takes_the_cycles_of_the_closed_form(unit: MatrixUnit) -> None:
    torch.manual_seed(0)
    for m, k, n in shapes(40, unit.size):
        a, b = torch.randn(m, k).bfloat16(), torch.randn(k, n).bfloat16()
        found = unit.matmul_bf16(a, b)
        assert same_bits(found.sums, linear(a, b.t(), None)), (m, k, n)
        assert found.cycles == matmul(m, k, n, unit.size), (m, k, n)


def test_bf16_of_any_bits(unit: MatrixUnit) -> None:
    """Every exponent, NaN and infinity among them: few products in depth, so not all sums are NaN."""
    torch.manual_seed(0)
    for depth in (1, 2, 3, 8, 40):
        a, b = any_bf16(100, depth), any_bf16(depth, 100)
        assert same_bits(unit.matmul_bf16(a.view(torch.uint16).numpy(), b).sums, linear(a, b.t(), None))


def test_bf16_of_what_underflows_overflows_and_cancels(unit: MatrixUnit) -> None:
    torch.manual_seed(0)
    for depth in (1, 2, 5, 31, 32, 33, 70):
        a, b = drawn(BF16_ODD, 60, depth), drawn(BF16_ODD, depth, 60)
        start = drawn(torch.tensor([0.0, -0.0, LEAST, -LEAST / 4, 1.0]), 60, 60)
        assert same_bits(unit.matmul_bf16(a, b).sums, linear(a, b.t(), None))
        assert same_bits(unit.matmul_bf16(a, b, start).sums, linear(a, b.t(), start))
    special = torch.cat([BF16_ODD, torch.tensor([INFINITY, -INFINITY, NAN]).bfloat16()])
    a, b = drawn(special, 90, 3), drawn(special, 3, 90)
    assert same_bits(unit.matmul_bf16(a, b).sums, linear(a, b.t(), None))


def test_bf16_near_the_smallest_normal_number_and_of_near_equals(unit: MatrixUnit) -> None:
    """Products around 2^-126, and pairs whose sum is a few bits of what they are."""
    torch.manual_seed(0)
    for depth in (2, 4, 34):
        a = (torch.randn(80, depth) * 2.0**-63).bfloat16()
        b = torch.randn(depth, 80).mul(2.0**-62).bfloat16()
        assert same_bits(unit.matmul_bf16(a, b).sums, linear(a, b.t(), None))
        start = -linear(a, b.t(), None) * (1 + 2.0**-20)
        assert same_bits(unit.matmul_bf16(a, b, start).sums, linear(a, b.t(), start))
    a = torch.randn(60, 64).bfloat16()
    a[:, 2::4] = -a[:, 0::4]  # the even sum's next product takes the last one back
    b = torch.randn(64, 1).bfloat16().expand(64, 40).clone()
    b[2::4] = b[0::4]
    assert same_bits(unit.matmul_bf16(a, b).sums, linear(a, b.t(), None))


def test_pauses_change_no_bit(unit: MatrixUnit) -> None:
    """Rows that are offered with gaps, and then without, would overtake those of their address."""
    torch.manual_seed(0)
    for seed in range(1, 12):
        m, k, n = seed, 30 * seed, 40
        a, b = any_int8(m, k), any_int8(k, n)
        with MatrixUnit(unit.size, stalls=seed) as stalled:
            found = stalled.matmul_int8(a, b)
            assert torch.equal(found.sums, a.int() @ b.int()) and found.cycles > matmul(m, k, n, unit.size)
    with MatrixUnit(unit.size, stalls=7) as stalled:
        x, y = torch.randn(6, 200).bfloat16(), torch.randn(200, 40).bfloat16()
        assert same_bits(stalled.matmul_bf16(x, y).sums, linear(x, y.t(), None))


def test_what_does_not_fit_is_refused(unit: MatrixUnit) -> None:
    with pytest.raises(InputError, match="no product"):
        unit.matmul_int8(any_int8(2, 3), any_int8(2, 3))
    with pytest.raises(InputError, match=r"int8 here, not torch\.int32"):
        unit.matmul_int8(any_int8(2, 3).int(), any_int8(3, 2))
    with pytest.raises(InputError, match="begin with"):
        unit.matmul_int8(any_int8(2, 3), any_int8(3, 2), torch.zeros(2, 3, dtype=torch.int32))
    assert unit.matmul_int8(any_int8(2, 0), any_int8(0, 2)).sums.tolist() == [[0, 0], [0, 0]]


FAULTS = {
    "sign dropped": ("matrix_unit.sv", "32'($signed(b))", "32'(b)"),
    "plane not changed": ("matrix_unit.sv", "{!plane, (LANE + 1)'(0)}", "{plane, (LANE + 1)'(0)}"),
    "a row may overtake": ("matrix_unit.sv", "&& !on_its_way", ""),
    "ties go away from zero": ("bf16_math.sv", "(total[38:0] != 0 || total[40])", "1"),
    "subnormals are kept at 2^-126": ("bf16_math.sv", "at == 0 && &total[63:40]", "at == 0"),
    "digits fall off": ("bf16_math.sv", "shifted = smaller >>", "shifted = (smaller & ~64'hfffffff) >>"),
    "even and odd exchanged": ("matrix_unit.sv", "begins[c] ? 32'd0 : even", "begins[c] ? 32'd0 : odd"),
}  # fmt: skip


@pytest.mark.nightly
@pytest.mark.parametrize("name", FAULTS)
def test_faults_are_found(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))
    sources = tmp_path / "rtl"
    shutil.copytree(SOURCES, sources)
    file, right, wrong = FAULTS[name]
    text = (sources / file).read_text()
    assert text.count(right) == 1
    (sources / file).write_text(text.replace(right, wrong))
    torch.manual_seed(0)
    with MatrixUnit(8, sources, stalls=5 if "overtake" in name else 0) as unit:
        if file == "bf16_math.sv" or "odd" in name:
            small = (torch.randn(80, 34) * 2.0**-63).bfloat16(), torch.randn(34, 80).mul(2.0**-62).bfloat16()
            plain = torch.randn(80, 40).bfloat16(), torch.randn(40, 80).bfloat16()
            ties = torch.tensor([[1.0, 0.0, 2.0**-24]]).bfloat16(), torch.ones(3, 1).bfloat16()
            pairs = (small, plain, ties)
            assert not all(same_bits(unit.matmul_bf16(a, b).sums, linear(a, b.t(), None)) for a, b in pairs)
        else:
            a, b = any_int8(3, 400), any_int8(400, 20)
            assert not torch.equal(unit.matmul_int8(a, b).sums, a.int() @ b.int())


def test_sources_that_verilator_refuses_are_told_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))
    shutil.copytree(SOURCES, tmp_path / "rtl")
    (tmp_path / "rtl" / "matrix_unit.sv").write_text("module matrix_unit; oops endmodule\n")
    with pytest.raises(AtallaError, match=r"^verilator\w* failed \(status 1\): .*rror") as caught:
        build(8, "int8", tmp_path / "rtl")
    assert "\n" not in str(caught.value)
    assert not list((tmp_path / "cache" / "rtl").iterdir())
