"""``matrix``: every backend at every precision in one command, whose document, page and exit status agree."""

import json

import pytest

from cross_backend.study.matrix import Matrix, markdown

pytestmark = pytest.mark.slow  # one command of half a minute
COMMAND = ("matrix", "linear_regression", "--backends", "cpu", "xnnpack", "mps", "--seconds", "0.3")


@pytest.fixture(scope="module")
def measured(cli, tmp_path_factory):
    """Measure once: (how it ended, its folder)."""
    folder = tmp_path_factory.mktemp("matrix")
    return cli(*COMMAND, "--db", "m.sqlite", "--output", "m.json", "m.md", cwd=folder), folder


def test_every_cell_ends_with_a_figure_or_a_reason(measured, plain):
    result, folder = measured
    assert result.returncode == 0, result.stderr
    plain(result.stdout)
    found = Matrix.from_json(json.loads((folder / "m.json").read_text()))
    assert found.finished and found.models == ("linear_regression",)
    precisions = {(cell.target.partition("?")[0], cell.precision) for cell in found.cells}
    assert {("executorch.xnnpack", one) for one in ("fp32", "fp16", "int8")} <= precisions
    for cell in found.cells:
        if cell.outcome == "OK":
            assert cell.median_ms and cell.size_bytes and cell.memory_bytes and cell.coverage and cell.export_s
        else:
            assert cell.outcome in {"UNAVAILABLE", "UNSUPPORTED"} and cell.reason
    assert (folder / "m.md").read_text() == markdown(found)
    assert "linear_regression" in result.stdout and "UNAVAILABLE: " in result.stdout


def test_it_is_a_stored_study(measured, cli, document):
    _, folder = measured
    shown = document(cli("study", "report", "matrix", "--db", "m.sqlite", "--json", cwd=folder))
    assert shown["finished"] and len(shown["results"]) >= 5


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("no_model",), "unknown model 'no_model'"),
        (("linear_regression", "--output", "m.csv"), "must end in .json or .md"),
        (("linear_regression", "--backends", "xnpack"), "unknown backend 'xnpack'"),
        (("linear_regression", "--seconds", "0.01"), "--seconds: a number from 0.1"),
    ],
)
def test_wrong_usage_is_one_line(given, said, cli, tmp_path):
    result = cli("matrix", *given, "--db", "m.sqlite", cwd=tmp_path)
    assert result.returncode == 2 and said in result.stderr and "Traceback" not in result.stderr
