"""Check this environment: packages, compiler, cache; then really lower and run a tiny model on every backend."""

from __future__ import annotations

import argparse
import shutil
import tempfile
from typing import TYPE_CHECKING

from cross_backend.cli import print_json
from cross_backend.cli._options import add_json, add_place, add_timeout, export_progress
from cross_backend.machine import version_of
from cross_backend.places.address import parse
from cross_backend.records import Outcome, Result

if TYPE_CHECKING:
    from cross_backend.cache import Cache
    from cross_backend.comparison.site import Site
    from cross_backend.report.terminal import Terminal

_PROBE = "linear_regression"
_DECODER = "llama?layers=1&hidden=32&heads=2&kv_heads=1&inner=48&vocabulary=60&context=32"
"""What is tried on backends that refuse the other: some run decoders and nothing else."""
_LOW_DISK_BYTES = 2_000_000_000


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_place(parser)
    add_timeout(parser, 300.0)
    add_json(parser)


def main(args: argparse.Namespace) -> int:
    """Print what works; 1 if the environment is broken or a backend that should work does not."""
    from cross_backend.cache import Cache
    from cross_backend.comparison.sites import site_at
    from cross_backend.report.terminal import Terminal

    address = parse(args.on)
    terminal, cache = Terminal(quiet=args.json), Cache()
    with site_at(address, cache, args.via) as site:
        return _examine(args, site, cache, terminal)


def _examine(args: argparse.Namespace, site: Site, cache: Cache, terminal: Terminal) -> int:
    from cross_backend.registry import find_backend, rows
    from cross_backend.report.outcomes import sentence

    compiler = next((name for name in ("g++", "clang++", "cl") if shutil.which(name)), None)
    told = compiler or "none found: backends that generate C++ need one; install g++ or clang++"
    checks = [*site.checks(), ("C++ compiler", compiler is not None, told), _cache(cache)]
    distributions = sorted({name for row in rows() for name in find_backend(row).distributions})
    machine, versions = site.machine, site.versions(distributions)
    results = []
    if version_of("torch") is None:
        checks.append(("torch", False, "not installed; pip install 'cross-backend[all]'"))
    elif checks[-1][1]:  # nothing can be lowered without a cache
        tried = _tried(args, site, cache, terminal, _PROBE, [name for name, row in rows().items() if row.in_all])
        refusing = [name for name, result in tried.items() if result.outcome is Outcome.UNSUPPORTED]
        if refusing:
            tried |= _tried(args, site, cache, terminal, _DECODER, refusing)
        results = list(tried.values())
    broken = [r for r in results if r.outcome not in {Outcome.OK, Outcome.UNAVAILABLE}]
    healthy = not broken and all(good for _, good, _ in checks)
    if args.json:
        print_json(
            {
                "schema": 1,
                "machine": machine.to_json(),
                "place": site.name,
                "versions": versions,
                "checks": [{"name": name, "ok": good, "text": text} for name, good, text in checks],
                "backends": [{"name": r.target, "outcome": str(r.outcome), "reason": r.reason} for r in results],
                "healthy": healthy,
            }
        )
        return 0 if healthy else 1
    terminal.text(
        f"📊 {machine.cpu}, {machine.usable_cpus} processor(s), {machine.memory_bytes / 1e9:.0f} GB, "
        f"{machine.system}, Python {machine.python}"
    )
    terminal.table(("package", "version"), [(name, version or "not installed") for name, version in versions.items()])
    terminal.text()
    for name, good, text in checks:
        terminal.text(f"{'✅' if good else '❌'} {name}: {sentence(text)}")
    for result in results:
        mark = {Outcome.OK: "✅", Outcome.UNAVAILABLE: "⚠️"}.get(result.outcome, "❌")
        terminal.text(f"{mark} {result.target}: {sentence(result.reason or 'lowered, verified')}")
    return 0 if healthy else 1


def _tried(
    args: argparse.Namespace, site: Site, cache: Cache, terminal: Terminal, model: str, targets: list[str]
) -> dict[str, Result]:
    from cross_backend.comparison.panel import compare
    from cross_backend.comparison.settings import Settings
    from cross_backend.exporting.export import ExportSettings
    from cross_backend.workloads import find_workload

    with export_progress(terminal) as observe:
        panel = compare(
            find_workload(model),
            targets,
            Settings(num_runs=6, timeout_s=args.timeout),
            ExportSettings(cache, timeout_s=args.timeout),
            observe,
            site=site,
        )
    return {result.target: result for result in panel.results}


def _cache(cache: Cache) -> tuple[str, bool, str]:
    from cross_backend.cache import limit_bytes

    root = cache.root
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=root) as file:
            file.write(b"x")
        free = shutil.disk_usage(root).free
    except OSError as error:
        return "cache", False, f"{root} cannot be written ({error.strerror}); set CROSS_BACKEND_CACHE to another folder"
    low, held = free < _LOW_DISK_BYTES, cache.size_bytes()
    text = f"{root}, {held / 1e9:.1f} of at most {limit_bytes() / 1e9:g} GB used, {free / 1e9:.0f} GB free"
    return "cache", not low, text + ("; that is little: free some space" if low else "")
