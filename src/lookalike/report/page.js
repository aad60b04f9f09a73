// Draws the charts, sorts and filters the table, brings hashers forward, and switches the examples.
const { hashers, config, charts } = JSON.parse(document.getElementById("data").textContent);
const all = (selector, within = document) => [...within.querySelectorAll(selector)];
const views = [];

// The table
const table = document.getElementById("comparison");
const body = table.tBodies[0];

function sortBy(header) {
  const place = [...header.parentNode.children].indexOf(header);
  const words = header.dataset.key === "hasher";
  const first = words || header.dataset.key === "bits" ? "ascending" : "descending";
  const other = first === "ascending" ? "descending" : "ascending";
  const order = header.getAttribute("aria-sort") === first ? other : first;
  const sign = order === "ascending" ? 1 : -1;
  const value = (row) => row.children[place].dataset.v;
  const compare = (a, b) => {
    if (words) return sign * value(a).localeCompare(value(b), "en", { numeric: true });
    if (value(a) === "" || value(b) === "") return (value(a) === "") - (value(b) === ""); // unknown: always last
    return sign * (value(a) - value(b));
  };
  body.append(...[...body.rows].sort(compare));
  for (const each of all("[aria-sort]", table)) each.setAttribute("aria-sort", each === header ? order : "none");
}
for (const header of all("[aria-sort]", table)) header.querySelector("button").addEventListener("click", () => sortBy(header));

document.getElementById("filter")?.addEventListener("change", ({ target }) => {
  for (const row of body.rows) row.hidden = target.value !== "all" && row.dataset.bits !== target.value;
  const shown = [...body.rows].filter((row) => !row.hidden).length;
  document.getElementById("rows").textContent = shown === body.rows.length ? `${shown} rows` : `${shown} of ${body.rows.length} rows`;
});

// Hashers brought forward, in all charts and in the table
const legend = document.querySelector(".legend");
legend.addEventListener("click", ({ target }) => {
  const button = target.closest("button");
  if (!button) return;
  const chips = all("[aria-pressed]", legend);
  if (button.ariaPressed === null) for (const chip of chips) chip.setAttribute("aria-pressed", "false");
  else button.setAttribute("aria-pressed", String(button.getAttribute("aria-pressed") !== "true"));
  const places = chips.filter((chip) => chip.getAttribute("aria-pressed") === "true").map((chip) => chip.dataset.hasher);
  legend.querySelector(".everyone").hidden = !places.length;
  for (const part of all("tr[data-hasher], .chart[data-hasher]"))
    part.classList.toggle("dim", places.length > 0 && !places.includes(part.dataset.hasher));
  const chosen = places.map((place) => hashers[place]);
  for (const view of views) view.signal("chosen", chosen).runAsync();
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

// Charts, from top to bottom
const options = { mode: "vega-lite", renderer: "svg", actions: false, ast: true, defaultStyle: false, config, tooltip: { disableDefaultStyle: true } };
for (const plot of all("[data-plot]")) {
  const { view } = await globalThis.vegaEmbed(plot, charts[plot.dataset.plot], options);
  views.push(view);
}
document.documentElement.dataset.drawn = String(views.length);
