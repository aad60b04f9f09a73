// Sorts and filters the table of hashers, switches the examples.
const table = document.getElementById("comparison");
const body = table.tBodies[0];
makeSortable(table);
bringForward(document.querySelector(".legend"), "hasher", page.hashers);

document.getElementById("filter")?.addEventListener("change", ({ target }) => {
  for (const row of body.rows) row.hidden = target.value !== "all" && row.dataset.bits !== target.value;
  const shown = [...body.rows].filter((row) => !row.hidden).length;
  document.getElementById("rows").textContent = shown === body.rows.length ? `${shown} rows` : `${shown} of ${body.rows.length} rows`;
});

// Examples
const section = document.getElementById("examples");
section?.addEventListener("change", () => {
  const hasher = document.getElementById("example-hasher").value;
  const bits = section.querySelector("#example-bits :checked")?.value;
  let found = false;
  for (const panel of all(".panel", section)) {
    panel.hidden = panel.dataset.hasher !== hasher || (bits !== undefined && panel.dataset.bits !== bits);
    found ||= !panel.hidden;
  }
  document.getElementById("example-none").hidden = found;
});

await draw();
