"""Sites: what the addresses of ``--on`` name, connected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from cross_backend.bench.runner_bench import MachineThere, RunnerMachine
from cross_backend.cache import Cache
from cross_backend.comparison.site import ASK_S, HERE, Site, WithPython, WithRunner
from cross_backend.errors import PlaceError, WorkerError
from cross_backend.machine import Machine
from cross_backend.places.adb import AdbPlace
from cross_backend.places.address import Address
from cross_backend.places.emulated import EmulatedPlace
from cross_backend.places.place import BEAT_S, LEASE_S, Place
from cross_backend.places.python import prepare
from cross_backend.places.shell import ShellPlace
from cross_backend.places.ssh import SshPlace
from cross_backend.toolchains import RUNNER, RUNNERS
from cross_backend.worker.process import Elsewhere, Worker

VIA = ("python", "runner")
"""What measures at a place."""
_ARCHITECTURES = {"arm64": "aarch64", "amd64": "x86_64"}


@contextmanager
def site_at(address: Address, cache: Cache, via: str | None = None) -> Iterator[Site]:
    """Connect to a place and make it ready; all that was started there ends with the context.

    Args:
        address: of the place.
        cache: where logs go.
        via: one of :data:`VIA`; where None, Python if it is there, else the C++ runner. Here it is always Python.

    Raises:
        PlaceError: it cannot be reached, or lacks something; the text says what to do.
    """
    if address.kind == "local":
        yield HERE
        return
    with ExitStack() as stack:
        place = stack.enter_context(_place(address))
        if via == "python" and address.kind == "adb":
            raise PlaceError(f"{place.name} has no Python for workers. Leave --via out: the C++ runner measures there.")
        if via == "runner" or address.kind != "ssh" or not isinstance(place, ShellPlace):
            yield _with_runner(place, cache, stack)
            return
        python = address.option("python", "python3")
        try:
            elsewhere = prepare(place, python, cache)
        except PlaceError as error:
            if via == "python" or place.lost() is not None or address.options:
                raise
            yield _instead(place, cache, stack, error)
            return
        observer = stack.enter_context(Worker(cache.log("there"), python, elsewhere=elsewhere))
        yield WithPython(place, elsewhere, python, observer)


def _place(address: Address) -> Place:
    if address.kind == "ssh":
        return SshPlace(address)
    if address.kind == "qemu":
        return EmulatedPlace(address)
    return AdbPlace(address)


def _instead(place: Place, cache: Cache, stack: ExitStack, why: PlaceError) -> Site:
    """Return a site with the runner where Python cannot be used; where that cannot be either, both reasons."""
    try:
        return _with_runner(place, cache, stack)
    except PlaceError as error:
        raise PlaceError(f"{why} Without Python: {error}") from error


def _with_runner(place: Place, cache: Cache, stack: ExitStack) -> Site:
    found, system = place.facts.get("architecture", ""), place.facts.get("system", "")
    architecture = _ARCHITECTURES.get(found, found)
    build = next((one for one in RUNNERS.values() if (one.system, one.architecture) == (system, architecture)), None)
    if build is None:
        known = ", ".join(f"{one.system} on {one.architecture}" for one in RUNNERS.values())
        raise PlaceError(f"{place.name} is {system} on {found}; the runner is for {known}.")
    if not build.added:
        raise PlaceError(f"{place.name} needs the C++ runner. Run: cross-backend toolchain add {build.name}")
    folder = place.push(build.files)
    program = (f"{folder}/{RUNNER}", "--serve", "--lease", str(LEASE_S))
    if isinstance(place, ShellPlace):
        place.make_executable(program[0])
    is_emulated = "emulated" in place.facts
    elsewhere = Elsewhere(place.start, {}, program, LEASE_S, BEAT_S)
    worker = stack.enter_context(Worker(cache.log("there"), elsewhere=elsewhere))
    try:
        found_there = worker.ask(RunnerMachine(), ASK_S)
    except WorkerError as error:
        place.raise_if_lost(error)
        needs = f"It needs Linux on {architecture} with a glibc as new as that of the machine that built it"
        raise PlaceError(f"{place.name} cannot start the C++ runner ({error}). {needs}.") from error
    reason = "an emulated machine: right or wrong is all that it shows" if is_emulated else None
    machine = _machine(found_there, place.facts, is_emulated=is_emulated)
    return WithRunner(place, elsewhere, tuple(found_there.runtimes), machine, reason)


def _machine(found: MachineThere, facts: Mapping[str, str], *, is_emulated: bool) -> Machine:
    """Return the machine's identity: the runner's word, and a phone's own on chip, model and system."""
    is_android = facts.get("system") == "Android"
    return Machine(
        cpu=f"{found.architecture}, emulated" if is_emulated else facts.get("cpu", found.cpu),
        isa=(),
        physical_cores=found.cores,
        usable_cpus=found.cores,
        memory_bytes=found.memory_bytes,
        system="android" if is_android else found.system,
        arch=found.architecture,
        release=facts["release"] if is_android else found.release,
        python="none",
    )
