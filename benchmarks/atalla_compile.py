"""What Atalla makes of whole models: time to compile and to load, memory, and how far it is from float64.

python benchmarks/atalla_compile.py [--models mobilenet_v3_small …]

The error is max |y − y₆₄| / max |y₆₄| over all outputs, where y₆₄ is what the same exported graph computes in float64;
``eager`` is that of float32 PyTorch. The arena's bound is the most bytes that are alive at once: no plan is smaller.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from _table import show

sys.path.append(sys.path.pop(0))  # atalla.py beside this file has the name of the package that is measured

MODELS = (
    *("mobilenet_v2", "mobilenet_v3_small", "mobilenet_v3_large", "efficientnet_b0", "resnet50", "resnet101"),
    *("vit_b_16", "bert_base", "gpt2", "t5_encoder", "whisper_tiny"),
)
LOADS = 20
MOST_EXACT, MOST_WINOGRAD = 2.0, 1e-4
"""Goals: times eager's own error, and with Winograd's convolution."""


def _in_float64(program: Any, inputs: list[Any]) -> list[Any]:
    """Run a program's graph with float64 wherever it says float32."""
    import torch
    from torch.utils import _pytree as pytree

    def doubled(value: Any) -> Any:
        if value is torch.float32:
            return torch.float64
        return value.double() if isinstance(value, torch.Tensor) and value.dtype is torch.float32 else value

    class Doubled(torch.fx.Interpreter):
        def get_attr(self, *given: Any) -> Any:
            return doubled(super().get_attr(*given))

        def call_module(self, *given: Any) -> Any:
            """Leave out the checks of inputs, which ask for float32."""
            del given

        def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
            if "_assert" in str(target):
                return None
            return super().call_function(target, *pytree.tree_map(doubled, (args, kwargs)))

    with torch.no_grad():
        return pytree.tree_leaves(Doubled(program.module()).run(*map(doubled, inputs)))


def _error(found: list[Any], wanted: list[Any]) -> float:
    pairs = [(one.double(), other) for one, other in zip(found, wanted, strict=True) if other.is_floating_point()]
    return max(float((one - other).abs().max() / other.abs().max()) for one, other in pairs)


def measure(name: str) -> tuple[str, ...]:
    """Give a row."""
    import torch
    from torch.utils import _pytree as pytree

    import atalla
    from cross_backend.cache import Cache
    from cross_backend.exporting.export import ExportSettings, export
    from cross_backend.program.pt2 import load_pt2
    from cross_backend.tensors import load_tensors
    from cross_backend.workloads import find_workload

    captured, _ = export(find_workload(name), [], ExportSettings(Cache()))
    program = load_pt2(captured.folder / captured.program_name)
    inputs = [torch.from_numpy(one) for one in load_tensors(captured.sample_path)["input"]]
    began = time.process_time()
    made = atalla.compile(program)
    seconds = time.process_time() - began
    loads = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.atalla"
        path.write_bytes(made.data)
        for _ in range(LOADS):
            began = time.perf_counter()
            loaded = atalla.load(path)
            loads.append(time.perf_counter() - began)
        found = [one.clone() for one in loaded.run(inputs)]
    exact = atalla.load(atalla.compile(program, exact=True).data).run(inputs)
    with torch.no_grad():
        eager = pytree.tree_leaves(program.module()(*inputs))
    wanted = _in_float64(program, inputs)
    errors = [_error(one, wanted) for one in (eager, exact, found)]
    has_winograd = any(row.op.name == "CONV2D_WINO" for row in loaded.listing.instructions)
    return (
        name,
        f"{seconds:.1f}",
        f"{len(made.data) / 1e6:.1f}",
        f"{statistics.median(loads) * 1e3:.2f}",
        f"{made.arena_bytes / 1e6:.2f}",
        f"{made.arena_bytes / max(made.arena_bound, 1):.3f}",
        str(len(made.fallbacks)),
        f"{errors[0]:.1e}",
        f"{errors[1] / errors[0]:.2f}",
        f"{errors[2]:.1e}" if has_winograd else "–",
    )


def main() -> None:
    """Measure each model, and print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    rows = []
    for name in parser.parse_args().models:
        print(f"{name} …", file=sys.stderr)
        rows.append(measure(name))
    headers = ("model", "compile CPU s", "blob MB", "load ms", "arena MB", "arena / bound", "fallbacks")
    errors = ("eager's error", f"exact / eager (goal ≤ {MOST_EXACT:g})", f"with Winograd (goal ≤ {MOST_WINOGRAD:g})")
    show("Atalla, float32", (*headers, *errors), rows, name="atalla_compile")


if __name__ == "__main__":
    main()
