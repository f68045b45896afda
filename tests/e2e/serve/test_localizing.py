"""The operator that went wrong, in the page: sought from a card, shown in the graph, its reproducer run by itself."""

import json
import math
import re
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from cross_backend.cache import Cache, key_of
from cross_backend.localization.found import GraphStep
from cross_backend.localization.kept import KIND, keep_localized, kept_localized
from cross_backend.localization.script import MOST_LINES
from cross_backend.web.guard import TOKEN_HEADER
from tests.browser import CONTRAST, PHONE
from tests.e2e.serve.conftest import serving
from tests.e2e.serve.visits import AXE, UNNAMED, axe_source, visiting
from tests.e2e.test_cli_localize import SOURCE
from tests.unit.localization.test_found import FOUND
from tests.unit.localization.test_reproducer import ALONE

TARGET = "faulty.gives_hard"
"""Its sigmoid is a hardsigmoid: a planted fault."""
LINE = "nets.py:21 forward: return (self.linear(x.tanh()).sigmoid() * 2).exp()"
STEPS = tuple(
    GraphStep(name, f"aten.{name}.default", "body", f"net.py:{at}", (name,), (at - 1,) if at else ())
    for at, name in enumerate(("x", "conv", "y"))
)


@pytest.fixture
def kept(served):
    """A localization of ``linear_regression`` on OpenVINO that was made up: three operators, the second not finite."""
    choice = served.state.catalogue.choice(served.keys("linear_regression")["openvino"])
    cache, program = Cache(), choice.artifact.program
    keep_localized(cache, program, choice.target, replace(FOUND, graph=STEPS))
    yield choice
    cache.drop(KIND, key_of({"program": program, "target": choice.target}))


def test_what_was_found_is_read_again_as_it_was(kept):
    found = kept_localized(Cache(), kept.artifact.program, kept.target).found
    assert found.graph == STEPS and math.isnan(found.got[0]) and found.nodes == FOUND.nodes
    assert kept_localized(Cache(), kept.artifact.program, "another") is None


@pytest.mark.slow
def test_the_graph_marks_the_first_that_differs_and_says_each_error_in_words(kept, visit, served):
    page = visit(f"/artifacts/{kept.key}/localized")
    assert page.locator("h1").inner_text() == "Wrong operator: OpenVINO"
    boxes = page.locator("svg.graph a")
    classes = boxes.evaluate_all("(all) => all.map((one) => one.getAttribute('class'))")
    assert classes == ["rounding", "broken first", "large"]
    names = boxes.evaluate_all("(all) => all.map((one) => one.getAttribute('aria-label'))")
    assert names[1] == "▶ conv · not finite, in body, not finite, the first that differs"
    assert names[2] == "y · 5.0e-01, in body, error of 1 % of the scale or more"
    assert boxes.nth(1).locator("text").text_content() == "▶ conv · not finite"
    assert "net.py:1" in page.inner_text("#told"), "the first one is chosen"
    assert page.locator(".key .first").inner_text() == "▶ the first that differs"
    assert page.evaluate(UNNAMED) == []
    assert page.get_by_role("button", name="Write a reproducer").count() == 1
    axe = axe_source()
    page.evaluate(axe)
    for scheme, rules in (("light", None), ("dark", ["color-contrast"])):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        assert {kind: ratio for kind, ratio in page.evaluate(CONTRAST).items() if ratio < 4.5} == {}
        assert not axe or page.evaluate(AXE, rules) == []
    page.set_viewport_size(PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    page = visit(f"/artifacts/{kept.key}")
    page.get_by_role("link", name="Show it in the graph").click()
    page.wait_for_url("**/localized")
    assert served.get(f"/artifacts/{kept.key}/localized.json")["culprit"] == "operator"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/artifacts/{key}/localized", 404),
        ("/artifacts/nothing/localized", 400),
        ("/artifacts/{key}/reproducer.py", 404),
        ("/artifacts/{key}/reproducer.md", 404),
        ("/results/1/localized?workload=linear_regression&batch=1&threads=1&target=openvino", 404),
        ("/results/99/localized?workload=linear_regression&batch=1&threads=1&target=openvino", 404),
        ("/results/1/localized", 400),
    ],
)
def test_where_nothing_was_sought_there_is_nothing(served, path, status):
    key = served.keys("linear_regression")["onnxruntime.cpu"]
    assert served.ask("GET", path.format(key=key))[0] == status


def test_what_is_asked_wrongly_begins_nothing(served):
    headers = {TOKEN_HEADER: served.state.access.page_token, "Content-Type": "application/x-www-form-urlencoded"}
    status, _, body = served.ask("POST", "/api/localize", "artifact=nothing", headers)
    assert status == 400 and "no such artifact" in json.loads(body)["error"]
    assert served.get("/api/localizing")["state"] == "none"
    for address in ("/api/localize", "/api/reproduce"):
        assert served.ask("POST", address, "artifact=nothing")[0] == 403, "the page's token was not shown"


@pytest.fixture
def planted(cli, faulty, start, streams, until, write_study, tmp_path):
    """Give a server with a model on a backend with a planted fault, and a study that has sought it."""
    (tmp_path / "nets.py").write_text(SOURCE)
    model, db = f"{tmp_path}/nets.py:gates", tmp_path / "s.sqlite"
    done = cli("export", model, "--backends", TARGET, "eager", "--output-dir", tmp_path / "models", **faulty)
    assert done.returncode == 0, done.stderr
    study = write_study(tmp_path / "study.yaml", [model], [TARGET, "eager"], launches=1, max_launches=1, localize="yes")
    done = cli("study", "run", study, "--db", db, **faulty)
    assert "sigmoid" in done.stdout, done.stdout + done.stderr
    process = start("serve", tmp_path / "models", "--port", "0", "--no-open", "--db", db, **faulty)

    def address():
        out = streams()[0]
        return out.split()[1].rstrip("/") if "Ctrl-C" in out else None

    return SimpleNamespace(url=until(address, "it listens", of=process))


@pytest.mark.slow
def test_a_planted_fault_is_sought_from_its_card_and_shown_in_the_graph(planted, browser):
    with visiting(browser, planted) as visit:
        page = visit("/?model=nets_gates")
        for box in page.locator("#backends input:not(:disabled)").all():
            box.set_checked(True)
        page.click("#run")
        page.locator(".proof.bad").wait_for(timeout=120_000)
        assert page.get_by_role("button", name="Find the operator").count() == 1, "the right backend has none"
        page.get_by_role("button", name="Find the operator").click()
        page.locator(".finder progress").wait_for()
        page.locator(".finder [role=status]", has_text=re.compile("sigmoid is wrong")).wait_for(timeout=180_000)
        page.get_by_role("link", name="Show it in the graph").click()
        page.wait_for_url("**/localized")
        assert_shown(page)
        page = visit("/results/1")
        page.locator("#wrong").get_by_role("link", name="Show it in the graph").click()
        page.wait_for_url("**/results/1/localized?**")
        assert_shown(page)


FAULTS = """\
import torch
import torch.nn.functional as F
from torch import nn

class Masked(nn.Module):
    def forward(self, x, mask):
        return F.scaled_dot_product_attention(x.tanh(), x, x, attn_mask=mask) * 2

class Halves(nn.Module):
    def forward(self, x):
        return (x - 2) // -2

class Grows(nn.Module):
    def forward(self, x):
        return F.interpolate(x.relu(), size=(64, 64)) + 1

def masked():
    x = torch.randn(1, 1, 2, 4, generator=torch.Generator().manual_seed(0))
    return Masked().eval(), (x, torch.tensor([[True, True], [False, False]]))

def halves():
    return Halves().eval(), (torch.tensor([[-7, 7, -8, 5]]),)

def grows():
    return Grows().eval(), (torch.randn(1, 1, 26, 26, generator=torch.Generator().manual_seed(0)),)
"""
VENDORS = {
    "masked": ("onnxruntime.cpu", "scaled_dot_product_attention", "forward: return F.scaled_dot_product_attention("),
    "halves": ("openvino", "floor_divide", "forward: return (x - 2) // -2"),
    "grows": ("openvino", "upsample_nearest2d", "forward: return F.interpolate(x.relu(), size=(64, 64)) + 1"),
}
"""Model → the backend that computes it wrongly, the operator, and its line."""


@pytest.fixture(scope="module")
def vendors(cli, db, tmp_path_factory):
    """A server with three models, each on a backend whose vendor computes an operator wrongly."""
    folder = tmp_path_factory.mktemp("vendors")
    (folder / "faults.py").write_text(FAULTS)
    for model, (target, *_) in VENDORS.items():
        done = cli("export", f"{folder}/faults.py:{model}", "--backends", target, "--output-dir", folder / "models")
        assert done.returncode == 0, done.stderr
    with serving([folder / "models"], db) as found:
        yield found


@pytest.mark.slow
@pytest.mark.parametrize(
    "model", [name if name == "masked" else pytest.param(name, marks=pytest.mark.nightly) for name in VENDORS]
)
def test_a_vendors_fault_is_found_in_the_page_and_its_reproducer_runs_alone(vendors, browser, model, tmp_path):
    target, operator, line = VENDORS[model]
    key = vendors.keys(f"faults_{model}")[target]
    with visiting(browser, vendors) as visit:
        page = visit(f"/artifacts/{key}")
        page.get_by_role("button", name="Find the operator").click()
        said = page.locator(".finder [role=status]", has_text=re.compile("on its own|nothing to|No operator|begins"))
        said.wait_for(timeout=120_000)
        assert f"{operator} is wrong on its own" in said.inner_text()
        page.get_by_role("link", name="Show it in the graph").click()
        page.wait_for_url("**/localized")
        marked = page.locator("svg.graph a.first")
        assert marked.count() == 1 and marked.get_attribute("aria-label").startswith(f"▶ {operator} · ")
        assert page.locator("svg.graph a.rounding").count() == 1, "what comes before it is right"
        assert line in page.inner_text(".suspect") and line in page.inner_text("#told")
        page.get_by_role("button", name="Write a reproducer").click()
        page.locator("#reproducer", has_text="lines show it by themselves").wait_for(timeout=240_000)
        for name in ("Script", "Text for the tracker"):
            with page.expect_download() as download:
                page.locator("#reproducer").get_by_role("link", name=name).click()
            download.value.save_as(tmp_path / f"{name}.txt")
        page.reload()
        page.get_by_role("link", name="Script").wait_for()
        assert page.get_by_role("link", name="Script").count() == 1, "it is kept"
        assert page.evaluate(UNNAMED) == []
    script = (tmp_path / "Script.txt").read_text()
    report = (tmp_path / "Text for the tracker.txt").read_text()
    assert len(script.splitlines()) <= MOST_LINES and script.strip() in report
    done = subprocess.run(
        [sys.executable, "-I", "-c", ALONE, tmp_path / "Script.txt"],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 1 and "expected\n" in done.stdout and "\ngot\n" in done.stdout, done.stderr


def assert_shown(page):
    """The page names the planted operator and its line, and the graph marks it."""
    assert page.locator("h1").inner_text() == "Wrong operator: Hard"
    marked = page.locator("svg.graph a.first")
    assert marked.count() == 1 and "sigmoid" in marked.get_attribute("aria-label")
    assert "sigmoid" in page.inner_text(".verdict") and LINE in page.inner_text(".suspect")
    assert LINE in page.inner_text("#told")
    after = page.locator("svg.graph a.large, svg.graph a.small").evaluate_all(
        "(all) => all.map((one) => one.getAttribute('aria-label'))"
    )
    assert len(after) >= 3, "what comes after it is off, too"
    assert page.locator("svg.graph a.rounding").count() >= 2, "what comes before it is not"
