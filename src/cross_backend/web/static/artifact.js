// Artifact: asks the runtime's profiler what each operator takes, and shows the shares.

import { element, ms } from "/static/overlay.js";

const button = document.getElementById("profile"), said = document.getElementById("said");
const token = document.querySelector("meta[name=page-token]").content;

button?.addEventListener("click", async () => {
  button.disabled = true;
  said.textContent = "Measuring …";
  const form = new FormData();
  form.append("artifact", button.dataset.artifact);
  try {
    const response = await fetch("/api/profile", { method: "POST", body: form, headers: { "X-Cross-Backend-Token": token } });
    const answer = await response.json();
    said.textContent = answer.error ?? "";
    if (answer.rows) show(answer.rows);
  } catch {
    said.textContent = "The server does not answer.";
  }
  button.disabled = false;
});

function show(rows) {
  const table = element("table"), head = element("tr"), body = element("tbody");
  for (const [text, kind] of [["operator"], ["kind"], ["calls", "n"], ["ms", "n"], ["share", "n"], [""]]) {
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
