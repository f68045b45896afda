"""A decoder as llama.cpp takes it: one GGUF file, as its own converter writes one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cross_backend.backends._decoder import Affine, DecoderWeights, Layer
from cross_backend.errors import LowerError, UnsupportedError, failing_as
from cross_backend.placement import Arithmetic, Placement, count_operators

if TYPE_CHECKING:
    from cross_backend.backends._decoder import Array

_FAMILIES = {"gpt2": "gpt2", "llama": "llama", "qwen": "qwen2"}
"""Kind of decoder → what llama.cpp calls the family."""
_TYPES = {"fp32": "F32", "fp16": "F16", "int8dyn": "Q8_0", "int4w": "Q4_0"}
"""Precision → type of the weights of matrix products."""
_EMBEDDINGS = {"int4w": "Q8_0"}
"""Types of the embeddings where they differ: they are the last product's weights, too, and 4 bits cost most there."""
_MATRIX = re.compile(r"(token_embd|blk\.\d+\.\w+)\.weight")
_SAME_ANGLE = 1e-2
"""Difference of cosines that float32 angles of thousands of turns may have."""
_LAYER = re.compile(r"blk\.\d+\.")


def write_gguf(decoder: DecoderWeights, path: Path, precision: str) -> None:
    """Write the file.

    Args:
        decoder: what it holds.
        path: receives the file.
        precision: ``fp32``, ``fp16``, ``int8dyn`` or ``int4w``; rows that are no whole groups stay in float32.

    Raises:
        UnsupportedError: the rotary angles are powers of no base.
    """
    import gguf

    shape = decoder.shape
    writer = gguf.GGUFWriter(path, _FAMILIES[shape.kind])
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.hidden)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.inner)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_vocab_size(shape.vocabulary)
    writer.add_tokenizer_model("none")
    if shape.kind == "gpt2":
        writer.add_layer_norm_eps(decoder.epsilon)
    else:
        writer.add_layer_norm_rms_eps(decoder.epsilon)
        writer.add_rope_dimension_count(shape.width)
        writer.add_rope_freq_base(_rotary_base(decoder))
    for name, array in _tensors(decoder):
        kind = gguf.GGMLQuantizationType[_type_of(name, array, precision)]
        writer.add_tensor(name, gguf.quants.quantize(array, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _rotary_base(decoder: DecoderWeights) -> float:
    """Return the base of which the rotary angles are powers (Su et al., RoFormer, 2021)."""
    import numpy as np

    cosines, sines = decoder.cosines, decoder.sines
    assert cosines is not None and sines is not None, "asked of rotary positions only"
    positions, half = cosines.shape
    # Of two numbers there is one angle, which is that of any base.
    base = float(round(np.arctan2(float(sines[1, 1]), float(cosines[1, 1])) ** -half)) if half > 1 else 1.0
    angles = np.outer(np.arange(positions), base ** -(np.arange(half) / half))
    if max(np.abs(np.cos(angles) - cosines).max(), np.abs(np.sin(angles) - sines).max()) > _SAME_ANGLE:
        raise UnsupportedError("llama.cpp turns by powers of one base, and this decoder's rotary angles are none.")
    return base


def _type_of(name: str, array: Array, precision: str) -> str:
    import gguf

    if array.ndim != 2 or not _MATRIX.fullmatch(name):
        return "F32"
    found = _TYPES[precision]
    if name.startswith("token_embd"):
        found = _EMBEDDINGS.get(precision, found)
    group, _ = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[found]]
    return "F32" if array.shape[1] % group else found


def _tensors(decoder: DecoderWeights) -> Iterator[tuple[str, Array]]:
    yield "token_embd.weight", decoder.tokens
    if decoder.places is not None:
        yield "position_embd.weight", decoder.places
    yield from _affine("output_norm", decoder.norm)
    for index, layer in enumerate(decoder.layers):
        at = f"blk.{index}"
        yield from _attention(at, layer, decoder)
        yield from _affine(f"{at}.attn_norm", layer.before)
        yield from _affine(f"{at}.attn_output", layer.out)
        yield from _affine(f"{at}.ffn_norm", layer.between)
        yield from _affine(f"{at}.ffn_up", layer.up)
        yield from _affine(f"{at}.ffn_down", layer.down)
        if layer.gate is not None:
            yield from _affine(f"{at}.ffn_gate", layer.gate)


def _affine(name: str, affine: Affine) -> Iterator[tuple[str, Array]]:
    yield f"{name}.weight", affine.weight
    if affine.bias is not None:
        yield f"{name}.bias", affine.bias


def _attention(at: str, layer: Layer, decoder: DecoderWeights) -> Iterator[tuple[str, Array]]:
    """Yield queries, keys and values: together for GPT-2, else apart; of Llama in the order that its rotation wants."""
    import numpy as np

    shape, mixed = decoder.shape, layer.mixed
    if shape.kind == "gpt2":
        yield from _affine(f"{at}.attn_qkv", mixed)
        return
    ends = np.cumsum([shape.hidden, shape.kv_heads * shape.width])
    weights = np.split(mixed.weight, ends)
    biases = [None] * 3 if mixed.bias is None else np.split(mixed.bias, ends)
    if shape.kind == "llama":
        weights[:2] = [_in_pairs(weights[0], shape.heads), _in_pairs(weights[1], shape.kv_heads)]
    for name, weight, bias in zip(("q", "k", "v"), weights, biases, strict=True):
        yield from _affine(f"{at}.attn_{name}", Affine(weight, bias))


def _in_pairs(weight: Array, heads: int) -> Array:
    """Put the two rows that are turned together beside each other; they lie half a head apart."""
    import numpy as np

    rows, columns = weight.shape
    paired = weight.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2)
    return np.ascontiguousarray(paired).reshape(rows, columns)


def read_gguf(path: Path) -> Placement:
    """Read a file back: its tensors by their role, and in which of them products compute in few bits.

    Raises:
        LowerError: the file is damaged.
    """
    import gguf

    with failing_as(LowerError, f"{path.name} is damaged or not a GGUF file"):
        tensors: list[Any] = gguf.GGUFReader(path).tensors
    roles: Counter[str] = Counter()
    low: Counter[str] = Counter()
    kept: Counter[str] = Counter()
    for tensor in tensors:
        role, part = _LAYER.sub("", tensor.name).rsplit(".", 1)
        if part == "weight":
            roles[role] += 1
            if _MATRIX.fullmatch(tensor.name) and len(tensor.shape) == 2:
                (kept if tensor.tensor_type.name == "F32" else low)[role] += 1
    arithmetic = Arithmetic(count_operators(low), count_operators(kept), 0) if low else None
    size_bytes = sum(int(one.n_bytes) for one in tensors)
    return Placement(inside=count_operators(roles), constant_bytes=size_bytes, arithmetic=arithmetic)
