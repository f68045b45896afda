"""The README's pictures: written where ``--screenshots`` asks for them; else each is there, and its page shows that.

With ``--screenshots`` every page is also taken at three widths, light and dark, into ``build/screenshots`` to look at.

What is measured in them is measured while they are taken: the study of ``make demo``, and calls of the playground.
"""

import re
from pathlib import Path

import pytest
from PIL import Image

from tests.e2e.serve.conftest import serving
from tests.e2e.serve.visits import draw, tick, visiting
from tests.runtimes import bring

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "docs" / "images"
KEPT = ROOT / "build" / "screenshots"
SCHEMES = ("light", "dark")
MOST_BYTES = 200_000
SIZE = {"width": 1400, "height": 900}
STUDY = ROOT / "examples" / "studies" / "demo.yaml"


@pytest.fixture(scope="module")
def shown(request, cli, tmp_path_factory):
    """Give a server: with a real study where pictures are taken, else that of the tests."""
    if not request.config.getoption("--screenshots"):
        yield request.getfixturevalue("served")
        return
    bring("browser")
    folder = tmp_path_factory.mktemp("shown")
    done = cli("study", "run", STUDY, "--db", folder / "s.sqlite", "--output-dir", folder, timeout=900)
    assert done.returncode == 0, done.stderr
    for model in ("digits_cnn", "linear_regression", "mobilenet_v3_small"):
        names = ("torch", "xnnpack", "onnxruntime.cpu", "openvino", "portable")
        done = cli("export", model, "--backends", *names, "--strict", "--output-dir", folder / "models")
        assert done.returncode == 0, done.stderr
    with serving([folder / "models"], folder / "s.sqlite") as found:
        yield found


def playground(page, served, taking):
    """Three backends side by side on a drawn digit, called again and again."""
    page.goto(f"{served.url}/?model=digits_cnn")
    tick(page, "ONNX Runtime (CPU)", "OpenVINO", "XNNPACK (CPU)")
    draw(page)
    page.locator(".card").nth(2).locator(".top li").first.wait_for(timeout=60_000)
    if taking:
        page.check("#again")
        page.locator(".overlay .few").first.wait_for(state="detached", timeout=60_000)
        page.uncheck("#again")
    page.locator("#run:not([aria-busy])").wait_for()
    page.evaluate("scrollTo(0, 0)")
    return [".card:nth-child(3) .live .line", ".card:nth-child(3) .top", ".card:nth-child(2) .apart", "#drawing"]


def results(page, served, _taking):
    """The latest study, as its page begins."""
    page.goto(f"{served.url}/results/{served.get('/api/studies')['studies'][0]['id']}")
    return [".verdicts, .verdict", ".ranking .ranked", "#sections a"]


def operations(page, served, taking):
    """What XNNPACK takes of a model, as a graph."""
    model = "mobilenet_v3_small" if taking else "digits_cnn"
    page.goto(f"{served.url}/artifacts/{served.keys(model)['executorch.xnnpack']}")
    if (box := page.locator("svg.graph a.run.beside")).count():
        box.first.click()
        page.wait_for_url("**?open=**")
    page.locator("svg.graph .beside[data-op], svg.graph [data-op]").first.wait_for()
    if taking:
        page.click("#profile")
        page.locator("#times tbody tr").first.wait_for(timeout=60_000)
    (page.locator("svg.graph .beside[data-op]") if box.count() else page.locator("svg.graph [data-op]")).last.click()
    page.evaluate("document.getElementById('graph').scrollIntoView()")
    return ["svg.graph .inside rect", "#told", ".key .inside", "#as-table"]


@pytest.mark.parametrize("take", [playground, results, operations])
def test_pictures(take, shown, browser, request):
    taking = request.config.getoption("--screenshots")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    with visiting(browser, shown) as visit:
        page = visit("/artifacts", viewport=SIZE, reduced_motion="reduce")
        for selector in take(page, shown, taking):
            page.locator(selector).first.wait_for(state="attached", timeout=10_000)
        for scheme in SCHEMES:
            path = FOLDER / f"{take.__name__}-{scheme}.png"
            if taking:
                page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
                page.screenshot(path=path)
            assert f"docs/images/{path.name}" in readme
            assert 10_000 < path.stat().st_size < MOST_BYTES
            with Image.open(path) as picture:
                assert picture.size == (SIZE["width"], SIZE["height"])


WIDTHS = (1400, 1024, 420)
EVERY = {
    "playground": "/?model=digits_cnn",
    "sliders": "/?model=linear_regression",
    "picture": "/?model=mobilenet_v3_small",
    "results": "/results",
    "study": "/results/{study}",
    "history": "/results/{study}/history?workload=digits_cnn&batch=1&threads=1&target=openvino",
    "diff": "/results/diff?before={study}&after={study}",
    "artifacts": "/artifacts",
    "artifact": "/artifacts/{key}",
    "reading": "/guides/reading",
    "int8": "/guides/int8",
    "android": "/guides/android",
    "missing": "/no-such-page",
}
"""Name of a picture → the page that it shows."""


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY)
def test_every_page_at_every_width(name, shown, browser, request):
    """No page scrolls sideways; where pictures are asked for, each is taken whole, for somebody to look at."""
    taking = request.config.getoption("--screenshots")
    if taking:
        KEPT.mkdir(parents=True, exist_ok=True)
    study, key = shown.get("/api/studies")["studies"][0]["id"], shown.keys("digits_cnn")["executorch.xnnpack"]
    with visiting(browser, shown) as visit:
        page = visit("/guides/android", reduced_motion="reduce")
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            page.goto(shown.url + EVERY[name].format(study=study, key=key))
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (name, width)
            for scheme in SCHEMES if taking else ():
                page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
                page.screenshot(path=KEPT / f"{name}-{width}-{scheme}.png", full_page=True)
        page.said[:] = [text for text in page.said if "404" not in text]  # of the page that was asked for in vain


def test_every_picture_that_the_readme_names_is_taken_here():
    named = re.findall(r'docs/images/([\w.-]+)"', (ROOT / "README.md").read_text(encoding="utf-8"))
    taken = {f"{take.__name__}-{scheme}.png" for take in (playground, results, operations) for scheme in SCHEMES}
    assert set(named) == taken == {path.name for path in FOLDER.iterdir()}
