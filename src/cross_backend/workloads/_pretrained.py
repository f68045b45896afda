"""Published weights of transformers: read here as data, so that the package itself opens no file of a stranger.

The package would obey more of a folder than its weights: other files by name, quantisers, adapters, kernels.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, NoReturn

from cross_backend.errors import ArtifactError, CaptureError, failing_as, one_line
from cross_backend.foreign_files import open_regular, read_regular
from cross_backend.workloads.checkpoint import read_checkpoint

CONFIG, WHOLE, PICKLED = "config.json", "model.safetensors", "pytorch_model.bin"
INDEX = ".index.json"
"""Ending of the file that says which shard holds which tensor."""
_SIZES = ("hidden_size", "num_hidden_layers", "num_attention_heads")
"""What published weights must agree in; vocabularies may differ."""
MAX_CONFIG_BYTES, MAX_INDEX_BYTES = 1 << 20, 16 << 20
MAX_TEXT, MAX_NUMBER = 100, 1 << 31
"""Longest text and largest number of a configuration."""
MOST_BYTES = 16
"""Of all files, for each parameter: float64, and as much again for what a checkpoint holds beside its model."""
SPARE_BYTES = 64 << 20
"""Of all files, beside that."""


def load_pretrained(name: str, kind: Any, config: Any, weights: str) -> Any:
    """Build a model with published weights.

    Args:
        name: of the workload, for messages.
        kind: a model class of transformers.
        config: its configuration, which the weights must fit.
        weights: a folder with ``config.json`` and weights, or a name on the hub.

    Raises:
        CaptureError: the weights are not there, are damaged, or are not this model's.
    """
    import torch

    with failing_as(CaptureError, f"weights {weights} cannot be read"), _named(weights):
        folder = Path(weights) if Path(weights).is_dir() else _fetched(name, weights)
        found = _config_in(folder, name, config, weights)
        found._attn_implementation = "eager"  # noqa: SLF001  not every class takes it as an argument
        with torch.device("meta"):
            count = sum(one.numel() for one in kind(found).parameters())
        state = _tensors_in(folder, MOST_BYTES * count + SPARE_BYTES)
        held = sum(one.numel() for one in state.values())
        if count > 2 * held:  # where only some lack, they are named below
            raise ArtifactError(f"{CONFIG} describes {count:,} parameters; the files hold {held:,}.")
        model, report = kind.from_pretrained(
            None, config=found, state_dict=state, dtype=torch.float32, output_loading_info=True,
            ignore_mismatched_sizes=True,
        )  # fmt: skip
    if report["missing_keys"]:
        raise CaptureError(f"weights {weights} lack {min(report['missing_keys'])} of {name}.")
    for key, got, wanted in sorted(report["mismatched_keys"])[:1]:
        raise CaptureError(f"weights {weights} hold {key} of shape {list(got)}; {name} needs {list(wanted)}.")
    return model


@contextlib.contextmanager
def _named(weights: str) -> Iterator[None]:
    try:
        yield
    except ArtifactError as error:
        raise CaptureError(f"weights {weights} cannot be read: {error}") from error


def _fetched(name: str, weights: str) -> Path:
    """Return the folder in which the hub's client keeps published weights; it fetches what it lacks."""
    from huggingface_hub import snapshot_download

    try:
        folder = Path(snapshot_download(weights, allow_patterns=[CONFIG, "model*.safetensors", WHOLE + INDEX]))
        if not any(folder.glob("*.safetensors")):
            snapshot_download(weights, allow_patterns=["pytorch_model*.bin", PICKLED + INDEX])
    except Exception as error:
        raise CaptureError(
            f"transformers cannot get weights {weights!r} for {name} here: {one_line(error)} "
            "Give a checkpoint file, a folder, or a name on the hub if there is a network."
        ) from error
    return folder


def _config_in(folder: Path, name: str, config: Any, weights: str) -> Any:
    """Return the configuration in a folder: of its fields, those of this kind of model, and of them plain values.

    Raises:
        CaptureError: it is of another model.
    """
    row = _parsed(read_regular(_inside(folder, CONFIG), MAX_CONFIG_BYTES), CONFIG)
    names = {field.name for field in fields(config) if field.name in type(config).__annotations__}
    given = {config.attribute_map.get(key, key): value for key, value in row.items()}
    plain = {key: value for key, value in given.items() if key in names and _is_plain(key, value)}
    layers = [key for key in names if key.rstrip("s").endswith("layer") and isinstance(getattr(config, key), int)]
    sizes = [config.attribute_map.get(key, key) for key in _SIZES if hasattr(config, key)]
    wanted = {"model_type": config.model_type, **{key: getattr(config, key) for key in (*sizes, *sorted(layers))}}
    default = type(config)()
    got = {key: plain.get(key, getattr(default, key)) for key in wanted if key in names}
    wrong = [key for key, value in wanted.items() if got.get(key, row.get(key)) != value]
    if wrong:
        shown = {theirs: ours for ours, theirs in config.attribute_map.items()}
        values = ", ".join(
            f"{shown.get(key, key)} {str(got.get(key, row.get(key)))[:MAX_TEXT]} instead of {wanted[key]}"
            for key in dict.fromkeys(wrong)
        )
        raise CaptureError(f"weights {weights} are not of {name}: {values}.")
    with failing_as(ArtifactError, f"{CONFIG} describes no model"):
        return type(config)(**plain)


def _is_plain(key: str, value: Any) -> bool:
    if isinstance(value, str) and len(value) > MAX_TEXT:
        raise ArtifactError(f"{CONFIG} holds a text of {len(value)} characters as {key}.")
    if isinstance(value, int | float) and not abs(value) < MAX_NUMBER:
        raise ArtifactError(f"{CONFIG} holds a number as {key} that no model has.")
    return value is None or isinstance(value, str | int | float)


def _parsed(data: bytes, name: str) -> Mapping[str, Any]:
    try:
        row = json.loads(data, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"{name} is no JSON ({one_line(error)}).") from error
    if not isinstance(row, dict):
        raise ArtifactError(f"{name} holds no object.")
    return row


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON")


def _inside(folder: Path, name: str) -> Path:
    """Return the path of a file of a folder; a link must not lead out of it, but to where the hub's client keeps files.

    Raises:
        ArtifactError: it does, or the name is a path.
    """
    if Path(name).name != name or not 0 < len(name) < MAX_TEXT or "\\" in name or "\0" in name:
        raise ArtifactError(f"{name[:MAX_TEXT]!r} is no name of a file in {folder}.")
    with failing_as(ArtifactError, f"{name[:MAX_TEXT]} cannot be found"):
        path, roots = (folder / name).resolve(), [folder.resolve()]
    if roots[0].parent.name == "snapshots":
        roots.append(roots[0].parent.parent / "blobs")
    if path.parent not in roots:
        raise ArtifactError(f"{folder / name} leads out of the folder.")
    return path


def _tensors_in(folder: Path, most: int) -> dict[str, Any]:
    """Return the floating point tensors of a folder's weights.

    Args:
        folder: of the weights.
        most: bytes that all files together, and all tensors together, may have.
    """
    import torch

    names = _files_of(folder)
    size = sum((folder / name).stat().st_size for name in names)
    if size > most:
        raise ArtifactError(f"the files hold {size:,} bytes; all that the model can have are {most:,}.")
    found: dict[str, Any] = {}
    for name in names:
        for key, tensor in _read(folder, name):
            if key in found:
                raise ArtifactError(f"{name} holds {key[:MAX_TEXT]} again.")
            is_plain = isinstance(tensor, torch.Tensor) and tensor.layout == torch.strided and not tensor.is_quantized
            if not is_plain or tensor.device.type != "cpu":
                raise ArtifactError(f"{name} holds something as {key[:MAX_TEXT]} that is no plain tensor.")
            if tensor.is_floating_point():  # others are buffers of older versions, such as positions
                most -= math.prod(tensor.shape) * 4
                if most < 0:
                    raise ArtifactError(f"{name} holds tensors that are larger than the model.")
                found[key] = tensor.detach().float()
    return found


def _files_of(folder: Path) -> list[str]:
    """Return the names of the files that hold a folder's weights.

    Raises:
        ArtifactError: there are none, or one lies elsewhere.
    """
    for whole in (WHOLE, PICKLED):
        if (folder / whole).exists():
            names = [whole]
        elif (folder / (whole + INDEX)).exists():
            rows = _parsed(read_regular(_inside(folder, whole + INDEX), MAX_INDEX_BYTES), whole + INDEX)
            shards = rows.get("weight_map")
            if not isinstance(shards, dict) or not all(isinstance(one, str) for one in shards.values()):
                raise ArtifactError(f"{whole}{INDEX} does not say which file holds which tensor.")
            names = sorted(set(shards.values()))
        else:
            continue
        for name in names:
            open_regular(_inside(folder, name)).close()  # says now what is no file
        return names
    raise ArtifactError(f"{folder} holds neither {WHOLE} nor {PICKLED}.")


def _read(folder: Path, name: str) -> Iterator[tuple[str, Any]]:
    """Yield the tensors of one file by their names."""
    path = _inside(folder, name)
    if not name.endswith(".safetensors"):
        state = read_checkpoint(path)
        if not all(isinstance(key, str) for key in state):
            raise ArtifactError(f"{name} holds tensors without names.")
        yield from state.items()
        return
    from safetensors import safe_open

    with open_regular(path) as file:
        length = int.from_bytes(file.read(8), "little")
    if length > MAX_INDEX_BYTES:
        raise ArtifactError(f"{name} has a header of {length:,} bytes.")
    with safe_open(path, "pt") as opened:
        for key in opened.keys():  # noqa: SIM118  it is no mapping
            yield key, opened.get_tensor(key)
