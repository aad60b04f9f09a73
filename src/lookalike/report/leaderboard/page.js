// Sorts and groups the table of models, and switches the metric of the bars.
const table = document.getElementById("comparison");
makeSortable(table);
bringForward(document.querySelector(".legend"), "model", page.models);

// Together: all rows in the first body, in the order that is sorted by; the other bodies stay, empty.
const homes = new Map(all("tbody tr[data-model]", table).map((row) => [row, row.parentNode]));
document.getElementById("grouping")?.addEventListener("change", ({ target }) => {
  const together = target.value === "all";
  for (const [row, home] of homes) (together ? table.tBodies[0] : home).append(row);
  for (const label of all("tr.group", table)) label.hidden = together;
  const header = table.querySelector('[aria-sort="ascending"], [aria-sort="descending"]');
  if (header) sortBy(table, header, header.getAttribute("aria-sort"));
});

document.getElementById("metric")?.addEventListener("change", async ({ target }) => {
  for (const part of all("#bars [data-metric]")) part.hidden = part.dataset.metric !== target.value;
  await draw();
});

await draw();
