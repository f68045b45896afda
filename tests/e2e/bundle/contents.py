"""What a bundle of ``linear_regression`` holds, and the command that writes one for browsers."""

import json

XNNPACK, PORTABLE, VULKAN = (f"linear_regression_{name}" for name in ("xnnpack", "portable", "vulkan"))
CPU, OPENVINO = "linear_regression_onnxruntime", "linear_regression_openvino"
WEB = ("bundle", "linear_regression", "--platform", "web")
NEWER = '{"format": "cross-backend-bundle", "version": 7}'


def content(folder):
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def manifest(bundle):
    return json.loads((bundle / "manifest.json").read_text())


def names(bundle):
    return [row["name"] for row in manifest(bundle)["artifacts"]]
