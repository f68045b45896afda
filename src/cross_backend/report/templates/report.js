// The page's script: shows one panel or all, and compares targets again from the raw samples. It makes no request.
"use strict";
(() => {
  const get = (id) => document.getElementById(id);
  const panels = JSON.parse(get("raw-index").textContent);
  const decoded = new Map();

  // -- one panel or all --------------------------------------------------------------------------------------------
  const only = get("only");
  if (only) {
    only.closest("label").hidden = false;
    only.addEventListener("change", () => {
      for (const part of document.querySelectorAll("article[data-panel]")) {
        part.hidden = only.value !== "" && part.dataset.panel !== only.value;
      }
    });
  }

  // -- raw samples -------------------------------------------------------------------------------------------------
  async function inflate(series) {
    const block = get(series.id);
    const text = atob(block.textContent);
    const packed = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) packed[i] = text.charCodeAt(i);
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    const planes = new Uint8Array(await new Response(stream).arrayBuffer());
    const size = block.dataset.kind === "u4" ? 4 : 8;
    const count = planes.length / size;
    const bytes = new Uint8Array(planes.length);
    for (let plane = 0; plane < size; plane++) {
      for (let i = 0; i < count; i++) bytes[i * size + plane] = planes[plane * count + i];
    }
    const view = new DataView(bytes.buffer);
    const values = new Float64Array(count);
    for (let i = 0; i < count; i++) values[i] = size === 4 ? view.getUint32(i * 4, true) : view.getFloat64(i * 8, true);
    return { values, sorted: values.slice().sort() };
  }

  function samples(series) {
    if (!decoded.has(series.id)) decoded.set(series.id, inflate(series));
    return decoded.get(series.id);
  }

  // The ⌈n · p⌉-th smallest (Hyndman & Fan 1996, definition 1), as everywhere in this report.
  const percentile = (sorted, percent) =>
    sorted[Math.min(sorted.length - 1, Math.max(0, Math.ceil((sorted.length * percent) / 100 - 1e-9) - 1))];

  function median(values) {
    const sorted = Float64Array.from(values).sort();
    const half = sorted.length >> 1;
    return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
  }

  function roundMedians(series, values) {
    let start = 0;
    return series.rounds.map((count) => {
      start += count;
      return count ? median(values.subarray(start - count, start)) : NaN;
    });
  }

  // The median of the rounds' ratios and its exact order-statistic interval, 95 % (David & Nagaraja, §7.1).
  function paired(a, b) {
    const ratios = [];
    for (let i = 0; i < Math.min(a.length, b.length); i++) {
      if (!Number.isNaN(a[i]) && !Number.isNaN(b[i])) ratios.push(Math.max(a[i], 1) / Math.max(b[i], 1));
    }
    const n = ratios.length;
    if (n < 6) return null;
    const sorted = Float64Array.from(ratios).sort();
    let k = 0;
    let logChoose = 0;
    let tail = 0;
    while (k < (n - 1) >> 1) {
      tail += Math.exp(logChoose - n * Math.LN2);
      if (2 * tail > 0.05) break;
      logChoose += Math.log((n - k) / (k + 1));
      k += 1;
    }
    const low = Math.max(k - 1, 0);
    return { value: median(ratios), low: sorted[low], high: sorted[n - 1 - low], n };
  }

  // -- what is shown -----------------------------------------------------------------------------------------------
  function make(parent, name, attributes, text) {
    const svg = parent instanceof SVGElement || name === "svg";
    const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    parent.append(made);
    return made;
  }

  const ms = (ns) => (ns / 1e6).toPrecision(4);

  function ticksOf(low, high, most) {
    const found = [];
    for (let decade = Math.floor(Math.log10(low)); decade <= Math.log10(high); decade++) {
      for (const step of [1, 1.5, 2, 3, 5, 7]) {
        const tick = step * 10 ** decade;
        if (tick >= low && tick <= high) found.push(tick);
      }
    }
    return found.filter((_, i) => i % Math.ceil(found.length / most) === 0);
  }

  function drawCurves(parent, names, sets) {
    const width = Math.max(320, Math.min(640, result.clientWidth - 32));
    const [height, left, right, top, bottom] = [320, 60, 18, 10, 80];
    const lows = sets.map((set) => Math.max(set.sorted[0], 1));
    const highs = sets.map((set) => Math.max(set.sorted[set.sorted.length - 1], 1));
    const low = Math.min(...lows) / 1.02;
    const high = Math.max(...highs) * 1.02;
    const x = (ns) => left + (Math.log(Math.max(ns, 1) / low) / Math.log(high / low)) * (width - left - right);
    const y = (share) => height - bottom - share * (height - top - bottom);
    const svg = make(parent, "svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img" });
    make(svg, "title", {}, `Share of calls done in time: ${names.join(" and ")}`);
    for (const share of [0, 0.25, 0.5, 0.75, 1]) {
      make(svg, "line", { x1: left, x2: width - right, y1: y(share), y2: y(share), class: "grid" });
      make(svg, "text", { x: left - 6, y: y(share) + 4, class: "tick", "text-anchor": "end" }, `${share * 100} %`);
    }
    for (const tick of ticksOf(low / 1e6, high / 1e6, width < 500 ? 4 : 7)) {
      make(svg, "line", { x1: x(tick * 1e6), x2: x(tick * 1e6), y1: y(0), y2: y(1), class: "grid" });
      make(svg, "text", { x: x(tick * 1e6), y: y(0) + 17, class: "tick", "text-anchor": "middle" }, String(+tick.toPrecision(3)));
    }
    make(svg, "line", { x1: left, x2: width - right, y1: y(0), y2: y(0), class: "axis" });
    const middle = (left + width - right) / 2;
    make(svg, "text", { x: middle, y: y(0) + 36, class: "label", "text-anchor": "middle" }, "latency, ms (logarithmic)");
    sets.forEach((set, slot) => {
      const steps = Math.min(set.sorted.length, 400);
      let path = `M${x(set.sorted[0]).toFixed(2)} ${y(0).toFixed(2)}`;
      for (let i = 1; i <= steps; i++) {
        path += `H${x(percentile(set.sorted, (100 * i) / steps)).toFixed(2)}V${y(i / steps).toFixed(2)}`;
      }
      make(svg, "path", { d: path, class: `line s${slot} d${slot}` });
      const row = height - 24 + slot * 18;
      make(svg, "line", { x1: 12, x2: 42, y1: row - 4, y2: row - 4, class: `line s${slot} d${slot}` });
      make(svg, "text", { x: 50, y: row }, `${"AB"[slot]}: ${names[slot].slice(0, Math.floor((width - 80) / 8))}`);
    });
  }

  function drawTable(parent, names, sets, percent) {
    const [a, b] = sets.map((set) => percentile(set.sorted, percent));
    const table = make(make(parent, "div", { class: "scroll" }), "table", {});
    const head = make(make(table, "thead"), "tr");
    for (const text of ["target", "samples", `P${percent} ms`]) make(head, "th", { scope: "col" }, text);
    const body = make(table, "tbody");
    sets.forEach((set, i) => {
      const row = make(body, "tr");
      make(row, "td", {}, `${"AB"[i]}: ${names[i]}`);
      make(row, "td", { class: "n" }, set.sorted.length.toLocaleString("en"));
      make(row, "td", { class: "n", id: `again-value-${"ab"[i]}`, "data-ns": [a, b][i] }, ms([a, b][i]));
    });
    const ratio = Math.max(a, 1) / Math.max(b, 1);
    const told = make(parent, "p", { id: "again-ratio", "data-ratio": ratio });
    told.textContent = `P${percent} of A is ${ratio.toFixed(3)} times that of B.`;
  }

  function drawPaired(parent, chosen, sets) {
    const found = paired(roundMedians(chosen[0], sets[0].values), roundMedians(chosen[1], sets[1].values));
    const told = make(parent, "p", { id: "again-paired" });
    if (!found) {
      told.textContent = "They have fewer than six rounds in common, so their ratio has no interval.";
      return;
    }
    for (const key of ["value", "low", "high"]) told.dataset[key] = found[key];
    const interval = `${found.low.toFixed(3)} to ${found.high.toFixed(3)}`;
    told.textContent = `Paired by round (${found.n} rounds): A takes ${found.value.toFixed(3)} times as long as B; 95 % interval of the rounds ${interval}, without what other launches of the same targets would differ by.`;
  }

  // -- the box -----------------------------------------------------------------------------------------------------
  const panelBox = get("again-panel");
  const boxes = [get("again-a"), get("again-b")];
  const percentBox = get("again-percent");
  const result = get("again-result");
  const panelNow = () => panels[panelBox.selectedIndex];
  let turn = 0;

  async function analyse() {
    const mine = ++turn; // a slower, older answer must not replace a newer one
    const percent = Number(percentBox.value);
    const chosen = boxes.map((box) => panelNow().series[box.selectedIndex]);
    const fresh = document.createElement("div");
    if (percentBox.value === "" || !(percent >= 0 && percent <= 100)) {
      make(fresh, "p", {}, "A percentile is a number from 0 to 100.");
    } else {
      try {
        const sets = await Promise.all(chosen.map(samples));
        const names = chosen.map((series) => series.title);
        drawTable(fresh, names, sets, percent);
        drawPaired(fresh, chosen, sets);
        drawCurves(make(make(fresh, "figure"), "div", { class: "scroll" }), names, sets);
      } catch (error) {
        make(fresh, "p", {}, `The samples cannot be read: ${error.message}`);
      }
    }
    if (mine === turn) result.replaceChildren(...fresh.childNodes);
  }

  function fill(box, texts, selected) {
    box.replaceChildren(...texts.map((text) => new Option(text)));
    box.selectedIndex = Math.min(selected, texts.length - 1);
  }

  function choosePanel() {
    const titles = panelNow().series.map((series) => series.title);
    fill(boxes[0], titles, 0);
    fill(boxes[1], titles, 1);
    analyse();
  }

  // A spreadsheet would run a text that begins like a formula.
  const quoted = (text) => `"${String(text ?? "").replace(/^[=+\-@]/, "'$&").replaceAll('"', '""')}"`;

  async function download() {
    const panel = panelNow();
    const parts = ["workload,batch,threads,backend,round,sample,latency_ns\n"];
    for (const series of panel.series) {
      const { values } = await samples(series);
      const head = [panel.workload, panel.batch, panel.threads, series.title].map(quoted).join(",");
      let start = 0;
      series.rounds.forEach((count, round) => {
        const lines = [];
        for (let i = start; i < start + count; i++) lines.push(`${head},${round},${i - start},${values[i]}\n`);
        parts.push(lines.join(""));
        start += count;
      });
    }
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob(parts, { type: "text/csv" }));
    link.download = "samples.csv";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  }

  get("again-needs").hidden = true;
  if (!panels.length) {
    get("again-none").hidden = false;
    return;
  }
  fill(panelBox, panels.map((panel) => panel.label), 0);
  const form = get("again-form");
  form.hidden = false;
  form.addEventListener("submit", (event) => event.preventDefault());
  panelBox.addEventListener("change", choosePanel);
  for (const box of [...boxes, percentBox]) box.addEventListener("change", analyse);
  get("again-csv").addEventListener("click", download);
  // Large files are unpacked only when somebody comes to the box.
  new IntersectionObserver((entries, observer) => {
    if (entries.some((entry) => entry.isIntersecting)) {
      observer.disconnect();
      choosePanel();
    }
  }).observe(form);
})();
