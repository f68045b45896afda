"""Names in the bundle that these tests use, ways to change a copy of it, and the probe."""

import hashlib
import json
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[3]
PORTABLE, XNNPACK, VULKAN = "linear_regression_portable", "linear_regression_xnnpack", "linear_regression_vulkan"
ATALLA, DELEGATE = "linear_regression_atalla", "linear_regression_executorch_atalla"
QUICK = ("--iterations", "60")


def edit(bundle, change):
    """Change the manifest in place."""
    manifest = bundle / "manifest.json"
    row = json.loads(manifest.read_text())
    change(row)
    manifest.write_text(json.dumps(row))


def artifact(row, name):
    return next(one for one in row["artifacts"] if one["name"] == name)


def forge(bundle, name, content):
    """Replace a payload and make the manifest agree, so that nothing but the runtime can notice."""

    def change(row):
        found = artifact(row, name)
        (bundle / found["path"]).write_bytes(content)
        found.update(size_bytes=len(content), sha256=hashlib.sha256(content).hexdigest())

    edit(bundle, change)


def resample(bundle, kind, index, array):
    """Replace a tensor of the sample (kind: inputs, expected) by another one, and make the manifest agree."""

    def change(row):
        entry, content = row["sample"][kind][index], array.tobytes()
        (bundle / entry["path"]).write_bytes(content)
        entry.update(dtype=str(array.dtype), shape=list(array.shape), offset=0, size_bytes=len(content))
        entry.update(sha256=hashlib.sha256(content).hexdigest())

    edit(bundle, change)


def probe(built, request):
    """Ask the runner's arithmetic."""
    done = subprocess.run(
        [built / "runner_probe"], input=json.dumps(request), capture_output=True, text=True, timeout=60, check=True
    )
    return json.loads(done.stdout)
