// Artifact: asks the runtime's profiler what each operator takes, and shows the shares.

import { finder, follow, reproducer } from "/static/localizing.js";
import { element, ms } from "/static/overlay.js";
import { _ } from "/static/texts.js";

const button = document.getElementById("profile"), said = document.getElementById("said");
const token = document.querySelector("meta[name=page-token]").content;

button?.addEventListener("click", async () => {
  button.disabled = true;
  said.textContent = _("Measuring …");
  const form = new FormData();
  form.append("artifact", button.dataset.artifact);
  try {
    const response = await fetch("/api/profile", { method: "POST", body: form, headers: { "X-Cross-Backend-Token": token } });
    const answer = await response.json();
    said.textContent = answer.error ?? "";
    if (answer.rows) {
      show(answer.rows);
      share(answer.rows);
    }
  } catch {
    said.textContent = _("The server does not answer.");
  }
  button.disabled = false;
});

function show(rows) {
  const table = element("table"), head = element("tr"), body = element("tbody");
  for (const [text, kind] of [[_("operator")], [_("kind")], [_("calls"), "n"], ["ms", "n"], [_("share"), "n"], [""]]) {
    const cell = element("th", text, kind);
    cell.scope = "col";
    head.append(cell);
  }
  for (const row of rows) {
    const line = element("tr"), bar = element("span", undefined, "bar"), part = element("span"), last = element("td");
    part.style.width = `${(row.share * 100).toFixed(2)}%`;
    bar.append(part);
    last.append(bar);
    line.append(element("td", row.name), element("td", row.kind), element("td", String(row.calls), "n"),
      element("td", ms(row.ms), "n"), element("td", `${(row.share * 100).toFixed(1)} %`, "n"), last);
    body.append(line);
  }
  const top = element("thead");
  top.append(head);
  table.append(top, body);
  const place = document.getElementById("times");
  place.replaceChildren(table);
  place.hidden = false;
}

// The graph: an operation that is chosen is told beside it; what a profile says of it stands in its row.

const told = document.getElementById("told");
let chosen = null;

function tell() {
  const row = chosen && document.getElementById(`op-${chosen.dataset.op}`);
  if (!row) return;
  const heads = [...row.closest("table").querySelectorAll("thead th")].map((cell) => cell.textContent);
  const list = element("dl", undefined, "pairs");
  for (const [i, cell] of [...row.cells].entries()) {
    if (!cell.textContent) continue;
    const pair = element("div"), value = element("dd");
    value.append(...[...cell.cloneNode(true).childNodes]);
    pair.append(element("dt", heads[i]), value);
    list.append(pair);
  }
  told.replaceChildren(list);
}

for (const link of document.querySelectorAll("svg.graph [data-op]")) {
  link.addEventListener("click", (event) => {
    event.preventDefault();
    chosen?.removeAttribute("aria-current");
    chosen = link;
    link.setAttribute("aria-current", "true");
    tell();
  });
}

document.querySelector("svg.graph .first[data-op]")?.dispatchEvent(new MouseEvent("click", { cancelable: true }));

const sought = document.getElementById("finder"), shown = document.getElementById("reproducer");
if (sought) finder(sought.dataset.artifact, sought);
if (shown) reproducer(shown.dataset.artifact, shown);
if (sought || shown) {
  const events = new EventSource("/api/events");
  follow(events);
  addEventListener("pagehide", () => events.close());
}

// Words by which runtimes call an operator of the program; what none of these names is told as it is.
const CALLED = {
  linear: ["gemm", "fullyconnected", "matmul", "addmm"], matmul: ["gemm", "batchmatrixmultiply"], conv2d: ["convolution", "groupconvolution", "depthwiseconv"],
  adaptiveavgpool2d: ["mean", "reducemean", "globalaverage", "avgpool"], mean: ["reducemean", "globalaverage"], mul: ["multiply"], div: ["divide"], sub: ["subtract"],
  relu: ["clamp"], hardtanh: ["clamp"], batchnorm: ["batchnormalization"], layernorm: ["layernormalization"], flatten: ["reshape"], view: ["reshape"], permute: ["transpose"],
};
const plain = (text) => text.toLowerCase().replace(/[^a-z0-9]/g, "");

/** Say in each operation's row what it took: by its own name where the profiler knows it, else by its kind. */
function share(rows) {
  for (const line of document.querySelectorAll("#as-table tbody tr")) {
    const own = rows.filter((row) => row.name.split(" ").at(-1) === line.dataset.name);
    const kind = plain(line.dataset.operator), words = [kind.replace(/\dd$/, ""), ...(CALLED[kind] ?? [])];
    const alike = own.length ? own : rows.filter((row) => words.some((word) => plain(row.name.replace(/^.*(::|call_)/, "")).startsWith(word)));
    const percent = (alike.reduce((sum, row) => sum + row.share, 0) * 100).toFixed(1);
    const calls = alike.reduce((sum, row) => sum + row.calls, 0);
    const cell = line.querySelector(".time");
    if (own.length) cell.textContent = `${percent} %`;
    else if (alike.length) cell.textContent = _("all of its kind together (%(calls)s calls): %(percent)s %%", { calls, percent });
    else cell.textContent = _("not reported separately by the profiler");
  }
  tell();
}
