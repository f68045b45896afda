"""Backends that crash, hang or lie: each ends with its own outcome, and the others are ranked all the same."""

import pytest

OUTCOMES = {
    "faulty.lower_segfault": ("LOWER_FAIL", "SIGSEGV"),
    "faulty.lower_raises": ("LOWER_FAIL", "RuntimeError: the vendor's compiler is unhappy"),
    "faulty.lower_nothing": ("LOWER_FAIL", "delegates 0 of 1 operators"),
    "faulty.lower_exits": ("LOWER_FAIL", "3"),
    "faulty.lower_hangs": ("TIMEOUT", "lower"),
    "faulty.load_segfault": ("LOAD_FAIL", "SIGSEGV"),
    "faulty.load_raises": ("LOAD_FAIL", "ValueError: the vendor's runtime refuses it"),
    "faulty.call_hangs": ("TIMEOUT", "verify"),
    "faulty.call_raises": ("RUN_FAIL", "ZeroDivisionError: the vendor's kernel divides by zero"),
    "faulty.call_segfault": ("RUN_FAIL", "SIGSEGV"),
    "faulty.measure_raises": ("RUN_FAIL", "the device was unplugged"),
    "faulty.writes_garbage": ("RUN_FAIL", "something that is no answer"),
    "faulty.gives_nan": ("MISMATCH", "NaN"),
    "faulty.gives_wrong": ("MISMATCH", "deviates by"),
    "faulty.gives_shape": ("MISMATCH", "shape [1] instead of [1, 1]"),
    "faulty.gives_fewer": ("MISMATCH", "0 output(s) instead of 1"),
}
"""Backend → its outcome, and what the reason must say."""
RIGHT = ("onnxruntime.cpu", "faulty.right", "torch.eager")


@pytest.mark.slow
def test_each_fault_has_its_own_outcome_and_the_others_are_ranked(linear, faulty, cli, document, tmp_path):
    """All in one comparison; it takes as long as the two that hang are waited for."""
    targets = [RIGHT[0], *OUTCOMES, *RIGHT[1:]]
    result = cli(
        "compare", "linear_regression", "--backends", *targets, "--timeout", "4", "--num-runs", "120",
        "--launches", "1", "--json",
        FAULTY_MARKS=str(tmp_path), **faulty,
    )  # fmt: skip
    assert result.stderr == ""
    rows = {row["target"]: row for row in document(result)["results"]}
    assert list(rows) == [RIGHT[0], *OUTCOMES, *RIGHT[1:]]
    ended = {target: (rows[target]["outcome"], rows[target]["reason"]) for target in OUTCOMES}
    assert {target: outcome for target, (outcome, _) in ended.items()} == {t: o for t, (o, _) in OUTCOMES.items()}
    for target, (_, said) in OUTCOMES.items():
        reason = ended[target][1]
        assert said in reason and "\n" not in reason and "Traceback" not in reason, (target, reason)
        assert rows[target]["rank"] is None and rows[target]["latency_ms"] is None, "no number without proof"
    for target in RIGHT:
        row = rows[target]
        assert row["outcome"] == "OK" and row["rank"] in {1, 2, 3}, row
        assert row["latency_ms"]["n"] == 120 and row["error"]["verdict"] is True


def test_export_keeps_what_could_be_lowered(faulty, cli, tmp_path):
    targets = ("faulty.lower_segfault", "cpu", "faulty.lower_raises", "faulty.lower_nothing", "faulty.right")
    result = cli("export", "linear_regression", "--backends", *targets, "--output-dir", tmp_path, **faulty)
    assert result.returncode == 0, result.stderr
    assert "Successfully exported 2/5 backends" in result.stdout and "Failed 3 backend(s):" in result.stdout
    assert {path.suffix for path in tmp_path.iterdir()} == {".json", ".npz", ".onnx", ".faulty"}
    assert len(list(tmp_path.glob("*.json"))) == 2


def test_a_target_with_nothing_inside_is_no_file(faulty, cli, tmp_path, document):
    args = ("export", "linear_regression", "--backends", "faulty.lower_nothing", "--output-dir", tmp_path, "--json")
    (row,) = document(cli(*args, **faulty), 1)["results"]
    assert row["outcome"] == "LOWER_FAIL" and row["path"] is None
    assert list(tmp_path.iterdir()) == []


SURVIVED = {
    "load_segfault": "SIGSEGV",
    "load_raises": "the vendor's runtime refuses it",
    "call_segfault": "SIGSEGV",
    "call_raises": "divides by zero",
    "gives_nan": "MISMATCH",
    "call_hangs": "2 s",
}


@pytest.fixture(scope="module")
def exported(faulty, cli, tmp_path_factory):
    """Artifacts that can be made and not be run."""
    folder = tmp_path_factory.mktemp("exported")
    targets = [f"faulty.{name}" for name in SURVIVED]
    result = cli("export", "linear_regression", "--backends", *targets, "--output-dir", folder, "--strict", **faulty)
    assert result.returncode == 0, result.stdout
    return folder


@pytest.mark.parametrize("name", SURVIVED)
def test_run_survives_them_too(name, exported, faulty, cli, complaint):
    manifest = exported / f"linear_regression_faulty_{name}.json"
    limit = "2" if name == "call_hangs" else "5"
    complaint(cli("run", manifest, "--timeout", limit, **faulty), 1, SURVIVED[name])


def test_third_party_backends_are_listed(faulty, cli, document):
    names = {row["name"] for row in document(cli("backends", "--json", **faulty))["backends"]}
    assert {"faulty.right", *OUTCOMES} <= names


BROKEN = {
    "is not there": "",
    "has no such class": "x = 1\n",
    "raises an ImportError": "import a_vendor_that_is_not_installed\n",
    "raises something else": "raise RuntimeError('no licence found')\n",
    "is no Python": "class Broken(:\n",
    "is abstract": "from cross_backend.backend import Backend\nclass Broken(Backend):\n    pass\n",
    "fails when asked what is missing": (
        "from cross_backend.backend import Backend\n"
        "class Broken(Backend):\n"
        "    name, title, suffix, distributions = 'broken.one', 'Broken', '.b', ()\n"
        "    def missing(self, machine): raise OSError('no driver')\n"
        "    def lower(self, *given): raise NotImplementedError\n"
        "    def load(self, artifact, options): raise NotImplementedError\n"
    ),
}


@pytest.fixture(params=BROKEN)
def broken(request, tmp_path):
    """A third party's package whose backend cannot even be imported; gives the environment that finds it."""
    site = tmp_path / "site"
    info = site / "broken-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[cross_backend.backends]\nbroken.one = broken_backend:Broken\n")
    if BROKEN[request.param]:
        (site / "broken_backend.py").write_text(BROKEN[request.param])
    return {"PYTHONPATH": str(site)}


def test_broken_package_is_listed_with_its_reason(broken, cli, document):
    found = {row["name"]: row for row in document(cli("backends", "--json", **broken))["backends"]}
    assert found["broken.one"]["lower"]["reason"] and found["broken.one"]["run"]["reason"]
    assert found["onnxruntime.cpu"]["lower"] is None, "the others are not affected"


def test_broken_package_keeps_its_row_in_a_comparison(broken, linear, cli, document):
    args = ("compare", "linear_regression", "--backends", "broken.one", "cpu", "--num-runs", "12", "--json")
    bad, good = document(cli(*args, **broken))["results"]
    assert bad["outcome"] != "OK" and bad["reason"] and bad["rank"] is None
    assert good["outcome"] == "OK" and good["rank"] == 1


@pytest.mark.parametrize(
    ("target", "told", "timed"),
    [("faulty.elsewhere", "not on GPU: 0.7 %", True), ("faulty.emulated", "an emulator", False)],
)
def test_run_says_where_an_artifact_ran(target, told, timed, faulty, cli, document, tmp_path):
    exported = cli("export", "linear_regression", "--backends", target, "--output-dir", tmp_path, **faulty)
    assert exported.returncode == 0, exported.stderr
    args = ("run", *tmp_path.glob("*.json"), "--num-runs", "60", "--seconds", "1")
    shown = cli(*args, **faulty)
    assert shown.returncode == 0 and "outputs are right" in shown.stdout
    assert f"[warn] {told}" in shown.stdout and ("ms median" in shown.stdout) is timed
    (row,) = document(cli(*args, "--json", **faulty))["results"]
    assert row["unranked"].startswith(told) and (row["latency_ms"] is not None) is timed
