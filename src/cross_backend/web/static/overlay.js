// Overlay: the card of one backend: what it answered, and the performance overlay with its live chart.

import { _ } from "/static/texts.js";

const SVG = "http://www.w3.org/2000/svg";
const KEPT = 500, DRAWN = 120;
const NEEDED = { P50: 3, P90: 20, P99: 200 };  // calls before a percentile is more than the largest value

export function element(name, text, kind) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

function drawn(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

export function ms(value) {
  if (value === null || value === undefined || !isFinite(value)) return "–";
  return value >= 100 ? value.toFixed(0) : value >= 1 ? value.toFixed(2) : value.toFixed(3);
}

/** Return what is known of a backend before its runs: whether it is verified, and how long it took to load. */
export function proved({ text, load_ms: took }) {
  return _("%(text)s · loaded in %(ms)s ms", { text, ms: ms(took) });
}

function quantile(sorted, share) {
  return sorted[Math.min(sorted.length - 1, Math.ceil(share * sorted.length) - 1)];
}

const FIGURES = {
  inference: _("inference"), "pre-processing": _("pre-processing"), "post-processing": _("post-processing"),
  "end to end": _("end to end"), "end-to-end fps": _("end-to-end fps"),
  P50: "P50", P90: "P90", P99: "P99", memory: _("memory"), calls: _("calls"),
};
const COMPARED = 20;  // calls of each backend before one is compared with another

export class Card {
  constructor(key, title, colour, look, hint, figures = FIGURES, what = _("Inference times of %(title)s", { title })) {
    this.samples = [];
    this.calls = 0;
    this.root = element("article", undefined, "card");
    this.root.dataset.artifact = key;
    this.title = element("h3", title);
    if (look) this.title.prepend(look);
    this.proof = element("p", "", "proof");
    this.answer = element("div", undefined, "answer");
    this.apart = element("p", "", "apart");
    this.figures = element("dl", undefined, "overlay");
    this.figures.setAttribute("aria-label", _("Performance of %(title)s", { title }));
    this.values = {};
    for (const [name, label] of Object.entries(figures)) {
      const pair = element("div");
      this.values[name] = element("dd", "–");
      pair.append(element("dt", label), this.values[name]);
      this.figures.append(pair);
    }
    this.chart = drawn("svg", { class: `live s${colour}`, viewBox: "0 0 240 60", role: "img", "aria-label": what });
    this.line = drawn("polyline", { class: "line", points: "" });
    this.median = drawn("line", { class: "reference", x1: 0, x2: 240, y1: -9, y2: -9 });
    this.top = drawn("text", { class: "most", x: 2, y: 9 });
    this.chart.append(this.median, this.line, this.top);
    this.root.append(this.title, this.proof, this.answer, this.apart, this.figures, this.chart);
    this.answer.append(element("p", hint, "note"));
    this.root.classList.add("unused");
  }

  /** Show why there is no answer, in the place of the old one. */
  say(text) {
    const told = element("p", text, "error");
    told.setAttribute("role", "alert");
    this.answer.replaceChildren(told);
    this.apart.textContent = "";
  }

  /** Show what a run gave; `overhead` is what the request took beside all backends' own work, ms. */
  show(run, overhead) {
    this.root.classList.toggle("failed", run.outcome !== "OK");
    this.answer.replaceChildren();
    if (run.outcome !== "OK") {
      this.say(run.error);
      this.answer.prepend(element("span", run.outcome === "CRASH" ? _("CRASHED") : _("FAILED"), "outcome"));
      return;
    }
    this.root.classList.remove("unused");
    this.proof.textContent = proved(run.proof);
    this.proof.classList.toggle("bad", run.proof.verdict === false);
    this.answer.append(...shown(run.shown));
    this.calls += 1;
    this.samples.push(run.inference_ms);
    if (this.samples.length > KEPT) this.samples.shift();
    const total = run.opened ? null : run.prepare_ms + run.bind_ms + run.inference_ms + run.present_ms + overhead;
    const sorted = [...this.samples].sort((a, b) => a - b);
    const set = (name, text) => { this.values[name].textContent = text; };
    set("inference", `${ms(run.inference_ms)} ms`);
    set("pre-processing", `${ms(run.prepare_ms + run.bind_ms)} ms`);
    set("post-processing", `${ms(run.present_ms)} ms`);
    set("end to end", total === null ? "–" : `${ms(total)} ms`);
    set("end-to-end fps", total === null ? "–" : (1000 / total).toFixed(1));
    this.percentiles(sorted);
    set("memory", run.memory_bytes === null ? "–" : `${(run.memory_bytes / 1e6).toFixed(0)} MB`);
    set("calls", String(this.calls));
    this.draw(sorted);
  }

  percentiles(sorted) {
    for (const [name, least] of Object.entries(NEEDED)) {
      const enough = sorted.length >= least;
      this.values[name].textContent = enough ? `${ms(quantile(sorted, Number(name.slice(1)) / 100))} ms` : _("needs %(least)s calls", { least });
      this.values[name].classList.toggle("few", !enough);
    }
  }

  /** Return the median with its 95 % interval by order statistics; null below the calls that a comparison needs. */
  middle() {
    const n = this.samples.length, sorted = [...this.samples].sort((a, b) => a - b);
    if (n < COMPARED) return null;
    const below = Math.max(0, Math.floor(n / 2 - 0.98 * Math.sqrt(n)) - 1);
    return { value: quantile(sorted, 0.5), low: sorted[below], high: sorted[n - 1 - below] };
  }

  /** Say how it differs from the others: in latency from the fastest, in numbers from the first. */
  compare(fastest, first, difference) {
    const own = this.middle(), parts = [];
    if (own && fastest) {
      if (own.value === fastest.value) parts.push(_("lowest P50 here"));
      else if (own.low > fastest.high) parts.push(_("%(ratio)s × the lowest P50", { ratio: (own.value / fastest.value).toFixed(2) }));
      else parts.push(_("no difference from the lowest P50 yet"));
    }
    if (difference) {
      const { max_abs: worst, of_scale: share } = difference;
      if (worst === null) parts.push(_("cannot be compared with %(first)s", { first }));
      else if (worst === 0) parts.push(_("the same numbers as %(first)s", { first }));
      else {
        const facts = { first, worst: worst.toExponential(1), share: share?.toExponential(1) };
        parts.push(share === null ? _("differs from %(first)s by %(worst)s", facts)
          : _("differs from %(first)s by %(worst)s (%(share)s of its scale)", facts));
      }
    }
    this.apart.textContent = parts.join(" · ");
  }

  draw(sorted) {
    const seen = this.samples.slice(-DRAWN), most = quantile(sorted, 0.99) * 1.15 || 1;
    const y = (value) => (58 - Math.min(value / most, 1) * 54).toFixed(1);
    const step = 240 / Math.max(DRAWN - 1, 1), from = 240 - step * (seen.length - 1);
    this.line.setAttribute("points", seen.map((value, i) => `${(from + i * step).toFixed(1)},${y(value)}`).join(" "));
    for (const end of ["y1", "y2"]) this.median.setAttribute(end, y(quantile(sorted, 0.5)));
    this.top.textContent = `${ms(most)} ms`;
  }
}

/** Return what draws a model's answer; which fields there are depends on what it works on. */
function shown(answer) {
  const parts = [];
  if (answer.top) parts.push(bars(answer.top));
  if (answer.boxes) {
    const found = answer.boxes.map((box) => ({ label: box.label, share: box.score }));
    parts.push(bars(found), element("p", _("%(count)s found", { count: found.length }), "note"));
  } else if (answer.kind === "boxes") parts.push(element("p", _("nothing found"), "note"));
  if (answer.numbers) parts.push(element("p", answer.numbers.slice(0, 8).map((v) => v.toPrecision(7)).join(", "), "numbers"));
  if (answer.tokens) {
    const list = element("ol", undefined, "tokens");
    for (const token of answer.tokens) list.append(element("li", token.text));
    parts.push(list);
  }
  if (answer.waveform) parts.push(waveform(answer));
  for (const caveat of answer.caveats ?? []) parts.push(element("p", caveat, "note"));
  return parts;
}

function bars(rows) {
  const list = element("ol", undefined, "top");
  for (const { label, share } of rows) {
    const row = element("li"), bar = element("span", undefined, "bar"), part = element("span");
    part.style.width = `${(share * 100).toFixed(2)}%`;
    bar.setAttribute("aria-hidden", "true");
    bar.append(part);
    row.append(element("span", label, "label"), bar, element("span", `${(share * 100).toFixed(1)} %`, "share"));
    list.append(row);
  }
  return list;
}

function waveform({ waveform: pieces, lengths }) {
  const chart = drawn("svg", { class: "live s0", viewBox: "0 0 240 60", role: "img", "aria-label": _("The sound, and the length of the model's states over it") });
  const x = (i, count) => (i * 240 / Math.max(count - 1, 1)).toFixed(1);
  for (const [i, [low, high]] of pieces.entries()) {
    chart.append(drawn("line", { class: "line", x1: x(i, pieces.length), x2: x(i, pieces.length), y1: (30 - high * 28).toFixed(1), y2: (30.5 - low * 28).toFixed(1) }));
  }
  if (lengths?.length) {
    const most = Math.max(...lengths) || 1;
    const points = lengths.map((v, i) => `${x(i, lengths.length)},${(58 - v / most * 54).toFixed(1)}`).join(" ");
    chart.append(drawn("polyline", { class: "reference", points }));
  }
  return chart;
}
