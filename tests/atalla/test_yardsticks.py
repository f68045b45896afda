"""What the benchmarks of cycles read: reports of SCALE-Sim and Vela, as those wrote them, beside our own counts."""

from __future__ import annotations

import csv
import importlib
from pathlib import Path
from typing import Any

import pytest

from atalla.device import Hardware, estimate
from atalla.run.device import DryProgram

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"
SIZES = (8, 16, 32)


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Give what imports a script of the benchmarks."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module


def products(script: Any) -> list[Any]:
    with (DATA / "scalesim_topology.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return [script("_products").Product(int(row["M"]), int(row["K"]), int(row["N"])) for row in rows]


@pytest.mark.parametrize("size", SIZES)
def test_tiles_take_the_cycles_of_scale_sim_and_an_edge(script: Any, size: int) -> None:
    reports = script("_scalesim").parse((DATA / f"scalesim_report_{size}.csv").read_text())
    asked = dict(zip(products(script), reports, strict=True))
    benchmark = script("atalla_scalesim")
    for product, report in asked.items():
        found = benchmark.compared(product, size, lambda part, _: asked[part])
        assert found.exact
        assert found.theirs == pytest.approx(report.utilisation)  # as SCALE-Sim works it out itself
        assert 0 < found.theirs - found.alone < benchmark.CLAIM
        assert found.alone <= found.overlapped
        assert found.device < found.unit <= found.overlapped + 1e-9


def test_a_tile_that_takes_more_is_noticed(script: Any) -> None:
    (report, *_) = script("_scalesim").parse((DATA / "scalesim_report_8.csv").read_text())
    product = products(script)[0]
    other = type(report)(report.cycles - 1, 0, report.utilisation, report.mapping)
    assert not script("atalla_scalesim").compared(product, 8, lambda *_: other).exact


def test_waiting_for_memory_is_noticed(script: Any) -> None:
    waited = script("_scalesim").Report(1000, 1, 50.0, 100.0)
    with pytest.raises(AssertionError, match="waited for memory"):
        script("atalla_scalesim").compared(products(script)[0], 8, lambda *_: waited)


def test_products_are_cut_by_rows(script: Any) -> None:
    parts = script("_products").Product(2500, 3, 4).parts(1024)
    assert [(part.rows, part.depth, part.columns) for part in parts] == [(1024, 3, 4), (1024, 3, 4), (452, 3, 4)]


def test_layers_of_the_networks(script: Any) -> None:
    networks = {name: make() for name, make in script("_products").NETWORKS.items()}
    assert {name: len(found) for name, found in networks.items()} == {
        "ResNet-50": 54, "BERT-base": 12 * (4 + 24 + 2), "MobileNetV2, 1 × 1": 35
    }  # fmt: skip
    assert sum(product.macs for product in networks["ResNet-50"]) == 4_089_184_256


def test_a_product_is_a_program(script: Any) -> None:
    product = script("_products").Product(49, 160, 96)
    (counted,) = DryProgram(script("_gemm").blob(product)).simulate(Hardware()).instructions
    assert (counted.operation, counted.macs) == ("QGEMM", product.macs)


def test_both_fidelities_agree_on_products_in_little_room(script: Any) -> None:
    """What only the vector unit waits for is loaded to where it still reads; the products behind it wait, too."""
    for product in ((49, 1024, 2048), (196, 1024, 512), (49, 512, 2048)):
        dry = DryProgram(script("_gemm").blob(script("_products").Product(*product)))
        for kib in (32, 64, 128, 256):
            (one,) = estimate(dry.simulate(Hardware(scratchpad_bytes=kib << 10)))
            assert abs(one.error) <= 0.03, (product, kib, one)


def test_the_report_of_vela(script: Any) -> None:
    layers = script("_vela").parse((DATA / "vela_mobilenet_v2_ethos_u85_1024.csv").read_text())
    kinds = [layer.operator for layer in layers]
    assert (len(kinds), kinds.count("DepthwiseConv2D")) == (53, 17)
    assert (layers[0].cycles, layers[0].computing, layers[0].macs) == (53_109, 38_031, 112 * 112 * 32 * 27)
    assert layers[-1].macs == 1280 * 1000
    dense = [layer.macs for layer in layers if layer.operator == "Conv2D"]
    assert dense[1:] == [product.macs for product in script("_products").mobilenet_v2()]


def test_ranks(script: Any) -> None:
    benchmark = script("atalla_vela")
    assert benchmark.ranks([3, 1, 3, 2, 3]) == [3, 0, 3, 1, 3]
    assert benchmark.spearman([1, 2, 3, 4], [10, 20, 3000, 4e9]) == pytest.approx(1)
    assert benchmark.spearman([1, 2, 3, 4, 5], [5, 6, 7, 8, 7]) == pytest.approx(0.8207826816681233)  # as SciPy says


def test_a_table_belongs_to_the_product_before_it(script: Any) -> None:
    class One:
        def __init__(self, operation: str, cycles: int, macs: int = 0) -> None:
            self.operation, self.cycles, self.macs = operation, cycles, macs

    given = (
        ("GATHER", 9),
        ("EW", 3),
        ("QCONV2D", 10, 7),
        ("GATHER", 4),
        ("EW", 5),
        ("QDWCONV2D", 6, 2),
        ("QGEMM", 1, 1),
    )
    found = script("atalla_vela").layers([One(*one) for one in given])
    assert [(one.operation, one.cycles, one.product, one.macs) for one in found] == [
        ("QCONV2D", 14, 10, 7), ("QDWCONV2D", 6, 6, 2), ("QGEMM", 1, 1, 1)
    ]  # fmt: skip


@pytest.mark.slow
def test_layers_of_mobilenet_stand_in_the_order_of_vela(script: Any) -> None:
    benchmark = script("atalla_vela")
    theirs = script("_vela").parse((DATA / "vela_mobilenet_v2_ethos_u85_1024.csv").read_text())
    blob = script("_blobs").captured("mobilenet_v2").blob("int8")
    ours = benchmark.layers(DryProgram(blob).simulate(Hardware()).instructions)
    assert [one.macs for one in ours] == [one.macs for one in theirs]
    assert benchmark.spearman([one.cycles for one in ours], [one.cycles for one in theirs]) >= benchmark.CLAIM
