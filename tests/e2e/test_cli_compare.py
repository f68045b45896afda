"""``compare``: the ranked, verified table and its JSON contract."""

import json
import re

import pytest

from cross_backend.comparison.settings import BOX_S, Settings

QUICK = ("--num-runs", "120", "--seconds", "1", "--launches", "1")
FIVE = {"torch.eager", "executorch.portable", "executorch.xnnpack", "onnxruntime.cpu", "openvino"}


@pytest.fixture(scope="module")
def five(linear, cli, tmp_path_factory):
    """The default comparison: (finished process, output folder)."""
    folder = tmp_path_factory.mktemp("five")
    return cli("compare", "linear_regression", *QUICK, "--json", "--output-dir", folder), folder


def test_json_contract(five, document):
    result, _ = five
    found = document(result)
    assert result.stderr == ""
    assert found["schema"] == 2 and found["machine"]["cpu"]
    assert isinstance(found["noise_floor"], float) and found["noise_floor"] > 0
    assert {row["target"] for row in found["results"]} == FIVE
    for row in found["results"]:
        contract = {"workload", "target", "outcome", "rank", "latency_ms", "error", "coverage", "size_bytes"}
        assert contract | {"export_s", "reason"} <= set(row)
        assert row["workload"] == "linear_regression" and row["outcome"] == "OK" and row["reason"] is None
        assert {"median", "low", "high", "n"} <= set(row["latency_ms"])
        assert 0 < row["latency_ms"]["low"] <= row["latency_ms"]["median"] <= row["latency_ms"]["high"]
        assert row["latency_ms"]["n"] == 120
        assert {"max_abs", "max_rel", "sqnr_db", "verdict"} <= set(row["error"])
        assert row["error"]["verdict"] is True and row["error"]["max_rel"] < 1e-4
        assert 0 < row["coverage"] <= 1 and row["size_bytes"] > 0


def test_json_tells_ratios_and_what_would_be_found(five, document):
    found = document(five[0])
    (panel,) = found["panels"]
    assert (panel["workload"], panel["batch"], panel["threads"]) == ("linear_regression", 1, 1)
    assert panel["found_from"] > 0 and panel["launches"] >= 1 and panel["settings"]["seconds"] == 1
    ratios = {row["target"]: row["ratio"] for row in found["results"]}
    assert {"value": 1.0, "low": 1.0, "high": 1.0} in ratios.values()
    for row in found["results"]:
        ratio = row["ratio"]
        assert 0 < ratio["low"] <= ratio["value"] <= ratio["high"]
        if row["rank"] == 1:
            assert ratio["low"] <= 1, "what shares the leader's rank was not told apart from it"


def test_ranks_are_places(five, document):
    ranks = sorted(row["rank"] for row in document(five[0])["results"])
    assert ranks[0] == 1
    for place, rank in enumerate(ranks, start=1):
        assert rank <= place, "a rank is one more than the number of faster targets, or shared"


def test_output_folder_holds_artifacts_and_results(five, document):
    result, folder = five
    assert json.loads((folder / "results.json").read_text()) == document(result)
    assert (folder / "linear_regression_xnnpack.pte").is_file()
    assert (folder / "linear_regression_openvino.json").is_file()


def test_results_in_the_output_folder_do_not_spoil_it(five, cli, document):
    """The folder that compare wrote is one that run takes the best of, without a warning about results.json."""
    result = cli("run", five[1], *QUICK[:4])
    assert result.returncode == 0
    assert "results.json" not in result.stderr


def test_without_a_number_launching_goes_on_until_it_is_decided(linear, cli, document):
    """Two equal targets need more launches than share 18 runs; one that is far behind is started once or twice."""
    args = ("compare", "linear_regression", "--backends", "cpu", "cpu", "null", "--num-runs", "18", "--seconds", "1")
    found = document(cli(*args, "--json"))
    assert (found["settings"]["launches"], found["settings"]["margin"]) == (None, None)
    first, second, wrong = found["results"]
    assert first["latency_ms"]["n"] == second["latency_ms"]["n"] == 18 and wrong["outcome"] == "MISMATCH"
    for row in (first, second):
        assert (row["rank"] == 1) == (row["ratio"]["low"] <= 1), "a rank is what the interval says"
    told = cli("compare", "--help").stdout
    assert f"a difference of {Settings.found_from * 100:g} % is detected with 95 % power" in " ".join(told.split())
    assert f"no launch begins after {BOX_S:g} s" in " ".join(told.split())


def test_the_same_target_twice_is_a_tie(linear, cli, document):
    """In one launch two processes of one program may differ by more than its floor; three see how much they do.

    A verdict is right in 95 of 100, so one may be wrong; three in a row may not.
    """
    args = ("--seconds", "2", "--launches", "3", "--json")
    ranks = []
    while len(ranks) < 3 and [1, 1] not in ranks:
        found = document(cli("compare", "linear_regression", "--backends", "cpu", "cpu", *args))
        assert found["settings"]["launches"] == 3 and found["settings"]["margin"] is None
        assert isinstance(found["noise_floor"], float)
        ranks.append([row["rank"] for row in found["results"]])
    assert [1, 1] in ranks, ranks


def test_closing_table_follows_the_demo(linear, cli, plain):
    result = cli("compare", "linear_regression", "--backends", "torch", "xnnpack", "cpu", "null", *QUICK)
    assert result.returncode == 0
    plain(result.stdout + result.stderr)
    shown = result.stdout
    for title in ("PyTorch", "XNNPACK (CPU)", "ONNX Runtime (CPU)"):
        took = r"[\d.,]+ (ms|µs)"
        assert re.search(rf"^\[ok\] {re.escape(title)}.*: {took} avg, {took} median$", shown, re.MULTILINE), title
    assert re.search(r"^\[fail\] Null.*MISMATCH", shown, re.MULTILINE)
    ranking = shown.index("Performance Ranking:")
    assert ranking < shown.index("Summary:")
    for word in (
        "1. ",
        "Ship ",
        "Fastest on this machine (",
        "2.718",
        "max error",
        "coverage",
        "is detected with 95 % power",
    ):
        assert word in shown[ranking:]
    assert "measure, round 30 of 30" in result.stderr and "measure, round" not in shown


def test_80_columns_are_enough_for_what_decides(linear, cli):
    result = cli("compare", "linear_regression", "--backends", "xnnpack", "cpu", "portable", *QUICK, COLUMNS="80")
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    start = next(i for i, line in enumerate(lines) if "Performance Ranking:" in line) + 2
    header, *rows = lines[start : lines.index("", start)]
    assert header.split()[:3] == ["Backend", "ratio", "median"] and len(rows) == 3
    assert re.search(r"\) +1 +", rows[0]), "the leader's own ratio is 1"
    for row in rows[1:]:
        assert re.search(r" [\d.,]+ +\[[\d.,]+, [\d.,∞]+\] +[\d.,]+ (ms|µs|ns) ", row), row
    assert max(map(len, lines[start:])) <= 80


def test_another_platform_is_verified_and_not_advised(linear, cli, document):
    args = ("compare", "linear_regression", "--platform", "android", *QUICK)
    shown = " ".join(cli(*args).stdout.split())
    assert "Ship none yet for Android: no such device was measured, only this machine (" in shown
    assert "Vulkan (GPU), the first choice for Android, was not measured." in shown and "Ship XNNPACK" not in shown
    assert "Lowered and verified here: XNNPACK (CPU) and Portable (Reference)." in shown
    found = document(cli(*args, "--json"))
    assert found["settings"]["platform"] == "android"


def test_what_fails_keeps_its_row(linear, cli, document):
    found = document(cli("compare", "linear_regression", "--backends", "null", "cpu", *QUICK, "--json"))
    null, cpu = found["results"]
    assert null["outcome"] == "MISMATCH" and null["rank"] is None and null["latency_ms"] is None
    assert null["error"]["verdict"] is False and null["reason"]
    assert cpu["outcome"] == "OK" and cpu["rank"] == 1


def test_strict_turns_a_failed_target_into_status_1(linear, cli, document):
    result = cli("compare", "linear_regression", "--backends", "null", "cpu", *QUICK, "--strict", "--json")
    assert document(result, 1)["results"][1]["rank"] == 1


def test_nothing_right_is_status_1(linear, cli, document):
    assert (
        document(cli("compare", "linear_regression", "--backends", "null", "--json"), 1)["results"][0]["rank"] is None
    )


def test_a_margin_is_an_option(linear, cli, document, usage_error):
    args = ("compare", "linear_regression", "--backends", "cpu", *QUICK[:-1], "2", "--margin")
    found = document(cli(*args, "5%", "--json"))
    settings = found["settings"]
    assert (settings["launches"], settings["margin"], settings["max_launches"]) == (2, 0.05, 15)
    assert found["results"][0]["latency_ms"]["n"] == 16, "two launches, each with its share of what 15 may use"
    usage_error(cli(*args, "200%"), "--margin", "a share from 0.001 to 0.5, such as 1%")
    assert "--margin 1%" in cli("compare", "--help").stdout


@pytest.mark.slow
def test_batches_keep_the_name_of_their_model(linear, cli, document):
    args = ("compare", "linear_regression", "--backends", "cpu", "--batch", "3", "--num-runs", "6")
    (row,) = document(cli(*args, "--json"))["results"]
    assert (row["workload"], row["batch"], row["outcome"]) == ("linear_regression", 3, "OK")
    assert "cross-backend: linear_regression, batch 3" in cli(*args).stdout


def test_digits_show_their_accuracy(cli, document):
    args = ("compare", "digits_cnn", "--backends", "torch", "cpu", "--num-runs", "60", "--seconds", "1")
    shown = cli(*args)
    assert shown.returncode == 0, shown.stderr
    assert "top-1 accuracy" in shown.stdout
    rows = document(cli(*args, "--json"))["results"]
    scores = [row["task"]["top-1 accuracy"] for row in rows]
    assert scores[0] == scores[1] and 0.95 < scores[0] <= 1


DECODER = "llama?layers=1&hidden=32&heads=2&inner=32&vocabulary=40&context=24"
HELD_OUT = """
import numpy as np

def held_out(): return np.random.default_rng(0).integers(40, size=(3, 20)), None, "perplexity"
"""


@pytest.mark.slow
def test_a_decoder_shows_its_perplexity(cli, document, tmp_path):
    (tmp_path / "mine.py").write_text(HELD_OUT)
    task = ("--task", f"{tmp_path / 'mine.py'}:held_out")
    args = ("compare", DECODER, "--backends", "torch", "cpu", "cpu?precision=int8dyn", *task, *QUICK)
    shown = cli(*args)
    assert shown.returncode == 0, shown.stderr
    assert "perplexity" in shown.stdout
    rows = document(cli(*args, "--json"))["results"]
    eager, exact, low = (row["task"]["perplexity"] for row in rows)
    assert eager == pytest.approx(exact, rel=1e-5) and eager > 10, "it was never trained"
    assert low != eager and low == pytest.approx(eager, rel=0.1)
    refused = cli("compare", "linear_regression", "--backends", "torch", *task, *QUICK)
    assert refused.returncode == 1 and "linear_regression has no perplexity" in refused.stderr


@pytest.mark.slow
def test_a_trained_decoder_loses_little_in_8_bits(cli, document):
    args = ("compare", "llama_text", "--backends", "torch", "cpu", "cpu?precision=int8dyn", "cpu?precision=int4w")
    rows = document(cli(*args, *QUICK, "--json"))["results"]
    eager, exact, eight, four = (row["task"]["perplexity"] for row in rows)
    assert 2 < eager < 6 and exact == pytest.approx(eager, rel=1e-4)
    assert eight == pytest.approx(eager, rel=0.01) and eager < four < 1.1 * eager


def test_several_models(linear, cli, document, tmp_path):
    (tmp_path / "net.py").write_text("import torch\ndef half():\n    return torch.nn.ReLU(), torch.ones(1, 2)\n")
    models = ("linear_regression", f"{tmp_path / 'net.py'}:half")
    found = document(cli("compare", *models, "--backends", "torch", *QUICK, "--json"))
    assert [row["workload"] for row in found["results"]] == ["linear_regression", "net_half"]
    assert [row["rank"] for row in found["results"]] == [1, 1]


SEVERAL = """
import torch

class Constant(torch.nn.Module):
    def forward(self):
        return torch.ones(1, 4)

def constant(): return Constant(), ()
def broken(): raise ValueError("no weights here")
"""


def test_a_model_that_cannot_be_compared_does_not_stop_the_others(linear, cli, document, tmp_path):
    (tmp_path / "nets.py").write_text(SEVERAL)
    models = (f"{tmp_path / 'nets.py'}:broken", f"{tmp_path / 'nets.py'}:constant", "linear_regression")
    args = ("compare", *models, "--backends", "cpu", "--num-runs", "6")
    found = document(cli(*args, "--json"), 1)
    assert [(row["workload"], row["rank"]) for row in found["results"]] == [("linear_regression", 1)]
    assert [row["workload"] for row in found["failed"]] == ["nets_broken", "nets_constant"]
    assert "no weights here" in found["failed"][0]["reason"] and "has no inputs" in found["failed"][1]["reason"]
    shown = cli(*args)
    assert shown.returncode == 1 and "Traceback" not in shown.stderr
    for row in found["failed"]:
        assert f"[fail] {row['reason']}" in shown.stdout.splitlines()
    assert "Ranking" in shown.stdout


def test_the_only_model_that_cannot_be_compared_is_a_document_and_a_complaint(cli, document, complaint, tmp_path):
    (tmp_path / "nets.py").write_text(SEVERAL)
    result = cli("compare", f"{tmp_path / 'nets.py'}:constant", "--backends", "cpu", "--json")
    complaint(result, 1, "nets_constant has no inputs")
    found = document(result, 1)
    assert found["results"] == [] and "has no inputs" in found["failed"][0]["reason"]


@pytest.mark.parametrize("command", [("export",), ("bundle",), ("explain", "--backend", "cpu"), ("export", "--onnx")])
def test_what_fails_is_a_document_with_json(command, cli, document, complaint, tmp_path):
    (tmp_path / "nets.py").write_text(SEVERAL)
    more = {"export": ("--backends", "cpu"), "bundle": ("--backends", "cpu"), "explain": command[1:]}[command[0]]
    more = ("--onnx", tmp_path / "x.onnx") if command[-1] == "--onnx" else more
    result = cli(command[0], f"{tmp_path / 'nets.py'}:constant", *more, "--json", cwd=tmp_path)
    complaint(result, 1, "has no inputs")
    assert document(result, 1).keys() == {"schema", "error"} and not (tmp_path / "x.onnx").exists()


def test_num_runs_and_seconds_are_upper_bounds(linear, cli, document):
    args = ("compare", "linear_regression", "--backends", "cpu", "--json")
    assert document(cli(*args, "--num-runs", "7"))["results"][0]["latency_ms"]["n"] == 7
    assert 6 <= document(cli(*args, "--seconds", "0.001"))["results"][0]["latency_ms"]["n"] < 1000
