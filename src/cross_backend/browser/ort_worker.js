// A worker that holds one model open in onnxruntime-web; the page beside it stays free to draw.
//
// It answers messages {id, ask, ...}: with {id, answer}, or with {id, failed: text}.

const BUNDLES = { wasm: "ort.wasm.min.mjs", webgpu: "ort.webgpu.min.mjs" };
const ARRAYS = {
  bool: Uint8Array, float16: globalThis.Float16Array ?? Uint16Array, float32: Float32Array, float64: Float64Array,
  int16: Int16Array, int32: Int32Array, int64: BigInt64Array, int8: Int8Array,
  uint16: Uint16Array, uint32: Uint32Array, uint64: BigUint64Array, uint8: Uint8Array,
};

let ort, session;
const bound = new Map(); // number → what session.run takes
const said = []; // lines that the runtime printed while it was asked for its log

function listen() {
  for (const level of ["debug", "log", "info", "warn", "error"]) {
    console[level] = (...words) => said.push(words.map(String).join(" "));
  }
}

// What draws on the graphics processor, as the browser reports it; null where it has none.
async function adapter() {
  const found = await navigator.gpu?.requestAdapter({ powerPreference: "high-performance" });
  if (!found) return null;
  const { vendor, architecture, description, isFallbackAdapter } = found.info;
  return { vendor, architecture, description, isSoftware: Boolean(isFallbackAdapter) || architecture === "swiftshader" };
}

const answers = {
  adapter,

  async open({ files, provider, model, threads, withLog }) {
    if (withLog) listen();
    ort = await import(new URL(BUNDLES[provider], files).href);
    ort.env.wasm.wasmPaths = files;
    ort.env.logLevel = withLog ? "verbose" : "error";
    if (threads) ort.env.wasm.numThreads = threads;
    session = await ort.InferenceSession.create(new Uint8Array(model), {
      executionProviders: [provider],
      logSeverityLevel: withLog ? 0 : 3,
    });
    return { inputs: session.inputNames, outputs: session.outputNames, log: said, threads: ort.env.wasm.numThreads };
  },

  // Make the runtime's own tensors, once; inputs are {type, dims, bytes}, in the model's order.
  bind({ key, inputs, forget }) {
    for (const old of forget) bound.delete(old);
    const tensors = inputs.map(({ type, dims, bytes }) => new ort.Tensor(type, new ARRAYS[type](bytes), dims));
    bound.set(key, Object.fromEntries(session.inputNames.map((name, at) => [name, tensors[at]])));
  },

  // Run once; the milliseconds are of the run alone.
  async run({ key }) {
    const inputs = bound.get(key);
    const before = performance.now();
    const found = await session.run(inputs);
    const ms = performance.now() - before;
    const outputs = session.outputNames.map((name) => {
      const { type, dims, data } = found[name];
      return { type, dims: [...dims], bytes: data.buffer.slice(data.byteOffset, data.byteOffset + data.byteLength) };
    });
    return { outputs, ms };
  },

  // Time calls one by one: nothing but the run between two readings of the clock.
  async sample({ key, calls, warmUp, seconds }) {
    const inputs = bound.get(key);
    const deadline = performance.now() + seconds * 1e3;
    for (let call = 0; call < warmUp; call++) {
      await session.run(inputs);
      if (performance.now() > deadline) break;
    }
    const ms = new Float64Array(calls);
    let taken = 0;
    while (taken < calls) {
      const before = performance.now();
      await session.run(inputs);
      const after = performance.now();
      ms[taken++] = after - before;
      if (after > deadline) break;
    }
    return ms.subarray(0, taken);
  },
};

onmessage = async ({ data: { id, ask, ...told } }) => {
  try {
    postMessage({ id, answer: await answers[ask](told) });
  } catch (error) {
    postMessage({ id, failed: String(error?.message ?? error) });
  }
};
