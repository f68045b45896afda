"""What OpenVINO's packages do beside the work, and must not do here."""

import pytest

IMPORTED = """
import importlib, os, sys
os.environ["HOME"] = sys.argv[1]
importlib.import_module(sys.argv[2])
import openvino
openvino.convert_model  # its converter is there
print([name for name in sys.modules if name.startswith("openvino_telemetry.")], os.listdir(sys.argv[1]))
"""


@pytest.mark.parametrize("module", ["cross_backend.backends.openvino", "cross_backend.backends.executorch.openvino"])
def test_nothing_is_told_to_its_vendor(module, run_python, tmp_path):
    assert run_python(IMPORTED, str(tmp_path), module) == "[] []\n"
