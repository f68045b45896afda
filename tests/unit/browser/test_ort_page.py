"""``ort_page.js`` in a visitor's browser: the same module without the channel, silent, under the policy of its page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cross_backend.backends._foreign import artifact_of
from cross_backend.browser.assets import model_files, model_of
from cross_backend.browser.channel import Channel
from cross_backend.errors import ArtifactError
from tests.browser import chromium
from tests.unit.browser.test_page import save

RUN = """async ([model, x]) => {
  const { OrtModel } = await import("./ort_page.js");
  const opened = await OrtModel.open({ provider: "wasm", model: new Uint8Array(model).buffer });
  const key = await opened.bind([{ type: "float32", dims: [4], bytes: new Float32Array(x).buffer }]);
  const { outputs, ms } = await opened.run(key);
  const times = await opened.sample(key, { calls: 3 });
  opened.close();
  return { y: [...new Float32Array(outputs[0].bytes)], dims: outputs[0].dims, ms, times: times.length };
}"""
FAIL = """async () => {
  const { OrtModel } = await import("./ort_page.js");
  try { await OrtModel.open({ provider: "wasm", model: new ArrayBuffer(8) }); } catch (error) { return error.message; }
}"""


@pytest.fixture
def visitor(browser: None) -> Iterator[Any]:
    """Open the channel's page as a visitor would, and list what it says on its console."""
    with Channel() as channel, chromium() as play:
        page = play.new_page()
        page.said = []
        page.on("console", lambda message: page.said.append(message.text))
        page.on("pageerror", lambda error: page.said.append(str(error)))
        page.goto(channel.url)
        yield page


def test_a_model_runs_in_a_page_that_says_nothing(visitor: Any, tmp_path: Path) -> None:
    model = save(tmp_path / "m.onnx", ("float32",), [4]).read_bytes()
    x = [0.5, -1.0, 2.0, 4.0]
    found = visitor.evaluate(RUN, [list(model), x])
    assert (found["y"], found["dims"], found["times"]) == (x, [4], 3)
    assert found["ms"] >= 0 and visitor.said == []


def test_a_model_that_does_not_open_rejects_with_the_runtimes_words(visitor: Any) -> None:
    assert "protobuf" in visitor.evaluate(FAIL)


def test_what_a_server_offers(browser: None, tmp_path: Path) -> None:
    files = model_files()
    assert {"ort_page.js", "ort_worker.js"} < set(files) and all(path.is_file() for path in files.values())
    assert sum(path.suffix == ".wasm" for path in files.values()) == 2
    model = save(tmp_path / "m.onnx", ("float32",), [4])
    made = artifact_of(model, "browser.wasm", (), ())
    assert model_of(made) == model
    (tmp_path / "m.pte").write_bytes(b"another runtime's")
    assert model_of(artifact_of(tmp_path / "m.pte", "executorch.xnnpack", (), ())) is None
    model.write_bytes(bytes(made.size_bytes))
    with pytest.raises(ArtifactError, match="is not the payload"):
        model_of(made)
