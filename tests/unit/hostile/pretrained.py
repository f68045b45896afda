"""Makers of hostile folders of transformers: damaged weights, configurations that lie, links, names elsewhere."""

from __future__ import annotations

import json
import math
import os
import random
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.unit.hostile.further import _archive, _Code, _repacked, ring
from tests.unit.hostile.makers import TEXTS, VALUES, damaged, patched, poisoned

HUGE = (10**9, 2**31, 2**62, 10**400, 1e308, -(10**9), 0, -1, True, None, "9" * 5000)
WORDS = {
    "auto_map": {"AutoModel": "evil.Model", "AutoConfig": "evil--evil.Config"},
    "_attn_implementation": "kernels-community/evil", "attn_implementation": "evil/evil:f",
    "quantization_config": {"quant_method": "gptq", "bits": 4}, "dtype": "os.system", "torch_dtype": "float8",
    "transformers_weights": "../outside/kept", "base_model_name_or_path": "../outside", "num_labels": 10**9,
    "id2label": {str(i): "x" for i in range(300)}, "pruned_heads": {"0": [0, 1]}, "trust_remote_code": True,
    "kernel_config": {"x": "evil/evil"}, "fusion_config": {"patch_embeddings": True}, "use_kernels": True,
    "__class__": "x", "from_pretrained": 1, "__post_init__": 1, "per_layer_config": {"0": {"hidden_size": 1}},
    "hidden_act": "evil", "rope_parameters": {"rope_type": "x"}, "tie_word_embeddings": False, "is_decoder": True,
}  # fmt: skip
"""Fields of a configuration with which the package would do more than build a model."""
LARGE = "[" * 100_000, '{"a":' * 50_000, '{"vocab_size": NaN}', '{"vocab_size": Infinity}', "[]", "null", "7", ""
DTYPES = ("F32", "F64", "F16", "BF16", "I64", "I8", "BOOL", "F8_E4M3", "C64", "X", "", None, 7)


def safetensors_file(tensors: Mapping[str, tuple[str, list[int], bytes]]) -> bytes:
    """Return the bytes of a file with these tensors: name → type, shape, data."""
    rows, data = {}, b""
    for name, (dtype, shape, held) in tensors.items():
        rows[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(held)]}
        data += held
    return _framed(json.dumps(rows).encode(), data)


def _framed(header: bytes, data: bytes, length: int | None = None) -> bytes:
    return struct.pack("<Q", len(header) if length is None else length) + header + data


def _lying(sound: bytes, rng: random.Random) -> bytes:
    """Return a file whose header lies: of its own length, of types, shapes and places, or is no header."""
    length = struct.unpack("<Q", sound[:8])[0]
    header, data, way = sound[8 : 8 + length], sound[8 + length :], rng.randrange(7)
    if way == 0:
        lengths = (0, 1, length - 1, length + 1, len(sound), 2**31, 2**62, 2**64 - 1, 200 << 20, 50 << 20)
        return _framed(header, data, rng.choice(lengths))
    if way == 1:
        text = rng.choice((*LARGE, header.decode().replace("F32", "F64"), header.decode()[:-1]))
        return _framed(text.encode(), data)
    rows = json.loads(header)
    name = rng.choice([key for key in rows if key != "__metadata__"])
    if way == 2:
        rows[name]["dtype"] = rng.choice(DTYPES)
    elif way == 3:
        rows[name]["shape"] = rng.choice(
            ([2**62, 2**62], [2**32, 2**32], [-1], [0], [], [1] * 5000, [10**30], "x", None, [1.5], [rng.randrange(9)])
        )
    elif way == 4:
        rows[name]["data_offsets"] = rng.choice(([0, 2**62], [5, 1], [-4, 4], [0, len(data)], [], "x", [2**64, 2**65]))
    elif way == 5:
        key = rng.choice([text for text in TEXTS if text != "\ud800"])
        rows[key] = rows.pop(name)
    else:
        rows = poisoned(rows, rng)
    return _framed(json.dumps(rows).encode(), data)


def _other_tensors(state: Mapping[str, Any], rng: random.Random) -> dict[str, Any]:
    """Return a state in which tensors have another type or shape, lack, or are more."""
    import torch

    made, name = dict(state), rng.choice(list(state))
    shape = tuple(state[name].shape)
    made[rng.choice((name, name, name, *TEXTS))] = rng.choice(
        (
            torch.zeros(shape, dtype=torch.int64), torch.zeros(shape, dtype=torch.float16),
            torch.zeros(shape, dtype=torch.complex64), torch.full(shape, math.nan), torch.zeros(1, *shape),
            torch.zeros(()), torch.zeros(0), torch.zeros(1).expand(1 << 40), torch.zeros(1).half().expand(1 << 40),
            torch.zeros(shape).to_sparse(), torch.zeros(shape, device="meta"), torch.float32, "x", 7, None,
            [torch.zeros(shape)], torch.zeros(1 << 20), torch.zeros(shape, dtype=torch.float8_e4m3fn),
        )
    )  # fmt: skip
    if rng.random() < 0.3:
        del made[rng.choice(list(made))]
    return made


class Folders:
    """A maker of folders of a small model of transformers."""

    def __init__(self, model: Any, outside: Path) -> None:
        """Keep what a sound folder holds.

        Args:
            model: whose weights it holds.
            outside: a folder with ``kept``, which no link may lead to.
        """
        import torch

        model.config.save_pretrained(outside.parent / "config")
        self.outside = outside
        self.config = json.loads((outside.parent / "config" / "config.json").read_text())
        self.state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        self.pickled = _archive(self.state)
        self.rows = {
            name: ("F32", list(tensor.shape), tensor.numpy().tobytes())
            for name, tensor in self.state.items()
            if tensor.dtype == torch.float32
        }
        self.sound = safetensors_file(self.rows)
        self.code = (_Code(ring, 1), _Code(os.system, "true"), _Code(bytearray, 1 << 40), _Code(torch.zeros, 1 << 40))

    def __call__(self, rng: random.Random, folder: Path) -> Path:
        """Make one folder."""
        ways: tuple[Callable[[random.Random, Path], None], ...] = (
            self._weights, self._weights, self._pickle, self._pickle, self._shards, self._links, self._others,
            self._others,
        )  # fmt: skip
        root = folder / "weights"
        root.mkdir()
        (root / "config.json").write_text(json.dumps(self.config))
        rng.choice(ways)(rng, root)
        return root

    def _config(self, rng: random.Random, folder: Path) -> None:
        row, path = dict(self.config), folder / "config.json"
        way = rng.randrange(5)
        if way == 0:
            path.write_bytes(damaged(json.dumps(row).encode(), rng))
            return
        if way == 1:
            path.write_text(rng.choice(LARGE))
            return
        if way == 2:
            row[rng.choice([key for key, value in row.items() if isinstance(value, int)])] = rng.choice(HUGE)
        elif way == 3:
            row = poisoned(row, rng)
        else:
            for key in rng.sample(list(WORDS), rng.choice((1, 2, 6))):
                row[key] = WORDS[key]
        text = json.dumps(row)
        path.write_text(text.replace("9" * 5000, rng.choice(("9" * 5000, "NaN"))))

    def _weights(self, rng: random.Random, folder: Path) -> None:
        data = rng.choice((damaged, patched, _lying, _lying, _lying))(self.sound, rng)
        (folder / "model.safetensors").write_bytes(data)

    def _pickle(self, rng: random.Random, folder: Path) -> None:
        way = rng.randrange(4)
        if way == 0:
            data = rng.choice((damaged, patched))(self.pickled, rng)
        elif way == 1:
            data = _repacked(self.pickled, rng)
        elif way == 2:
            data = _archive({**self.state, rng.choice(list(self.state)): rng.choice(self.code)})
        else:
            data = _archive(rng.choice((*(_other_tensors(self.state, rng) for _ in range(2)), rng.choice(VALUES))))
        (folder / "pytorch_model.bin").write_bytes(data)

    def _shards(self, rng: random.Random, folder: Path) -> None:
        names = list(self.rows)
        half = len(names) // 2
        for number, part in enumerate((names[:half], names[half:] if rng.random() < 0.7 else names)):
            data = safetensors_file({name: self.rows[name] for name in part})
            (folder / f"model-{number}.safetensors").write_bytes(data)
        shards: Any = {name: f"model-{int(number >= half)}.safetensors" for number, name in enumerate(names)}
        kept = str(self.outside / "kept")
        elsewhere = ("../outside/kept", kept, "model-7.safetensors", ".", "..", "config.json", *TEXTS)
        if rng.random() < 0.7:
            shards[rng.choice(names)] = rng.choice((*elsewhere, *VALUES))
        row = {"metadata": {}, "weight_map": shards if rng.random() < 0.9 else rng.choice(VALUES)}
        text = json.dumps(row if rng.random() < 0.9 else rng.choice(VALUES))
        (folder / "model.safetensors.index.json").write_text(rng.choice((text,) * 9 + LARGE))

    def _links(self, rng: random.Random, folder: Path) -> None:
        (folder / "model.safetensors").write_bytes(self.sound)
        path = folder / rng.choice(("config.json", "model.safetensors", "model.safetensors.index.json"))
        path.unlink(missing_ok=True)
        way = rng.randrange(4)
        if way == 0:
            os.mkfifo(path)
        elif way == 1:
            path.mkdir()
        elif way == 2:
            with path.open("wb") as file:
                file.truncate(1 << 40)
        else:
            leads = (self.outside / "kept", "/dev/zero", "/etc/passwd", path.name, "absent", self.outside)
            path.symlink_to(rng.choice(leads))

    def _others(self, rng: random.Random, folder: Path) -> None:
        (folder / "model.safetensors").write_bytes(self.sound)
        (folder / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": str(self.outside)}))
        (folder / "generation_config.json").write_text(rng.choice(LARGE))
        (folder / "custom_generate").mkdir()
        (folder / "custom_generate" / "generate.py").write_text("raise SystemExit")
        self._config(rng, folder)
