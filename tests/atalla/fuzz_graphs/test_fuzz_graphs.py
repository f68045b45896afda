"""Random programs: the generator, the comparison, the minimiser and the scripts; planted faults are found."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from atalla.cli import main
from atalla.errors import AtallaError
from atalla.fuzz import values
from atalla.fuzz.campaign import Plan, Report, fuzz, unreached
from atalla.fuzz.compare import Finding, built, examine
from atalla.fuzz.executors import executors
from atalla.fuzz.generate import PRECISIONS, generate
from atalla.fuzz.graph import Graph, Leaf, Node, module_source
from atalla.fuzz.minimize import minimize
from atalla.fuzz.operators import UNREACHED, makers
from atalla.fuzz.reproducer import MOST_LINES
from atalla.fuzz.rounding import EXACT, SAME_BITS
from atalla.fuzz.values import RefusedError
from atalla.fuzz.worker import Worker
from atalla.passes.rules import all_rules

PLANTED = "tests.atalla.fuzz_graphs.planted"
SOFTMAX = Graph(
    (Leaf("x0", "float", (3, 4), "transposed", 1), Leaf("p0", "small", (4,), "plain", 2)),
    (
        Node("v0", "aten.add.Tensor(x0, p0)"),
        Node("v1", "aten.softmax.int(v0, 1)"),
        Node("v2", "aten.relu.default(v0)"),
        Node("v3", "aten.mul.Tensor(v1, v2)"),
    ),
    ("v2", "v3"),
)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_seed_gives_one_program_that_runs_as_it_is_printed(precision: str) -> None:
    for seed in range(5):
        graph = generate(seed, precision)
        assert graph == generate(seed, precision) == Graph.from_dict(json.loads(json.dumps(graph.to_dict())))
        assert graph != generate(seed + 1, precision)
        module, inputs = built(graph)
        compile(module_source(graph), "program", "exec")
        with torch.no_grad():
            found = module(*inputs)
        single, _, tolerances = values.expected(graph)
        assert all(map(torch.equal, found, single)) and len(found) == len(tolerances) == len(graph.outputs)


def test_every_native_operator_is_made_or_stands_among_those_that_are_not() -> None:
    native = set(all_rules())
    assert set(makers()) == native - set(UNREACHED) and set(UNREACHED) <= native
    unknown = {name for name in EXACT | SAME_BITS if name not in native} - {"aten.argsort.default", "aten.to.dtype"}
    assert not unknown


@pytest.mark.parametrize("precision", PRECISIONS)
def test_programs_are_the_same_everywhere(precision: str) -> None:
    here = executors(precision)
    assert len(here) > 2
    for seed in range(100, 102):
        outcome = examine(generate(seed, precision), here)
        assert outcome.status == "same" and outcome.operators and outcome.instructions, outcome


def test_what_nobody_can_be_held_to_is_refused() -> None:
    known = values.Values()
    known.add_leaf(Leaf("x0", "float", (4, 5), "plain", 0))
    known.add_node(Node("v0", "aten.tanh.default(x0)"))
    assert 0 < known.tolerance("v0") < 1e-4
    known.add_node(Node("v1", "aten.add.Scalar(x0, 1.0)"))
    known.add_node(Node("v2", "aten.sub.Tensor(v1, x0)"))  # 1, but for rounding
    for call in ("aten.eq.Scalar(v2, 1.0)", "aten.log.default(v0)", "aten.softmax.int(v0, 7)"):
        with pytest.raises(RefusedError):
            known.add_node(Node("v3", call))


@pytest.mark.slow
def test_a_planted_fault_is_found_and_made_a_script_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("atalla.fuzz.campaign.generate", lambda *_: SOFTMAX)
    under_test = executors("float32", (f"{PLANTED}:one_more",))
    outcome = examine(SOFTMAX, under_test)
    assert outcome.finding and outcome.finding.kind == "differs" and "one_more" in outcome.finding.executor
    report = fuzz(Plan(cases=1, more=(f"{PLANTED}:one_more",), small_s=60))
    (found,) = report.found
    assert report.outcomes == {"finding": 1} and found.is_confirmed
    assert len(found.script.splitlines()) <= MOST_LINES and len(found.graph.nodes) <= 2
    right = found.script.replace("found = one_more(data, inputs)", "found = atalla.load(data).run(inputs)")
    with torch.no_grad():
        exec(right.replace("torch.set_grad_enabled(False)", ""), {})


@pytest.mark.slow
def test_a_planted_fault_is_found_among_random_programs() -> None:
    report = fuzz(Plan(cases=30, more=(f"{PLANTED}:one_more",), small_s=10))
    assert report.found and all(len(one.script.splitlines()) <= MOST_LINES for one in report.found[:3])


def test_the_smallest_program_is_what_matters_alone() -> None:
    found = minimize(SOFTMAX, lambda graph: any("softmax" in node.call for node in graph.nodes))
    assert [node.operator for node in found.nodes] == ["aten.softmax.int"] and len(found.outputs) == 1
    (leaf,) = found.leaves
    assert leaf.layout == "plain" and leaf.name.startswith("x") and leaf.shape == (1, 1)
    assert minimize(SOFTMAX, lambda _: False) == SOFTMAX


@pytest.fixture
def worker(request: pytest.FixtureRequest) -> Iterator[Worker]:
    patience_s = 25 if request.param == "waits" else 120  # a busy machine takes seconds for what is no hang
    made = Worker("float32", (f"{PLANTED}:{request.param}",), patience_s=patience_s)
    yield made
    made.close()


@pytest.mark.slow
@pytest.mark.parametrize("worker", ["dies"], indirect=True)
def test_a_crash_is_a_finding_and_the_next_program_has_a_new_worker(worker: Worker) -> None:
    outcome = worker.examine(SOFTMAX)
    assert outcome.finding == Finding("crash", f"{PLANTED}:dies", "SIGSEGV")
    harmless = Graph(SOFTMAX.leaves, SOFTMAX.nodes[:1], ("v0",))
    assert worker.examine(harmless).status == "same"


@pytest.mark.slow
@pytest.mark.parametrize("worker", ["waits"], indirect=True)
def test_a_hang_is_a_finding(worker: Worker) -> None:
    outcome = worker.examine(SOFTMAX)
    assert outcome.finding and (outcome.finding.kind, outcome.finding.executor) == ("hang", f"{PLANTED}:waits")


def test_an_executor_that_is_not_there_is_told() -> None:
    with pytest.raises(AtallaError, match="no executor nowhere:nothing"):
        executors("float32", ("nowhere:nothing",))


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    found = fuzz(Plan(cases=0)).plan
    known = Report(found)
    known.outcomes["same"] += 3
    monkeypatch.setattr("atalla.fuzz.campaign.fuzz", lambda plan, show: (show(known, "case 0"), known)[1])
    assert main(["fuzz", "--cases", "3"]) == 0
    assert "same everywhere" in capsys.readouterr().out
    one = Finding("differs", "base", "output 0 is 1 from eager", "eager", 0.5)
    from atalla.fuzz.campaign import Found

    known.found.append(Found(7, one, SOFTMAX, "print(1)\n", is_confirmed=True))
    assert main(["fuzz", "--out", str(tmp_path / "found")]) == 1
    assert (tmp_path / "found" / "float32_7.py").read_text() == "print(1)\n"
    assert main(["fuzz", "--json"]) == 1
    capsys.readouterr()
    assert main(["fuzz", "--json", "--executor", "a:b"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["findings"][0]["kind"] == "differs" and document["cases"] == 3


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--cases", "0"], "at least 1"),
        (["--seed", "-1"], "at least 0"),
        (["--precision", "fp8"], "fp8"),
        (["--executor", "mine"], "module:function"),
        (["--executor", "nowhere:nothing"], "no executor nowhere:nothing"),
        (["--out", __file__], "not a folder"),
    ],
)
def test_wrong_arguments_are_one_line(arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status = main(["fuzz", *arguments])
    except SystemExit as error:
        status = int(str(error.code))
    said = capsys.readouterr().err
    assert status in {1, 2} and told in said and said.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize("precision", PRECISIONS)
def test_hundreds_of_programs_are_the_same_everywhere(precision: str) -> None:
    report = fuzz(Plan(cases=300, seed=0, precision=precision, seconds=45))
    assert not report.found, report.found[0].script
    assert report.outcomes["same"] > 0.9 * report.cases > 0
    if precision == "float32" and report.cases == 300:
        assert len([name for name in unreached([report]) if name.startswith("aten")]) < 30
