"""Names: what a new chip may be called: a Python package, a backend, and a prefix in C, that nothing else is called."""

from __future__ import annotations

import importlib.util
import keyword
import re
import sys

from atalla.scaffold.renaming import clash

TAKEN = {
    *(
        "acl",
        "aot_inductor",
        "arm",
        "atalla",
        "browser",
        "compile",
        "coreml",
        "cpu",
        "cuda",
        "directml",
        "dnnl",
        "eager",
        "ethos_u",
    ),
    *(
        "executorch",
        "genai",
        "iree",
        "litert",
        "llama_cpp",
        "llvm_cpu",
        "migraphx",
        "mnn",
        "mps",
        "ncnn",
        "null",
        "onnxruntime",
        "openvino",
        "ort",
        "portable",
        "qnn",
    ),
    *("rocm", "tensorrt", "torch", "vulkan", "wasm", "webgpu", "xnnpack"),
}
"""What cross-backend's own backends and their families are called: it would never see another one of that name."""
DEVICES = {"aux", "con", "nul", "prn", *(f"{port}{number}" for port in ("com", "lpt") for number in range(10))}
"""What Windows lets no file be called."""
C_WORDS = {
    *("auto", "bool", "case", "char", "const", "default", "do", "double", "enum", "extern", "float", "goto", "inline"),
    *("int", "long", "main", "register", "restrict", "short", "signed", "sizeof", "static", "struct", "switch"),
    *("typedef", "typeof", "union", "unsigned", "void", "volatile", "alignas", "alignof", "constexpr", "nullptr"),
    *("class", "namespace", "new", "delete", "template", "this", "throw", "using", "virtual", "operator", "friend"),
    *("private", "public", "protected", "mutable", "explicit", "export", "typename", "catch", "wchar_t", "asm"),
}
"""Words of C and C++ that no function or folder of a C program may be called, and ``main``."""
NEEDED = {"conftest", "cross_backend", "hatchling", "nets", "numpy", "pytest", "tests"}
"""What the package itself imports, or is made with."""
MOST_LETTERS = 30


def why_not(name: str) -> str | None:
    """Return why a chip cannot be called so; None if it can."""
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name):
        return "write small letters, digits and single underscores, a letter first, as in my_chip2"
    if (word := clash(name)) is not None:
        return f"the package means something else by {word}"
    is_taken = {
        f"it has more than {MOST_LETTERS} letters": len(name) > MOST_LETTERS,
        "it is a word of Python": keyword.iskeyword(name) or keyword.issoftkeyword(name),
        "it is a module of Python's own library": name in sys.stdlib_module_names,
        "it is a word of C or C++": name in C_WORDS,
        "Windows lets no file be called so": name in DEVICES,
        "cross-backend has a backend of that name": name in TAKEN,
        "the package would need another one of that name": name in NEEDED,
        "a module of that name is installed here": _is_installed(name),
    }
    return next((reason for reason, holds in is_taken.items() if holds), None)


def _is_installed(name: str) -> bool:
    spec = importlib.util.find_spec(name)
    return spec is not None and spec.origin is not None  # a folder without code does no harm
