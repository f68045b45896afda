// Running: the progress of studies that commands run, a line a machine, by the server's events.

import { events } from "/static/studying.js";
import { _ } from "/static/texts.js";

const section = document.getElementById("running"), list = document.getElementById("running-studies");

function element(name, text, facts = {}) {
  const made = Object.assign(document.createElement(name), facts);
  made.append(text);
  return made;
}

function line({ text, share, left }) {
  const row = element("li", text);
  if (share !== null) {
    row.append(" ", element("progress", "", { max: 1, value: share, ariaLabel: text }));
  }
  if (left) row.append(` ${_("about %(left)s left", { left })}`);
  return row;
}

function show({ studies }) {
  section.hidden = studies.length === 0;
  list.replaceChildren(...studies.map(({ study, lines, notes }) => {
    const article = element("article", element("h3", study));
    const rows = element("ul", "");
    rows.append(...lines.map(line));
    article.append(rows, ...notes.map((note) => element("p", note, { className: "note" })));
    return article;
  }));
}

events.addEventListener("running", (event) => show(JSON.parse(event.data)));
const look = async () => show(await (await fetch("/api/progress")).json());
events.addEventListener("open", look);
if (events.readyState === EventSource.OPEN) look(); // it was opened before this script ran
