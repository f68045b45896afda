"""Two profiles side by side: whatever a runtime calls its products, each is found in the program again."""

from __future__ import annotations

import pytest

from cross_backend.comparison.side_by_side import NOWHERE, by_operation, parts
from cross_backend.exporting.operations import Operation
from cross_backend.records import SideBySide, Timing
from cross_backend.report.side_by_side import answer


def _made(*operators: str) -> tuple[Operation, ...]:
    return tuple(
        Operation(i, f"{name}_{i}", name, f"block.{i}", f"net.py:{i} forward", ()) for i, name in enumerate(operators)
    )


def _steps(*names: str, ms: float = 1.0) -> tuple[Timing, ...]:
    return tuple(Timing(name, "operator", 1, ms) for name in names)


NET = _made("conv2d", "batch_norm", "relu", "linear", "scaled_dot_product_attention", "linear")


@pytest.mark.parametrize(
    ("steps", "products"),
    [
        (("FusedConv", "Gemm", "Attention", "MatMul"), [0, 3, 4, 5]),
        (("aten::conv2d", "aten::addmm", "aten::scaled_dot_product_attention", "aten::linear"), [0, 3, 4, 5]),
        (
            ("Convolution (NHWC, F32) IGEMM", "Fully Connected", *["Batch Matrix Multiply"] * 2, "Fully Connected"),
            [0, 3, 4, 5],
        ),
        (("convolution.out", "addmm.out", "bmm.out", "_softmax.out", "bmm.out", "addmm.out"), [0, 3, 4, 5]),
        (("Reorder", "Convolution", "FullyConnected", "Subgraph", "FullyConnected"), [0, 3, 5]),
        (("QuantizeLinear", "QLinearConv", "QLinearMul", "QGemm", "MatMulNBits", "QGemm"), [0, 3, 4, 5]),
        (("CONV2D conv2d", "COPY conv2d", "GEMM linear", "ATTENTION sdpa", "GEMM linear_1"), [0, 3, 4, 5]),
    ],
)  # fmt: skip
def test_products_are_found_in_every_vocabulary(steps: tuple[str, ...], products: list[int]) -> None:
    found = by_operation(_steps(*steps), NET)
    assert found is not None and sorted(found) == products
    assert sum(len(rows) for rows in found.values()) == len(steps), "every row belongs to something"


def test_what_joins_products_is_not_told_apart() -> None:
    assert by_operation(_steps("Conv", "Gemm"), NET) is None
    assert by_operation(_steps("Convert", "linearly"), NET) is None
    assert by_operation((), NET) is None and by_operation(_steps("Conv"), ()) is None


def test_the_largest_difference_comes_first_and_a_delegate_is_a_part_of_its_own() -> None:
    made = _made("conv2d", "relu", "linear")
    fast = by_operation(_steps("Conv", "Relu", "Gemm"), made)
    slow = by_operation((*_steps("conv", ms=1.5), *_steps("fc linear", ms=9.0), Timing("D", "delegate", 1, 3.0)), made)
    assert fast is not None and slow is not None and slow[NOWHERE][0].name == "D"
    modules, lines = parts(made, fast, slow)
    assert [part.name for part in modules] == ["block.2", "the delegate itself", "block.0"]
    assert [round(part.slower_by, 6) for part in modules] == [8.0, 3.0, -0.5]
    assert [part.line for part in lines] == ["net.py:2 forward", "", "net.py:0 forward"]
    assert modules[2].a.operators == ("Conv", "Relu"), "what follows a product counts to it"
    found = SideBySide("a", "b", _steps("Conv", ms=3.0), _steps("conv", ms=13.5), modules, lines)
    assert answer(found) == (
        "b takes 10.500 ms more than a (13.500 against 3.000 ms, as profiled), most in block.2 (+8.000 ms), the "
        "delegate itself (+3.000 ms)."
    )
    turned = SideBySide("b", "a", found.profile_b, found.profile_a, *parts(made, slow, fast))
    assert answer(turned) == answer(found)
