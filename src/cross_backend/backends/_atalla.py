"""What Atalla's two backends share: whether it is whole here, and what a blob's instructions are."""

from __future__ import annotations

import functools
import hashlib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from cross_backend.backend import Option, Unavailable
from cross_backend.placement import Arithmetic, count_operators

PRECISION = Option(
    "float32; products of bfloat16 with sums of float32; or int8 quantised on the calibration inputs",
    "fp32",
    ("fp32", "bf16", "int8"),
)

NO_SCRIPT = "Atalla's compiler is part of this package, so no script shows its faults without it; file an issue here."


def missing_kernels() -> Unavailable | None:
    """Return that the C kernels were not built; None where they are there."""
    from atalla.library import library_path

    path = library_path()
    return (
        None
        if path.exists()
        else Unavailable(f"needs Atalla's C kernels, which are not at {path}", "python -m atalla.build")
    )


@functools.cache
def compiler_digest() -> str:
    """Digest Atalla's compiler, so that what another one made is not served from the cache."""
    import atalla

    folder = Path(atalla.__file__).parent
    files = [*sorted(folder.rglob("*.py")), *sorted(folder.rglob("*.inc"))]
    return f"atalla {hashlib.sha256(b''.join(file.read_bytes() for file in files)).hexdigest()}"


def instruction_arithmetic(blob: bytes) -> Arithmetic:
    """Tell the instructions of a quantised program apart by the types of what they read and write."""
    from atalla.blob.reader import parse
    from atalla.isa import Dtype, Op

    listing = parse(blob)
    low: Counter[str] = Counter()
    kept: Counter[str] = Counter()
    conversions = 0
    for row in listing.instructions:
        if row.op is Op.END or row.dst is None:
            continue
        reads = [listing.tensors[source].dtype for source in row.sources if source is not None]
        writes, eight = listing.tensors[row.dst].dtype, {Dtype.I8, Dtype.U8}
        if row.op is Op.EW and len(reads) == 1 and (reads[0] in eight) != (writes in eight):
            conversions += 1
        elif row.op in {Op.COPY, Op.FILL, Op.GATHER, Op.IOTA}:
            continue
        else:
            (low if reads and reads[0] in eight else kept)[row.op.name] += 1
    return Arithmetic(count_operators(low), count_operators(kept), conversions)


def instruction_counts(blob: bytes) -> Mapping[str, int]:
    """Count the instructions that the accelerator itself executes, by the names of their operations."""
    from atalla.blob.reader import parse
    from atalla.isa import Op

    rows = parse(blob).instructions
    return Counter(row.op.name for row in rows if row.op not in {Op.END, Op.CALL_HOST})
