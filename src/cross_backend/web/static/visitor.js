// Visitor: the model in this very browser, run by onnxruntime-web; the server prepares the input and shows the outputs.

import { _ } from "/static/texts.js";

const open = new Map();

async function opened(provider, artifact) {
  const key = `${provider} ${artifact}`;
  if (!open.has(key)) {
    const opening = (async () => {
      const began = performance.now();
      const { OrtModel } = await import("/browser/ort_page.js");
      const response = await fetch(`/api/payload/${artifact}`);
      if (!response.ok) throw new Error((await response.json()).error);
      const model = await OrtModel.open({ provider, model: await response.arrayBuffer() });
      return { model, loadMs: performance.now() - began };
    })();
    open.set(key, opening);
    opening.catch(() => open.delete(key));
  }
  return open.get(key);
}

/** Run what the server handed out, and return a run as the server's own runs are. */
export async function visit({ provider, artifact, title }, { ticket, inputs, prepare_ms: prepareMs }, post) {
  const run = { artifact: provider, target: `browser.${provider}`, title, outcome: "OK", error: null };
  try {
    const isNew = !open.has(`${provider} ${artifact}`);
    const { model, loadMs } = await opened(provider, artifact);
    const began = performance.now();
    const key = await model.bind(inputs.map(({ type, dims, data }) => (
      { type, dims, bytes: Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0)).buffer })));
    const bindMs = performance.now() - began;
    const { outputs, ms } = await model.run(key);
    model.forget(key);
    const form = new FormData();
    form.append("artifact", artifact);
    form.append("ticket", ticket);
    form.append("layout", JSON.stringify(outputs.map(({ type, dims }) => ({ type, dims }))));
    form.append("outputs", new Blob(outputs.map(({ bytes }) => bytes)), "outputs");
    const answer = await post("/api/present", form);
    if (answer.error) throw new Error(answer.error);
    return {
      ...run, ...answer, prepare_ms: prepareMs, bind_ms: bindMs, inference_ms: ms, memory_bytes: null, opened: isNew,
      proof: { verdict: null, load_ms: loadMs, text: _("Not verified by itself: compare its numbers with another backend") },
    };
  } catch (error) {
    return { ...run, outcome: "FAIL", error: error.message };
  }
}
