"""llama_cpp: llama.cpp, on the processor; its decoders are written here as GGUF files."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from cross_backend.artifact import Artifact
from cross_backend.backend import THREADS, Backend, Calibration, Lowered, Missing, Option, Options, Session
from cross_backend.backends._decoder import NOT_ONNX, decoder_in
from cross_backend.backends._decoder_session import DecoderSession
from cross_backend.backends._gguf import read_gguf, write_gguf
from cross_backend.backends._packages import absent_packages, missing_toolchain
from cross_backend.errors import LoadError, RunError, UnsupportedError
from cross_backend.names.precisions import QUANTISED
from cross_backend.program.captured import Program

if TYPE_CHECKING:
    from cross_backend.backends._decoder import Array
    from cross_backend.machine import Machine

_TOOLCHAIN = "llama_cpp"
_ERROR, _LONGEST = 4, 300
"""Level of llama.cpp's messages that say why it failed, and characters of one."""


@final
class LlamaCpp(Backend):
    """Files are written in the main environment; the runtime, which is compiled, has one of its own."""

    name = "llama_cpp"
    title = "llama.cpp"
    suffix = ".gguf"
    distributions = ("gguf", "torch")
    runtime_modules = ("llama_cpp",)
    limits = {"onnx_program": NOT_ONNX}
    options = {
        "precision": Option("weights of matrix products", "fp32", ("fp32", "fp16", "int8dyn", "int4w")),
        "threads": THREADS,
    }

    @property
    def run_toolchain(self) -> str | None:
        """It is compiled when the toolchain is added."""
        return _TOOLCHAIN

    def missing(self, machine: Machine) -> Missing | None:
        return Missing(absent_packages(self.distributions, "llama_cpp"), missing_toolchain(_TOOLCHAIN)) or None

    def lower(self, program: Program, options: Options, stem: Path, calibration: Calibration) -> Lowered:
        decoder, precision = decoder_in(program, self.title), options["precision"]
        if decoder.shape.kind == "gpt2" and precision == "fp32":
            raise UnsupportedError(
                f"{self.title} reads GELU from a table of float16 numbers, so it has no float32 of this decoder. "
                f"Use {self.name}?precision=fp16."
            )
        payload = stem.with_name(stem.name + self.suffix)
        write_gguf(decoder, payload, precision)
        placement = read_gguf(payload)
        if precision in QUANTISED and placement.arithmetic is None:
            raise UnsupportedError(f"{precision} changes nothing: no row of weights is a multiple of 32 long.")
        return Lowered(payload, placement)

    def load(self, artifact: Artifact, options: Options) -> Session:
        return _LlamaSession(artifact, options)


class _LlamaSession(DecoderSession):
    """One model and one context, which chooses no token."""

    def _open_runtime(self) -> None:
        import llama_cpp as api

        self._api, errors = api, []

        @api.llama_log_callback  # type: ignore[untyped-decorator]
        def log(level: int, text: bytes, _data: Any) -> None:
            if level == _ERROR:
                errors.append(text.decode("utf-8", "replace").strip())

        self._log = log  # llama.cpp keeps no reference
        api.llama_log_set(log, ctypes.c_void_p(0))
        api.llama_backend_init()
        settings = api.llama_model_default_params()
        settings.n_gpu_layers = 0
        self._model = api.llama_model_load_from_file(str(self.artifact.payload_path).encode(), settings)
        if not self._model:
            raise LoadError(f"llama.cpp cannot load {self.artifact.payload_path.name}: {_why(errors)}")
        sizes = (
            api.llama_model_n_ctx_train(self._model),
            api.llama_vocab_n_tokens(api.llama_model_get_vocab(self._model)),
        )
        if sizes != (self.context, self.vocabulary):
            api.llama_model_free(self._model)
            raise LoadError(
                f"{self.artifact.payload_path.name} does not have the caches and the vocabulary that its manifest "
                "describes."
            )
        self._context = api.llama_init_from_model(self._model, self._settings())
        if not self._context:
            api.llama_model_free(self._model)
            raise LoadError(f"llama.cpp cannot open {self.artifact.payload_path.name}: {_why(errors)}")
        self._memory = api.llama_get_memory(self._context)

    def _settings(self) -> Any:
        """Return the context's: arithmetic of the precision, and a prompt as one batch."""
        settings = self._api.llama_context_default_params()
        settings.n_ctx = settings.n_batch = self.context
        if self.options["precision"] == "fp32":  # its default are float16 caches, and an attention that computes so
            settings.type_k = settings.type_v = self._api.GGML_TYPE_F32
            settings.flash_attn_type = self._api.LLAMA_FLASH_ATTN_TYPE_DISABLED
        if self.options["threads"] is not None:
            settings.n_threads = settings.n_threads_batch = self.options["threads"]
        return settings

    def _append(self, tokens: Array) -> Array:
        import numpy as np

        api = self._api
        batch = api.llama_batch_get_one(tokens.ctypes.data_as(ctypes.POINTER(api.llama_token)), len(tokens))
        status = api.llama_decode(self._context, batch)
        if status:
            raise RunError(f"llama.cpp failed with status {status}.")
        logits: Array = np.ctypeslib.as_array(api.llama_get_logits_ith(self._context, -1), (self.vocabulary,))
        return logits

    def _forget(self, kept: int) -> None:
        if not self._api.llama_memory_seq_rm(self._memory, 0, kept, -1):
            raise RunError(f"llama.cpp cannot forget the tokens from position {kept} on.")

    def _start(self) -> None:
        self._api.llama_memory_clear(self._memory, True)  # noqa: FBT003

    def _close(self) -> None:
        self._api.llama_free(self._context)
        self._api.llama_model_free(self._model)
        del self._context, self._model, self._memory

    _api: Any
    _model: Any
    _context: Any
    _memory: Any


def _why(errors: list[str]) -> str:
    """Return the first message of several, which says most."""
    return errors[0].partition("\n")[0][:_LONGEST] if errors else "it does not say why"
