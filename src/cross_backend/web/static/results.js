// Results: shows one panel of a study, or all; without it the page shows all.

const chooser = document.getElementById("only");
if (chooser && chooser.options.length > 2) {
  chooser.closest("label").hidden = false;
  chooser.addEventListener("change", () => {
    for (const part of document.querySelectorAll("[data-panel]")) {
      part.hidden = Boolean(chooser.value) && part.dataset.panel !== chooser.value;
    }
  });
}
