"""``study``: run, status, report, diff and export, their exit statuses, and what they say of wrong input."""

import csv
import ctypes
import json
import os
import sqlite3
from dataclasses import replace

import pytest

from cross_backend.measurement import Measurement
from cross_backend.store import Store
from cross_backend.study.spec import StudySpec

TARGETS = ("onnxruntime.cpu", "faulty.right")
DROP_FROM_BOUNDING_SET, DAC_OVERRIDE, DAC_READ_SEARCH = 24, 1, 2
COMMANDS = (("report", "small"), ("status",), ("diff", "small", "small"), ("export", "small", "samples.csv"))


def without_power():
    """Give up what lets root write where nobody may; called between fork and exec."""
    if os.geteuid() == 0:
        for power in (DAC_OVERRIDE, DAC_READ_SEARCH):
            assert ctypes.CDLL(None).prctl(DROP_FROM_BOUNDING_SET, power, 0, 0, 0) == 0


@pytest.fixture(scope="module")
def small(cli, faulty, write_study, tmp_path_factory):
    """A finished study of two panels: (how it ended, its folder with the database and three reports)."""
    folder = tmp_path_factory.mktemp("small")
    reports = ["small.html", "reports/small.md", "small.json"]
    output = {"reports": reports, "db": "small.sqlite"}
    write_study(folder / "small.yaml", ["linear_regression"], TARGETS, (1, 4), output, instruments=["memory"])
    return cli("study", "run", "small.yaml", cwd=folder, **faulty), folder


@pytest.fixture
def reading(cli, small):
    """Run an action on that study's database."""
    return lambda *args, **more: cli("study", *args, "--db", small[1] / "small.sqlite", cwd=small[1], **more)


def test_a_study_prints_its_ranking_and_is_done(small, plain):
    result, _ = small
    assert result.returncode == 0, result.stderr
    plain(result.stdout + result.stderr)
    assert "cross-backend study: small" in result.stdout
    for title in (
        "Fastest of each panel",
        "Ranking",
        "ONNX Runtime (CPU)",
        "Right",
        "is detected with 95 % power",
    ):
        assert title in result.stdout
    for batch in (1, 4):
        panel = f"linear_regression, batch {batch}, 1 thread"
        for what in ("launch 1", "launch 2", "further measurements of Right"):
            assert f"{panel}: {what}: stored" in result.stderr
        assert f"{panel}: fastest" in result.stderr and "2 of 2 targets verified" in result.stderr


def test_its_reports_are_written(small, reading, document):
    _, folder = small
    assert "<html" in (folder / "small.html").read_text()
    assert "linear\\_regression | 4 | 1 |" in (folder / "reports" / "small.md").read_text()
    written = json.loads((folder / "small.json").read_text())
    assert document(reading("report", "small", "--json")) == written
    assert [path.name for path in folder.rglob("*.part")] == []


def test_the_document_tells_of_every_cell(small):
    found = json.loads((small[1] / "small.json").read_text())
    assert found["schema"] == 2 and found["study"] == "small" and found["finished"] is True
    assert [(panel["workload"], panel["batch"], panel["launches"]) for panel in found["panels"]] == [
        ("linear_regression", 1, 2), ("linear_regression", 4, 2),
    ]  # fmt: skip
    assert all(panel["noise_floor"] > 0 for panel in found["panels"])
    cells = [(row["workload"], row["batch"], row["threads"], row["target"]) for row in found["results"]]
    assert cells == [("linear_regression", batch, 1, target) for batch in (1, 4) for target in TARGETS]
    for row in found["results"]:
        assert row["outcome"] == "OK" and row["rank"] in {1, 2} and row["error"]["verdict"] is True
        assert row["latency_ms"]["n"] >= 12 and row["failures"] == {}
        measured = {metric["metric"]: metric["n"] for metric in row["measurements"]}
        assert measured["cold_start.load"] == 2 and measured["memory.peak_rss"] == 1


def test_status_counts_what_is_stored(reading, document):
    (row,) = document(reading("status", "--json"))["studies"]
    assert (row["name"], row["panels"], row["panels_asked"], row["launches"]) == ("small", 2, 2, 4)
    assert row["finished"] and row["samples"] > 0
    shown = reading("status", "small")
    assert shown.returncode == 0 and "2 of 2" in shown.stdout and "finished" in shown.stdout


def test_a_report_is_printed_or_written(small, reading, tmp_path):
    shown = reading("report", "1")
    assert shown.returncode == 0 and shown.stderr == ""
    assert shown.stdout == small[0].stdout
    written = reading("report", "small", "-o", tmp_path / "a.html", tmp_path / "b.json")
    assert written.returncode == 0 and written.stdout == "" and "a.html" in written.stderr
    assert json.loads((tmp_path / "b.json").read_text()) == json.loads((small[1] / "small.json").read_text())


@pytest.mark.slow
def test_every_sample_is_exported(reading, document, tmp_path):
    (row,) = document(reading("status", "--json"))["studies"]
    for name in ("samples.csv", "samples.parquet"):
        found = document(reading("export", "small", tmp_path / name, "--json"))
        assert found == {"schema": 1, "path": str(tmp_path / name), "rows": row["samples"]}
    with (tmp_path / "samples.csv").open(newline="") as file:
        samples = list(csv.DictReader(file))
    assert len(samples) == row["samples"]
    assert {sample["target"] for sample in samples} == set(TARGETS)
    assert {"latency", "memory.peak_rss", "cold_start.import"} <= {sample["metric"] for sample in samples}


def test_nothing_changed_between_a_study_and_itself(reading, document):
    shown = reading("diff", "small", "1")
    assert shown.returncode == 0 and "slower" not in shown.stdout and "faster" not in shown.stdout
    found = document(reading("diff", "small", "1", "--json"))
    assert found["regressed"] is False and {row["verdict"] for row in found["rows"]} <= {"same", "cannot tell"}
    assert [row["ratio"]["value"] for row in found["rows"]] == [1.0] * 4


def steady(result, factor):
    """A result with durations that hardly differ, in the rounds that it has: a busy machine must not decide a test."""
    rounds = tuple(tuple(factor * (1000 + i % 3) for i, _ in enumerate(row)) for row in result.latency.rounds)
    return replace(result, latency=Measurement("latency", "ns", rounds, result.latency.launches))


def test_what_became_slower_is_status_1(small, reading, document):
    """Two studies like the finished one, of quiet durations; those of one target are 1.5 × as long in the second."""
    with Store.open(str(small[1] / "small.sqlite")) as store:
        old = store.study(store.find("small").id)
        for name, factor in (("quiet", 1), ("slow", 1.5)):
            new = store.begin(name, old.spec, old.digest, old.machine, old.versions)
            for spec in StudySpec.from_json(old.spec).panels():
                for number, launch in enumerate(store.launches(old.id, spec.key)):
                    results = tuple(steady(one, by) for one, by in zip(launch.results, (1, factor), strict=True))
                    twin = steady(launch.twin, (1, factor)[launch.twin_of])
                    store.keep_launch(new.id, spec.key, number, replace(launch, results=results, twin=twin))
                store.finish_panel(new.id, spec.key)
            store.finish(new.id)
    found = document(reading("diff", "quiet", "slow", "--margin", "50%", "--json"), 1)
    assert found["regressed"] is True and found["margin"] == 0.5
    assert [row["verdict"] for row in found["rows"]] == ["same", "slower"] * 2
    shown = reading("diff", "quiet", "slow")
    assert shown.returncode == 1 and "2 slower" in shown.stdout and shown.stderr == ""
    for on, status in (("never", 0), ("wrong", 0), ("slower", 1), ("cannot-tell", 1)):
        assert reading("diff", "quiet", "slow", "--fail-on", on).returncode == status
    told = reading("diff", "quiet", "quiet", "--margin", "0.1%", "--fail-on", "cannot-tell")
    assert told.returncode == 1 and "4 cannot tell" in told.stdout and "0.1 % is not ruled out" in told.stdout
    assert "wronger" in reading("diff", "quiet", "slow", "--fail-on", "wronger").stderr


def test_a_dry_run_measures_nothing(cli, document, faulty, write_study, tmp_path):
    targets = (*TARGETS, "directml")
    file = write_study(tmp_path / "s.yaml", ["linear_regression", "resnet50"], targets, (1, 4))
    args = ("study", "run", file, "--dry-run", "--db", tmp_path / "s.sqlite")
    shown = cli(*args, cwd=tmp_path, **faulty)
    assert shown.returncode == 0, shown.stderr
    assert "4 panels; 8 of 12 cells can run here; about " in shown.stdout and "An estimate" in shown.stdout
    found = document(cli(*args, "--json", cwd=tmp_path, **faulty))
    assert len(found["cells"]) == 12 and found["panels"] == 4
    assert 0 < found["estimated_s"][0] < found["estimated_s"][1]
    assert {cell["outcome"] for cell in found["cells"] if "directml" in cell["target"]} == {"UNAVAILABLE"}
    assert [path.name for path in tmp_path.iterdir()] == ["s.yaml"]


def test_a_dry_run_knows_what_the_cache_holds(small, cli, document, faulty, write_study, tmp_path):
    """The finished study lowered this; a batch that nobody asked for is still to be captured."""
    file = write_study(tmp_path / "s.yaml", ["linear_regression"], TARGETS, (1, 4, 16))
    args = ("study", "run", file, "--dry-run", "--db", tmp_path / "s.sqlite")
    found = document(cli(*args, "--json", cwd=tmp_path, **faulty))
    assert [cell["cached"] for cell in found["cells"]] == [True] * 4 + [False] * 2
    shown = cli(*args, cwd=tmp_path, **faulty).stdout
    assert shown.count("capture, lower, measure") == 2


MISTAKES = """
workloads: [linear_regresion]
targets: [cpu, xnpack]
settings:
  secnds: 5
"""


def test_every_mistake_of_a_file_is_told(cli, tmp_path):
    (tmp_path / "s.yaml").write_text(MISTAKES)
    result = cli("study", "run", tmp_path / "s.yaml", "--db", tmp_path / "s.sqlite")
    assert result.returncode == 2 and result.stdout == ""
    lines = result.stderr.splitlines()
    assert len(lines) == 3 and "Traceback" not in result.stderr
    for line, (place, word) in zip(
        lines, {"2:": "linear_regression", "3:": "xnnpack", "5:": "seconds"}.items(), strict=True
    ):
        assert f"s.yaml:{place}" in line and f"Did you mean '{word}'?" in line
    assert not (tmp_path / "s.sqlite").exists()


WRONG = {
    "no file": (("run", "none.yaml"), "none.yaml"),
    "no YAML": (("run", "broken.yaml"), "broken.yaml:2:1: not YAML"),
    "a margin": (("run", "s.yaml", "--margin", "200%"), "--margin: "),
    "an ending": (("run", "s.yaml", "--output", "s.pdf"), "'.pdf'"),
    "a folder": (("run", "s.yaml", "--output", "s.yaml/s.html"), "cannot write to"),
    "a database": (("run", "s.yaml", "--db", "mysql://host/name"), "no database is kept at mysql://"),
    "no action": (("rum",), "rum"),
    "an ending of a report": (("report", "small", "-o", "s.docx"), "'.docx'"),
    "an ending of a table": (("export", "small", "s.xlsx"), ".parquet"),
    "an unknown study": (("report", "smal"), "Did you mean 'small'?"),
    "an unknown number": (("status", "77"), "'77'"),
    "one unknown study": (("diff", "small", "none"), "'none'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_usage_is_one_line_and_status_2(case, small, cli, usage_error, write_study, tmp_path):
    write_study(tmp_path / "s.yaml", ["linear_regression"], ["cpu"])
    (tmp_path / "broken.yaml").write_text("workloads: [a\n")
    args, words = WRONG[case]
    place = () if args[0] == "run" or "--db" in args else ("--db", small[1] / "small.sqlite")
    extra = {"CROSS_BACKEND_DB": str(tmp_path / "new.sqlite")}
    usage_error(cli("study", *args, *place, cwd=tmp_path, **extra), words)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broken.yaml", "s.yaml"], "nothing was begun"


STRANGE = {
    "a report above": ({"reports": ["../notes.md"]}, "'../notes.md', which is not in the folder", "--output"),
    "a report anywhere": ({"reports": ["{}/notes.md"]}, "/notes.md', which is not in the folder", "--output"),
    "a report on a file": ({"reports": ["mine.md"]}, "mine.md exists and is no report of cross-backend", "--output"),
    "a database above": ({"db": "../studies.sqlite"}, "'../studies.sqlite', which is not in the folder", "--db"),
    "a database through a link": ({"db": "up/studies.sqlite"}, "which is not in the folder", "--db"),
}


@pytest.mark.parametrize("case", STRANGE)
def test_a_study_of_a_stranger_touches_nothing_of_the_users(case, cli, usage_error, write_study, tmp_path):
    folder = tmp_path / "downloaded"
    folder.mkdir()
    for path in (tmp_path / "notes.md", folder / "mine.md"):
        path.write_text("precious")
    (folder / "up").symlink_to("..")
    output, *words = STRANGE[case]
    output = json.loads(json.dumps(output).replace("{}/", f"{tmp_path}/"))
    file = write_study(folder / "s.yaml", ["linear_regression"], ["cpu"], output=output)
    usage_error(cli("study", "run", file, cwd=tmp_path, CROSS_BACKEND_DB=str(tmp_path / "new.sqlite")), *words)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["downloaded", "notes.md"], "nothing was begun"
    assert (tmp_path / "notes.md").read_text() == (folder / "mine.md").read_text() == "precious"


def test_the_user_says_where_what_a_study_names_goes(cli, faulty, write_study, tmp_path):
    output, short = (
        {"reports": ["reports/small.md"], "db": "small.sqlite"},
        {"seconds": 0.1, "launches": 1, "max_launches": 1},
    )
    file = write_study(tmp_path / "small.yaml", ["linear_regression"], ["faulty.right"], output=output, **short)
    done = cli("study", "run", file, "--output-dir", tmp_path / "out", cwd=tmp_path, **faulty)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "reports" / "small.md").is_file() and (tmp_path / "out" / "small.sqlite").is_file()
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["small.yaml"]


@pytest.mark.parametrize("args", COMMANDS, ids=lambda args: args[0])
def test_without_a_database_reading_says_so_and_makes_none(args, cli, complaint, tmp_path):
    result = cli("study", *args, "--db", tmp_path / "none.sqlite", cwd=tmp_path)
    complaint(result, 1, "there is no database at", "none.sqlite")
    assert result.stdout == "" and list(tmp_path.iterdir()) == []


@pytest.fixture
def copy(small, tmp_path):
    """A copy of the database, with all in one file, to be damaged."""
    with sqlite3.connect(small[1] / "small.sqlite") as source, sqlite3.connect(tmp_path / "copy.sqlite") as target:
        source.backup(target)
    source.close()
    target.close()
    return tmp_path / "copy.sqlite"


def spoil(how, path):
    if how == "damaged":
        data = path.read_bytes()
        path.write_bytes(data[:4096] + bytes(len(data) - 4096))
    elif how == "no database":
        path.write_text("workloads: [linear_regression]\n" * 100)
    else:
        with sqlite3.connect(path) as connection:
            connection.execute("UPDATE schema_version SET version = version + 1")
        connection.close()


@pytest.mark.parametrize(
    ("how", "words"),
    [("damaged", "damaged"), ("no database", "no SQLite database"), ("newer", "version 2, this program knows 1")],
)
def test_a_database_that_cannot_be_used_is_one_line(how, words, copy, cli, complaint, write_study, tmp_path):
    spoil(how, copy)
    file = write_study(tmp_path / "small.yaml", ["linear_regression"], ["cpu"])
    before = copy.read_bytes()
    for args in (("report", "small"), ("run", file)):
        result = cli("study", *args, "--db", copy, cwd=tmp_path)
        complaint(result, 1, words)
        assert result.stdout == ""
    assert copy.read_bytes() == before, "it is left as it is"


@pytest.mark.slow
def test_a_database_that_cannot_be_written_is_read(copy, cli, small, complaint, write_study, tmp_path):
    file = write_study(tmp_path / "small.yaml", ["linear_regression"], ["cpu"])
    folder = tmp_path / "folder"
    folder.mkdir()
    copy = copy.rename(folder / copy.name)
    copy.chmod(0o444)
    folder.chmod(0o555)
    try:
        shown = cli("study", "report", "small", "--db", copy, cwd=tmp_path, preexec=without_power)
        assert shown.returncode == 0, shown.stderr
        assert shown.stdout == small[0].stdout
        result = cli("study", "run", file, "--db", copy, cwd=tmp_path, preexec=without_power)
        complaint(result, 1, "cannot be written", "--db")
    finally:
        folder.chmod(0o755)


def test_a_locked_database_is_read_and_its_writers_told(copy, small, monkeypatch, capsys, write_study, tmp_path):
    """In this process, because a command of its own waits for half a minute before it gives up."""
    from cross_backend.cli import main

    monkeypatch.setitem(Store.open.__func__.__kwdefaults__, "busy_s", 0.2)
    monkeypatch.chdir(tmp_path)
    file = write_study(tmp_path / "small.yaml", ["linear_regression"], ["cpu"])
    lock = sqlite3.connect(copy)
    lock.execute("PRAGMA journal_mode = WAL")
    lock.execute("BEGIN IMMEDIATE")
    try:
        assert main(["study", "status", "--db", str(copy)]) == 0
        assert "2 of 2" in capsys.readouterr().out
        assert main(["study", "run", str(file), "--db", str(copy), "--json"]) == 1
    finally:
        lock.close()
    out, err = capsys.readouterr()
    assert len(err.splitlines()) == 1 and "another process keeps it locked" in err
    assert "another process keeps it locked" in json.loads(out)["error"]
