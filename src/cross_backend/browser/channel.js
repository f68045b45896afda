// The page of a browser that a program drives: takes commands from the server that it came from, and answers them.

import { OrtModel } from "./ort_page.js";

const HEAD = 4; // bytes of a frame's first number, the length of its header
const aligned = (size) => Math.ceil(size / 8) * 8;
let model;

// Tensors as bytes: the header's length, a header of JSON, then each tensor's bytes, all at multiples of eight.
function unpacked(frame) {
  const length = new DataView(frame).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(frame, HEAD, length)));
  let at = aligned(HEAD + length);
  return header.map(({ type, dims, size }) => {
    const bytes = frame.slice(at, at + size);
    at += aligned(size);
    return { type, dims, bytes };
  });
}

function packed(tensors) {
  const rows = tensors.map(({ type, dims, bytes }) => ({ type, dims, size: bytes.byteLength }));
  const header = new TextEncoder().encode(JSON.stringify(rows));
  const frame = new Uint8Array(tensors.reduce((sum, t) => sum + aligned(t.bytes.byteLength), aligned(HEAD + header.length)));
  new DataView(frame.buffer).setUint32(0, header.length, true);
  frame.set(header, HEAD);
  let at = aligned(HEAD + header.length);
  for (const { bytes } of tensors) {
    frame.set(new Uint8Array(bytes), at);
    at += aligned(bytes.byteLength);
  }
  return frame;
}

async function fetched(url) {
  return (await fetch(url)).arrayBuffer();
}

const commands = {
  hello: async () => ({ isIsolated: crossOriginIsolated, agent: navigator.userAgent, adapter: await OrtModel.adapter() }),
  async open({ provider, url, threads, withLog }) {
    model?.close();
    model = await OrtModel.open({ provider, model: await fetched(url), threads, withLog });
    return model.opened;
  },
  async bind({ url, forget }) {
    forget.forEach((key) => model.forget(key));
    return model.bind(unpacked(await fetched(url)));
  },
  async run({ key }) {  // what it took comes last, as one more tensor
    const { outputs, ms } = await model.run(key);
    return packed([...outputs, { type: "float64", dims: [], bytes: new Float64Array([ms]).buffer }]);
  },
  sample: async ({ key, ...asked }) => [...(await model.sample(key, asked))],
};

new EventSource("commands").onmessage = async ({ data }) => {
  const { id, ask, ...told } = JSON.parse(data);
  let body, kind = "answers";
  try {
    const answer = await commands[ask](told);
    body = answer instanceof Uint8Array ? answer : JSON.stringify(answer ?? null);
  } catch (error) {
    body = String(error?.message ?? error);
    kind = "failures";
  }
  await fetch(`${kind}/${id}`, { method: "POST", body });
};
