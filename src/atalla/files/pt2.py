"""What in a ``.pt2`` file is code: found by reading it as data, before torch opens it.

``torch.export.load`` unpickles, evaluates expressions of shapes and guards, looks operators up by any dotted name,
imports the modules that a structure names, writes names into Python source, and loads the libraries of AOTInductor. A
file in which all these places hold what ``torch.export.save`` writes for a program of plain tensors runs nothing.
"""

from __future__ import annotations

import ast
import io
import json
import re
import zipfile
from collections.abc import Callable, Iterator
from typing import IO, Any

from atalla.files.archive import DAMAGE

MAX_JSON_BYTES = 256 << 20
"""Longest graph or table of tensors that is read."""
MAX_EXPRESSION = 10_000
"""Characters of an expression of shapes; of a guard."""
_PLAIN_MEMBER = re.compile(
    r"data/weights/weight_\d+|data/constants/tensor_\d+|archive_format|archive_version|byteorder|\.data/\w+|extra/.*"
    r"|\.format_version|\.storage_alignment"
)
_TENSOR = re.compile(r"(weight|tensor)_\d+")
_NAME = re.compile(r"[\w.:-]*")
"""Of values, parameters, devices: nothing that would be more than a name where torch writes it into Python source."""
_NAMES = {"name", "as_name", "target", "fqn", "expr_str", "in_spec", "out_spec"}
"""Keys whose values are texts: anything else would be written out as if it were one, unread."""
_SYMBOL = re.compile(r"[a-zA-Z]\w{0,63}")
_OPERATORS = re.compile(
    r"_operator\.(getitem|add|sub|mul|truediv|floordiv|mod|neg|pos|pow|abs|eq|ne|lt|le|gt|ge|and_|or_|xor|invert|not_)"
    r"|math\.(ceil|floor|trunc|sqrt|log2|cos|cosh|sin|sinh|tan|tanh|asin|acos|atan|fabs|isnan|isinf)"
    r"|torch\.(_?sym_\w+)"
    r"|torch\.ops\.(prims|quantized_decomposed|torchvision)\.\w+\.\w+"
    r"|torch\.ops\.higher_order\.(cond|while_loop|scan|map_impl|associative_scan|wrap_with_set_grad_enabled"
    r"|wrap_with_autocast|out_dtype|strict_mode)"
)
_ATEN = re.compile(r"torch\.ops\.aten\.(\w+)\.\w+")
_FUNCTIONS = re.compile(
    "Symbol|Integer|Rational|Float|Add|Mul|Pow|Max|Min|Mod|Abs|Eq|Ne|Lt|Le|Gt|Ge|Equality|Unequality|LessThan|GreaterThan"
    "|StrictLessThan|StrictGreaterThan|And|Or|Not|PythonMod|FloorDiv|CleanDiv|IntTrueDiv|FloatTrueDiv|ToFloat|CeilToInt"
    "|FloorToInt|TruncToInt|RoundToInt|Identity|Where|ModularIndexing|BitwiseFn_bitwise_and|BitwiseFn_bitwise_or"
    "|PowByNatural|floor|ceiling|int|float|bool"
)
_CONSTANTS = {"oo", "int_oo", "true", "false"}
_NODES = (
    *(ast.Expression, ast.Constant, ast.UnaryOp, ast.BinOp, ast.BoolOp, ast.Compare, ast.Load, ast.keyword),
    *(ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.Tuple),
)
_HARMFUL = re.compile(
    r"from_file|from_blob|save|_print|set_\w*|resize\w*|_resize\w*|data_ptr|(?!_unsafe_view$)\w*unsafe\w*"
    r"|_nested_\w*buffer\w*|_test_\w+|record_stream|_pin_memory|pin_memory|as_strided\w*|_reshape_alias\w*"
)
"""Operators of ATen that touch files, or memory that is not theirs.

torch itself checks the strides of ``as_strided`` and the indices of ``_unsafe_index``; its compiler does not, and reads
behind the tensor. ``_unsafe_view`` has its shape checked by both."""
_DAMAGE = (*DAMAGE, KeyError, TypeError, AttributeError, IndexError, RecursionError)
_CONTAINERS = {None, *(f"builtins.{name}" for name in ("tuple", "list", "dict"))}
_CONTAINERS |= {f"collections.{name}" for name in ("namedtuple", "OrderedDict", "deque")}


def code_in(file: IO[bytes]) -> str | None:
    """Return what in a ``.pt2`` file could run code when torch opens it; None where nothing could.

    Args:
        file: what ``archive.rewritten`` yields, and what torch then opens.

    Raises:
        ValueError: it is no such file, or damaged.
        OSError: it cannot be read.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            return next(_findings(archive), None)
    except _DAMAGE as error:
        raise ValueError(f"{type(error).__name__}: {str(error)[:200]}") from error


def _findings(archive: zipfile.ZipFile) -> Iterator[str]:
    """Yield every place that torch would run, evaluate or unpickle."""
    members = archive.infolist()
    names = [info.filename for info in members]
    if len(set(names)) != len(names) or len({name.partition("/")[0] for name in names}) != 1:
        raise ValueError("its members are ambiguous")
    if any(info.compress_type != zipfile.ZIP_STORED for info in members):
        raise ValueError("its members are compressed")
    for info in members:
        name = info.filename.partition("/")[2]
        if name.startswith("data/sample_inputs/"):
            if info.file_size and not _holds_tensors(archive.read(info)):
                yield "pickled sample inputs"
        elif re.fullmatch(r"data/(weights|constants)/\w+\.json", name):
            yield from _in_tensors(_json(archive, info), name)
        elif re.fullmatch(r"models/[\w.-]+\.json", name):
            yield from _in_program(_json(archive, info))
        elif name.startswith("data/aotinductor/"):
            yield "a compiled library"
        elif not _PLAIN_MEMBER.fullmatch(name):
            yield f"the member {name[:80]!r}"


def _holds_tensors(pickled: bytes) -> bool:
    """Whether a pickle holds tensors and plain values only: torch then reads it without running anything."""
    import torch

    try:
        torch.load(io.BytesIO(pickled), weights_only=True)
    except Exception:
        return False
    return True


def _json(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Any:
    if info.file_size > MAX_JSON_BYTES:
        raise ValueError(f"{info.filename} is longer than {MAX_JSON_BYTES >> 20} MiB")
    return json.loads(archive.read(info))


def _in_tensors(document: Any, name: str) -> Iterator[str]:
    """Yield what a table of weights or constants would unpickle."""
    for entry in document["config"].values():
        if entry["use_pickle"] is not False or not _TENSOR.fullmatch(entry["path_name"]):
            yield f"a pickle named by {name}"
        if (entry["tensor_meta"] or {}).get("device", {}).get("type") == "meta":
            yield f"a tensor without data named by {name}"
        yield from _in_value(entry["tensor_meta"], "")


def _in_program(document: Any) -> Iterator[str]:
    document = dict(document)
    document.pop("torch_version", None)
    for guard in document.pop("guards_code", None) or ():
        if not _is_plain(guard, _guard_node):
            yield "a guard that is more than a comparison of sizes"
    yield from _in_value(document, "")


def _in_value(value: Any, key: str) -> Iterator[str]:
    """Yield what is code in a value of the graph's JSON; its key says what torch does with a text."""
    if key == "metadata":  # shown only
        return
    if isinstance(value, dict):
        if {"target", "inputs", "outputs"} <= value.keys() and not allowed(value["target"]):
            yield f"a call of {value['target'][:80]}"
        for name, item in value.items():
            if name in _NAMES and not isinstance(item, str | None):
                yield f"something else than a text for a {name}"
            yield from _in_text(name, "")
            yield from _in_value(item, name)
    elif isinstance(value, list):
        for item in value:
            yield from _in_value(item, key)
    elif isinstance(value, str):
        yield from _in_text(value, key)


def _in_text(text: str, key: str) -> Iterator[str]:
    if key in {"as_string", "as_strings"}:  # handed to an operator as it is
        return
    if key == "expr_str":
        if not _is_plain(text, _expression_node):
            yield "a shape that is more than arithmetic"
    elif key in {"in_spec", "out_spec"}:
        if text and not _is_plain_structure(json.loads(text)[1]):
            yield "a structure of other classes than list, tuple and dict"
    elif not _NAME.fullmatch(text):
        yield f"the name {text[:40]!r}"


def allowed(operator: Any) -> bool:
    """Whether a program of a stranger may call an operator (``torch.ops.aten.add.Tensor``)."""
    found = _ATEN.fullmatch(operator)
    return not _HARMFUL.fullmatch(found[1]) if found else bool(_OPERATORS.fullmatch(operator))


def _is_plain(text: Any, is_allowed: Callable[[ast.AST], bool]) -> bool:
    """Whether a text is an expression of allowed nodes only."""
    if not isinstance(text, str) or len(text) > MAX_EXPRESSION:
        return False
    try:
        return all(is_allowed(node) for node in ast.walk(ast.parse(text.strip(), mode="eval")))
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False


def _expression_node(node: ast.AST) -> bool:
    if isinstance(node, ast.Name):
        return (
            bool(_FUNCTIONS.fullmatch(node.id))
            or node.id in _CONSTANTS
            or bool(_SYMBOL.fullmatch(node.id) and "__" not in node.id and node.id[-1:].isdigit())
        )
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and bool(_FUNCTIONS.fullmatch(node.func.id))
    if isinstance(node, ast.Constant):
        return _is_plain_constant(node.value)
    return isinstance(node, _NODES)


def _guard_node(node: ast.AST) -> bool:
    if isinstance(node, ast.Name):
        return bool(_FUNCTIONS.fullmatch(node.id)) or node.id in {"L", "math"}
    if isinstance(node, ast.Attribute):
        return node.attr in {"size", "stride", "floor", "ceil", "trunc", "sqrt"}
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute) or (
            isinstance(node.func, ast.Name) and bool(_FUNCTIONS.fullmatch(node.func.id))
        )
    if isinstance(node, ast.Constant):
        return _is_plain_constant(node.value)
    return isinstance(node, (*_NODES, ast.Subscript))


def _is_plain_constant(value: Any) -> bool:
    if isinstance(value, str):
        return bool(_SYMBOL.fullmatch(value)) and "__" not in value
    return isinstance(value, bool | float) or (isinstance(value, int) and abs(value) < 1 << 64) or value is None


def _is_plain_structure(spec: Any) -> bool:
    """Whether a tree of containers names plain ones only; others import modules."""
    return (
        spec["type"] in _CONTAINERS
        and "__enum__" not in json.dumps(spec["context"])
        and all(map(_is_plain_structure, spec["children_spec"]))
    )
