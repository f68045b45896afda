"""Quantised: the operator with the largest own error costs most, and the fewest that hold a limit are kept."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from cross_backend.cache import Cache
from cross_backend.comparison.settings import Settings
from cross_backend.errors import UnsupportedError
from cross_backend.localization.keep_out import keep_out, mix
from cross_backend.localization.localize import costs
from cross_backend.localization.quantised import drop, estimated_costs, fewest, layer_costs, sqnr_db
from cross_backend.localization.torch_whole import TorchWhole
from cross_backend.program.capture import capture
from cross_backend.program.flattening import flatten
from cross_backend.program.writing import write_program

X = torch.ones(4, 8)


def _net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 4))


def test_an_operator_is_charged_with_its_own_error_alone() -> None:
    whole = TorchWhole(flatten(capture(_net(), (X,))), [X.numpy()])
    values = whole.values([np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)])
    everything = range(len(whole.units))
    assert layer_costs(whole, values, [(everything, values)]) == (), "nothing is off"
    rough = values["linear_1"] + np.float32(0.1)
    got = {"linear": values["linear"] + np.float32(1e-4)}
    got["relu"] = whole.compute(["relu"], {"linear": got["linear"]})["relu"]
    got["linear_1"] = whole.compute(["linear_1"], {"relu": got["relu"]})["linear_1"] + np.float32(0.1)
    got["tanh"] = whole.compute(["tanh"], {"linear_1": got["linear_1"]})["tanh"]
    got["linear_2"] = whole.compute(["linear_2"], {"tanh": got["tanh"]})["linear_2"]
    rows = layer_costs(whole, values, [(everything, got)])
    assert [row.node for row in rows] == ["linear_1", "linear"]
    assert rows[0].output_sqnr_db < rows[1].output_sqnr_db
    assert rows[0].sqnr_db == pytest.approx(sqnr_db([values["linear_1"]], [rough]), abs=0.1)


def test_an_operator_of_a_wide_range_is_estimated_to_cost_most() -> None:
    net = _net()
    with torch.no_grad():
        net[2].get_parameter("bias")[0] = 200.0  # one value stretches the steps of all, and tanh hides it
    whole = TorchWhole(flatten(capture(net, (X,))), [X.numpy()])
    rng = np.random.default_rng(0)
    rows = [whole.values([rng.standard_normal((4, 8)).astype(np.float32)]) for _ in range(4)]
    still = {**rows[0], "relu": np.zeros_like(rows[0]["relu"])}
    assert estimated_costs(whole, still, [1], [still]) == (), "zeros are not rounded"
    found = estimated_costs(whole, rows[0], range(len(whole.units)), rows)
    assert found[0].node == "linear_1" and all(row.is_estimated for row in found)
    assert found[0].output_sqnr_db < found[1].output_sqnr_db - 6
    one = next(row for row in found if row.node == "linear")
    low, high = min(row["linear"].min() for row in rows), max(row["linear"].max() for row in rows)
    step = (max(high, 0) - min(low, 0)) / 255
    x = rows[0]["linear"]
    assert one.sqnr_db == pytest.approx(10 * math.log10((x**2).mean() / (step**2 / 12)), abs=2), "of uniform rounding"


def test_sqnr_of_equal_values_is_infinite_and_of_a_tenth_20_db() -> None:
    x = np.ones((2, 2), np.float32)
    assert sqnr_db([x], [x]) == math.inf
    assert sqnr_db([x], [x * np.float32(1.1)]) == pytest.approx(20, abs=0.01)


def test_a_drop_counts_other_classes_and_else_the_relative_error() -> None:
    classes = [[np.array([[0.1, 0.9]])], [np.array([[0.8, 0.2]])]]
    assert drop(classes, [[np.array([[0.4, 0.6]])], [np.array([[0.3, 0.7]])]]) == 0.5
    field = [[np.ones((1, 2, 4, 4))]]
    assert drop(field, [[np.ones((1, 2, 4, 4)) * 1.1]]) == pytest.approx(0.1)


@pytest.mark.parametrize("needed", [0, 1, 2, 3, 5, 8, 11])
def test_the_fewest_are_found(needed: int) -> None:
    asked: list[int] = []

    def drop_of(count: int) -> float:
        asked.append(count)
        return 0.0 if count >= needed else 0.5

    assert fewest(11, drop_of, 0.1) == needed
    assert len(set(asked)) <= 8


def test_a_limit_that_never_holds_is_none() -> None:
    assert fewest(5, lambda _count: 0.5, 0.1) is None


def test_only_quantised_targets_are_mixed(tmp_path: Path) -> None:
    folder = tmp_path / "net"
    folder.mkdir()
    captured = write_program(flatten(capture(_net(), (torch.randn(4, 8),))), "net", folder)
    with pytest.raises(UnsupportedError, match=r"is not quantised; --max-drop takes a target such as"):
        mix(captured, "cpu", 0.01, cache=Cache(tmp_path / "cache"), settings=Settings())


@pytest.mark.slow
def test_operators_are_kept_in_float_until_the_drop_holds(tmp_path: Path) -> None:
    folder = tmp_path / "net"
    folder.mkdir()
    captured = write_program(flatten(capture(_net(), (torch.randn(64, 8),))), "net", folder)
    cache, settings = Cache(tmp_path / "cache"), Settings()
    loose = mix(captured, "openvino?precision=int8", 1.0, cache=cache, settings=settings)
    assert loose.nodes == () and loose.count == 1
    assert loose.drop is not None and loose.drop > 0
    tight = mix(captured, "openvino?precision=int8", 0.0, cache=cache, settings=settings)
    assert tight.nodes and tight.drop == 0.0 and tight.drop_before == loose.drop
    assert tight.elsewhere == "openvino?precision=fp32"


@pytest.mark.slow
def test_what_a_quantiser_leaves_alone_is_computed_in_float(tmp_path: Path) -> None:
    folder = tmp_path / "net"
    folder.mkdir()
    captured = write_program(flatten(capture(_net(), (torch.randn(4, 8),))), "net", folder)
    kept = keep_out(captured, "cpu?precision=int8", ["linear_1"], cache=Cache(tmp_path / "cache"), settings=Settings())
    assert kept.count == 3 and kept.right
    kept = keep_out(
        captured, "cpu?precision=int8", ["linear", "linear_1"], cache=Cache(tmp_path / "cache"), settings=Settings()
    )
    assert kept.count == 4 and kept.right, "int8 changes nothing of relu alone"


@pytest.mark.slow
def test_values_are_asked_for_as_rows_where_a_compiler_refuses_several_dimensions(tmp_path: Path) -> None:
    folder, asked = tmp_path / "net", []
    folder.mkdir()
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.Hardswish(), nn.Conv2d(8, 8, 3, groups=8), nn.Flatten(), nn.Linear(512, 4)
    )
    captured = write_program(flatten(capture(net.eval(), (torch.randn(1, 3, 12, 12),))), "net", folder)
    cache = Cache(tmp_path / "cache")
    rows = costs(
        captured,
        "xnnpack?precision=int8",
        cache=cache,
        settings=Settings(),
        observe=lambda doing, _: asked.append(doing),
    )
    assert {"conv2d", "conv2d_1", "linear"} <= {row.node for row in rows}
    whole = "operators 1 to 5 and all their values"
    assert asked in ([whole], [whole, f"{whole} as rows"]), "halves were not needed"
    assert not any(row.is_estimated for row in rows)
