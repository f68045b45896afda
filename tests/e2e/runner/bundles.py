"""Names in the bundle that these tests use, ways to change a copy of it, and the probe."""

import hashlib
import json
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[3]
PORTABLE, XNNPACK, VULKAN = "linear_regression_portable", "linear_regression_xnnpack", "linear_regression_vulkan"
ATALLA, DELEGATE = "linear_regression_atalla", "linear_regression_executorch_atalla"
QUICK = ("--num-runs", "60")


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
    """Replace a tensor of the sample (kind: inputs, expected) by another one, and make the manifest agree.

    What the bundle knew of a second input is no longer true and goes.
    """

    def change(row):
        row["sample"] = {key: row["sample"][key] for key in ("inputs", "expected")}
        row["sample"][kind][index] = written(bundle, row["sample"][kind][index]["path"], array)

    edit(bundle, change)


def written(bundle, path, array):
    """Write a tensor into a bundle, and give its row of the manifest."""
    content = array.tobytes()
    (bundle / path).write_bytes(content)
    return {
        "path": path,
        "dtype": str(array.dtype),
        "shape": list(array.shape),
        "offset": 0,
        "size_bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
    }


def probe(built, request):
    """Ask the runner's arithmetic."""
    done = subprocess.run(
        [built / "runner_probe"], input=json.dumps(request), capture_output=True, text=True, timeout=60, check=True
    )
    return json.loads(done.stdout)
