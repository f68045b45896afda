"""Low precision: why a target of it is not faster than float32, and what conversions take."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from cross_backend.placement import Arithmetic, Operators, Placement
from cross_backend.records import Agreement, Panel, Result, Timing
from cross_backend.report.low_precision import agreements, conversion_share, facts, not_faster
from tests.unit.report.conftest import ranked
from tests.unit.report.studies import MACHINE

MIXED = Arithmetic((Operators("QConv", 9),), (Operators("Swish", 7), Operators("Mean", 2)), 40)
WHOLE = Arithmetic((Operators("QConv", 9),), (), 0)


def of(title: str, rank: int, target: str, arithmetic: Arithmetic | None = None) -> Result:
    return replace(ranked(title, rank, float(rank)), target=target, placement=Placement(arithmetic=arithmetic))


def told(*results: Result) -> list[str]:
    return not_faster(Panel("net", results, 0.03, {"threads": 1, "platform": None}, MACHINE, found_from=0.05))


def test_a_slower_one_says_what_stayed_and_what_converts() -> None:
    low = of("X int8", 2, "x?precision=int8", MIXED)
    assert told(of("X", 1, "x"), low) == [
        "X int8 is not faster than X: 9 operators stay in float (Swish × 7, Mean × 2) and 40 conversions remain."
    ]
    assert told(of("X", 1, "x"), replace(low, rank=1)), "a tie is not faster either"


def test_one_that_computes_all_of_it_gains_nothing_here() -> None:
    (sentence,) = told(of("X", 1, "x"), of("X int8", 2, "x?precision=int8", WHOLE))
    assert sentence.endswith("its 9 operators compute in it, and gain nothing on this processor.")


@pytest.mark.parametrize(
    "others",
    [
        [of("X", 2, "x"), of("X int8", 1, "x?precision=int8", MIXED)],
        [of("Y", 1, "y"), of("X int8", 2, "x?precision=int8", MIXED)],
        [of("X", 1, "x?threads=2"), of("X int8", 2, "x?precision=int8&threads=1", MIXED)],
        [of("X", 1, "x"), of("X fp16", 2, "x?precision=fp16")],
    ],
    ids=["it is faster", "another backend", "other options", "nothing is known"],
)
def test_nothing_is_said_without_a_pair_that_says_it(others: list[Result]) -> None:
    assert told(*others) == []


def test_the_certificate_is_shown() -> None:
    assert facts(Placement()) == []
    assert facts(Placement(arithmetic=MIXED)) == [
        ("low precision", "QConv × 9"),
        ("in float", "Swish × 7, Mean × 2"),
        ("conversions", "40 between the two"),
    ]


@pytest.mark.parametrize(
    ("name", "converts"),
    [
        *((name, True) for name in ("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "Convert (NC)")),
        *((name, True) for name in ("EW dequantize_per_tensor_3", "torchao::choose_qparams_affine", "Reorder")),
        *((name, False) for name in ("DynamicQuantizeMatMul", "FullyConnectedQuantizedLegacy", "QLinearConv")),
        ("Convolution (NHWC, QC8) IGEMM", False),
    ],
)
def test_what_converts_is_known_by_its_name_in_each_runtime(name: str, converts: bool) -> None:
    rows = [Timing(name, "operator", 1, 1.0), Timing("Conv", "operator", 1, 3.0)]
    assert conversion_share(rows) == (0.25 if converts else 0.0)


def test_an_empty_profile_has_no_share() -> None:
    assert conversion_share([]) == 0.0


def test_agreement_with_float32_is_a_sentence() -> None:
    def said(found: Agreement) -> list[str]:
        results = (of("X", 1, "x"), replace(of("X int8", 2, "x?precision=int8"), agreement=found))
        return agreements(Panel("net", results, 0.03, {"threads": 1, "platform": None}, MACHINE, found_from=0.05))

    (scores,) = said(Agreement("x", 32, 0.96875, 1.0, (21.4,), 7, 9.6))
    assert scores == (
        "X int8 agrees with X on the top class of 96.9 % of 32 inputs (top-5: 100 %); "
        "SQNR 21 dB, worst input (7): 10 dB."
    )
    assert said(Agreement("x", 1, None, None, (math.inf, -math.inf), 0, -math.inf)) == [
        "X int8 beside X on 1 input; SQNR of each output equal, none, worst input (0): none."
    ]
