"""A decoder as onnxruntime-genai takes it: ONNX with ONNX Runtime's own attention, and the file that describes it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from cross_backend.backends._decoder import Affine, DecoderWeights, Layer
from cross_backend.errors import UnsupportedError
from cross_backend.program.onnx_export import OPSET
from cross_backend.workloads.decoder import Shape

if TYPE_CHECKING:
    from cross_backend.backends._decoder import Array

MODEL, CONFIG = "model.onnx", "genai_config.json"
"""Files of a payload; the second has the name that onnxruntime-genai looks for."""
_OWN = "com.microsoft"
"""Domain of ONNX Runtime's own operators."""
_IR_VERSION = 10
_HEADS = 8
"""The attention takes heads whose width is a multiple of this, and turns those of twice that."""
_END = (1 << 63) - 1
_TEXT = ("input_ids", "attention_mask", "position_ids")
_PAST, _PRESENT = "past_key_values.%d.{}", "present.%d.{}"


def config_of(shape: Shape) -> str:
    """Return what describes a model of these sizes to the runtime: keys and values stay in buffers of one size."""
    caches = {
        f"{kind}_{part}_names": text.format(part)
        for kind, text in (("past", _PAST), ("present", _PRESENT))
        for part in ("key", "value")
    }
    decoder = {
        "session_options": {"provider_options": []},
        "filename": MODEL,
        "head_size": shape.width,
        "hidden_size": shape.hidden,
        "num_attention_heads": shape.heads,
        "num_hidden_layers": shape.layers,
        "num_key_value_heads": shape.kv_heads,
        "inputs": {
            **{name: name for name in _TEXT if name != "position_ids" or _needs_places(shape)},
            **{name: text for name, text in caches.items() if name.startswith("past")},
        },
        "outputs": {"logits": "logits", **{n: text for n, text in caches.items() if n.startswith("present")}},
    }
    ends = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"), 0)  # asked for; no text is generated here
    # The type names a family of models whose decoders are driven alike; GPT-2's has caches of another form.
    model = {"type": "llama", "context_length": shape.context, "vocab_size": shape.vocabulary, **ends}
    search = {"do_sample": False, "max_length": shape.context, "past_present_share_buffer": True}
    return json.dumps({"model": {**model, "decoder": decoder}, "search": search}, indent=2)


def _needs_places(shape: Shape) -> bool:
    """Whether positions are an input: they are where the attention does not turn heads itself."""
    return shape.kind == "gpt2" or shape.width % (2 * _HEADS) != 0


def model_of(decoder: DecoderWeights, *, is_shared: bool) -> Any:
    """Return the ONNX model.

    Args:
        decoder: what it computes.
        is_shared: whether the last product uses the embeddings where they lie; quantisers want a matrix of its own.

    Raises:
        UnsupportedError: the attention takes no heads of this width.
    """
    import onnx

    shape = decoder.shape
    if shape.width % _HEADS:
        raise UnsupportedError(
            f"ONNX Runtime's attention takes heads of a multiple of {_HEADS} numbers, and this decoder's have "
            f"{shape.width}."
        )
    made = _Graph(decoder)
    made.write(is_shared=is_shared)
    graph = onnx.helper.make_graph(made.nodes, "decoder", made.inputs, made.outputs, made.constants)
    domains = [onnx.helper.make_opsetid("", OPSET), onnx.helper.make_opsetid(_OWN, 1)]
    return onnx.helper.make_model(graph, opset_imports=domains, ir_version=_IR_VERSION)


class _Graph:
    """Nodes, constants and ports, as they are added."""

    def __init__(self, decoder: DecoderWeights) -> None:
        self._decoder, self._shape = decoder, decoder.shape
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []

    def write(self, *, is_shared: bool) -> None:
        """Add everything; see :func:`model_of`."""
        import numpy as np

        decoder, axis = self._decoder, self._constant("axis", np.array([1]))
        self._ports()
        self._lengths(axis)
        tokens = self._constant("tokens", decoder.tokens)
        x = self._node("Gather", tokens, "input_ids")
        if decoder.places is not None:
            x = self._node("Add", x, self._node("Gather", self._constant("places", decoder.places), "position_ids"))
        else:
            assert decoder.cosines is not None and decoder.sines is not None, "positions are learned or rotary"
            self._constant("cosines", decoder.cosines)
            self._constant("sines", decoder.sines)
        for index, layer in enumerate(decoder.layers):
            x = self._layer(x, index, layer)
        last = [self._constant(name, np.array([n])) for name, n in (("last", -1), ("end", _END))]
        x = self._norm(self._node("Slice", x, *last, axis), "norm", decoder.norm)
        if is_shared:
            logits = self._node("Gemm", self._node("Squeeze", x, axis), tokens, transB=1)
            self._node("Unsqueeze", logits, axis, outputs=["logits"])
        else:
            self._node("MatMul", x, self._constant("head", decoder.tokens.T), outputs=["logits"])

    def _ports(self) -> None:
        import onnx

        shape, whole, real = self._shape, onnx.TensorProto.INT64, onnx.TensorProto.FLOAT
        value = onnx.helper.make_tensor_value_info
        for name in _TEXT if _needs_places(shape) else _TEXT[:2]:
            self.inputs.append(value(name, whole, ["batch", "all" if name == "attention_mask" else "sequence"]))
        self.outputs.append(value("logits", real, ["batch", 1, shape.vocabulary]))
        for index in range(shape.layers):
            for part in ("key", "value"):
                extents = ["batch", shape.kv_heads, "kept", shape.width]
                self.inputs.append(value(_PAST.format(part) % index, real, extents))
                self.outputs.append(value(_PRESENT.format(part) % index, real, extents))

    def _lengths(self, axis: str) -> None:
        """Compute what the attention is told: the last position of each sequence, and the tokens of the longest."""
        import numpy as np
        import onnx

        count = self._node("ReduceSum", "attention_mask", axis, keepdims=0)
        last = self._node("Sub", count, self._constant("one", np.array(1)))
        self._node("Cast", last, outputs=["last_positions"], to=onnx.TensorProto.INT32)
        extent = self._node("Shape", "attention_mask", start=1, end=2)
        total = self._node("Squeeze", extent, self._constant("first_axis", np.array([0])))
        self._node("Cast", total, outputs=["all_tokens"], to=onnx.TensorProto.INT32)

    def _layer(self, x: str, index: int, layer: Layer) -> str:
        at = f"layers.{index}"
        mixed = self._linear(self._norm(x, f"{at}.before", layer.before), f"{at}.mixed", layer.mixed)
        x = self._node("Add", x, self._linear(self._attention(mixed, index), f"{at}.out", layer.out))
        y = self._norm(x, f"{at}.between", layer.between)
        up = self._linear(y, f"{at}.up", layer.up)
        if layer.gate is None:
            y = self._node("Gelu", up, approximate="tanh")
        else:
            gate = self._linear(y, f"{at}.gate", layer.gate)
            y = self._node("Mul", self._node("Mul", gate, self._node("Sigmoid", gate)), up)
        return self._node("Add", x, self._linear(y, f"{at}.down", layer.down))

    def _attention(self, mixed: str, index: int) -> str:
        shape, attributes = self._shape, {"num_heads": self._shape.heads, "kv_num_heads": self._shape.kv_heads}
        queries, turns = [mixed, "", ""], ["cosines", "sines"]
        if shape.kind == "gpt2":
            turns = []
        elif _needs_places(shape):
            queries, turns = self._turned(mixed, index), []
        caches = [text.format(part) % index for text in (_PAST, _PRESENT) for part in ("key", "value")]
        return self._node(
            "GroupQueryAttention",
            *(*queries, *caches[:2], "last_positions", "all_tokens", *turns),
            outputs=[f"attention.{index}", *caches[2:]],
            domain=_OWN,
            do_rotary=int(bool(turns)),
            scale=shape.width**-0.5,
            **attributes,
        )

    def _turned(self, mixed: str, index: int) -> list[str]:
        """Split queries, keys and values, and turn the first two by their positions."""
        import numpy as np

        shape, one = self._shape, self._shape.kv_heads * self._shape.width
        sizes = self._constant(f"sizes.{index}", np.array([shape.hidden, one, one]))
        names = [f"{part}.{index}" for part in ("queries", "keys", "values")]
        self._node("Split", mixed, sizes, outputs=names, axis=2)
        turned = [
            self._node(
                "RotaryEmbedding",
                *(name, "position_ids", "cosines", "sines"),
                domain=_OWN,
                num_heads=heads,
                rotary_embedding_dim=shape.width,
            )
            for name, heads in zip(names[:2], (shape.heads, shape.kv_heads), strict=True)
        ]
        return [*turned, names[2]]

    def _norm(self, x: str, name: str, norm: Affine) -> str:
        weight, epsilon = self._constant(f"{name}.weight", norm.weight), self._decoder.epsilon
        if norm.bias is None:
            return self._node("SimplifiedLayerNormalization", x, weight, axis=-1, epsilon=epsilon, stash_type=1)
        return self._node(
            "LayerNormalization", x, weight, self._constant(f"{name}.bias", norm.bias), axis=-1, epsilon=epsilon
        )

    def _linear(self, x: str, name: str, linear: Affine) -> str:
        y = self._node("MatMul", x, self._constant(f"{name}.weight", linear.weight.T))
        return y if linear.bias is None else self._node("Add", y, self._constant(f"{name}.bias", linear.bias))

    def _constant(self, name: str, array: Array) -> str:
        import numpy as np
        import onnx

        self.constants.append(onnx.numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def _node(self, kind: str, *inputs: str, outputs: list[str] | None = None, domain: str = "", **more: Any) -> str:
        """Add a node; return its first output."""
        import onnx

        outputs = outputs or [f"{kind}.{len(self.nodes)}"]
        self.nodes.append(onnx.helper.make_node(kind, list(inputs), outputs, domain=domain, **more))
        return outputs[0]
