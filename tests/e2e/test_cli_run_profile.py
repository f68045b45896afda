"""``run --profile``: the time of every iteration, and the runtime's own profile as a table of its own."""

import json

import pytest

from cross_backend.report.tables import PROFILE_ROWS

QUICK = ("--num-runs", "30", "--seconds", "1", "--profile")
MANIFESTS = ("xnnpack", "portable", "onnxruntime", "openvino", "torch")


@pytest.mark.parametrize("name", MANIFESTS)
def test_document_has_profile_and_iterations(name, linear, cli, document):
    result = cli("run", linear / f"linear_regression_{name}.json", *QUICK, "--json")
    found = document(result)
    assert result.stderr == ""
    latency, rows = found["results"][0]["latency_ms"], found["profile"]
    assert latency["n"] == 30 == len(found["iterations_ms"])
    assert min(found["iterations_ms"]) <= latency["median"] <= max(found["iterations_ms"])
    assert 1 <= found["profile_runs"] <= 20
    assert rows and all(set(row) == {"name", "kind", "calls", "ms", "share"} for row in rows)
    assert sum(row["share"] for row in rows) == pytest.approx(1) or sum(row["ms"] for row in rows) == 0
    assert [row["ms"] for row in rows] == sorted((row["ms"] for row in rows), reverse=True)


def test_latency_is_measured_without_the_profiler(linear, cli, document):
    """torch's profiler costs a call of this program many times its duration; no iteration may show that."""
    plain = document(cli("run", linear / "linear_regression_torch.pt2", "--num-runs", "200", "--json"))
    profiled = document(cli("run", linear / "linear_regression_torch.pt2", "--num-runs", "200", "--json", "--profile"))
    assert "profile" not in plain and "iterations_ms" not in plain
    before, after = (found["results"][0]["latency_ms"]["median"] for found in (plain, profiled))
    assert after < 3 * before


def test_table_follows_the_result_and_says_that_it_disturbs(linear, cli, plain):
    result = cli("run", linear / "linear_regression_xnnpack.pte", *QUICK)
    assert result.returncode == 0 and result.stderr == ""
    head, _, table = result.stdout.partition("Profile of 20 more runs")
    assert "outputs are right" in head and "ms median" in head
    assert "the first 10 of 30" in head
    assert "slows the program down" in table and "share" in table
    assert "XnnpackBackend" in table and "Fully Connected" in table
    plain(result.stdout)


def test_few_iterations_are_all_shown(linear, cli):
    result = cli("run", linear / "linear_regression_portable.pte", "--num_runs", "7", "--profile")
    assert result.returncode == 0, result.stderr
    (line,) = [line for line in result.stdout.splitlines() if "iterations:" in line]
    assert line.count(",") == 6 and "…" not in line
    assert "Profile of 7 more runs" in result.stdout


def test_long_profiles_are_cut_in_text_and_whole_in_json(cli, tmp_path, document):
    names = "abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac log1p neg relu round rsqrt sigmoid sign"
    names += " sin sinh sqrt square tan tanh trunc exp2 log log2 log10 selu sinc digamma"
    (tmp_path / "many.py").write_text(
        "import torch\n"
        f"NAMES = {names.split()!r}\n"
        "class Many(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        x = x.abs() * 0.1 + 0.5\n"
        "        return sum(getattr(torch, name)(x) for name in NAMES)\n"
        "def model():\n    return Many(), torch.rand(2, 3)\n"
    )
    made = tmp_path / "made"
    exported = cli("export", f"{tmp_path / 'many.py'}:model", "--backends", "torch", "--output-dir", made)
    assert exported.returncode == 0, exported.stderr
    rows = document(cli("run", made / "many_model_torch.pt2", *QUICK, "--json"))["profile"]
    assert len(rows) > PROFILE_ROWS
    shown = cli("run", made / "many_model_torch.pt2", *QUICK).stdout
    assert shown.count("aten::") == PROFILE_ROWS
    assert f"… and {len(rows) - PROFILE_ROWS} more; --json has all" in shown


def test_a_backend_without_a_profiler_keeps_its_latency(cli, faulty, tmp_path, complaint):
    """The result is printed, then one line says why the table is missing."""
    made = tmp_path / "made"
    exported = cli("export", "linear_regression", "--backends", "faulty.right", "--output-dir", made, **faulty)
    assert exported.returncode == 0, exported.stderr
    (manifest,) = made.glob("*.json")
    result = cli("run", manifest, *QUICK, **faulty)
    complaint(result, 1, "faulty.right has no profiler that this version reads")
    assert "outputs are right" in result.stdout and "iterations:" in result.stdout
    asked = cli("run", manifest, *QUICK, "--json", **faulty)
    complaint(asked, 1, "no profiler")
    found = json.loads(asked.stdout)
    assert found["profile"] is None and found["results"][0]["outcome"] == "OK"


def test_best_of_a_folder_is_not_passed_over_for_its_profile(cli, faulty, tmp_path, complaint):
    made = tmp_path / "made"
    targets = ("faulty.right", "faulty.slow")
    exported = cli("export", "linear_regression", "--backends", *targets, "--output-dir", made, **faulty)
    assert exported.returncode == 0, exported.stderr
    result = cli("run", made, *QUICK, **faulty)
    complaint(result, 1, "faulty.right has no profiler")
    assert "on faulty.right" in result.stdout and "faulty.slow" not in result.stdout + result.stderr


def test_profile_and_input_do_not_go_together(linear, cli, usage_error):
    usage_error(cli("run", linear / "linear_regression_xnnpack.pte", "--profile", "--input", "1,2,3,4"), "--profile")
