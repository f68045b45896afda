"""``compare --on``: lowered here, measured there; one table a machine, a summary, a page for a design document."""

import json
import sys

import psutil
import pytest

from cross_backend.worker.child import SCRATCH_VARIABLE

MODEL = "linear_regression"
QUICK = ("--num-runs", "60", "--seconds", "1", "--launches", "1")


def ours(far):
    """Give the processes there that are ours."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(SCRATCH_VARIABLE, "").startswith(str(far.cache)):
                found.append(process)
        except psutil.Error:
            continue
    return found


@pytest.fixture(scope="module")
def both(linear, cli, far, there, tmp_path_factory):
    """A comparison here and there: (finished process, the page)."""
    page = tmp_path_factory.mktemp("decision") / "decision.md"
    targets = ("--backends", "portable", "atalla", "mps")
    result = cli(
        "compare", MODEL, *targets, "--on", "local", there, *QUICK, "--json", "--decision", page,
        CROSS_BACKEND_SSH=far.command,
    )  # fmt: skip
    return result, page


@pytest.mark.slow
def test_each_machine_has_its_panel(both, document, far):
    found = document(both[0])
    assert [panel["place"] for panel in found["panels"]] == ["local", "ssh://there"]
    assert all(panel["machine"]["cpu"] and panel["lost"] is None for panel in found["panels"])
    rows = {(row["place"], row["target"]): row for row in found["results"]}
    for place in ("local", "ssh://there"):
        for target in ("executorch.portable", "atalla"):
            assert rows[place, target]["outcome"] == "OK" and rows[place, target]["latency_ms"]["n"] >= 6
        assert rows[place, "executorch.mps"]["outcome"] == "UNAVAILABLE"
    metrics = {one["metric"] for one in rows["ssh://there", "atalla"]["measurements"]}
    assert "cold_start.load" in metrics and "cold_start.process" not in metrics, "two clocks say nothing of each other"
    assert not ours(far) and not list(far.cache.glob("scratch/*")) and not list(far.cache.glob("blobs/*.part"))


@pytest.mark.slow
def test_the_page_says_what_to_ship_where(both):
    page = both[1].read_text()
    assert page.startswith("# Which backend to ship\n")
    for words in ("on local", "on ssh://there", "What changes between devices", "UNAVAILABLE", "cross-backend compare"):
        assert words in page


@pytest.mark.slow
def test_text_has_a_table_a_machine_and_a_summary(both, cli, far, there, plain):
    command = ("compare", MODEL, "--backends", "portable", "atalla", "--on", there, "local", *QUICK)
    result = cli(*command, CROSS_BACKEND_SSH=far.command)
    assert result.returncode == 0, result.stderr
    plain(result.stdout)
    assert f"cross-backend: {MODEL} on ssh://there\n" in result.stdout
    assert result.stdout.count("Performance Ranking") == 2
    assert "What to ship on each device" in result.stdout and "fastest" in result.stdout.splitlines()[-1]


@pytest.mark.slow
def test_what_was_measured_there_orders_a_bundle(linear, cli, far, there, new_memory, document, tmp_path):
    cache = new_memory()
    result = cli(
        "compare", MODEL, "--backends", "portable", "xnnpack", "atalla", "--on", there, *QUICK,
        cache=cache, CROSS_BACKEND_SSH=far.command,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    args = ("bundle", MODEL, "--platform", "linux", "--measured", "--output-dir", tmp_path, "--json")
    found = document(cli(*args, cache=cache, timeout=600))
    (evidence,) = found["evidence"]
    assert (evidence["place"], evidence["threads"], evidence["targets"]) == ("ssh", 1, 3)
    assert {row["name"] for row in evidence["rows"]} == {f"{MODEL}_xnnpack", f"{MODEL}_portable"}
    assert found["orders"]["linux"][:2] == [row["name"] for row in evidence["rows"]]
    assert found["why"]["linux"].startswith("measured on ")


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("ssh://nowhere.invalid", "its name is unknown"),
        ("ssh://127.0.0.1:1", "nothing listens on that port"),
        ("ssh://there?python=/bin/false", "has no usable Python"),
        ("ssh://there?python=/nowhere/python", "has no usable Python"),
        ("gopher://there", "is no place"),
    ],
)
def test_what_cannot_be_reached_is_one_line(address, words, cli, far, complaint):
    result = cli("compare", MODEL, "--backends", "portable", "--on", address, CROSS_BACKEND_SSH=far.command)
    complaint(result, 2 if "gopher" in address else 1, words)


@pytest.mark.slow
def test_one_machine_that_is_gone_stops_no_other(cli, far, there, document):
    command = ("compare", MODEL, "--backends", "portable", "atalla", *QUICK, "--json")
    result = cli(*command, "--on", "ssh://nowhere.invalid", there, CROSS_BACKEND_SSH=far.command)
    assert result.returncode == 1
    found = json.loads(result.stdout)
    assert [panel["place"] for panel in found["panels"]] == ["ssh://there"]
    assert [one["workload"] for one in found["failed"]] == ["ssh://nowhere.invalid"]


@pytest.mark.slow
@pytest.mark.parametrize("killed", ["client", "command"])
def test_a_connection_that_breaks_leaves_nothing_there(killed, start, streams, until, far, there):
    """What was measured is kept, and told; every process there ends."""
    command = ("compare", MODEL, "--backends", "portable", "atalla", "--launches", "3", "--seconds", "60")
    process = start(*command, "--num-runs", "100000000", "--json", "--on", there, CROSS_BACKEND_SSH=far.command)
    until(lambda: len(ours(far)) >= 4, "three targets are open there", of=process)
    if killed == "command":
        process.kill()
        process.wait()
    else:
        (master,) = (child for child in process.children(recursive=True) if "-M" in child.cmdline())
        master.kill()
        until(lambda: process.poll() is not None, "the command ends", seconds=60)
        assert process.returncode == 1
        found = json.loads(streams()[0])
        (panel,) = found["panels"]
        assert "broke" in panel["lost"] and "broke" in found["failed"][0]["reason"]
        assert {row["outcome"] for row in found["results"]} <= {"OK", "NOT_MEASURED"}
    until(lambda: not ours(far), "nothing of ours runs there", seconds=40)
    until(lambda: not list(far.cache.glob("scratch/*")), "the scratch folder is gone", seconds=40)


@pytest.mark.slow
def test_another_version_there_is_a_warning(cli, far, document, tmp_path):
    """An interpreter whose packages say another version than those that lowered."""
    site = tmp_path / "site"
    (site / "executorch-0.0.1.dist-info").mkdir(parents=True)
    (site / "executorch-0.0.1.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: executorch\nVersion: 0.0.1\n"
    )
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={site} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    command = ("compare", MODEL, "--backends", "portable", *QUICK, "--json", "--on", f"ssh://there?python={python}")
    (row,) = document(cli(*command, CROSS_BACKEND_SSH=far.command))["results"]
    assert any("other versions: executorch 0.0.1 there" in text for text in row["warnings"]), row
