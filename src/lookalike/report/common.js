// What all pages do: sort tables, bring what the reader chooses forward, draw the charts.
const page = JSON.parse(document.getElementById("data").textContent);
const all = (selector, within = document) => [...within.querySelectorAll(selector)];
const views = [];
let chosen = []; // names that the reader brought forward

// A press on a header sorts the rows of each body of its table; those that name a group of rows stay first.
function makeSortable(table) {
  for (const header of all("[aria-sort]", table)) header.querySelector("button").addEventListener("click", () => sortBy(table, header));
}

function sortBy(table, header, asked) {
  const place = [...header.parentNode.children].indexOf(header);
  const words = "words" in header.dataset;
  const first = words || "rising" in header.dataset ? "ascending" : "descending";
  const other = first === "ascending" ? "descending" : "ascending";
  const order = asked ?? (header.getAttribute("aria-sort") === first ? other : first);
  const sign = order === "ascending" ? 1 : -1;
  const value = (row) => row.children[place].dataset.v;
  const compare = (a, b) => {
    if (words) return sign * value(a).localeCompare(value(b), "en", { numeric: true });
    if (value(a) === "" || value(b) === "") return (value(a) === "") - (value(b) === ""); // unknown: always last
    return sign * (value(a) - value(b));
  };
  for (const body of table.tBodies) body.append(...all("tr:not(.group)", body).sort(compare));
  for (const each of all("[aria-sort]", table)) each.setAttribute("aria-sort", each === header ? order : "none");
}

// The chips of a legend bring hashers (or models) forward, in all charts and tables.
function bringForward(legend, kind, names) {
  legend.addEventListener("click", ({ target }) => {
    const button = target.closest("button");
    if (!button) return;
    const chips = all("[aria-pressed]", legend);
    if (button.ariaPressed === null) for (const chip of chips) chip.setAttribute("aria-pressed", "false");
    else button.setAttribute("aria-pressed", String(button.getAttribute("aria-pressed") !== "true"));
    const places = chips.filter((chip) => chip.getAttribute("aria-pressed") === "true").map((chip) => chip.dataset[kind]);
    legend.querySelector(".everyone").hidden = !places.length;
    for (const part of all(`tr[data-${kind}], .chart[data-${kind}]`))
      part.classList.toggle("dim", places.length > 0 && !places.includes(part.dataset[kind]));
    chosen = places.map((place) => names[place]);
    for (const view of views) view.signal("chosen", chosen).runAsync();
  });
}

// Charts that can be seen, from top to bottom, each once.
async function draw() {
  const options = { mode: "vega-lite", renderer: "svg", actions: false, ast: true, defaultStyle: false, config: page.config, tooltip: { disableDefaultStyle: true } };
  for (const plot of all("[data-plot]:not([data-done])")) {
    if (plot.closest("[hidden]")) continue;
    plot.dataset.done = "";
    const { view } = await globalThis.vegaEmbed(plot, page.charts[plot.dataset.plot], options);
    views.push(view);
    if (chosen.length) await view.signal("chosen", chosen).runAsync();
  }
  document.documentElement.dataset.drawn = String(views.length);
}
