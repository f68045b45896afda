"""Device: how long a program takes on a simulated device, without running it: no data, no inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from atalla.blob.reader import parse
from atalla.blob.specialize import specialize
from atalla.device.hardware import Hardware
from atalla.device.options import DeviceOptions
from atalla.device.simulation import Named, Simulation
from atalla.run.kernels import Context, OpenBlob
from atalla.run.names import names_of

if TYPE_CHECKING:
    from atalla.isa.format import Bytes


class DryProgram:
    """A program whose time is asked for, on as much hardware as one likes."""

    def __init__(self, data: Bytes, shapes: Sequence[Sequence[int]] | None = None, *, trust: bool = True) -> None:
        """Prove that the bytes are sound.

        Args:
            data: the blob.
            shapes: of the inputs, of a program that runs with several; None for those of the example.
            trust: it may call any operator on the host; nothing is called.

        Raises:
            BlobError: they are not.
            InputError: the program does not take these shapes.
        """
        blob, listing = OpenBlob(data, trust=trust), parse(data)
        self._blob = blob if shapes is None else blob.specialize(shapes)
        self._names: list[Named] = names_of(listing if shapes is None else parse(specialize(listing, shapes)))

    def simulate(self, hardware: Hardware, isa: str | None = None, *, events: bool = False) -> Simulation:
        """Return what a run takes.

        Raises:
            KernelError: the program does not fit; the text names the smallest scratchpad that would do.
        """
        context = Context(self._blob, 1, isa, device=DeviceOptions(hardware, dry=True, events=events))
        context.run([], [])
        found = context.simulation(self._names)
        assert found is not None  # it has a device
        return found


def simulate(
    data: Bytes,
    hardware: Hardware | None = None,
    *,
    shapes: Sequence[Sequence[int]] | None = None,
    events: bool = False,
) -> Simulation:
    """Return how long a program takes on the device; see :class:`DryProgram`."""
    return DryProgram(data, shapes).simulate(hardware or Hardware(), events=events)
