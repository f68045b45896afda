"""Names: what a new chip may be called: a Python package, a backend, and a prefix in C, that nothing else is called."""

from __future__ import annotations

import importlib.util
import keyword
import re
import sys

from atalla.errors import AtallaError

TAKEN = frozenset(
    "acl aot_inductor arm atalla compile coreml cpu cuda directml dnnl eager ethos_u executorch iree llvm_cpu migraphx mps "
    "null onnxruntime openvino ort portable qnn rocm tensorrt torch vulkan webgpu xnnpack".split()
)
"""What cross-backend's own backends and their families are called: it would never see another one of that name."""
NEEDED = frozenset("conftest cross_backend hatchling nets numpy pytest tests".split())
"""What the package itself imports, or is made with."""
MOST_LETTERS = 30


def check_name(name: str) -> None:
    """Refuse what cannot be a package, or is one already.

    Raises:
        AtallaError: it is not free; the text says why.
    """
    if why := _why_not(name):
        raise AtallaError(f"{name!r} cannot be the name of a chip: {why}")


def _why_not(name: str) -> str | None:
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name):
        return "write small letters, digits and single underscores, a letter first, as in my_chip2"
    if len(name) > MOST_LETTERS:
        return f"it has more than {MOST_LETTERS} letters"
    if keyword.iskeyword(name) or keyword.issoftkeyword(name):
        return "it is a word of Python"
    if name in sys.stdlib_module_names:
        return "it is a module of Python's own library"
    if name in TAKEN:
        return "cross-backend has a backend of that name"
    if name in NEEDED:
        return "the package would need another one of that name"
    if importlib.util.find_spec(name) is not None:
        return "a module of that name is installed here"
    return None
