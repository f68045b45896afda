"""Print what this machine advertises to a Ray cluster, or join one.

ray start --address HOST:PORT --resources "$(cross-backend node)"
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import subprocess
import sys

from cross_backend.errors import PlaceError, UnavailableError, UsageError

UNTOUCHED = {"RAY_worker_niceness": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
"""Environment of a node that measures: Ray runs its tasks at a low priority otherwise, and hides GPUs from them."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--name", metavar="NAME", help="name in study files (default: the host's name)")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--prepare", action="store_true", help="capture and lower only: such a machine never measures")
    what.add_argument("--place", metavar="PLACE", help="measure at a place instead: adb:SERIAL, ssh://pi")
    parser.add_argument(
        "--join", metavar="HOST:PORT", help="join the cluster of this head, and stay until the command is stopped"
    )


def main(args: argparse.Namespace) -> int:
    """Print the resources, or become a node."""
    from cross_backend.machine import Machine
    from cross_backend.places.address import parse
    from cross_backend.study.machines import resources_of, slug

    name = args.name or platform.node()
    if not slug(name):
        raise UsageError(f"--name {name!r}: a name has letters or digits.")
    if args.place is not None:
        parse(args.place)
    resources = json.dumps(resources_of(Machine.here(), name, args.place, prepares=args.prepare))
    if args.join is None:
        print(resources)
        return 0
    if importlib.util.find_spec("ray") is None:
        raise UnavailableError("Ray is not installed", "install it with: pip install 'cross-backend[ray]'")
    from cross_backend.study.launchers.cluster import answers

    if not answers(args.join):
        raise PlaceError(f"no Ray cluster answers at {args.join}. Start one there: ray start --head")
    command = ["-m", "ray.scripts.scripts", "start", f"--address={args.join}", f"--resources={resources}", "--block"]
    return subprocess.call([sys.executable, *command], env={**UNTOUCHED, **os.environ})
