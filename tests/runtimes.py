"""Runtimes and compilers beside the environment: fetched once into ``.cache/tests``, and linked into each run."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from cross_backend.toolchains import FILES, TOOLCHAINS, VARIABLE, RuntimeFiles, add
from tests.surroundings import KEPT, run_folder

AXE = RuntimeFiles(
    "axe",
    "what looks for barriers in our pages is JavaScript, and only tests use it",
    (("axe-core", "4.14.1"),),
    "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ==",
    ("package/axe.min.js",),
)

KOTLIN = RuntimeFiles(
    "kotlin",
    "only tests compile the loader that bundles bring for Android",
    (("kotlin-compiler", "2.4.20"),),
    "IF5IVM7LpPhA/ntHQQpaVt1yxpaaQovtEVYLyqWMuaLr0XelLPPm7/sM6HLhtcRjjjoSsK7I7lP2kzYJkMy73w==",
    tuple(
        f"package/lib/{name}.jar"
        for name in (
            *("annotations-13.0", "kotlin-compiler", "kotlin-reflect", "kotlin-script-runtime", "kotlin-stdlib"),
            "kotlinx-coroutines-core-jvm",
        )
    ),
)
"""Its archive has 90 MB."""


def bring(name: str) -> Path:
    """Have one of ``toolchain add``'s toolchains, or of tests' own, in this run's folder of toolchains; return it."""
    files = {**TOOLCHAINS, **FILES, AXE.name: AXE, KOTLIN.name: KOTLIN}[name]
    kept, run = KEPT / "toolchains", run_folder() / "toolchains"
    run.mkdir(exist_ok=True)
    before = os.environ[VARIABLE]
    os.environ[VARIABLE] = str(kept)
    try:
        add(files, print)
        folder = files.folder
    finally:
        os.environ[VARIABLE] = before
    with contextlib.suppress(FileExistsError):
        (run / folder.name).symlink_to(folder, target_is_directory=True)
    return folder
