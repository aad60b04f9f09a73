// The expert's page: pairs in hand, keys, and answers that wait in this browser until the server has them on disk.
const find = (selector) => document.querySelector(selector);
const page = find("#judge").dataset;
const stage = find("#stage");
const help = find("#keys");
const AHEAD = 12; // pairs in hand, with their images loaded
const REFILL = 8; // fetch more when so few are left
const GLANCE = 150; // ms: what is said of a pair that was on show for less was meant for the one before
const MOST = 100; // answers in one request
const PATIENCE = 15_000; // ms until a request counts as lost
const NO = 0, YES = 1, UNSURE = -1;

// Time: a clock that is set while the page is open does not move answers
const now = () => Math.round(performance.timeOrigin + performance.now());

function uuid() { // crypto.randomUUID is missing where the page does not come by https
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 15) | 64;
  bytes[8] = (bytes[8] & 63) | 128;
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

// What waits to be sent: an entry of its own for each, so that tabs cannot overwrite each other's
const prefix = `lookalike/${page.box}/`;
const unkept = new Map(); // where the browser keeps nothing
const box = {
  put(entry) {
    try { localStorage.setItem(prefix + entry.client, JSON.stringify(entry)); } catch { unkept.set(entry.client, entry); }
  },
  drop(client) {
    unkept.delete(client);
    try { localStorage.removeItem(prefix + client); } catch { /* was never there */ }
  },
  all() {
    const found = [...unkept.values()];
    try {
      for (const key of Object.keys(localStorage)) {
        if (!key.startsWith(prefix)) continue;
        const entry = read(localStorage.getItem(key));
        if (entry && prefix + entry.client === key) found.push(entry);
        else localStorage.removeItem(key);
      }
    } catch { /* the browser keeps nothing */ }
    return found.sort((a, b) => a.at - b.at);
  },
};
const read = (text) => { try { return JSON.parse(text); } catch { return null; } };
const waiting = () => box.all().filter((entry) => entry.kind === "vote");

// Pairs
let tasks = []; // in hand; the first is on show
let past = null; // answered or put off, the last at the end; at first, what the server remembers
const answered = new Set(); // pairs with an answer from this page
const putOff = new Map(); // pairs put off → whether the server knows
let progress = null;
let ended = null; // why no more can be sent
let leaving = false; // to the practice, or to the end
let claimed = 0; // when the pairs in hand were last asked for

function take(found, known) {
  const held = new Set(found.map((task) => task.pair));
  const pending = new Set(box.all().filter((entry) => entry.kind !== "missing").map((entry) => entry.pair));
  // What others have finished since is no longer in hand; the pair on show stays until it is answered
  tasks = tasks.filter((task, place) => place === 0 || task.again || held.has(task.pair));
  const here = new Set(tasks.map((task) => task.pair));
  for (const task of found) {
    if (here.has(task.pair) || answered.has(task.pair) || pending.has(task.pair)) continue;
    if (putOff.has(task.pair) && !known.has(task.pair)) continue;
    putOff.delete(task.pair);
    tasks.push(task);
  }
  show();
}

function leave(pair) { // answered or put off, here or in another tab
  const first = tasks[0]?.pair;
  tasks = tasks.filter((task) => task.pair !== pair);
  if (tasks[0]?.pair !== first) show();
}

// Pictures: loaded and decoded ahead, so that the next pair is there at once
const pictures = new Map();

function picture(address) {
  if (!pictures.has(address)) {
    const one = { image: new Image(), state: "loading", tries: 0 };
    one.image.draggable = false;
    pictures.set(address, one);
    load(address, one);
  }
  return pictures.get(address);
}

async function load(address, one) {
  one.state = "loading";
  try {
    one.image.src = address;
    await one.image.decode();
    one.state = "ready";
  } catch {
    one.state = await whyNot(address);
    if (one.state === "away") {
      one.tries++;
      setTimeout(() => { if (pictures.get(address) === one) retry(address, one); }, Math.min(10_000, 500 * 2 ** one.tries));
    }
  }
  arrived(address);
}

function retry(address, one) {
  one.image = new Image();
  one.image.draggable = false;
  load(address, one);
}

async function whyNot(address) {
  try {
    const answer = await fetch(address, { signal: AbortSignal.timeout(PATIENCE) });
    if (answer.status === 401 || answer.status === 403) { end(await wordsOf(answer)); return "missing"; }
    return answer.ok || answer.status === 429 || answer.status >= 500 ? "away" : "missing";
  } catch {
    return "away";
  }
}

function preload() {
  const wanted = new Set([...tasks, ...(past ?? []).slice(-2).map((one) => one.task)].flatMap((task) => [task.query, task.item]));
  for (const address of pictures.keys()) if (!wanted.has(address)) pictures.delete(address);
  for (const address of wanted) picture(address);
}

// What is on show
let shown = null; // the pair on show
let since = 0, hidden = 0, hiddenSince = null; // when both its images were there; time not looked at
let visible = 0; // since when it can be seen
let complete = false;

function show() {
  const task = tasks[0] ?? null;
  preload();
  if (task && shown === task) return arrived();
  shown = task;
  complete = false;
  zoom(false);
  flicker(false);
  stage.hidden = !task;
  find("#panel").hidden = Boolean(task);
  for (const button of document.querySelectorAll("[data-answer]")) button.setAttribute("aria-pressed", String(task?.again === true && task.answered === Number(button.dataset.answer)));
  if (task) arrived();
  else tell();
  buttons();
}

function arrived(address) {
  const task = shown;
  if (!task || (address && address !== task.query && address !== task.item)) return;
  let there = true;
  for (const side of ["query", "item"]) {
    const one = picture(task[side]);
    const frame = find(`#${side} .frame`);
    frame.classList.toggle("loading", one.state === "loading" || one.state === "away");
    if (one.state === "ready") {
      one.image.alt = side === "query" ? "The query" : "The candidate";
      if (frame.firstChild !== one.image) frame.replaceChildren(one.image);
    } else if (one.state === "missing") {
      if (!frame.querySelector(".lost")) frame.replaceChildren(lost());
      report(task, side);
    } else frame.replaceChildren();
    there &&= one.state === "ready" || one.state === "missing";
  }
  if (there && !complete) {
    complete = true;
    since = visible = performance.now();
    hidden = 0;
    hiddenSince = covered() ? since : null;
  }
  buttons();
}

const covered = () => document.hidden || Boolean(find("dialog[open]")); // by another window, the help or the guide

function look() { // or look away
  if (covered()) hiddenSince ??= performance.now();
  else if (hiddenSince !== null) {
    visible = performance.now();
    hidden += visible - hiddenSince;
    hiddenSince = null;
  }
}

const isLost = (task) => ["query", "item"].some((side) => pictures.get(task[side])?.state === "missing");

function lost() {
  const words = document.createElement("div");
  words.className = "lost";
  const title = document.createElement("b");
  title.textContent = "This image cannot be shown";
  const line = document.createElement("span");
  line.textContent = "The organiser has been told. Put the pair off, or say that you can’t tell.";
  words.append(title, line);
  return words;
}

const reported = new Set();
function report(task, side) {
  const name = `${task.pair} ${side}`;
  if (reported.has(name)) return;
  reported.add(name);
  box.put({ client: uuid(), kind: "missing", pair: task.pair, side, at: now() });
  pump();
}

function buttons() {
  const off = !shown || !complete || Boolean(ended);
  for (const name of ["no", "yes"]) find(`[data-act=${name}]`).disabled = off || isLost(shown);
  for (const name of ["unsure", "later"]) find(`[data-act=${name}]`).disabled = off;
  for (const name of ["zoom", "flicker"]) find(`[data-act=${name}]`).disabled = !shown;
  find("[data-act=undo]").disabled = !past?.length || Boolean(ended);
}

// Answers
const answerable = () => shown && complete && !ended && begun - visible >= GLANCE;

function answer(value) {
  const task = shown;
  if (!answerable() || (value !== UNSURE && isLost(task))) return;
  const looked = performance.now() - since - hidden - (hiddenSince === null ? 0 : performance.now() - hiddenSince);
  const seconds = Math.round(Math.min(86_400, Math.max(0, looked / 1000)) * 1000) / 1000;
  box.put({ client: uuid(), kind: "vote", pair: task.pair, answer: value, seconds, at: now(), again: task.again === true });
  flash(value);
  paced(seconds);
  remember({ task: plain(task), answer: value });
  answered.add(task.pair);
  leave(task.pair);
  measure();
  status();
  pump();
}

function later() {
  const task = shown;
  if (!answerable()) return;
  remember({ task: plain(task), answer: task.again ? task.answered : null });
  if (!task.again) { // one that has an answer keeps it
    box.put({ client: uuid(), kind: "later", pair: task.pair, at: now() });
    putOff.set(task.pair, false);
  }
  leave(task.pair);
  pump();
}

function undo() {
  if (!past?.length || ended) return;
  const last = past.pop();
  answered.delete(last.task.pair);
  tasks = [{ ...last.task, again: last.answer !== null, answered: last.answer }, ...tasks.filter((task) => task.pair !== last.task.pair)];
  say(last.answer === null ? "Back again" : "Your last answer again, to change it");
  show();
}

const plain = ({ pair, query, item }) => ({ pair, query, item });
function remember(one) { past = [...(past ?? []), one].slice(-20); }

function flash(value) {
  const button = find(`[data-answer="${value}"]`);
  button.classList.add("given");
  setTimeout(() => button.classList.remove("given"), 180);
}

// Sending: answers first, then what is next; one request at a time, again and again until it is acknowledged
class Refused extends Error {
  constructor(status, words, after) {
    super(words);
    this.status = status;
    this.after = after;
  }
}

async function wordsOf(response) {
  return read(await response.text().catch(() => ""))?.problem ?? "";
}

async function post(path, body) {
  const headers = { "content-type": "application/json", "x-csrf-token": page.csrf };
  const response = await fetch(path, { method: "POST", headers, body: JSON.stringify(body), redirect: "error", cache: "no-store", signal: AbortSignal.timeout(PATIENCE) });
  if (!response.ok) throw new Refused(response.status, await wordsOf(response), Number(response.headers.get("retry-after")) || 0);
  return response.json();
}

let pumping = false, again = false, failures = 0, timer, trouble = "";
async function pump() {
  if (pumping) { again = true; return; }
  if (ended) return;
  pumping = true;
  clearTimeout(timer);
  let pause = 0;
  try {
    do {
      again = false;
      await send();
      if (tasks.length <= REFILL || performance.now() - claimed > 120_000) await claim();
    } while (again);
    failures = 0;
    trouble = "";
    pause = tasks.length || leaving ? 0 : 6_000; // others may leave something
  } catch (error) {
    pause = failed(error);
  } finally {
    pumping = false;
  }
  if (pause && !ended) timer = setTimeout(pump, pause);
  status();
  if (!shown) tell();
}

async function send() {
  const entries = box.all();
  for (const entry of entries.filter((one) => one.kind !== "vote")) {
    try {
      await post(`/api/${entry.kind}`, entry.kind === "later" ? { pair: entry.pair } : { pair: entry.pair, side: entry.side });
    } catch (error) {
      if (![404, 409, 422].includes(error.status)) throw error;
    }
    if (entry.kind === "later" && putOff.has(entry.pair)) putOff.set(entry.pair, true);
    box.drop(entry.client);
  }
  const votes = entries.filter((one) => one.kind === "vote");
  for (let at = 0; at < votes.length; at += MOST) await sendVotes(votes.slice(at, at + MOST));
}

async function sendVotes(votes) {
  const body = votes.map(({ client, pair, answer, seconds, at }) => ({ client, pair, answer, seconds, at }));
  try {
    acknowledged(await post("/api/votes", { votes: body }));
  } catch (error) {
    if (![413, 422].includes(error.status)) throw error;
    if (votes.length > 1) { for (const vote of votes) await sendVotes([vote]); return; }
    box.drop(votes[0].client); // damaged in this browser: it must not hold up the others
    notify("An answer was refused", error.message);
  }
}

function acknowledged(found) {
  const refused = [];
  for (const vote of found.votes) {
    box.drop(vote.client);
    if (vote.words) refused.push(vote.words);
  }
  if (refused.length) notify(refused.length === 1 ? "An answer was not kept" : `${refused.length} answers were not kept`, [...new Set(refused)].join(" "));
  heard(found.progress);
}

async function claim() {
  const known = new Set([...putOff].filter(([, told]) => told).map(([pair]) => pair));
  const found = await post("/api/claim", { n: AHEAD, recent: past === null });
  claimed = performance.now();
  if (found.elsewhere) { leaving = true; location.replace(found.elsewhere); return; }
  past ??= (found.recent ?? []).reverse().map((task) => ({ task: plain(task), answer: task.answered }));
  heard(found.progress);
  take(found.tasks, known);
}

function failed(error) {
  if (error instanceof Refused && [401, 403].includes(error.status)) { end(error.message, error.status === 403 ? "Load this page again" : undefined); return 0; }
  failures++;
  trouble = error instanceof Refused ? error.message : "";
  if (error instanceof Refused && error.status === 429) return 1000 * Math.max(1, error.after);
  return Math.min(8_000, 500 * 2 ** Math.min(failures, 6)) * (0.8 + 0.4 * Math.random());
}

function end(words, title = "This link no longer works") {
  ended = { title, words: words || "Open your personal link again." };
  tasks = [];
  shown = null;
  show();
  status();
}

// What is said
function heard(found) {
  progress = found;
  status();
}

function status() {
  const votes = waiting();
  const state = find("#state");
  const late = votes.length > 0 && (failures > 0 || !navigator.onLine || now() - votes[0].at > 1_500);
  const kind = ended ? "ended" : late || failures > 1 || (failures && trouble) ? "waiting" : "saved";
  const number = votes.length.toLocaleString("en");
  const some = votes.length === 1 ? "1 answer waits to be sent" : `${number} answers wait to be sent`;
  const words = votes.length && kind !== "saved" ? some : { ended: "Ended", waiting: "No connection", saved: "All answers saved" }[kind];
  if (state.dataset.state !== kind) state.dataset.state = kind;
  const line = state.querySelector("span");
  if (line.textContent !== words) line.textContent = words;
  state.title = kind === "waiting" ? trouble || "The server cannot be reached. Go on with the pairs that are here: answers are kept in this browser, and sent when it can." : "";
  if (kind === "waiting" && trouble && trouble !== status.said) notify("Not saved yet", trouble);
  if (kind === "saved" && status.said) find("#notice").replaceChildren();
  status.said = kind === "waiting" ? trouble : "";
  meters(votes);
}

function meters(votes) {
  if (!progress) return;
  const { sure } = progress; // whether all pairs that are left will come, however much others judge
  const more = new Set(votes.filter((vote) => !vote.again).map((vote) => vote.pair)).size;
  const counts = { own: [progress.done + more, progress.total], all: [progress.everybody_done + more, progress.everybody_total] };
  for (const [name, [done, total]] of Object.entries(counts)) {
    const most = Math.max(done, total);
    const all = name === "own" && !sure ? "" : ` of ${most.toLocaleString("en")}`;
    find(`#${name} [data-count]`).textContent = done.toLocaleString("en") + all;
    const bar = find(`#${name} progress`);
    bar.max = most || 1;
    bar.value = done;
  }
  const left = Math.max(0, progress.left - more);
  const pace = paces.length >= 5 ? paces.reduce((sum, one) => sum + one, 0) / paces.length : null;
  find("#left").textContent = `${sure || !left ? "" : "up to "}${left.toLocaleString("en")} left`;
  find("#pace").textContent = pace === null || !left ? "" : `${pace.toFixed(1)} s a pair, ${sure ? "about" : "up to"} ${lasting(left * pace)}`;
}

const paces = [];
function paced(seconds) {
  paces.push(Math.min(seconds, 60));
  if (paces.length > 40) paces.shift();
}

function lasting(seconds) {
  if (seconds < 90) return "a minute";
  if (seconds < 5_400) return `${Math.round(seconds / 60)} minutes`;
  return `${(seconds / 3600).toFixed(seconds < 36_000 ? 1 : 0)} hours`;
}

function tell() { // in place of a pair
  if (leaving) return panel("spin", "One moment", "This page goes on elsewhere.");
  const n = waiting().length;
  const kept = n ? ` ${n === 1 ? "One answer waits" : `${n} answers wait`} in this browser` : "";
  if (ended) panel("", ended.title, ended.words + (kept ? `${kept}, to be sent when you open a link that works.` : ""));
  else if (failures) panel("spin", "No connection", trouble || `The server cannot be reached. It is tried again and again${kept ? `;${kept}` : ""}.`);
  else if (!progress || pumping) panel("spin", "One moment", "Pairs are being fetched.");
  else if (progress.left > 0 || n) panel("spin", "Nothing for you at this moment", "The pairs that are left are with others. Should any come back, they appear here.");
  else panel("tick", progress.done ? `That was all, ${page.name}` : "There is nothing to judge yet", progress.done ? `${progress.done === 1 ? "One pair is" : `${progress.done.toLocaleString("en")} pairs are`} judged, every answer is saved. Thank you.` : "As soon as there are pairs, they appear here.");
}

function panel(mark, title, words) {
  const holder = find("#panel");
  if (holder.querySelector("h1")?.textContent === title && holder.querySelector("p")?.textContent === words) return;
  const parts = [["div", mark, ""], ["h1", "", title], ["p", "", words]].filter(([kind, name]) => kind !== "div" || name);
  holder.replaceChildren(...parts.map(([kind, name, text]) => Object.assign(document.createElement(kind), { className: name, textContent: text })));
}

function notify(title, words) {
  const heading = Object.assign(document.createElement("h1"), { textContent: title });
  const line = Object.assign(document.createElement("p"), { textContent: words });
  const close = Object.assign(document.createElement("button"), { type: "button", textContent: "×" });
  close.setAttribute("aria-label", "Close");
  close.addEventListener("click", () => find("#notice").replaceChildren());
  find("#notice").replaceChildren(heading, line, close);
  clearTimeout(notify.timer);
  notify.timer = setTimeout(() => find("#notice").replaceChildren(), 9_000);
}

function say(words) { find("#said").textContent = words; }

// Looking closer
function zoom(on, event) {
  if (on && !shown) return;
  stage.classList.toggle("zoomed", on);
  find("[data-act=zoom]").setAttribute("aria-pressed", String(on));
  if (on) follow(event);
}

function follow(event) { // both pictures at the same place
  const frame = event?.target.closest?.(".frame");
  if (!frame) return;
  const { left, top, width, height } = frame.getBoundingClientRect();
  const share = (value) => `${Math.round(1000 * Math.min(1, Math.max(0, value))) / 10}%`;
  stage.style.setProperty("--x", share((event.clientX - left) / width));
  stage.style.setProperty("--y", share((event.clientY - top) / height));
}

let turning;
function flicker(on) {
  clearInterval(turning);
  stage.classList.toggle("flickering", on && Boolean(shown));
  stage.classList.toggle("second", on && Boolean(shown));
  if (!on || !shown || matchMedia("(prefers-reduced-motion: reduce)").matches) return;
  turning = setInterval(() => stage.classList.toggle("second"), 350); // slower than three flashes in a second
}

stage.addEventListener("click", (event) => {
  if (event.target.closest(".lost")) return;
  if (event.target.closest(".frame")) zoom(!stage.classList.contains("zoomed"), event);
});
stage.addEventListener("pointermove", (event) => { if (stage.classList.contains("zoomed")) follow(event); });

// Keys and buttons
const acts = {
  no: () => answer(NO),
  yes: () => answer(YES),
  unsure: () => answer(UNSURE),
  later,
  undo,
  zoom: () => zoom(!stage.classList.contains("zoomed")),
  keys: () => { help.showModal(); look(); },
};
const keys = { arrowleft: "no", j: "no", arrowright: "yes", k: "yes", " ": "unsure", l: "later", u: "undo", z: "zoom", f: "flicker", h: "flicker", "?": "keys" };

function meant(event) { // by the letter; by its place on keyboards that have other letters
  const key = event.key.toLowerCase();
  if (keys[key]) return keys[key];
  return /^[ -~]$/.test(key) || !event.code.startsWith("Key") ? undefined : keys[event.code.slice(3).toLowerCase()];
}

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || find("dialog[open]")) return;
  if (event.target.closest?.("input, select, textarea, [contenteditable]")) return;
  if ([" ", "Enter"].includes(event.key) && event.target.closest?.("button, a")) return; // which is pressed by it
  if (event.key === "Escape") return zoom(false);
  const act = meant(event);
  if (!act) return;
  event.preventDefault();
  if (event.repeat) return; // a key that is held says it once
  begun = event.timeStamp;
  if (act === "flicker") flicker(true);
  else acts[act]();
});
addEventListener("keyup", (event) => { if (meant(event) === "flicker") flicker(false); });
addEventListener("blur", () => flicker(false));

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-act]");
  if (event.target === help && outside(help, event)) help.close();
  if (!button) return;
  if (event.detail > 0) button.blur(); // else the space bar would press it again
  begun = event.timeStamp;
  acts[button.dataset.act]?.();
});
function outside(element, { clientX, clientY }) {
  const { left, right, top, bottom } = element.getBoundingClientRect();
  return clientX < left || clientX > right || clientY < top || clientY > bottom;
}
const holder = find("[data-act=flicker]");
holder.addEventListener("pointerdown", (event) => { event.preventDefault(); holder.setPointerCapture(event.pointerId); flicker(true); });
for (const name of ["pointerup", "pointercancel"]) holder.addEventListener(name, () => flicker(false));
holder.addEventListener("keydown", (event) => { if ([" ", "Enter"].includes(event.key)) { event.preventDefault(); if (!event.repeat) flicker(true); } });
holder.addEventListener("keyup", () => flicker(false));
document.addEventListener("contextmenu", (event) => { if (event.target.closest("#stage, .answers")) event.preventDefault(); });

// The help: by itself at the first visit, and when the question or the guide is another than before
const briefed = `lookalike-briefed/${page.box}`;
function brief() {
  try { if (localStorage.getItem(briefed) === page.briefing) return; } catch { /* the browser keeps nothing */ }
  help.querySelector("form button").textContent = "Begin";
  acts.keys();
}
help.addEventListener("close", () => {
  try { localStorage.setItem(briefed, page.briefing); } catch { /* then it is shown again next time */ }
  help.querySelector("form button").textContent = "Close";
  look();
});

for (const kind of ["open", "close"]) find("#guide")?.addEventListener(kind, look);

// How long the next pair takes to appear, for whoever measures
let begun = 0;
function measure() {
  const from = begun, task = shown;
  requestAnimationFrame(() => requestAnimationFrame(() => {
    if (task && shown === task && complete) stage.dataset.took = (performance.now() - from).toFixed(1);
  }));
}

// Other tabs, other windows, the connection
addEventListener("storage", ({ key, newValue }) => {
  if (!key?.startsWith(prefix)) return;
  const entry = read(newValue);
  if (entry?.kind === "vote") {
    answered.add(entry.pair);
    leave(entry.pair);
  } else if (entry?.kind === "later") leave(entry.pair);
  if (entry) pump();
  status();
});
document.addEventListener("visibilitychange", () => {
  look();
  if (!document.hidden) pump();
});
addEventListener("online", () => { failures = 0; pump(); retryPictures(); });
addEventListener("offline", status);
addEventListener("beforeunload", (event) => { if (unkept.size) event.preventDefault(); });
addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
function retryPictures() {
  for (const [address, one] of pictures) if (one.state === "away") retry(address, one);
}
let seen = 0; // when somebody was last at the page: pairs are held for nobody else
for (const kind of ["keydown", "pointerdown", "pointermove"]) addEventListener(kind, () => { seen = performance.now(); }, { passive: true });
setInterval(() => { status(); if (seen > claimed && shown && performance.now() - claimed > 120_000) pump(); }, 1_000);

brief();
pump();
