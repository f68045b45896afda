"""Fitting: at any width no word is broken, no line is longer than the terminal, and names stay."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cross_backend.report import fitting
from cross_backend.report.tables import Table

RANKING = Table(
    "",
    ("", "Backend", "ratio", "median", "size", "top-1 accuracy"),
    (
        ("1.", "ONNX Runtime (CPU)", "1", "2.29 ms", "10.4 MB", "98.9 %"),
        ("2.", "XNNPACK", "12", "12 ms", "9 B", "98 %"),
    ),
    (2, 3, 4, 5),
)
WORDS = st.text("abcdefghij/_:", min_size=1, max_size=14)
TEXTS = st.lists(WORDS, max_size=5).map(" ".join)


@pytest.mark.parametrize(
    ("width", "headers"),
    [
        (64, ("", "Backend", "ratio", "median", "size", "top-1 accuracy")),
        (54, ("", "Backend", "ratio", "median", "top-1 accuracy")),
        (42, ("", "Backend", "ratio", "median")),
        (26, ("", "Backend", "ratio")),
    ],
)
def test_columns_go_in_one_order(width: int, headers: tuple[str, ...]) -> None:
    """The size goes before a task metric, and the median last; names fold at spaces before the median goes."""
    found = fitting.fit(RANKING, width, also=("top-1 accuracy",))
    assert found is not None and found.table.headers == headers
    assert sum(found.widths) + fitting.GAP * (len(headers) - 1) <= width


def test_what_is_the_same_in_all_rows_goes_first() -> None:
    headers, rows = ("workload", "batch", "threads"), (("mobilenet_v3_small", "1", "2"), ("resnet50", "8", "2"))
    found = fitting.fit(Table("", headers, rows, (1, 2)), 28)
    assert found is not None and found.table.headers == ("workload", "batch")
    assert fitting.fit(Table("", headers, rows, (1, 2)), 24) is None, "the batch says which row it is"


def test_a_table_without_room_is_a_block_a_row() -> None:
    assert fitting.stacked(RANKING, 30)[:5] == [
        "1. ONNX Runtime (CPU)",
        "  ratio: 1",
        "  median: 2.29 ms",
        "  size: 10.4 MB",
        "  top-1 accuracy: 98.9 %",
    ]


@given(st.lists(st.tuples(WORDS, TEXTS, TEXTS, st.integers(0, 10**9).map(str)), min_size=1, max_size=4),
       st.integers(20, 140))  # fmt: skip
def test_no_word_is_broken_and_no_line_too_long(rows: list[tuple[str, ...]], width: int) -> None:
    table = Table("", ("name", "what it is", "why", "count"), tuple(rows), (3,))
    found = fitting.fit(table, width)
    if found is None:
        lines = fitting.stacked(table, width)
        words = {word for row in rows for cell in row for word in cell.split()}
        assert words <= {word for line in lines for word in line.split()}
        assert all(len(line) <= width or len(line.split()) <= 2 for line in lines), "but of one word, and its header"
        return
    assert sum(found.widths) + fitting.GAP * (len(found.widths) - 1) <= width
    for row in found.table.rows:
        for cell, given_width in zip(row, found.widths, strict=True):
            assert max(map(len, cell.split()), default=0) <= given_width
    assert found.table.headers[0] == "name" and found.table.headers[3] == "count"


@pytest.mark.parametrize("width", [30, 60])
def test_texts_fold_between_words_below_their_first(width: int) -> None:
    text = "   - Ship XNNPACK (CPU): the fastest-by-far correct backend on this machine (AMD EPYC), 4.7 µs per call."
    first, *others = fitting.folded(text, width, 5)
    assert first.startswith("   - Ship") and all(line.startswith("     ") and line[5] != " " for line in others)
    assert " ".join(line.strip() for line in (first, *others)) == text.strip()
    assert max(map(len, (first, *others))) <= width
    assert fitting.folded("x" * 80, width) == ["x" * 80], "a longer word is not broken"
