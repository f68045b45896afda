// Playground: the chosen backends run on the chosen input; each shows its answer and its overlay.

import { inputOf } from "/static/inputs.js";
import { TextCard, generate } from "/static/generating.js";
import { finder, follow } from "/static/localizing.js";
import { Card } from "/static/overlay.js";
import { _ } from "/static/texts.js";
import { visit } from "/static/visitor.js";

const $ = (id) => document.getElementById(id);
const said = $("said"), cards = new Map();
const token = document.querySelector("meta[name=page-token]").content;
const boxes = [...document.querySelectorAll("#backends input:not(:disabled)")];
let running = false, wanted = false, ran = false, useSample = false;

const ticked = () => boxes.filter((box) => box.checked);

function arrange() {
  const chosen = ticked();
  for (const box of chosen) {
    if (cards.has(box.value)) continue;
    const look = box.parentElement.querySelector(".key")?.cloneNode(true);
    const kind = $("generate") ? TextCard : Card;
    cards.set(box.value, new kind(box.value, box.dataset.title, box.dataset.colour, look, $("play").dataset.hint));
  }
  $("cards").replaceChildren(...chosen.map((box) => cards.get(box.value).root));
  const address = new URL(location.href);
  address.searchParams.set("model", $("model").value);
  address.searchParams.delete("on");
  for (const box of chosen.filter((one) => one.name === "on")) address.searchParams.append("on", box.value);
  history.replaceState(null, "", address);
}

async function post(address, body) {
  const response = await fetch(address, { method: "POST", body, headers: { "X-Cross-Backend-Token": token } });
  return response.json();
}

async function once() {
  const chosen = ticked();
  if (!chosen.length) {
    said.textContent = _("Tick a backend.");
    return false;
  }
  const asked = new URLSearchParams(), given = useSample ? null : await input.take();
  if (given === null && !useSample && !input.optional) {
    said.textContent = _("There is no input yet.");
    return false;
  }
  const here = chosen.filter((box) => box.name === "here");
  for (const box of chosen.filter((one) => one.name === "on")) asked.append("artifact", box.value);
  if (here.length) asked.append("visitor", here[0].dataset.artifact);
  if (given === null) asked.append("sample", "true");
  else if (given.name) asked.append("name", given.name);
  const began = performance.now();
  let answer;
  try {
    answer = await post(`/api/run?${asked}`, given);
  } catch {
    said.textContent = _("The server does not answer.");
    return false;
  }
  if (answer.error) {  // the old answers are not this input's
    for (const box of chosen) cards.get(box.value).say(answer.error);
    said.textContent = "";
    return false;
  }
  for (const box of here) {
    const { value: provider, dataset: { artifact, title } } = box;
    answer.runs.push(await visit({ provider, artifact, title }, answer.visitor, post));
  }
  const total = performance.now() - began;
  said.textContent = "";
  show(answer.runs, total);
  return true;
}

function show(runs, total) {
  const fine = runs.filter((run) => run.outcome === "OK");
  const own = fine.reduce((sum, run) => sum + run.bind_ms + run.inference_ms + run.present_ms, 0);
  const overhead = Math.max(0, total - own - (fine[0]?.prepare_ms ?? 0));
  const opened = runs.some((run) => run.opened || run.outcome !== "OK");
  for (const run of runs) {
    const card = cards.get(run.artifact);
    card?.show({ ...run, opened }, overhead);
    if (card && run.proof?.verdict === false && !card.finder) card.proof.after(card.finder = finder(run.artifact));
  }
  if (runs.length > 1) {
    const medians = fine.map((run) => cards.get(run.artifact).middle());
    const fastest = medians.every(Boolean) ? medians.reduce((best, one) => (one.value < best.value ? one : best)) : null;
    for (const run of fine) cards.get(run.artifact).compare(fastest, fine[0].title, run.difference);
  } else for (const run of fine) cards.get(run.artifact).compare(null, "", null);
  mark(fine[0]?.shown);
}

/** Draw the boxes of the first backend on the picture. */
function mark(shown) {
  const marks = $("marks");
  if (!marks || ($("preview").hidden && $("camera").hidden)) return;
  marks.hidden = !shown?.boxes;
  if (marks.hidden) return;
  [marks.width, marks.height] = [shown.width, shown.height];
  const pen = marks.getContext("2d"), unit = Math.max(shown.width, shown.height) / 300;
  Object.assign(pen, { lineWidth: unit, font: `${unit * 9}px sans-serif`, textBaseline: "bottom" });
  for (const box of shown.boxes) {
    pen.strokeStyle = pen.fillStyle = `hsl(${box.index * 47 % 360} 80% 45%)`;
    pen.strokeRect(box.x0, box.y0, box.x1 - box.x0, box.y1 - box.y0);
    pen.fillText(`${box.label} ${(box.score * 100).toFixed(0)} %`, box.x0, Math.max(box.y0, unit * 9));
  }
}

/** Run, and once more where something changed meanwhile; in a loop where that is ticked. */
async function run() {
  wanted = true;
  if (running) return;
  running = true;
  $("run").setAttribute("aria-busy", "true");
  while (wanted) {
    wanted = false;
    ran = (await once()) || ran;
    if ($("again").checked && !document.hidden && ran) {
      wanted = true;
      await new Promise((next) => requestAnimationFrame(next));
    }
  }
  running = false;
  $("run").removeAttribute("aria-busy");
}

/** Continue the text of the box on all ticked backends, until the end or Stop. */
async function write() {
  const chosen = ticked(), stop = new AbortController();
  if (!chosen.length) {
    said.textContent = _("Tick a backend.");
    return;
  }
  const sides = new Map(chosen.map((box) => [box.value, cards.get(box.value)]));
  $("stop").onclick = () => stop.abort();
  $("generate").disabled = true;
  $("stop").disabled = false;
  try {
    said.textContent = _("Generating …");
    said.textContent = await generate(sides, $("text").value, $("new").value, token, stop.signal);
  } catch {
    said.textContent = stop.signal.aborted ? _("Stopped.") : _("The server does not answer.");
  }
  $("generate").disabled = false;
  $("stop").disabled = true;
}

const fresh = () => { useSample = false; return run(); };
const input = $("play") ? inputOf($("play").dataset.kind, fresh) : null;

if ($("play")) {
  for (const box of boxes) {
    box.addEventListener("change", () => {
      arrange();
      if (ran && ticked().length) run();
    });
  }
  $("generate")?.addEventListener("click", write);
  $("run")?.addEventListener("click", fresh);
  $("again")?.addEventListener("change", () => { if ($("again").checked) run(); });
  $("sample")?.addEventListener("click", () => { useSample = true; run(); });
  $("model").addEventListener("change", () => $("model").form.submit());
  $("model-go").hidden = true;
  arrange();
  const events = new EventSource("/api/events");
  follow(events);
  events.addEventListener("opening", (event) => { said.textContent = _("Opening %(title)s …", JSON.parse(event.data)); });
  events.addEventListener("lost", (event) => { said.textContent = _("%(title)s is gone; the next run opens it again.", JSON.parse(event.data)); });
  addEventListener("pagehide", () => events.close());
}
