// Practice: one pair after the other, with what is said of each answer. The server holds how far it is.
const find = (selector) => document.querySelector(selector);
const page = find("#judge").dataset;
const steps = JSON.parse(page.steps);
const stage = find("#stage");
const help = find("#keys");
const GLANCE = 150; // ms: what is said of a pair that was on show for less was meant for the one before
const words = (answer) => (answer < 0 ? "Can’t tell" : steps[answer]);
let task = null; // the pair on show
let told = null; // what was said of the answer to it
let ready = 0; // since when the pair can be answered; 0: not yet
let result = null; // of a round
let busy = false;

async function post(path, body) {
  const headers = { "content-type": "application/json", "x-csrf-token": page.csrf };
  const response = await fetch(path, { method: "POST", headers, body: JSON.stringify(body), redirect: "error", cache: "no-store", signal: AbortSignal.timeout(15_000) });
  const found = await response.json().catch(() => ({}));
  if (!response.ok) throw Object.assign(new Error(found.problem || ""), { status: response.status });
  return found;
}

async function tried(path, body) { // again and again while the server is away; null where it refuses
  for (let pause = 500; ; pause = Math.min(8_000, 2 * pause)) {
    try {
      return await post(path, body);
    } catch (error) {
      if (error.status === 409) { location.reload(); return null; }
      if ([401, 403, 404, 422].includes(error.status)) { panel("", "This page cannot go on", error.message || "Open your personal link again."); return null; }
      if (!task) panel("spin", "No connection", error.message || "The server cannot be reached. It is tried again and again.");
      await new Promise((go) => setTimeout(go, pause));
    }
  }
}

async function fetchNext(round = null) {
  if (busy) return;
  busy = true;
  const found = await tried("/api/practice", { round });
  busy = false;
  if (!found) return;
  if (found.state === "over") location.replace("/judge");
  else if (found.state === "result") finish(found);
  else await show(found);
}

async function show(found) {
  result = null;
  task = found;
  told = null;
  ready = 0;
  zoom(false);
  where(found.place, found.of);
  find("#panel").hidden = true;
  find(".answers").hidden = false;
  stage.hidden = false;
  find("#feedback").hidden = true;
  find("#say").hidden = false;
  for (const button of find("#say").children) { button.disabled = true; button.removeAttribute("aria-pressed"); button.classList.remove("correct"); }
  const loaded = ["query", "item"].map(async (side) => {
    const frame = find(`#${side} .frame`);
    const image = new Image();
    image.draggable = false;
    image.alt = side === "query" ? "The query" : "The candidate";
    frame.classList.add("loading");
    frame.replaceChildren();
    image.src = found[side];
    try { await image.decode(); frame.replaceChildren(image); } catch { frame.replaceChildren(lost()); }
    frame.classList.remove("loading");
  });
  await Promise.all(loaded);
  if (task !== found) return;
  ready = performance.now();
  for (const button of find("#say").children) button.disabled = false;
  find("#said").textContent = `Practice, ${found.place + 1} of ${found.of}`;
}

function lost() {
  const box = Object.assign(document.createElement("div"), { className: "lost" });
  box.append(Object.assign(document.createElement("b"), { textContent: "This image cannot be shown" }));
  return box;
}

function where(place, of) {
  find("#where").textContent = `Practice, ${Math.min(place + 1, of)} of ${of}`;
  const bar = find("#own progress");
  bar.max = of;
  bar.value = place;
}

async function answer(value, at) {
  if (!task || told || !ready || busy || at - ready < GLANCE) return;
  busy = true;
  for (const button of find("#say").children) button.disabled = true;
  const { mark, round, place } = task;
  const found = await tried("/api/practice/answer", { mark, round, place, answer: value });
  busy = false;
  if (!found) return;
  told = found;
  where(place + 1, task.of);
  find("#where").textContent = `Practice, ${place + 1} of ${task.of}`;
  find("#verdict").replaceChildren(mark_of(found.right), found.right ? `Right: ${words(found.answer).toLowerCase()}` : `Not quite: the answer is “${words(found.answer).toLowerCase()}”`);
  find("#why").textContent = found.why;
  find("#feedback").className = found.right ? "right" : "wrong";
  find("#say").hidden = true;
  find("#feedback").hidden = false;
  find("#on").focus({ focusVisible: false });
}

function mark_of(right) {
  return Object.assign(document.createElement("span"), { className: "sign", textContent: right ? "✓" : "✗", ariaHidden: "true" });
}

function goOn() {
  if (told && !busy) { told = null; fetchNext(); }
}

function finish(found) {
  result = found;
  task = null;
  stage.hidden = true;
  find(".answers").hidden = true;
  where(found.of, found.of);
  find("#where").textContent = `Practice, ${found.right} of ${found.of} right`;
  panel("", `${found.right} of ${found.of} right`, `${found.needed === found.of ? "All" : `At least ${found.needed}`} of them should be right before you begin. Have another look at the guide, and try again in another order, as often as you like. The organiser sees this too, and can let you begin.`);
  const again = Object.assign(document.createElement("button"), { type: "button", className: "button", id: "again" });
  again.append("Try again ", Object.assign(document.createElement("kbd"), { textContent: "Enter" }));
  again.addEventListener("click", () => fetchNext(found.round + 1));
  find("#panel").append(again);
  again.focus({ focusVisible: false });
}

function panel(mark, title, text) {
  const parts = [["div", mark, ""], ["h1", "", title], ["p", "", text]].filter(([kind, name]) => kind !== "div" || name);
  find("#panel").replaceChildren(...parts.map(([kind, name, content]) => Object.assign(document.createElement(kind), { className: name, textContent: content })));
  find("#panel").hidden = false;
}

// Looking closer
function zoom(on, event) {
  stage.classList.toggle("zoomed", on && !stage.hidden);
  find("#zoom").setAttribute("aria-pressed", String(on && !stage.hidden));
  if (on) follow(event);
}
function follow(event) {
  const frame = event?.target.closest?.(".frame");
  if (!frame) return;
  const { left, top, width, height } = frame.getBoundingClientRect();
  const share = (value) => `${Math.round(1000 * Math.min(1, Math.max(0, value))) / 10}%`;
  stage.style.setProperty("--x", share((event.clientX - left) / width));
  stage.style.setProperty("--y", share((event.clientY - top) / height));
}
stage.addEventListener("click", (event) => { if (event.target.closest(".frame")) zoom(!stage.classList.contains("zoomed"), event); });
stage.addEventListener("pointermove", (event) => { if (stage.classList.contains("zoomed")) follow(event); });
find("#zoom").addEventListener("click", () => zoom(!stage.classList.contains("zoomed")));

// Keys and buttons
const keys = !page.scale ? { arrowleft: 0, j: 0, arrowright: 1, k: 1, " ": -1 } : { " ": -1 };
steps.forEach((_, grade) => { if (page.scale) keys[String(grade + 1)] = grade; });
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || find("dialog[open]")) return;
  if ([" ", "Enter"].includes(event.key) && event.target.closest?.("button, a")) return; // which is pressed by it
  const key = event.key.toLowerCase();
  if (key === "escape") return zoom(false);
  if (key === "z" && !event.repeat) return zoom(!stage.classList.contains("zoomed"));
  if (key === "enter" && !event.repeat) return result ? fetchNext(result.round + 1) : goOn();
  if (keys[key] === undefined) return;
  event.preventDefault();
  if (!event.repeat) answer(keys[key], event.timeStamp);
});
find("#say").addEventListener("click", (event) => {
  const button = event.target.closest("[data-answer]");
  if (button) answer(Number(button.dataset.answer), event.timeStamp);
});
find("#on").addEventListener("click", goOn);
setInterval(() => { if (result && !document.hidden) check(); }, 6_000);
async function check() { // whether the organiser has let the expert begin
  try { if ((await post("/api/practice", { round: null })).state === "over") location.replace("/judge"); } catch { /* the next look comes soon */ }
}
addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
help.addEventListener("close", () => { if (!task && !result) fetchNext(); });
help.showModal();
