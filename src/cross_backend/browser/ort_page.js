// A model in this browser: opened, run and timed by onnxruntime-web, in a worker of its own.
//
//   import { OrtModel } from "./ort_page.js";
//   const model = await OrtModel.open({ provider: "wasm", model: await (await fetch("m.onnx")).arrayBuffer() });
//   const key = await model.bind([{ type: "float32", dims: [1, 4], bytes: new Float32Array(4).buffer }]);
//   const { outputs, ms } = await model.run(key);
//
// The runtime's files lie beside this one. Its page's content policy has to allow 'wasm-unsafe-eval' and workers of its
// own origin; threads and a clock of 5 µs need a page that is isolated (COOP same-origin, COEP require-corp).

export class OrtModel {
  #worker;
  #waiting = new Map();
  #asked = 0;
  #keys = 0;
  #forgotten = [];

  constructor() {
    this.#worker = new Worker(new URL("ort_worker.js", import.meta.url), { type: "module" });
    this.#worker.onmessage = ({ data: { id, answer, failed } }) => {
      const { resolve, reject } = this.#waiting.get(id);
      this.#waiting.delete(id);
      if (failed === undefined) resolve(answer);
      else reject(new Error(failed));
    };
    this.#worker.onerror = (event) => {
      for (const { reject } of this.#waiting.values()) reject(new Error(event.message || "the worker cannot start"));
      this.#waiting.clear();
    };
  }

  #ask(ask, told = {}, moved = []) {
    const id = ++this.#asked;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.#worker.postMessage({ id, ask, ...told }, moved);
    });
  }

  // What draws on the graphics processor: {vendor, architecture, description, isSoftware}; null where nothing does.
  static async adapter() {
    const asking = new OrtModel();
    try {
      return await asking.#ask("adapter");
    } finally {
      asking.close();
    }
  }

  // Open an ONNX file's bytes (an ArrayBuffer, which is given away) on "wasm" or "webgpu"; rejects with the runtime's
  // reason. `opened` then holds its names of inputs and outputs, and the log if that was asked for.
  static async open({ provider, model, threads = 0, withLog = false }) {
    const made = new OrtModel();
    try {
      const files = new URL(".", import.meta.url).href;
      made.opened = await made.#ask("open", { files, provider, model, threads, withLog }, [model]);
      return made;
    } catch (error) {
      made.close();
      throw error;
    }
  }

  // Make the runtime's tensors of {type, dims, bytes}, in the model's order; returns the number to run them by.
  async bind(inputs) {
    const key = ++this.#keys;
    await this.#ask("bind", { key, inputs, forget: this.#forgotten.splice(0) }, inputs.map(({ bytes }) => bytes));
    return key;
  }

  // Let bound inputs go, with the next that are bound.
  forget(key) {
    this.#forgotten.push(key);
  }

  // Run once: {outputs: [{type, dims, bytes}], ms}.
  run(key) {
    return this.#ask("run", { key });
  }

  // Milliseconds of up to so many calls, one by one.
  sample(key, { calls, warmUp = 0, seconds = Infinity }) {
    return this.#ask("sample", { key, calls, warmUp, seconds });
  }

  close() {
    this.#worker.terminate();
  }
}
