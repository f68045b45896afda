"""A session on one provider: strict first, and never moved to the CPU behind the caller's back."""

from __future__ import annotations

import functools
import importlib
import json
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from cross_backend.artifact import Artifact
from cross_backend.backend import Keeper, Options, Session
from cross_backend.backends._onnx import REMEDY, operator_without_kernel
from cross_backend.backends.onnxruntime import _values as values
from cross_backend.backends.onnxruntime._providers import Provider
from cross_backend.backends.onnxruntime._state import Slots
from cross_backend.errors import LoadError, UnsupportedError, failing_as
from cross_backend.tensors import BFLOAT16, Tensors, to_numpy

logger = logging.getLogger(__name__)

Assigned = Counter[tuple[str, str]]
"""(provider, operator) → nodes of the graph, before a provider made one of several."""

_REFUSED = "fallback to CPU EP has been explicitly disabled"
"""Part of what ONNX Runtime says when a strict session would leave a node to its CPU kernels."""
_LOG_FATAL, _LOG_WARNING = 4, 2


class OnnxRuntimeSession(Session):
    """An open ``.onnx`` on one provider.

    A strict session is tried first, which ONNX Runtime refuses when it would leave a node to its CPU kernels. Then
    an ordinary one is opened, whose placement :meth:`assigned` and the trace tell; one in which the provider has
    no node at all is an error.
    """

    def __init__(self, provider: Provider, artifact: Artifact, options: Options, trace: Path | None = None) -> None:
        """Describe it; nothing is opened.

        Args:
            provider: what runs it.
            artifact: its digest was checked.
            options: every declared option.
            trace: how the file of a profile begins; None for no profile.
        """
        super().__init__(artifact, options)
        self._provider, self._trace = provider, trace
        self.is_strict = provider.name != "cpu"
        """Whether every node runs on the provider; to be read once it is open."""
        self.is_emulated = False
        """Whether the plugin found no real device, and software stands in for one."""

    def _open(self) -> None:
        with failing_as(LoadError, f"ONNX Runtime cannot load {self.artifact.payload_path.name}"):
            self._provider.prepare()
            try:
                self._session = self._create(records=self._trace is not None)
            except Exception as error:
                if lacking := operator_without_kernel(str(error)):
                    raise UnsupportedError(
                        f"ONNX Runtime ({self._provider.device}) has no kernel of {lacking} for the element types of "
                        f"this model. {REMEDY}"
                    ) from error
                if not self.is_strict or _REFUSED not in str(error):
                    raise
                self.is_strict = False
                self._session = self._create(records=True)
            self._check()

    def _create(self, *, records: bool) -> Any:
        """Make the vendor's session; ``records`` keeps which provider got which node."""
        import onnxruntime

        settings = onnxruntime.SessionOptions()
        settings.log_severity_level = _LOG_FATAL if self._provider.name == "cpu" else _LOG_WARNING
        settings.enable_mem_pattern = self._provider.uses_memory_pattern
        if self.options["threads"] is not None:
            settings.intra_op_num_threads = self.options["threads"]
        if self.options.get("precision") == "int8":
            # Without VNNI, sums of products of 8 bits would overflow 16 bits: wrong numbers, and nobody says so.
            settings.add_session_config_entry("session.x64quantprecision", "1")
        if self._trace is not None:
            settings.enable_profiling, settings.profile_file_prefix = True, str(self._trace)
        if self.is_strict:
            settings.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        if records:
            settings.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
        own = dict(self._provider.settings(self.options))
        asked: dict[str, Any] = {}
        if self._provider.plugin:
            device = self._plugin_device()
            self.is_emulated = device.device.type.name == "CPU"
            own |= self._provider.emulator_settings if self.is_emulated else {}
            settings.add_provider_for_devices([device], own)
        else:
            if self._provider.identifier not in onnxruntime.get_available_providers():
                raise LoadError(f"this build of ONNX Runtime does not hold {self._provider.identifier}.")
            asked = {"providers": [(self._provider.identifier, own)]}
        return onnxruntime.InferenceSession(self.artifact.payload_path, settings, enable_fallback=0, **asked)

    def _plugin_device(self) -> Any:
        """Register the plugin once, and return its best device: a real one before one that is emulated."""
        import onnxruntime

        def mine() -> list[Any]:
            return [d for d in onnxruntime.get_ep_devices() if d.ep_name == self._provider.identifier]

        if not mine():
            library = importlib.import_module(self._provider.plugin).get_library_path()
            onnxruntime.register_execution_provider_library(self._provider.identifier, library)
        found = sorted(mine(), key=lambda d: d.device.type.name == "CPU")
        if not found:
            raise LoadError(f"the plugin {self._provider.plugin} found no device that it can use.")
        return found[0]

    def _check(self) -> None:
        """Find out what a session that opened does not say by itself; warn where a part runs on the processor.

        Raises:
            LoadError: everything would run on the CPU.
        """
        if self._provider.identifier not in self._session.get_providers():
            raise LoadError(
                f"ONNX Runtime could not start {self._provider.identifier}, and would run everything on the CPU; "
                "its output says why."
            )
        if self.is_strict or self._provider.name == "cpu":
            return
        assigned, share = self.assigned(), "some nodes"
        if assigned is not None:
            own = sum(count for (provider, _), count in assigned.items() if provider == self._provider.identifier)
            if not own:
                operators = ", ".join(operator for (_, operator), _ in assigned.most_common(5))
                raise LoadError(
                    f"{self._provider.device} delegates 0 of the {assigned.total()} nodes ({operators}); "
                    "everything would run on the CPU."
                )
            share = f"{assigned.total() - own} of {assigned.total()} nodes"
        logger.warning("%s: ONNX Runtime runs %s on its CPU kernels", self.artifact.target, share)

    def assigned(self) -> Assigned | None:
        """Return the nodes of each provider; None where ONNX Runtime does not report them (before 1.24)."""
        if not hasattr(self._session, "get_provider_graph_assignment_info"):
            return None
        subgraphs = self._session.get_provider_graph_assignment_info()
        return Counter((subgraph.ep_name, node.op_type) for subgraph in subgraphs for node in subgraph.get_nodes())

    def _bind(self, inputs: Tensors) -> Callable[[], Tensors]:
        import numpy as np

        feed = {
            value.name: np.array(to_numpy(x), order="C")
            for value, x in zip(self._session.get_inputs(), inputs, strict=True)
        }
        if BFLOAT16 in {spec.dtype for spec in (*self.inputs, *self.outputs)}:
            return values.bind(self._session, feed)
        return functools.partial(self._session.run, None, feed)

    def keeper(self, initial: Sequence[Any]) -> Keeper:
        """Keep the state in tensors of the runtime, which are the outputs of one call and the inputs of the next."""
        return Slots(self._session, initial, [spec.dtype for spec in self.outputs], self._provider.name == "cpu")

    def end_trace(self) -> list[dict[str, Any]]:
        """Return the events that were recorded since the session was opened with ``trace``."""
        events: list[dict[str, Any]] = json.loads(Path(self._session.end_profiling()).read_bytes())
        return events

    def _close(self) -> None:
        del self._session

    _session: Any
