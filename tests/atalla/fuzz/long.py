"""Fuzz for long: build the target with clang's libFuzzer, make seeds of the small networks, run until so many inputs.

python -m tests.atalla.fuzz.long FOLDER [INPUTS]

A crash, a hang of ten seconds, or memory above 2.5 GB is kept in FOLDER/found, and the run goes on.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from pathlib import Path

from atalla.build import SOURCES, files_of, sets_of
from tests.atalla.dynamic_nets import DYNAMIC
from tests.atalla.native import sets_here
from tests.atalla.nets import NETS
from tests.atalla.test_compile import compiled
from tests.atalla.test_dynamic import compiled as any_size

FLAGS = (
    *("-std=c11", "-D_GNU_SOURCE", "-O1", "-g", "-fno-strict-aliasing", "-fno-omit-frame-pointer", "-DFUZZER"),
    *("-fsanitize=address,undefined,fuzzer-no-link", "-fno-sanitize-coverage=trace-cmp", "-fno-sanitize-recover=all"),
)
ROUND = 500_000
"""Inputs between two starts, after which the corpus is read again."""
MOST_SEED = 15_000
"""Bytes."""


def build(folder: Path) -> Path:
    """Build the target."""
    clang = os.environ.get("CLANG", "clang")
    all_sets = sets_of(platform.machine())
    sets = {name: more for name, more in all_sets.items() if name.removeprefix("kernels_") in sets_here()}
    files, lacking = files_of(sets)
    objects = []
    for file in (*files, Path(__file__).with_name("fuzz_blob.c")):
        objects.append(folder / f"{file.stem}.o")
        more = ("-I", str(SOURCES), *lacking, *sets.get(file.stem, ()))
        subprocess.run([clang, *FLAGS, *more, "-c", str(file), "-o", str(objects[-1])], check=True)
    target = folder / "fuzz_blob"
    link = ("-fsanitize=address,undefined,fuzzer", *map(str, objects), "-o", str(target), "-lm", "-lpthread")
    subprocess.run([clang, *link], check=True)
    return target


def seeds(folder: Path) -> None:
    """Write the networks that are small enough, and those with symbols."""
    folder.mkdir(exist_ok=True)
    made = {name: compiled(name)[0].data for name in NETS} | {f"any_{name}": any_size(name).data for name in DYNAMIC}
    for name, data in made.items():
        if len(data) < MOST_SEED:
            (folder / f"{name}.atalla").write_bytes(data)


def main(folder: Path, inputs: int) -> None:
    """Run, and tell after each round how far it is."""
    for part in ("corpus", "found"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    target = build(folder)
    seeds(folder / "seeds")
    done, seed = 0, 0
    while done < inputs:
        seed += 1
        limits = ("-max_len=24000", "-timeout=10", "-rss_limit_mb=2500", f"-artifact_prefix={folder}/found/")
        count = (f"-seed={seed}", f"-runs={min(ROUND, inputs - done)}", "-print_final_stats=1")
        command = [str(target), *limits, *count, str(folder / "corpus"), str(folder / "seeds")]
        text = subprocess.run(command, stderr=subprocess.PIPE, check=False).stderr.decode(errors="replace")
        (folder / "last.log").write_text(text)
        done += max(int(number) for number in re.findall(r"^#(\d+)", text, re.MULTILINE))
        reached = re.findall(r"cov: (\d+) ft: (\d+)", text)[-1]
        found = len(list((folder / "found").iterdir()))
        print(f"{done:,} inputs, {reached[0]} edges, {reached[1]} features, {found} findings", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), int(sys.argv[2]) if len(sys.argv) > 2 else 10_000_000)
