// Localizing: looks for the operator that a backend computes wrongly, and writes its reproducer; says how far both are.

import { element } from "/static/overlay.js";
import { _ } from "/static/texts.js";

const token = document.querySelector("meta[name=page-token]").content;
const KINDS = {
  search: { address: "/api/localize", label: _("Find the operator"), name: _("Progress of the search") },
  reproducer: { address: "/api/reproduce", label: _("Write a reproducer"), name: _("Progress of the reproducer") },
};
const begun = [];
let last = { state: "none" };

/** Return what begins a search for an artifact, and shows how it goes; `place` is filled where it is given. */
export const finder = (artifact, place) => starter("search", artifact, place);

/** Return the same for the reproducer of what was found. */
export const reproducer = (artifact, place) => starter("reproducer", artifact, place);

function starter(kind, artifact, place = element("div")) {
  const { label, name } = KINDS[kind];
  const button = element("button", label), bar = element("progress"), said = element("p", "", "note");
  button.type = "button";
  Object.assign(bar, { max: 1, value: 0, hidden: true });
  bar.setAttribute("aria-label", name);
  said.setAttribute("role", "status");
  place.classList.add("finder");
  place.append(button, bar, said);
  button.addEventListener("click", () => begin(kind, artifact, said));
  begun.push({ kind, artifact, button, bar, said, kept: place.querySelector(".kept") });
  show(last);
  return place;
}

async function begin(kind, artifact, said) {
  const form = new FormData();
  form.append("artifact", artifact);
  try {
    const response = await fetch(KINDS[kind].address, { method: "POST", body: form, headers: { "X-Cross-Backend-Token": token } });
    const answer = await response.json();
    if (answer.error) said.textContent = answer.error;
    else show(answer);
  } catch {
    said.textContent = _("The server does not answer.");
  }
}

function show(progress) {
  last = progress;
  const runs = progress.state === "running";
  for (const { kind, artifact, button, bar, said, kept } of begun) {
    const own = artifact === progress.artifact && kind === progress.kind;
    button.disabled = runs;
    bar.hidden = !(runs && own);
    if (!own) continue;
    kept?.remove();
    bar.value = progress.share;
    said.replaceChildren(progress.state === "finished" ? `${progress.says} ` : progress.text);
    if (progress.state !== "finished") continue;
    if (kind === "search") said.append(link(_("Show it in the graph"), progress.page));
    else said.append(link(_("Script"), progress.page, true), " · ", link(_("Text for the tracker"), progress.page.replace(/py$/, "md"), true));
  }
}

function link(text, address, isFile = false) {
  const made = element("a", text);
  made.href = address;
  if (isFile) made.download = "";
  return made;
}

/** Follow the server's events. */
export function follow(events) {
  events.addEventListener("localize", (event) => show(JSON.parse(event.data)));
  events.addEventListener("open", async () => show(await (await fetch("/api/localizing")).json()));
}
