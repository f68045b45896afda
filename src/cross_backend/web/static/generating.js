// Generating: a prompt goes to the chosen backends, and each card's text grows token by token.

import { Card, element, ms, proved } from "/static/overlay.js";
import { _ } from "/static/texts.js";

const FIGURES = {
  "first token": _("first token"), "tokens/s": _("tokens/s"), tokens: _("tokens"),
  P50: "P50", P90: "P90", P99: "P99", memory: _("memory"),
};

/** The card of one backend's text; `samples` are latencies of tokens after the first, ms. */
export class TextCard extends Card {
  constructor(key, title, colour, look, hint) {
    super(key, title, colour, look, hint, FIGURES, _("Time of each token of %(title)s", { title }));
  }

  begin(prompt) {
    this.root.classList.remove("failed", "unused");
    this.samples = [];
    this.count = 0;
    for (const value of Object.values(this.values)) value.textContent = "–";
    this.line.setAttribute("points", "");
    this.apart.textContent = "";
    this.proof.textContent = "";
    this.written = element("span", "", "written");
    const text = element("p", undefined, "stream");
    text.append(element("span", prompt, "prompt"), this.written);
    this.answer.replaceChildren(text);
  }

  opened({ proof }) {
    this.proof.textContent = proved(proof);
    this.proof.classList.toggle("bad", proof.verdict === false);
  }

  token({ text, ms: took }) {
    this.written.append(text);
    this.count += 1;
    this.values.tokens.textContent = String(this.count);
    if (this.count === 1) {
      this.values["first token"].textContent = `${ms(took)} ms`;
      return;
    }
    this.samples.push(took);
    this.values["tokens/s"].textContent = this.rate().toPrecision(3);
    const sorted = [...this.samples].sort((a, b) => a - b);
    this.percentiles(sorted);
    this.draw(sorted);
  }

  /** Return the tokens per second after the first. */
  rate() {
    return 1000 * this.samples.length / this.samples.reduce((sum, one) => sum + one, 0);
  }

  end({ outcome, error, stopped, memory_bytes: memory }) {
    if (outcome === "OK") {
      this.apart.textContent = stopped === "end" ? _("the text ends here") : "";
      if (memory !== null) this.values.memory.textContent = `${(memory / 1e6).toFixed(0)} MB`;
      return;
    }
    this.root.classList.add("failed");
    const told = element("p", error, "error");
    told.setAttribute("role", "alert");
    this.answer.append(element("span", outcome === "CRASH" ? _("CRASHED") : _("FAILED"), "outcome"), told);
  }
}

/** Yield the events of a response as (name, facts). */
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (held + value).split("\n\n");
    held = parts.pop();
    for (const part of parts) {
      const [, name, data] = /^event: (.*)\ndata: (.*)$/.exec(part) ?? [];
      if (name) yield [name, JSON.parse(data)];
    }
  }
}

/** Continue a prompt on the cards' backends, by key; returns what is to be told beside them. */
export async function generate(cards, prompt, count, token, signal) {
  const asked = new URLSearchParams({ new: count });
  for (const key of cards.keys()) asked.append("artifact", key);
  const headers = { "X-Cross-Backend-Token": token, "content-type": "text/plain" };
  const response = await fetch(`/api/generate?${asked}`, { method: "POST", body: prompt, headers, signal });
  if (!response.ok) return (await response.json()).error;
  for (const card of cards.values()) card.begin(prompt);
  const handled = { begin: "opened", token: "token", end: "end" };
  for await (const [name, facts] of events(response)) {
    if (name === "done") return facts.caveats.join(" ");
    cards.get(facts.artifact)?.[handled[name]]?.(facts);
  }
  return _("The server ended in the middle of the text.");
}
