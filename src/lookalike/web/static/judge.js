// The expert's page with one pair after the other.
const SIDES = ["query", "item"]; // the pictures of a pair
const AHEAD = 12; // pairs in hand, with their images loaded
const REFILL = 8; // fetch more when so few are left
const NO = 0, YES = 1;
const STEPS = JSON.parse(page.steps); // the words of the answers, the lowest first

// Pairs: the first in hand is on show
const wish = () => ({ n: AHEAD });
const few = () => tasks.length <= REFILL;
const stays = (task, place) => place === 0 || task.again;
const remembered = (recent) => recent.map((task) => ({ task: plain(task), answer: task.answered }));

function leave(pair) { // answered or put off, here or in another tab
  const first = tasks[0]?.pair;
  tasks = tasks.filter((task) => task.pair !== pair);
  if (tasks[0]?.pair !== first) show();
}

// What is on show
let shown = null; // the pair on show

function show() {
  const task = tasks[0] ?? null;
  preload([...tasks, ...(past ?? []).slice(-2).map((one) => one.task)].flatMap((task) => [task.query, task.item]));
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
  for (const side of SIDES) {
    const one = picture(task[side]);
    there = fill(find(`#${side} .frame`), one, side === "query" ? "The query" : "The candidate", lost) && there;
    if (one.state === "missing") report(task, side);
  }
  if (there && !complete) completed();
  buttons();
}

function buttons() {
  const off = !shown || !complete || Boolean(ended);
  for (const button of document.querySelectorAll("[data-answer]")) button.disabled = off || (button.dataset.act !== "unsure" && isLost(shown));
  find("[data-act=later]").disabled = off;
  for (const name of ["zoom", "flicker"]) find(`[data-act=${name}]`).disabled = !shown;
  find("[data-act=undo]").disabled = !past?.length || Boolean(ended);
}

// Answers
const answerable = () => shown && complete && !ended && begun - visible >= GLANCE;

function answer(value) {
  const task = shown;
  if (!answerable() || (value !== UNSURE && isLost(task))) return;
  const seconds = thousandth(looked());
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
for (const grade of STEPS.keys()) acts[`step${grade}`] = () => answer(grade);
const byArrow = { arrowleft: "no", j: "no", arrowright: "yes", k: "yes" };
const byNumber = Object.fromEntries(STEPS.map((_, grade) => [grade + 1, `step${grade}`]));
const keys = { ...(page.scale ? byNumber : byArrow), " ": "unsure", l: "later", u: "undo", z: "zoom", f: "flicker", h: "flicker", "?": "keys" };
const whileHeld = { flicker };

const holder = find("[data-act=flicker]");
holder.addEventListener("pointerdown", (event) => { event.preventDefault(); holder.setPointerCapture(event.pointerId); flicker(true); });
for (const name of ["pointerup", "pointercancel"]) holder.addEventListener(name, () => flicker(false));
holder.addEventListener("keydown", (event) => { if ([" ", "Enter"].includes(event.key)) { event.preventDefault(); if (!event.repeat) flicker(true); } });
holder.addEventListener("keyup", () => flicker(false));

listen();
watch();
brief();
pump();
