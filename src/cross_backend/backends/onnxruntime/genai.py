"""onnxruntime.genai: Microsoft's runtime for text, on ONNX Runtime's kernels; its decoders are written here."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from cross_backend.artifact import Artifact
from cross_backend.backend import THREADS, Backend, Calibration, Lowered, Missing, Option, Options, Session
from cross_backend.backends._decoder import NOT_ONNX, decoder_in
from cross_backend.backends._decoder_session import DecoderSession
from cross_backend.backends._onnx import read_onnx_placement
from cross_backend.backends._packages import missing_packages
from cross_backend.backends.onnxruntime._genai_graph import CONFIG, MODEL, config_of, model_of
from cross_backend.backends.onnxruntime._quantize import quantize
from cross_backend.errors import LoadError, UnsupportedError
from cross_backend.foreign_files import open_regular
from cross_backend.names.precisions import QUANTISED
from cross_backend.onnx_data import require_whole
from cross_backend.program.captured import Program
from cross_backend.workloads.decoder import Shape

if TYPE_CHECKING:
    from cross_backend.backends._decoder import Array
    from cross_backend.machine import Machine

_MOST_BYTES = 1 << 31
"""Of a model that lies in one file of Protocol Buffers."""
_MOST_CONFIG_BYTES = 1 << 16
_WARNINGS_OFF = 3


@final
class OnnxRuntimeGenAi(Backend):
    """The decoder is written as its own tools write one: packed attention, and caches that stay where they are."""

    name = "onnxruntime.genai"
    title = "ONNX Runtime GenAI"
    suffix = ""
    distributions = ("onnx", "onnxruntime-genai", "torch")
    runtime_modules = ("onnxruntime_genai",)
    limits = {"onnx_program": NOT_ONNX}
    options = {
        "precision": Option("weights of matrix products", "fp32", ("fp32", "int8dyn", "int4w")),
        "threads": THREADS,
    }

    def missing(self, machine: Machine) -> Missing | None:
        return missing_packages(self.distributions, ("onnxruntime-genai",), "genai")

    def lower(self, program: Program, options: Options, stem: Path, calibration: Calibration) -> Lowered:
        import onnx

        decoder, precision = decoder_in(program, self.title), options["precision"]
        model = model_of(decoder, is_shared=precision not in QUANTISED)
        if model.ByteSize() >= _MOST_BYTES:
            raise UnsupportedError(f"{self.title}: a decoder of 2 GB or more does not fit into one ONNX file.")
        stem.mkdir()
        onnx.save(model, stem / MODEL)
        arithmetic = quantize(stem / MODEL, precision, calibration) if precision in QUANTISED else None
        (stem / CONFIG).write_text(config_of(decoder.shape), encoding="utf-8")
        return Lowered(stem, replace(read_onnx_placement(stem / MODEL), arithmetic=arithmetic))

    def load(self, artifact: Artifact, options: Options) -> Session:
        return _GenAiSession(artifact, options)


class _GenAiSession(DecoderSession):
    """One model and one generator, which is given every token: it chooses none."""

    def _open_runtime(self) -> None:
        import onnxruntime_genai

        folder = self.artifact.payload_path
        if _sizes_in(folder / CONFIG) != (self.context, self.vocabulary):
            raise LoadError(f"{folder.name} does not have the caches and the vocabulary that its manifest describes.")
        require_whole(folder / MODEL)
        settings: dict[str, Any] = {"log_severity_level": _WARNINGS_OFF}
        if self.options["threads"] is not None:
            settings["intra_op_num_threads"] = self.options["threads"]
        onnxruntime_genai.disable_telemetry_events()
        config = onnxruntime_genai.Config(str(folder))
        config.overlay(json.dumps({"model": {"decoder": {"session_options": settings}}}))
        self._model = onnxruntime_genai.Model(config)
        self._start()

    def _start(self) -> None:
        import onnxruntime_genai

        settings = onnxruntime_genai.GeneratorParams(self._model)
        settings.set_search_options(max_length=self.context)
        self._generator = onnxruntime_genai.Generator(self._model, settings)

    def _append(self, tokens: Array) -> Array:
        self._generator.append_tokens(tokens)
        logits: Array = self._generator.get_logits()
        return logits

    def _forget(self, kept: int) -> None:
        self._generator.rewind_to(kept)

    def _close(self) -> None:
        del self._generator
        del self._model

    _model: Any
    _generator: Any


def _sizes_in(path: Path) -> tuple[int, int]:
    """Return positions and vocabulary of the model that a file describes.

    Such a file may name libraries, which the runtime opens as code. One that is not as it is written here is refused.

    Raises:
        ArtifactError: it is missing.
        LoadError: it is another one.
    """
    with open_regular(path) as file:
        text = file.read(_MOST_CONFIG_BYTES).decode("utf-8", "replace")
    try:
        model = json.loads(text)["model"]
        own, kinds = model["decoder"], ("gpt2", "llama")
        names = ("num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads")
        layers, hidden, heads, kv_heads = (int(own[name]) for name in names)
        vocabulary, context = int(model["vocab_size"]), int(model["context_length"])
        found = [Shape(layers, hidden, heads, kv_heads, 1, vocabulary, context, kind) for kind in kinds]
        if heads > 0 and text in {config_of(shape) for shape in found}:
            return context, vocabulary
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    raise LoadError(f"{path.name} is damaged or was not written by cross-backend.")
