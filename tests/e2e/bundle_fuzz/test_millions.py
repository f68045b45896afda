"""Manifests with lists, objects and texts of millions: read in a process with little memory."""

import json
import subprocess
import sys

import pytest

from tests.e2e.bundle_fuzz.cases import LIMIT_S, PORTABLE, XNNPACK, changed, manifest

SCRIPT = """
import json, resource, sys, time
from pathlib import Path
from cross_backend.bundling import Bundle
from cross_backend.errors import ArtifactError
from cross_backend.measure.memory import peak_rss_bytes
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
started = time.process_time()
try:
    for artifact in Bundle.read(Path(sys.argv[1])).artifacts:
        artifact.check()
    complaint = None
except ArtifactError as error:
    complaint = str(error)
peak = peak_rss_bytes()  # its own: ru_maxrss is inherited from the process that ran the tests before
print(json.dumps({"complaint": complaint, "seconds": time.process_time() - started, "peak_bytes": peak}))
"""
pytestmark = pytest.mark.slow
PEAK_BYTES = 2 << 30
N = 10**6
SPEC = '{"name":"","dtype":"","shape":[]}'
OPERATOR = '{"name":"a","count":1,"why":null}'
DEEP = 5 * N


def many(row, count=N):
    return f"[{','.join([row] * count)}]"


def numbered(row, count=N):
    return ",".join(row % index for index in range(count))


PLACEMENT = ("artifacts", 0, "placement")
REFUSED = {
    "artifacts": (("artifacts",), lambda: many("0")),
    "inputs": (("inputs",), lambda: many(SPEC, 400_000)),
    "samples": (("sample", "inputs"), lambda: many("0")),
    "repeats in an order": (("orders", "linux"), lambda: many(json.dumps(XNNPACK), 500_000)),
    "strangers in an order": (("orders", "linux"), lambda: "[" + numbered('"%d"') + "]"),
    "operators": ((*PLACEMENT, "inside"), lambda: many("0")),
    "evidence": (("evidence",), lambda: many("0")),
    "an order that was measured": (("evidence", 0, "order"), lambda: many(json.dumps(XNNPACK), 500_000)),
    "rows of evidence": (("evidence", 0, "rows"), lambda: many("{}")),
    "a name": (("artifacts", 0, "name"), lambda: '"' + "x" * (15 << 20) + '"'),
    "a format": (("format",), lambda: '"' + "x" * (15 << 20) + '"'),
    "a key": (("labels",), lambda: '{"' + "x" * (15 << 20) + '": 1}'),
    "a number": (("version",), lambda: "9" * (15 << 20)),
    "depth": (("made_by",), lambda: "[" * DEEP + "]" * DEEP),
    "too long": (("made_by",), lambda: '"' + "x" * (17 << 20) + '"'),
}
HARMLESS = {
    "extents": (("inputs", 0, "shape"), lambda: many("1")),
    "platforms": (("orders",), lambda: json.dumps({"web": [XNNPACK, PORTABLE]})[:-1] + "," + numbered('"%d":[]') + "}"),
    "operators": ((*PLACEMENT, "inside"), lambda: many(OPERATOR, 400_000)),
    "delegates": ((*PLACEMENT, "delegates"), lambda: "{" + numbered('"%d":1') + "}"),
    "versions": (("artifacts", 0, "versions"), lambda: "{" + numbered('"%d":""') + "}"),
    "what nobody reads": (("made_by",), lambda: many("[]", 5 * N)),
}
"""Long, and nothing wrong with it."""


def read(bundle, row, place, text):
    """Put a text of JSON at a place of the manifest, read the bundle, and give the complaint."""
    written = json.dumps(changed(row, place, "@here@")).replace('"@here@"', text)
    (bundle / "manifest.json").write_text(written)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(bundle)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    said = json.loads(done.stdout)
    assert said["seconds"] < LIMIT_S and said["peak_bytes"] < PEAK_BYTES, said
    return said["complaint"]


@pytest.mark.parametrize("what", REFUSED)
def test_millions_are_refused(what, bundle):
    place, text = REFUSED[what]
    complaint = read(bundle, manifest(bundle), place, text())
    assert complaint.isprintable() and 20 < len(complaint) < 1000


def test_many_artifacts_with_many_inputs_are_refused(bundle):
    """Either alone is long; each artifact with all inputs would be 10⁸ rows."""
    row = manifest(bundle)
    row["artifacts"] = [{**row["artifacts"][0], "name": f"a{index}"} for index in range(1000)]
    assert "1 to 100 artifacts" in read(bundle, row, ("inputs",), many(SPEC, 300_000))
    del row["artifacts"][100:]
    assert "inputs must be at most 1000" in read(bundle, row, ("inputs",), many(SPEC, 300_000))


@pytest.mark.parametrize("what", HARMLESS)
def test_millions_are_read(what, bundle):
    place, text = HARMLESS[what]
    assert read(bundle, manifest(bundle), place, text()) is None
