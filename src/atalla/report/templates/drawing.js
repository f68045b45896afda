// Texts and drawings: numbers as people read them, elements without markup, axes.

const commas = new Intl.NumberFormat("en-US");
const count = (value) => commas.format(value);
const percent = (value) => `${(100 * value).toFixed(1)}%`;
const change = (value) => (value > 0 ? "+" : "") + percent(value);
const room = (bytes) => {
  if (bytes % 1024) return `${count(bytes)} bytes`;
  return bytes < 1 << 20 || bytes % (1 << 20) ? `${count(bytes / 1024)} KiB` : `${count(bytes / (1 << 20))} MiB`;
};
const get = (id) => document.getElementById(id);

// An element of HTML; texts are texts, never markup.
function html(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// The same of SVG.
function svg(name, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// An empty chart, with its name for those who do not see it.
function chart(width, height, title, description) {
  const id = `${title.toLowerCase().replace(/\W+/g, "-")}-title`;
  const text = { viewBox: `0 0 ${width} ${height}`, class: "chart", role: "img", "aria-labelledby": `${id} ${id}-more` };
  return svg("svg", text, svg("title", { id }, title), svg("desc", { id: `${id}-more` }, description));
}

// Round places between two numbers, some five of them.
function ticks(from, to) {
  const rough = (to - from) / 5;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= rough) || rough;
  const found = [];
  for (let i = Math.ceil(from / step); i * step <= to; i++) found.push(i * step);
  return found;
}
