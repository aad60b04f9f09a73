// The page Duplicates: two files at a time, decisions that go to disk one by one, and what is done with the files.
const find = (selector) => document.querySelector(selector);
const page = find("#review").dataset;
const stage = find("#stage");
const AHEAD = 12;
const number = (value) => value.toLocaleString("en");
const settings = () => ({ keep: page.keep, n: AHEAD, skip: [...skipped], ...(page.model && { model: page.model }), ...(page.near && { near: Number(page.near) }) });

let hand = []; // pairs that are here, the first is on show
let recent = []; // decisions that can be undone, the last at the end
let news = null; // what the server said last
let shown = null;
let since = 0; // when the pair on show was there
const outbox = []; // decisions that are not on disk yet
const skipped = new Set(); // places of pairs that were put off
const paces = []; // ms from a pair on show to its decision

// Talking to the server
async function ask(path, body) {
  const options = body === undefined ? {} : { method: "POST", headers: { "content-type": "application/json", "x-csrf-token": page.csrf }, body: JSON.stringify(body) };
  const response = await fetch(`/duplicates/${path}`, { cache: "no-store", redirect: "error", ...options });
  if (response.ok) return response.json();
  const words = new DOMParser().parseFromString(await response.text(), "text/html").querySelector("#problem p")?.textContent;
  throw Object.assign(new Error(words || `The server answered ${response.status}.`), { status: response.status });
}

function uuid() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((byte, at) => ([4, 6, 8, 10].includes(at) ? "-" : "") + byte.toString(16).padStart(2, "0")).join("");
}

let sending = null, failures = 0;
function pump() { sending ??= send().finally(() => { sending = null; if (!shown) tell(); }); return sending; }

async function send() {
  while (outbox.length) {
    status();
    const batch = outbox.slice(0, 100);
    try {
      const answer = await ask("decide", { ...settings(), decisions: batch.map(({ id, kind, first, second }) => ({ id, kind, first, second })) });
      outbox.splice(0, batch.length);
      failures = 0;
      if (answer.problems.length) notify("Not kept", answer.problems.join(" "));
      heard(answer);
    } catch (error) {
      if ([404, 413, 422].includes(error.status)) { // it can never be kept
        outbox.splice(0, batch.length);
        notify("Not kept", error.message);
        await refresh();
        return;
      }
      failures++;
      status(error.status ? error.message : "");
      if (error.status === 403) return notify("Load this page again", error.message);
      await new Promise((go) => setTimeout(go, Math.min(8000, 400 * 2 ** failures)));
    }
  }
  status();
}

let fetching = 0;
async function refresh() {
  fetching++;
  try {
    heard(await ask("pairs", settings()));
  } catch (error) {
    panel("", "That did not work", error.status ? error.message : "The server does not answer: is it still running?");
    status("");
  } finally {
    if (--fetching === 0 && news && !shown) tell();
  }
}

const key = (pair) => pair.items.map((item) => item.id).sort().join("\n");
function heard(answer, stay = true) { // stay: the pair on show stays, if it is still to be decided
  news = answer;
  const waiting = new Set(outbox.map((one) => [one.first, one.second].sort().join("\n")));
  const gone = new Set(outbox.filter((one) => one.kind === "drop").map((one) => one.second));
  hand = answer.pairs.filter((pair) => !waiting.has(key(pair)) && !pair.items.some((item) => gone.has(item.id)));
  const at = stay && shown ? hand.findIndex((pair) => key(pair) === key(shown)) : -1;
  if (at > 0) hand.unshift(...hand.splice(at, 1));
  recent = [...answer.recent, ...outbox.map((one) => ({ id: one.id, kind: one.kind, first: one.first, second: one.second, n: 1 }))];
  show();
}

// Pictures: those of the next pairs are loaded ahead
const pictures = new Map();
function picture(address) {
  if (!pictures.has(address)) {
    const image = new Image();
    image.draggable = false;
    image.src = address;
    const one = { image, state: "loading" };
    pictures.set(address, one);
    image.decode().then(() => { one.state = "ready"; }, () => { one.state = "lost"; }).then(() => arrived(address));
  }
  return pictures.get(address);
}

function preload() {
  const wanted = new Set(hand.slice(0, 6).flatMap((pair) => pair.items.map((item) => item.view)));
  for (const address of pictures.keys()) if (!wanted.has(address)) pictures.delete(address);
  for (const address of wanted) picture(address);
}

// What is on show
function show() {
  preload();
  status();
  const pair = hand[0] ?? null;
  if (pair && shown && key(pair) === key(shown) && pair.items[0].id === shown.items[0].id) {
    shown = pair;
    describe(pair);
    buttons();
    return;
  }
  shown = pair;
  zoom(false);
  flicker(false);
  stage.hidden = !pair;
  find("#panel").hidden = Boolean(pair);
  if (pair) {
    since = performance.now();
    describe(pair);
    arrived();
  } else tell();
  buttons();
}

function arrived(address) {
  if (!shown) return;
  shown.items.forEach((item, at) => {
    if (address && address !== item.view) return;
    const one = picture(item.view);
    const frame = find(`#${"ab"[at]} .frame`);
    frame.classList.toggle("loading", one.state === "loading");
    if (one.state === "lost") frame.replaceChildren(element("p", "lost", "This image cannot be shown"));
    else {
      one.image.alt = `${"AB"[at]}: ${item.name}`;
      if (frame.firstChild !== one.image) frame.replaceChildren(one.image);
    }
  });
}

const element = (kind, name, text) => Object.assign(document.createElement(kind), { className: name, textContent: text });
const size = (bytes) => (bytes >= 1e6 ? `${(bytes / 1e6).toFixed(1)} MB` : `${(bytes / 1e3).toFixed(1)} kB`);
const day = (time) => new Date(time).toLocaleString("sv", { dateStyle: "short", timeStyle: "short" });

function describe(pair) {
  const [a, b] = pair.items;
  pair.items.forEach((item, at) => {
    const other = at ? a : b;
    const pane = find(`#${"ab"[at]}`);
    const [stem, tail] = pane.querySelectorAll(".name span");
    const cut = Math.max(0, item.name.length - 10);
    stem.textContent = item.name.slice(0, cut);
    tail.textContent = item.name.slice(cut);
    pane.querySelector(".name").title = item.path;
    const parts = [
      [item.pixels ? `${number(item.pixels[0])} × ${number(item.pixels[1])}` : "size unknown", area(item) > area(other) && "larger"],
      [size(item.bytes), item.bytes > other.bytes && "more bytes"],
      [day(item.time), item.time < other.time && "older"],
    ];
    pane.querySelector(".facts").replaceChildren(...parts.map(([text, word]) => {
      const part = element("span", word ? "better" : "", text);
      if (word) part.append(element("small", "", word));
      return part;
    }));
    pane.querySelector(".path").textContent = item.path;
  });
  find("#badge b").textContent = pair.nearness;
  find("#badge").dataset.same = String(pair.same);
  find("#badge span").textContent = pair.members > 2 ? `group of ${number(pair.members)}` : "";
}
const area = (item) => (item.pixels ? item.pixels[0] * item.pixels[1] : 0);

function buttons() {
  for (const name of ["keep-a", "keep-b", "apart", "skip", "zoom", "flicker", "paths"]) find(`[data-act=${name}]`).disabled = !shown;
  find("[data-act=undo]").disabled = !recent.length;
  const all = find("[data-act=all]");
  if (!all || !news) return;
  all.hidden = !shown || news.left < 2;
  all.querySelector("b").textContent = number(news.left);
}

function status(trouble) {
  const state = find("#state");
  const kind = trouble !== undefined || failures ? "waiting" : "saved";
  const left = news ? Math.max(0, news.left - outbox.length) : 0;
  const pace = paces.length >= 5 ? ` · ${(paces.reduce((sum, one) => sum + one, 0) / paces.length / 1000).toFixed(1)} s each` : "";
  state.dataset.state = kind;
  state.title = trouble || "";
  state.querySelector("span").textContent = kind === "waiting" ? `${number(outbox.length)} not saved` : news ? `${number(left)} left${pace}` : "Opening …";
  if (news) find("#dropped").textContent = number(news.dropped + outbox.filter((one) => one.kind === "drop").length);
  if (news?.limit != null && find("#unit")) {
    find("#unit").textContent = { cosine: "cosine ≥", bits: "bits ≤", distance: "distance ≤" }[news.unit];
    find("[name=near]").placeholder = news.unit === "bits" ? String(Math.round(news.limit)) : news.limit.toFixed(4);
  }
}

function tell() { // in place of a pair
  if (!news) return;
  if (fetching || outbox.length || sending) return panel("spin", "One moment", "");
  const other = page.model ? ["Same bytes", `/duplicates?keep=${page.keep}`] : find(".tabs a:not([aria-current])") && ["Look the same", find(".tabs a:not([aria-current])").href];
  const links = [];
  if (skipped.size && news.left) links.push(["Review the skipped ones", () => { skipped.clear(); refresh(); }]);
  if (other) links.push([`Go on with “${other[0]}”`, other[1]]);
  if (news.dropped) links.unshift(["See what will happen", () => acts.plan()]);
  const what = page.model ? "look the same" : "have the same bytes";
  const some = news.groups ? `${number(news.dropped)} files are dropped, ${number(news.apart)} pairs are no duplicates.` : `No two files ${what}.`;
  if (skipped.size && news.left) panel("", `${number(news.left)} skipped`, some, links);
  else panel(news.groups ? "tick" : "", news.groups ? `All pairs that ${what} are reviewed` : "No duplicates here", `${some} ${news.notes.join(" ")}`, links);
}

function panel(mark, title, words, links = []) {
  const buttonsOf = links.map(([text, act]) => {
    const link = element(typeof act === "string" ? "a" : "button", "choice", text);
    if (typeof act === "string") link.href = act;
    else { link.type = "button"; link.addEventListener("click", act); }
    return link;
  });
  const row = element("div", "choices", "");
  row.append(...buttonsOf);
  find("#panel").replaceChildren(...(mark ? [element("div", mark, "")] : []), element("h1", "", title), element("p", "", words), row);
  find("#panel").hidden = false;
  find("#said").textContent = `${title}. ${words}`;
}

function notify(title, words) {
  const close = element("button", "", "×");
  close.type = "button";
  close.setAttribute("aria-label", "Close");
  close.addEventListener("click", () => find("#notice").replaceChildren());
  find("#notice").replaceChildren(element("h1", "", title), element("p", "", words), close);
  clearTimeout(notify.timer);
  notify.timer = setTimeout(() => find("#notice").replaceChildren(), 9_000);
}

// Decisions
const GLANCE = 120; // ms: what is said of a pair that was on show for less was meant for the one before
function decide(kind, kept) {
  const pair = shown;
  if (!pair || performance.now() - since < GLANCE) return;
  paces.push(performance.now() - since);
  if (paces.length > 40) paces.shift();
  const [first, second] = kept ? [pair.items[1], pair.items[0]] : pair.items;
  outbox.push({ id: uuid(), kind, first: first.id, second: second.id });
  recent.push({ id: outbox.at(-1).id, kind, first: first.id, second: second.id, n: 1 });
  hand.shift();
  if (kind === "drop" && kept) for (const one of hand) if (one.group === pair.group && one.items[0].id === second.id) Object.assign(one, { items: [first, one.items[1]], nearness: "…" });
  if (kind === "drop") hand = hand.filter((one) => !one.items.some((item) => item.id === second.id));
  find("#said").textContent = kind === "drop" ? `${second.name} is dropped` : "Not a duplicate";
  flash(kind === "apart" ? "apart" : kept ? "keep-b" : "keep-a");
  show();
  pump();
}

function skip() {
  if (!shown) return;
  skipped.add(shown.place);
  hand.shift();
  find("#said").textContent = "Skipped";
  show();
  if (hand.length < AHEAD / 2) refresh();
}

async function undo() {
  const last = recent.at(-1);
  if (!last || undo.busy) return;
  undo.busy = true;
  try {
    await pump(); // it must be on disk before it can be taken back
    const answer = await ask("undo", { ...settings(), batch: last.id });
    skipped.delete(answer.place);
    find("#said").textContent = answer.undone > 1 ? `${answer.undone} decisions taken back` : "The last decision is taken back";
    heard(answer, false);
    if (answer.place === null) notify("Taken back", `${last.n > 1 ? `${number(last.n)} decisions` : `${last.first} and ${last.second}`}: not among the pairs of this list.`);
  } catch (error) {
    notify("Not taken back", error.message);
  } finally {
    undo.busy = false;
  }
}

async function acceptAll() {
  try {
    await pump();
    heard(await ask("accept", { ...settings(), batch: uuid() }));
  } catch (error) {
    notify("That did not work", error.message);
  }
}

function flash(name) {
  const button = find(`[data-act=${name}]`);
  button.classList.add("given");
  setTimeout(() => button.classList.remove("given"), 180);
}

// Looking closer
function zoom(on, event) {
  stage.classList.toggle("zoomed", on && Boolean(shown));
  find("[data-act=zoom]").setAttribute("aria-pressed", String(on && Boolean(shown)));
  if (on) follow(event);
}
function follow(event) {
  const frame = event?.target.closest?.(".frame");
  if (!frame) return;
  const box = frame.getBoundingClientRect();
  const share = (value) => `${(100 * Math.min(1, Math.max(0, value))).toFixed(1)}%`;
  stage.style.setProperty("--x", share((event.clientX - box.left) / box.width));
  stage.style.setProperty("--y", share((event.clientY - box.top) / box.height));
}
let turning;
function flicker(on) {
  clearInterval(turning);
  const yes = on && Boolean(shown);
  stage.classList.toggle("flickering", yes);
  stage.classList.toggle("second", yes);
  if (yes && !matchMedia("(prefers-reduced-motion: reduce)").matches) turning = setInterval(() => stage.classList.toggle("second"), 350);
}
function paths(on) {
  find("[data-act=paths]").setAttribute("aria-pressed", String(on));
  for (const part of document.querySelectorAll(".path, .copy")) part.hidden = !on;
}
async function copy(at) {
  const path = shown?.items[at].path;
  if (!path) return;
  try {
    await navigator.clipboard.writeText(path);
    notify("Copied", path);
  } catch {
    notify("Not copied", `The browser does not allow it. The path is ${path}`);
  }
}

// What will happen
let plan = null;
const way = () => find("[name=way]:checked").value;
async function readPlan() {
  const asked = new URLSearchParams({ way: way(), folder: find("#folder").value });
  find("#plan-apply").disabled = true;
  find("#plan-problem").hidden = true;
  try {
    await pump();
    plan = await ask(`plan?${asked}`);
    drawPlan();
  } catch (error) {
    find("#plan-problem").textContent = error.message;
    find("#plan-problem").hidden = false;
    find("#plan-moves").hidden = true;
    find("#plan-command").hidden = true;
  }
}

function drawPlan() {
  const link = way() === "link";
  const files = (n) => `${number(n)} file${n === 1 ? "" : "s"}`;
  const rest = link && plan.dropped > plan.files ? ` ${files(plan.dropped - plan.files)} that only look the same stay as they are.` : "";
  find("#plan-sum").textContent = plan.dropped ? `${files(plan.files)} to ${link ? "link" : "move"}, ${size(plan.bytes)}; ${number(plan.same)} of ${files(plan.dropped)} have the same bytes as what is kept.${rest} Nothing is deleted.` : "No file is dropped that is still there: there is nothing to do.";
  find("#folder-row").hidden = link || !plan.can_move || Boolean(plan.closed);
  if (!find("#folder").value) find("#folder").value = plan.folder;
  find("#plan-moves").hidden = !plan.moves.length;
  find("#plan-moves summary").textContent = `Dry run: ${files(plan.files)}${plan.files > plan.moves.length ? `, the first ${plan.moves.length}` : ""}`;
  find("#plan-moves ol").replaceChildren(...plan.moves.map(([from, to]) => {
    const line = element("li", "", from);
    line.append(element("span", "", link ? `becomes a link to ${to}` : `→ ${to}`));
    return line;
  }));
  find("#plan-notes").replaceChildren(...plan.notes.map((note) => element("li", "", note)));
  find("#plan-closed").hidden = !plan.closed;
  find("#plan-closed").textContent = plan.closed ?? "";
  find("#plan-command").hidden = !plan.dropped;
  find("#plan-command").textContent = plan.command;
  const button = find("#plan-apply");
  button.textContent = link ? `Link ${files(plan.files)}` : `Move ${files(plan.files)}`;
  button.hidden = Boolean(plan.closed);
  button.disabled = !plan.files;
  find("#plan-done").hidden = !plan.done.length;
  find("#plan-done ul").replaceChildren(...plan.done.map((one) => {
    const line = element("li", "", `${one.name.replace(/^(\d+-\d+-\d+)-(\d\d)(\d\d).*/, "$1 $2:$3")} UTC: ${files(one.files)} ${one.links ? "linked" : "moved"}`);
    const back = element("button", "plain", "Put back");
    back.type = "button";
    back.hidden = Boolean(plan.closed);
    back.setAttribute("aria-label", `Put ${files(one.files)} back`);
    back.addEventListener("click", () => act("put-back", { name: one.name }, (done) => `${files(done.files)} moved back.`));
    line.append(back);
    return line;
  }));
}

async function act(path, body, words) {
  find("#plan-apply").disabled = true;
  try {
    const done = await ask(path, body);
    find("#folder").value = "";
    notify("Done", words(done));
  } catch (error) {
    notify("Not done", error.message);
  }
  skipped.clear();
  await readPlan();
  await refresh();
}

find("#plan-apply").addEventListener("click", () => act("apply", { way: way(), folder: find("#folder").value, digest: plan.digest }, (done) => `${number(done.files)} files, ${size(done.bytes)}. “Put back” undoes it. Run lookalike encode, so that the study knows.`));
find("#plan").addEventListener("change", readPlan);

// Keys and buttons
const acts = {
  "keep-a": () => decide("drop", 0),
  "keep-b": () => decide("drop", 1),
  apart: () => decide("apart", 0),
  skip,
  undo,
  zoom: () => zoom(!stage.classList.contains("zoomed")),
  paths: () => paths(find("[data-act=paths]").getAttribute("aria-pressed") !== "true"),
  "copy-a": () => copy(0),
  "copy-b": () => copy(1),
  plan: () => { find("#plan").showModal(); readPlan(); },
  keys: () => find("#keys").showModal(),
  all: acceptAll,
};
const keys = { arrowleft: "keep-a", a: "keep-a", d: "keep-a", arrowright: "keep-b", b: "keep-b", n: "apart", arrowdown: "apart", s: "skip", " ": "skip", u: "undo", z: "zoom", p: "paths", m: "plan", f: "flicker", h: "flicker", "?": "keys" };
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || find("dialog[open]")) return;
  if (event.target.closest?.("input, select, textarea")) return;
  if ([" ", "Enter"].includes(event.key) && event.target.closest?.("button, a")) return;
  if (event.key === "Escape") return zoom(false);
  const name = keys[event.key.toLowerCase()];
  if (!name) return;
  event.preventDefault();
  if (event.repeat) return;
  if (name === "flicker") flicker(true);
  else acts[name]();
});
addEventListener("keyup", (event) => { if (keys[event.key.toLowerCase()] === "flicker") flicker(false); });
addEventListener("blur", () => flicker(false));
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-act]");
  if (!button || button.disabled) return;
  if (event.detail > 0) button.blur();
  acts[button.dataset.act]?.();
});
for (const dialog of document.querySelectorAll("dialog")) dialog.addEventListener("click", (event) => { if (event.target === dialog && event.offsetY < 0) dialog.close(); });
stage.addEventListener("click", (event) => { if (event.target.closest(".frame") && !event.target.closest(".lost")) zoom(!stage.classList.contains("zoomed"), event); });
stage.addEventListener("pointermove", (event) => { if (stage.classList.contains("zoomed")) follow(event); });
const holder = find("[data-act=flicker]");
holder.addEventListener("pointerdown", (event) => { event.preventDefault(); holder.setPointerCapture(event.pointerId); flicker(true); });
for (const name of ["pointerup", "pointercancel"]) holder.addEventListener(name, () => flicker(false));
holder.addEventListener("keydown", (event) => { if ([" ", "Enter"].includes(event.key)) { event.preventDefault(); if (!event.repeat) flicker(true); } });
holder.addEventListener("keyup", () => flicker(false));
document.addEventListener("contextmenu", (event) => { if (event.target.closest("[data-act=flicker]")) event.preventDefault(); });
document.addEventListener("change", ({ target }) => { if (target.form?.matches(".settings")) target.form.requestSubmit(); });
find(".settings").addEventListener("submit", () => { for (const field of find(".settings").elements) field.disabled = field.name === "near" && !field.value; });
addEventListener("beforeunload", (event) => { if (outbox.length) event.preventDefault(); });

refresh();
