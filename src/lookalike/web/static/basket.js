// The basket: items that are selected on any page, by their ids alone, in the browser's own storage. look.js is before it.
const basket = (() => {
  const bar = document.getElementById("basket");
  const key = `lookalike-basket ${bar.dataset.study}`;
  const part = (name) => bar.querySelector(`[data-part="${name}"]`);
  let ids = new Set();
  let anchor = null; // where a range begins, and what was selected before it
  let before = new Set();

  function load() {
    try {
      const held = JSON.parse(localStorage.getItem(key) ?? "[]");
      ids = new Set(Array.isArray(held) ? held.filter((id) => typeof id === "string") : []);
    } catch {
      ids = new Set();
    }
  }

  function keep() {
    try {
      if (ids.size) localStorage.setItem(key, JSON.stringify([...ids]));
      else localStorage.removeItem(key);
    } catch {
      notify("Not kept", "The browser has no room for so large a basket: it lasts as long as this page is open.");
    }
    show();
  }

  function change(act) {
    act();
    keep();
  }

  const idOf = (cell) => new URL(cell.href).searchParams.get("item");

  function show() {
    for (const cell of cells()) {
      const id = idOf(cell);
      if (id === null) continue;
      const on = ids.has(id);
      const box = cell.parentNode;
      let mark = box.querySelector(":scope > .check");
      if (!mark) {
        mark = document.createElement("button");
        mark.type = "button";
        mark.className = "check";
        mark.tabIndex = -1;
        mark.setAttribute("aria-label", `Select ${id}`);
        box.classList.add("checkable");
        box.append(mark);
      }
      mark.setAttribute("aria-pressed", String(on));
      box.classList.toggle("picked", on);
    }
    const text = `${ids.size.toLocaleString("en")} selected`;
    if (part("count").textContent !== text) part("count").textContent = text;
    bar.hidden = !ids.size;
    document.documentElement.classList.toggle("has-basket", ids.size > 0);
    document.dispatchEvent(new CustomEvent("basket"));
  }

  // One, and all from one to another
  function toggle(cell) {
    const id = idOf(cell);
    change(() => (ids.has(id) ? ids.delete(id) : ids.add(id)));
    anchor = id;
    before = new Set(ids);
  }

  function extend(to) {
    const all = cells();
    const from = all.findIndex((cell) => idOf(cell) === anchor);
    const at = all.indexOf(to);
    if (from < 0) return toggle(to);
    const [first, last] = from < at ? [from, at] : [at, from];
    change(() => { ids = new Set([...before, ...all.slice(first, last + 1).map(idOf)]); });
  }

  document.addEventListener("click", (event) => {
    const mark = event.target.closest(".check");
    const cell = mark ? mark.parentNode.querySelector("[data-cell]") : event.target.closest("[data-cell]");
    if (!cell || (!mark && !event.shiftKey)) return;
    event.preventDefault();
    event.stopPropagation();
    if (event.shiftKey) extend(cell);
    else toggle(cell);
    cell.focus({ preventScroll: true });
  }, true);

  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || find("dialog[open]")) return;
    const cell = document.activeElement?.closest?.("[data-cell]");
    if ((event.key === "x" || event.key === " ") && cell) {
      event.preventDefault();
      if (event.shiftKey) extend(cell);
      else toggle(cell);
    } else if (event.shiftKey && event.key.startsWith("Arrow") && cell && ways[event.key]) {
      event.preventDefault();
      const id = idOf(cell);
      if (anchor === null || !ids.has(id)) {
        anchor = id;
        before = new Set(ids);
      }
      move(ways[event.key]);
      const there = document.activeElement?.closest?.("[data-cell]");
      if (there) extend(there);
    } else if (event.key === "b" && !bar.hidden && !event.target.matches("input, select, textarea, canvas")) {
      event.preventDefault();
      part("tag").focus();
    }
  });

  // What the study is asked to do with them
  async function send(path, body) {
    const csrf = find('.bring [name="csrf"]').value;
    let answer;
    try {
      answer = await fetch(path, { method: "POST", headers: { "content-type": "application/json", "x-csrf-token": csrf }, body: JSON.stringify({ ids: [...ids], ...body }) });
    } catch {
      notify("No answer", "The server does not answer: is it still running?");
      return null;
    }
    if (answer.ok) return answer;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    notify(page.querySelector("#problem h1")?.textContent ?? "That does not work", page.querySelector("#problem p")?.textContent ?? "");
    return null;
  }

  const items = (n) => `${n.toLocaleString("en")} item${n === 1 ? "" : "s"}`;
  const gone = (n) => (n ? ` ${items(n)} of the basket ${n === 1 ? "is" : "are"} not in the study any more.` : "");

  async function tag(remove) {
    const field = part("tag");
    const name = field.value.trim();
    if (!name) return field.focus();
    const answer = await send("/basket/tags", { tag: name, remove });
    if (!answer) return;
    const said = await answer.json();
    notify(remove ? `Removed: ${name}` : `Tagged: ${name}`, (remove ? `${items(said.changed)} lost the tag.` : `${items(said.changed)} got the tag; ${items(said.tags[name] ?? 0)} have it now.`) + gone(said.gone));
    known(Object.keys(said.tags));
    field.value = "";
  }

  function known(tags) {
    part("tags").replaceChildren(...tags.map((name) => Object.assign(document.createElement("option"), { value: name })));
  }

  function download(text, kind, name) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: kind }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  }

  async function exported(form, confirmed = false) {
    const answer = await send("/basket/export", { form, confirmed });
    if (!answer) return;
    const lost = Number(answer.headers.get("x-gone"));
    if (form === "csv" || form === "paths") {
      download(await answer.text(), answer.headers.get("content-type"), form === "csv" ? "basket.csv" : "basket.txt");
      return notify("Exported", `${form === "csv" ? "basket.csv" : "basket.txt"} has ${items(ids.size - lost)}.${gone(lost)}`);
    }
    const said = await answer.json();
    if (form === "links") return notify("A folder of links", `${items(said.links)} in ${said.folder}.${said.missing ? ` ${items(said.missing)} have no file.` : ""}${gone(said.gone)}`);
    if (said.asks) {
      find("#replace-words").textContent = `The study has ${said.before.toLocaleString("en")} queries now. They are replaced by the ${items(said.after)} of the basket. Items and models stay.`;
      return find("#replace").showModal();
    }
    notify("Queries replaced", `The study has ${said.queries.toLocaleString("en")} queries now, in place of ${said.before.toLocaleString("en")}.${gone(said.gone)}`);
  }

  bar.addEventListener("submit", (event) => {
    event.preventDefault();
    tag(event.submitter?.value === "remove");
  });
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-export]");
    if (button) {
      find("#exports").close();
      exported(button.dataset.export);
    }
    if (event.target.closest('[data-part="export"]')) find("#exports").showModal();
    if (event.target.closest('[data-part="clear"]')) {
      change(() => ids.clear());
      anchor = null;
    }
    if (event.target.closest("#replace-yes")) exported("queries", true);
  });
  addEventListener("storage", (event) => {
    if (event.key !== key && event.key !== null) return;
    load();
    show();
  });
  document.addEventListener("htmx:afterSettle", show);
  document.addEventListener("htmx:historyRestore", show);
  load();
  show();
  return {
    has: (id) => ids.has(id),
    add: (more) => change(() => { for (const id of more) ids.add(id); }),
    remove: (fewer) => change(() => { for (const id of fewer) ids.delete(id); }),
  };
})();
