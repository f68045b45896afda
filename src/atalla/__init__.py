"""Atalla: from ``torch.export`` to a versioned blob, and from there to C kernels; a complete, small accelerator.

>>> import atalla
>>> compiled = atalla.compile(torch.export.export(model, (x,)))
>>> outputs = atalla.load(compiled.data).run((x,))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from atalla.errors import AtallaError, BlobError, CompileError, InputError, KernelError, ReferenceWarning

if TYPE_CHECKING:
    import os

    from atalla.compiler import Compiled, compile  # noqa: A004  the verb
    from atalla.device import Hardware
    from atalla.isa.format import Bytes
    from atalla.run.runtime import Loaded

__all__ = [
    "AtallaError",
    "BlobError",
    "CompileError",
    "Compiled",
    "InputError",
    "KernelError",
    "Loaded",
    "ReferenceWarning",
    "compile",
    "load",
]


def load(
    data: Bytes | str | os.PathLike[str],
    *,
    threads: int = 1,
    isa: str | None = None,
    profile: bool = False,
    verify_constants: bool = False,
    trust: bool = False,
    executor: str | None = None,
    hardware: Hardware | None = None,
    events: bool = False,
) -> Loaded:
    """Load a blob.

    Where the C kernels were not built, the reference runs it, with a :class:`ReferenceWarning`.

    Args:
        data: its bytes, or the path of its file, which is mapped: weights are read when they are used. The file must
            stay as it is as long as the blob is used. On Linux a file of 32 MB and more is read at once, into large
            pages.
        threads: of the kernels, the caller's among them.
        isa: ``amx``, ``vnni``, ``avx512``, ``avx2``, ``base`` or ``reference``; None for the best that is here.
        profile: keep the time of each instruction.
        verify_constants: read all weights, and compare them with their checksum. Without it damaged weights give
            wrong numbers, never a wrong access to memory.
        trust: let it call any operator of this process, custom ones among them, where the accelerator lacks one; for
            blobs of your own. Without it a blob calls what ``csrc/hosted.inc`` lists: operators of torch that make
            tensors of tensors, and do nothing else.
        executor: ``fast``, the kernels; ``device``, a simulated accelerator with the arithmetic of ``isa``; ``rtl``,
            the same with the matrix unit in SystemVerilog for int8 and bfloat16; or ``reference``. None for what
            ``isa`` says.
        hardware: of the device; None for the usual one.
        events: of the device: keep what each micro-operation did.

    Raises:
        InputError: there is no such executor, or no RTL for this hardware.
        BlobError: the bytes are no sound blob.
        KernelError: not enough memory, an instruction set that this processor lacks, a program that does not fit into
            the device, or a library that is broken.
        AtallaError: a tool that the RTL needs is absent, with the command that gets it.
        OSError: the file cannot be read.
    """
    from atalla.run.runtime import Loaded

    if executor not in {None, "fast", "device", "rtl", "reference"}:
        raise InputError(f"there is no executor {executor!r}: there are fast, device, rtl and reference")
    device = None
    if executor in {"device", "rtl"}:
        from atalla.device import DeviceOptions, Hardware

        device = DeviceOptions(hardware or Hardware(), events=events, rtl=executor == "rtl")
    elif hardware is not None or events:
        raise InputError("hardware and events are of the device: executor='device' or 'rtl'")
    isa = "reference" if executor == "reference" else isa
    return Loaded(
        data, threads=threads, isa=isa, profile=profile, verify_constants=verify_constants, trust=trust, device=device
    )


def __getattr__(name: str) -> Any:
    if name in {"Compiled", "compile"}:
        from atalla import compiler as module

        return getattr(module, name)
    if name == "Loaded":
        from atalla.run.runtime import Loaded

        return Loaded
    raise AttributeError(f"module 'atalla' has no attribute {name!r}")
