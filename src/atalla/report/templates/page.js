// The page: sliders choose a device, and everything that depends on it is worked out and drawn again. No request is made.

const data = JSON.parse(get("data").textContent);
const grid = new Grid(data);
const base = grid.device(data.base);
const sliders = AXES.map((name) => get(name));
const sorting = { column: "number", falls: false };
let places = [...data.base];
let chosen = null;

// Columns of the layer table: what a header's name stands for, as a number or text to sort by, and as text.
const COLUMNS_OF_TABLE = {
  number: [(layer) => layer.number, (layer) => String(layer.number)],
  operation: [(layer) => layer.operation, (layer) => layer.operation],
  node: [(layer) => layer.node, (layer) => layer.node],
  cycles: [(layer) => layer.cycles, (layer) => (layer.isHost ? "host" : count(layer.cycles))],
  share: [(layer) => layer.share, (layer) => (layer.isHost ? "" : percent(layer.share))],
  used: [(layer) => layer.utilisation, (layer) => (layer.usesMatrix ? percent(layer.utilisation) : "")],
  in: [(layer) => layer.inBytes, (layer) => (layer.isHost ? "" : count(layer.inBytes))],
  out: [(layer) => layer.outBytes, (layer) => (layer.isHost ? "" : count(layer.outBytes))],
  stalls: [(layer) => layer.stalled, (layer) => (layer.stall ? `${layer.stall} ${count(layer.stalled)}` : "")],
  bound: [(layer) => layer.bound, (layer) => layer.bound],
  analytic: [(layer) => layer.analytic, (layer) => (layer.isHost ? "" : count(layer.analytic))],
  differs: [(layer) => Math.abs(layer.differs), (layer) => (layer.isHost ? "" : change(layer.differs))],
};

const roofline = new Roofline(get("roofline-chart"), grid, choose);
const timeline = new Timeline(get("timeline-chart"), data, choose);

// -- the device --------------------------------------------------------------------------------------------------------
const TITLES = ["Cycles by array", "Cycles by size of each scratchpad", "Cycles by width of the DMA"];
const SHOWN = [(value) => `${value} × ${value}`, room, (value) => `${count(value)} B a cycle`];

function update() {
  const device = grid.device(places);
  sliders.forEach((slider, i) => {
    const text = SHOWN[i](grid.stops[i][places[i]]);
    slider.value = places[i];
    slider.setAttribute("aria-valuetext", text);
    get(`${AXES[i]}-value`).textContent = text;
  });
  const here = AXES.map((name, i) => SHOWN[i](device.hardware[name])).join(", ");
  for (const place of document.querySelectorAll("[data-device]")) place.textContent = here;
  get("cannot").hidden = !device.reason;
  get("cannot").textContent = device.reason ? `The program does not run on this device: ${device.reason}` : "";
  get("totals").hidden = Boolean(device.reason);
  if (device.totals) drawTotals(device);
  get("stops").replaceChildren(...stopCharts(grid, places, TITLES, SHOWN, moveTo));
  const drawn = roofline.draw(device, chosen);
  const all = device.layers ? device.layers.length : 0;
  get("roofline-left-out").textContent = `${drawn} of ${all} layers have products, and are drawn.`;
  drawTable(device);
  drawChosen(device);
}

// How much more or less than before: as a part of it, in points of a hundred, or as a number.
const asPart = (value, old) => (old ? change(value / old - 1) : "new");
const asPoints = (value, old) => `${value > old ? "+" : ""}${(100 * (value - old)).toFixed(1)} points`;
const asNumber = (value, old) => (value > old ? "+" : "") + count(value - old);

function drawTotals(device) {
  const [now, before] = [device.totals, base.totals];
  const rows = [
    ["cycles", "cycles, event simulation", now.cycles, before.cycles, count],
    ["analytic", "cycles, analytic model, worked out here", now.analytic, before.analytic, count],
    ["milliseconds", "milliseconds at the clock", now.milliseconds, before.milliseconds, (value) => value.toFixed(3)],
    ["utilisation", "share of the matrix unit", now.utilisation, before.utilisation, percent, asPoints],
    ["in", "bytes loaded", now.inBytes, before.inBytes, count],
    ["out", "bytes stored", now.outBytes, before.outBytes, count],
  ];
  STALLS.forEach((name, i) => rows.push([`stall-${name}`, `stalls: ${name}`, now.stalls[i], before.stalls[i], count]));
  for (const name of [...ENGINES, "issue"]) {
    const number = (layers) => layers.filter((layer) => layer.bound === name).length;
    rows.push([`bound-${name}`, `layers bound by ${name}`, number(device.layers), number(base.layers), count, asNumber]);
  }
  const made = rows.map(([id, text, value, old, show, differ = asPart]) => {
    const cell = html("td", { class: "n", id: `total-${id}`, "data-value": value }, show(value));
    const rest = [show(old), value === old ? "" : differ(value, old)].map((one) => html("td", { class: "n" }, one));
    return html("tr", {}, html("th", { scope: "row" }, text), cell, ...rest);
  });
  get("totals").tBodies[0].replaceChildren(...made);
}

function moveTo(axis, stop) {
  places[axis] = stop;
  update();
}

sliders.forEach((slider, i) => {
  slider.max = grid.stops[i].length - 1;
  slider.addEventListener("input", () => moveTo(i, Number(slider.value)));
});
get("reset").addEventListener("click", () => {
  places = [...data.base];
  update();
});

// -- the layer table ---------------------------------------------------------------------------------------------------
const headers = [...get("layer-table").tHead.rows[0].cells];

function drawTable(device) {
  const [value] = COLUMNS_OF_TABLE[sorting.column];
  const rows = [...(device.layers || [])].sort((a, b) => {
    const [x, y] = [value(a), value(b)];
    const order = x < y ? -1 : x > y ? 1 : 0;
    return (sorting.falls ? -order : order) || a.number - b.number;
  });
  get("layer-table").tBodies[0].replaceChildren(...rows.map(row));
  for (const header of headers) {
    const isSorted = header.dataset.column === sorting.column;
    header.setAttribute("aria-sort", isSorted ? (sorting.falls ? "descending" : "ascending") : "none");
  }
}

function row(layer) {
  const cells = headers.slice(1).map((header) => {
    const name = header.dataset.column;
    const style = header.classList.contains("n") ? { class: "n" } : name === "node" ? { class: "name" } : {};
    return html("td", style, COLUMNS_OF_TABLE[name][1](layer));
  });
  const button = html("button", { type: "button", "data-number": layer.number }, String(layer.number));
  button.setAttribute("aria-label", `Show layer ${layer.number}`);
  button.setAttribute("aria-pressed", layer.number === chosen);
  button.addEventListener("click", () => choose(layer.number));
  return html("tr", layer.number === chosen ? { class: "chosen" } : {}, html("th", { scope: "row", class: "n" }, button), ...cells);
}

for (const header of headers) {
  const button = html("button", { type: "button", class: "sort" }, ...header.childNodes);
  header.replaceChildren(button);
  button.addEventListener("click", () => {
    const name = header.dataset.column;
    const isText = ["number", "operation", "node", "bound"].includes(name);
    sorting.falls = sorting.column === name ? !sorting.falls : !isText;
    sorting.column = name;
    drawTable(grid.device(places));
  });
}

// -- one layer ---------------------------------------------------------------------------------------------------------
function choose(number) {
  const held = document.activeElement?.closest("#layer-table tbody") ? number : null;
  chosen = number;
  get("layer").value = String(number);
  timeline.showLayer(number);
  const device = grid.device(places);
  roofline.draw(device, chosen);
  drawTable(device);
  drawChosen(device);
  if (held !== null) get("layer-table").querySelector(`[data-number="${held}"]`)?.focus(); // its row was made again
}

function drawChosen(device) {
  const layer = chosen === null || !device.layers ? null : device.layers[chosen];
  get("chosen").hidden = !layer;
  if (!layer) return;
  const stalls = STALLS.filter((_, i) => layer.stalls[i]).map((name) => `${name} ${count(layer.stalls[STALLS.indexOf(name)])}`);
  const facts = [
    ["layer", `#${layer.number} ${layer.operation}`],
    ["node", layer.node || "–"],
    ["line", layer.line || "–"],
    ["makes", `${layer.shape.join(" × ") || "scalar"} ${layer.dtype}`],
    ["cycles", layer.isHost ? "the host's, not counted" : `${count(layer.cycles)}, ${percent(layer.share)} of all`],
    ["products", count(layer.macs)],
    ["stalls", stalls.join(", ") || "none"],
  ];
  get("chosen-facts").replaceChildren(
    ...facts.map(([name, text]) => html("div", {}, html("dt", {}, name), html("dd", {}, text))),
  );
}

// -- the timeline ------------------------------------------------------------------------------------------------------
const MOVES = {
  "timeline-left": () => timeline.move(-0.25),
  "timeline-right": () => timeline.move(0.25),
  "timeline-in": () => timeline.zoom(0.5),
  "timeline-out": () => timeline.zoom(2),
  "timeline-all": () => timeline.show(0, timeline.end),
};
const KEYS = { ArrowLeft: "left", ArrowRight: "right", "+": "in", "=": "in", "-": "out", Home: "all" };
for (const [id, move] of Object.entries(MOVES)) get(id).addEventListener("click", move);
get("timeline-chart").addEventListener("keydown", (event) => {
  if (!(event.key in KEYS) || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  MOVES[`timeline-${KEYS[event.key]}`]();
});
get("timeline-chart").addEventListener("pointermove", (event) => {
  const frame = timeline.drawn.getBoundingClientRect();
  const scale = LANE.width / frame.width;
  const told = timeline.told((event.clientX - frame.left) * scale, (event.clientY - frame.top) * scale);
  get("timeline-told").textContent = told || "Point at a span to read what it is.";
});
get("layer").append(
  ...data.instructions.map(([operation, node], number) => html("option", { value: number }, `#${number} ${operation} ${node}`)),
);
get("layer").addEventListener("change", () => {
  if (get("layer").value !== "") choose(Number(get("layer").value));
});

for (const part of document.querySelectorAll("[data-needs-script]")) part.hidden = false;
for (const part of document.querySelectorAll("[data-without-script]")) part.hidden = true;
timeline.draw();
update();
