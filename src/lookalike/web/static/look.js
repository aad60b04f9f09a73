// What htmx does not do: keys, dropped and pasted pictures, the large view. Every page works without.
const root = document.documentElement;
root.classList.add("js");
const find = (selector) => document.querySelector(selector);
const cells = () => [...document.querySelectorAll("[data-cell]")];
let steps = 0; // pages that were opened within this one, to go back through

// Notices, and the summary of a new page for those who hear it
function notify(title, words) {
  const heading = document.createElement("h1");
  const line = document.createElement("p");
  heading.textContent = title;
  line.textContent = words;
  find("#notice").replaceChildren(heading, line);
  closable();
}

function closable() {
  const notice = find("#notice");
  if (!notice.childElementCount || notice.querySelector("button")) return;
  const close = document.createElement("button");
  close.type = "button";
  close.textContent = "×";
  close.setAttribute("aria-label", "Close");
  close.addEventListener("click", () => notice.replaceChildren());
  notice.append(close);
}

function arrive() {
  const chip = find(".chip.on");
  if (chip) chip.parentNode.scrollLeft = chip.offsetLeft - 16; // on a phone, where they do not all fit
  find("#said").textContent = find("#summary")?.textContent ?? "";
  const last = sessionStorage.getItem("opened");
  const wanted = location.hash.startsWith("#item-") ? location.hash.slice(1) : find(".grid") && last;
  if (wanted && !document.activeElement?.matches("input, select, textarea")) document.getElementById(wanted)?.focus({ preventScroll: !location.hash });
}

document.addEventListener("htmx:afterSwap", ({ detail }) => {
  if (detail.target?.id === "notice") closable();
});
document.addEventListener("htmx:afterSettle", ({ detail }) => {
  if (detail.target?.id === "notice") return;
  if (detail.requestConfig) find("#notice").replaceChildren();
  arrive();
});
document.addEventListener("htmx:pushedIntoHistory", () => steps++);
document.addEventListener("htmx:historyRestore", () => {
  steps = Math.max(0, steps - 1);
  arrive();
});
document.addEventListener("htmx:historyCacheMissLoadError", () => location.reload());
document.addEventListener("htmx:sendError", () => notify("No answer", "The server does not answer: is it still running?"));
document.addEventListener("htmx:beforeRequest", ({ target }) => {
  if (target.matches?.(".grid [data-cell]")) sessionStorage.setItem("opened", target.id);
});
// Addresses stay short: what goes without saying is not said.
const defaults = { k: "24", order: "mixed", by: "names" };
document.addEventListener("htmx:configRequest", ({ detail }) => {
  if (detail.verb !== "get") return;
  for (const [name, value] of [...detail.formData.entries()]) if (["", defaults[name]].includes(value)) detail.formData.delete(name);
});

// Forms send themselves
let typing;
document.addEventListener("input", ({ target }) => {
  if (!target.matches('.search:not(.looks) input[type="search"], .filter input')) return; // looks are searched on Enter
  clearTimeout(typing);
  typing = setTimeout(() => target.isConnected && target.form.requestSubmit(), 350);
});
document.addEventListener("change", ({ target }) => {
  if (target.matches(".filter select")) target.form.requestSubmit();
  if (target.matches("#picture") && target.files.length) bring(target.files);
});

// Pictures of one's own
function bring(files) {
  const picture = [...files][0];
  const form = find(".bring");
  if (!picture) return notify("No picture", "What you dropped is not a file: save the picture first, then drop it.");
  if (picture.size > Number(form.dataset.limit) - 10_000) return notify("Too large", `${picture.name} has ${Math.round(picture.size / 1e6)} MB, at most ${Math.floor(form.dataset.limit / 1e6)} can be sent.`);
  const held = new DataTransfer();
  held.items.add(picture);
  find("#picture").files = held.files;
  form.requestSubmit();
}
const dragsFiles = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
let inside = 0;
const dropping = (yes) => { inside = yes ? inside : 0; find("#drop").hidden = !yes; };
addEventListener("dragenter", (event) => { if (dragsFiles(event)) { inside++; dropping(true); } });
addEventListener("dragleave", (event) => { if (dragsFiles(event) && --inside <= 0) dropping(false); });
addEventListener("dragover", (event) => { if (dragsFiles(event)) { event.preventDefault(); event.dataTransfer.dropEffect = "copy"; } });
addEventListener("drop", (event) => {
  if (!dragsFiles(event)) return;
  event.preventDefault();
  dropping(false);
  bring(event.dataTransfer.files);
});
addEventListener("paste", (event) => { if (event.clipboardData?.files.length) bring(event.clipboardData.files); });

// The picture in full
function enlarge() {
  const link = find("[data-large]");
  if (!link) return;
  const large = new Image();
  large.src = link.href;
  large.alt = link.querySelector("img").alt;
  find("#large img")?.remove();
  find("#large").append(large);
  find("#large").showModal();
}
document.addEventListener("click", (event) => {
  if (event.target.closest("[data-large]") && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
    event.preventDefault();
    enlarge();
  }
  if (event.target.closest("#large")) find("#large").close();
  if (event.target.closest(".ask")) find("#keys").showModal();
  if (event.target === find("#keys")) find("#keys").close();
});

// Where other models put the same item
function showTwins({ target }) {
  const item = target.closest?.(".n2 [data-item], .n3 [data-item]")?.dataset.item;
  for (const cell of document.querySelectorAll("[data-item]")) cell.classList.toggle("twin", item !== undefined && cell.dataset.item === item);
}
document.addEventListener("pointerover", showTwins);
document.addEventListener("focusin", showTwins);

// Keys
const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1], h: [-1, 0], l: [1, 0], k: [0, -1], j: [0, 1] };

function move([x, y]) {
  const all = cells();
  const at = all.indexOf(document.activeElement);
  if (at < 0) return all[0]?.focus();
  const next = y ? vertically(all, all[at], y) : sideways(all, at, x);
  if (next) next.focus();
  else find(x + y > 0 ? ".pager [rel=next]" : ".pager [rel=prev]")?.click();
}

const middle = (element) => {
  const { left, right, top, bottom } = element.querySelector(".picture").getBoundingClientRect();
  return { x: (left + right) / 2, y: (top + bottom) / 2, height: bottom - top };
};

function vertically(all, from, way) {
  const here = middle(from);
  const cost = (cell) => { const there = middle(cell); return Math.abs(there.y - here.y) * 1.5 + Math.abs(there.x - here.x); };
  const beyond = all.filter((cell) => (middle(cell).y - here.y) * way > here.height / 2);
  return beyond.reduce((best, cell) => (!best || cost(cell) < cost(best) ? cell : best), null);
}

function sideways(all, at, way) {
  const here = middle(all[at]);
  const row = all.filter((cell) => { const there = middle(cell); return (there.x - here.x) * way > 1 && Math.abs(there.y - here.y) < here.height / 2; });
  row.sort((a, b) => (middle(a).x - middle(b).x) * way);
  return row[0] ?? all[at + way];
}

function back() {
  const link = find(".back") ?? find(".clear");
  if (find(".back") && (steps > 0 || document.referrer.startsWith(`${location.origin}/`))) history.back();
  else link?.click();
}

addEventListener("keydown", (event) => {
  const field = event.target.matches("input:not([type=file]), select, textarea, [contenteditable]");
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || find("dialog[open]")) return;
  if (field) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const digit = /^Digit([1-9])$/.exec(event.code)?.[1];
  if (digit) {
    const link = find(event.shiftKey ? `[data-beside="${digit}"]` : `[data-model="${digit}"]`);
    if (link) { event.preventDefault(); link.click(); }
    return;
  }
  const acts = {
    "/": () => { find("#q").focus(); find("#q").select(); },
    "?": () => find("#keys").showModal(),
    Escape: back,
    Backspace: back,
    n: () => find(".pager [rel=next]")?.click(),
    p: () => find(".pager [rel=prev]")?.click(),
    z: enlarge,
    u: () => find("#picture").click(),
  };
  const act = ways[event.key] && !event.shiftKey ? () => move(ways[event.key]) : acts[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});

arrive();
