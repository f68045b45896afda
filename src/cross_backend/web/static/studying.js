// Studying: begins a study, and shows how far it is, by the server's events.

import { _ } from "/static/texts.js";

const form = document.getElementById("begin"), said = document.getElementById("progress-said");
const bar = document.getElementById("progress"), token = document.querySelector("meta[name=page-token]").content;

function show({ state, share, text, study }) {
  const runs = state === "running";
  bar.hidden = said.hidden = state === "none";
  bar.value = share;
  form.querySelector("button").disabled = runs;
  said.replaceChildren(runs ? `${Math.round(share * 100)} %: ${text}` : state === "none" ? "" : `${text} `);
  if (!runs && study !== null) {
    const link = document.createElement("a");
    link.href = `/results/${study}`;
    link.textContent = _("Read study %(study)s", { study });
    said.append(link);
  }
}

form?.addEventListener("submit", async (event) => {
  event.preventDefault();
  const response = await fetch("/api/studies", { method: "POST", body: new FormData(form), headers: { "X-Cross-Backend-Token": token } });
  const answer = await response.json();
  if (answer.error) {
    said.hidden = false;
    said.textContent = answer.error;
  } else show(answer);
});

export const events = new EventSource("/api/events");
events.addEventListener("study", (event) => show(JSON.parse(event.data)));
events.addEventListener("open", async () => show(await (await fetch("/api/running")).json()));
addEventListener("pagehide", () => events.close());
