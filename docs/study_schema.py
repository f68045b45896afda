"""The JSON Schema of a study file, and its page: both from the classes that read such a file."""

from __future__ import annotations

import ast
import inspect
import itertools
import json
import textwrap
from typing import Any

from pydantic import TypeAdapter

from cross_backend.instruments.table import INSTRUMENTS
from cross_backend.names.precisions import MEANINGS
from cross_backend.registry import rows
from cross_backend.study import fields
from cross_backend.study.checked import Checked
from cross_backend.study.machines import MachineClass
from cross_backend.study.spec import StudyOutput, StudySettings, StudySpec
from cross_backend.study.yaml_file import AskedWorkload

FILE = "reference/study.schema.json"
URL = f"https://raw.githubusercontent.com/cross-backend/cross-backend/main/docs/{FILE}"
BELOW: dict[str, type[Checked]] = {
    "workloads": AskedWorkload,
    "settings": StudySettings,
    "output": StudyOutput,
    "machines": MachineClass,
}
"""Key of a study whose value has keys of its own → the class that reads them."""
INTRODUCTION = f"""# Study file

Look up the keys of a [study](../study.md), their values and defaults. Your editor can check a file while you
write it.

Begin the file with this line. Editors with the YAML language server then complete keys and mark mistakes:

```yaml
# yaml-language-server: $schema={URL}
```

A path works in place of the URL. The [examples](../../examples/studies/quick_test.yaml) use one.
The [schema](study.schema.json) is JSON Schema 2020-12.

It checks keys, types, ranges and instruments. `study run FILE --dry-run` also looks up models, targets and precisions,
because other packages may add backends. It reads a quoted number as a number; the schema wants it without quotes.

Written by `make docs` from the classes that read a study file.
"""


def _meanings(kind: type) -> dict[str, str]:
    """Return field → the text that stands below it in the class."""
    body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0].body  # type: ignore[attr-defined]
    found = {}
    for one, after in itertools.pairwise(body):
        if isinstance(one, ast.AnnAssign) and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            found[one.target.id] = " ".join(str(after.value.value).replace("``", "`").split())  # type: ignore[union-attr]
    return found


def _described(schema: dict[str, Any], kind: type) -> dict[str, Any]:
    meanings = _meanings(kind)
    for name, row in schema["properties"].items():
        row.pop("title", None)
        if name in meanings:
            row["description"] = meanings[name]
    schema.pop("title", None)
    schema["description"] = " ".join((inspect.getdoc(kind) or "").split())
    return schema


def schema() -> dict[str, Any]:
    """Return the schema; names that this version knows are offered, and others pass where packages may add some."""
    found = _described(TypeAdapter(StudySpec).json_schema(mode="validation"), StudySpec)
    found["description"] = "What is compared, on which machines, and how."
    found["$defs"][AskedWorkload.__name__] = TypeAdapter(AskedWorkload).json_schema(mode="validation")
    parts = {kind.__name__: _described(found["$defs"][kind.__name__], kind) for kind in BELOW.values()}
    found["properties"]["workloads"]["items"] = {"anyOf": [fields.text.schema, {"$ref": "#/$defs/AskedWorkload"}]}
    found["required"].remove("name")
    names = [name for name, row in rows().items() for name in (name, *row.aliases)]
    targets, precisions = found["properties"]["targets"], found["properties"]["precisions"]["anyOf"][0]
    targets["items"] = {"anyOf": [{"enum": names}, targets["items"]]}
    precisions["items"] = {"anyOf": [{"enum": list(MEANINGS)}, precisions["items"]]}
    instruments = parts["StudySettings"]["properties"]["instruments"]["anyOf"][0]
    instruments["items"] = {"enum": sorted({*INSTRUMENTS, *fields.ALWAYS})}
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": URL, "title": "cross-backend study"}
    return head | found | {"$defs": parts}


def schema_file() -> str:
    """Return the schema as a file."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def _values(row: dict[str, Any]) -> str:
    """Return what a row takes, in words."""
    if "anyOf" in row:
        kinds = [_values(one) for one in row["anyOf"] if one.get("type") != "null"]
        return " or ".join(dict.fromkeys(kinds))
    if "enum" in row:
        return ", ".join(f"`{json.dumps(one) if isinstance(one, bool) else one}`" for one in row["enum"])
    match row.get("type"):
        case "array":
            return f"list of {_values(row['items'])}"
        case "integer" | "number" as kind:
            high = f" to {row['maximum']:,}" if "maximum" in row else " or more"
            return f"{kind} {row['minimum']:,}{high}"
        case "string":
            return "text such as `1%`" if "%" in row.get("pattern", "") else "text"
        case _:
            return "keys below"


def page() -> str:
    """Return the page of all keys."""
    found = schema()
    parts = {"": found} | {key: found["$defs"][kind.__name__] for key, kind in BELOW.items()}
    lines = [INTRODUCTION]
    for key, part in parts.items():
        lines += [f"## {f'`{key}`' if key else 'A study'}", "", part["description"], ""]
        lines += ["| key | value | default | meaning |", "| --- | --- | --- | --- |"]
        for name, row in part["properties"].items():
            default = "required" if name in part.get("required", ()) else _default(row)
            values = "a known name or text" if name == "targets" else _values(row)
            lines.append(f"| `{name}` | {values} | {default} | {row.get('description', '')} |")
        lines.append("")
    return "\n".join(lines)


def _default(row: dict[str, Any]) -> str:
    default = row.get("default")
    if default in (None, [], ()):
        return "none"
    return ", ".join(f"`{one}`" for one in default) if isinstance(default, list) else f"`{json.dumps(default)}`"
