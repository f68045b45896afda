// Columns: under each wide table the choice which columns it shows; the browser keeps it for tables of the same columns.

const FEW = 5; // columns, up to which a table has no choice

function hiddenOf(key) {
  try {
    return new Set(JSON.parse(localStorage.getItem(key) ?? "[]"));
  } catch {
    return new Set(); // the browser keeps nothing, or somebody else's text
  }
}

function show(table, names, hidden) {
  for (const row of table.rows) {
    if (row.cells.length !== names.length) continue; // a remark over all columns
    names.forEach((name, index) => (row.cells[index].hidden = hidden.has(name)));
  }
}

function choice(table, names, key) {
  const hidden = hiddenOf(key);
  const box = document.createElement("details");
  box.className = "columns";
  const head = document.createElement("summary");
  head.textContent = document.body.dataset.columns ?? "Columns";
  const about = table.parentElement.getAttribute("aria-label");
  if (about) head.setAttribute("aria-label", `${head.textContent}: ${about}`); // a page has several of these
  const row = document.createElement("div");
  row.className = "row";
  // The first columns say which row it is: they stay up to the one that names it.
  for (const name of names.slice(table.tHead.querySelector(".name")?.cellIndex + 1 || 1)) {
    const label = document.createElement("label"), tick = document.createElement("input");
    label.className = "tick";
    tick.type = "checkbox";
    tick.checked = !hidden.has(name);
    tick.addEventListener("change", () => {
      hidden[tick.checked ? "delete" : "add"](name);
      show(table, names, hidden);
      try {
        localStorage.setItem(key, JSON.stringify([...hidden]));
      } catch {
        // it is for this visit only
      }
    });
    label.append(tick, name);
    row.append(label);
  }
  box.append(head, row);
  show(table, names, hidden);
  return box;
}

for (const table of document.querySelectorAll(".scroll > table")) {
  const names = [...(table.tHead?.rows[0]?.cells ?? [])].map((cell) => cell.textContent.trim());
  if (names.length > FEW) table.parentElement.after(choice(table, names, `columns ${names.join("|")}`));
}
