// What every page for experts shares, third part: pairs in hand, and sending. The page says by `wish` what to have in hand,
// by `few` when to fetch more, by `stays` what is on show, and by `remembered` what can be undone when it is opened.
let tasks = []; // in hand
let past = null; // what was answered or put off, the last at the end; at first, what the server remembers
const answered = new Set(); // pairs with an answer from this page
const putOff = new Map(); // pairs put off → whether the server knows
let progress = null;
let ended = null; // why no more can be sent
let leaving = false; // to the practice, or to the end
let claimed = 0; // when the pairs in hand were last asked for

function take(found, known) {
  const held = new Set(found.map((task) => task.pair));
  const pending = new Set(box.all().filter((entry) => ["vote", "later"].includes(entry.kind)).map((entry) => entry.pair));
  // What others have finished since is no longer in hand; what is on show stays until it is answered
  tasks = tasks.filter((task, place) => stays(task, place) || held.has(task.pair));
  const here = new Set(tasks.map((task) => task.pair));
  for (const task of found) {
    if (here.has(task.pair) || answered.has(task.pair) || pending.has(task.pair)) continue;
    if (putOff.has(task.pair) && !known.has(task.pair)) continue;
    putOff.delete(task.pair);
    tasks.push(task);
  }
  show();
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
      if (few() || performance.now() - claimed > 120_000) await claim();
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
      await post(`/api/${entry.kind}`, entry.body ?? (entry.kind === "later" ? { pair: entry.pair } : { pair: entry.pair, side: entry.side }));
    } catch (error) {
      if (![404, 409, 422].includes(error.status)) throw error;
      if (entry.kind === "note") notify("A note was not kept", error.message);
    }
    if (entry.kind === "later" && putOff.has(entry.pair)) putOff.set(entry.pair, true);
    box.drop(entry.client);
  }
  const votes = entries.filter((one) => one.kind === "vote");
  for (let at = 0; at < votes.length; at += MOST) await sendVotes(votes.slice(at, at + MOST));
}

async function sendVotes(votes) {
  const body = votes.map(({ client, pair, answer, seconds, at, scale = "" }) => ({ client, pair, answer, seconds, at, scale }));
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
  const found = await post("/api/claim", { ...wish(), recent: past === null });
  claimed = performance.now();
  if (found.elsewhere) { leaving = true; location.replace(found.elsewhere); return; }
  past ??= remembered((found.recent ?? []).reverse());
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

// Other tabs, other windows, the connection; called when the page's own script is there
let seen = 0; // when somebody was last at the page: pairs are held for nobody else
function watch() {
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
  for (const kind of ["keydown", "pointerdown", "pointermove"]) addEventListener(kind, () => { seen = performance.now(); }, { passive: true });
  setInterval(() => { status(); if (seen > claimed && shown && performance.now() - claimed > 120_000) pump(); }, 1_000);
}

function retryPictures() {
  for (const [address, one] of pictures) if (one.state === "away") retry(address, one);
}
