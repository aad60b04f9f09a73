// The expert's page with a sheet: a query that stays, and its candidates in a grid. All begin at the lowest step of the
// answers, a mark lifts a candidate, and one key confirms them all.
const SIDES = ["query", "tile"]; // the pictures of a pair
const STEPS = JSON.parse(page.steps); // the words of the answers, the lowest first
const SIZE = Number(page.sheet); // candidates of a sheet, at most
const BREATH = 500; // ms: nobody looks a sheet over in less, so a confirmation that comes sooner was meant for the one before
const HOLD = 450; // ms after which a press is no tap: it shows the candidate large
const SMALLEST = 108; // pixels of a candidate's side, at least; where there is no room, the grid is scrolled
const grid = find("#grid");

// Sheets: { tasks, marks, before }, both maps from pairs to answers; before: what was confirmed earlier, where it is undone
let sheet = null; // on show
let aside = []; // those that an undone one has taken the place of
let shown = null; // the candidate that keys and buttons are about

const wish = () => ({ n: SIZE + 1, sheet: SIZE }); // so that another sheet is there
const few = () => tasks.every((task) => sheet?.tasks.includes(task));
const stays = (task) => [sheet, ...aside].some((one) => one?.tasks.includes(task));
const plain = ({ pair, query, item, tile }) => ({ pair, query, item, tile });

function remembered(recent) { // in sheets again: candidates of one query that were judged one after the other
  const sheets = [];
  for (const task of recent) {
    if (sheets.at(-1)?.tasks[0].query !== task.query || sheets.at(-1).tasks.length >= SIZE) sheets.push({ tasks: [], answers: new Map() });
    sheets.at(-1).tasks.push(plain(task));
    sheets.at(-1).answers.set(task.pair, task.answered);
  }
  return sheets;
}

function nextSheet() {
  if (aside.length) return aside.pop();
  const of = tasks.filter((task) => task.query === tasks[0].query).slice(0, SIZE);
  return of.length ? { tasks: of, marks: new Map(), before: new Map() } : null;
}

function leave(pair) { // answered or put off, here or in another tab
  tasks = tasks.filter((task) => task.pair !== pair);
  for (const one of [sheet, ...aside]) if (one) one.tasks = one.tasks.filter((task) => task.pair !== pair || one.before.has(pair));
  aside = aside.filter((one) => one.tasks.length);
  if (!sheet || sheet.tasks.length === cells.size) return;
  const place = [...cells.keys()].indexOf(shown);
  if (!sheet.tasks.length) sheet = null;
  show(place);
}

// What is on show
const cells = new Map(); // by candidate

function show(place = 0) {
  if (ended) [sheet, aside] = [null, []];
  const isNew = sheet === null || sheet !== show.last;
  sheet ??= nextSheet();
  preload([sheet, past?.at(-1)].flatMap((one) => one?.tasks ?? []).concat(tasks).flatMap((task) => [task.query, task.tile]));
  if (isNew) {
    complete = false;
    seenCells = new WeakSet();
    zoom(false);
  }
  show.last = sheet;
  stage.hidden = !sheet;
  find("#panel").hidden = Boolean(sheet);
  if (!sheet) {
    shown = null;
    cells.clear();
    tell();
    return buttons();
  }
  lay(isNew);
  if (isNew || !sheet.tasks.includes(shown)) focusOn(sheet.tasks[Math.min(Math.max(0, place), sheet.tasks.length - 1)]);
  arrived();
}

function lay(isNew) { // cells for the candidates
  if (isNew) cells.clear();
  for (const task of cells.keys()) if (!sheet.tasks.includes(task)) cells.delete(task);
  for (const task of sheet.tasks) if (!cells.has(task)) cells.set(task, cell(task));
  const inOrder = sheet.tasks.map((task) => cells.get(task));
  if (inOrder.length !== grid.children.length || inOrder.some((one, at) => one !== grid.children[at])) grid.replaceChildren(...inOrder);
  if (isNew) grid.scrollTop = 0;
  find("#query figcaption").textContent = sheet.before.size ? "Query, your last sheet" : "Query";
  fit();
}

function cell(task) {
  const made = Object.assign(document.createElement("button"), { type: "button", className: "cell", tabIndex: -1 });
  made.append(...["frame", "mark"].map((name) => Object.assign(document.createElement("span"), { className: name })));
  made.addEventListener("click", (event) => tapped(task, event));
  made.addEventListener("focus", () => { if (shown !== task && cells.get(task) === made) focusOn(task); });
  made.addEventListener("pointerdown", (event) => press(task, event));
  watchCells.observe(made);
  return made;
}

let columns = 1;
function fit() { // as large as the window allows
  if (!sheet) return;
  const n = sheet.tasks.length, gap = parseFloat(getComputedStyle(grid).columnGap) || 8;
  const around = 2 * parseFloat(getComputedStyle(grid).paddingTop); // for the ring about the one in focus
  const width = grid.clientWidth - around, height = grid.clientHeight - around;
  const side = (count) => Math.min((width + gap) / count, (height + gap) / Math.ceil(n / count)) - gap;
  columns = 1;
  for (let count = 2; count <= n; count++) if (side(count) > side(columns) + 1) columns = count;
  const least = Math.min(SMALLEST, (width - gap) / 2);
  const narrow = side(columns) < least; // then it is scrolled
  if (narrow) columns = Math.max(2, Math.min(n, Math.floor((width + gap) / (SMALLEST + gap))));
  const rows = Math.ceil(n / columns);
  grid.style.setProperty("--columns", columns);
  grid.style.setProperty("--row", `${Math.floor(narrow ? (width + gap) / columns - gap : (height + gap) / rows - gap)}px`);
}
new ResizeObserver(() => fit()).observe(grid);

// Candidates that were never in view are not confirmed
let seenCells = new WeakSet();
const watchCells = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) if (isIntersecting) seenCells.add(target);
  if (sheet) buttons();
}, { root: grid, threshold: 0.6 });
const unseen = () => sheet.tasks.filter((task) => !seenCells.has(cells.get(task)));

function arrived(address) {
  if (!sheet || (address && ![...cells.keys(), shown].some((task) => [task.query, task.tile, task.item].includes(address)))) return;
  const query = picture(sheet.tasks[0].query);
  let there = fill(find("#query .frame"), query, "The query", lost);
  for (const [task, made] of cells) {
    const one = picture(task.tile);
    there = fill(made.querySelector(".frame"), one, "", lostTile) && there;
    if (query.state === "missing") report(task, "query");
    if (one.state === "missing") report(task, "item");
    draw(task);
  }
  if (there && !complete) completed();
  if (isZoomed()) closer();
  buttons();
}

function lostTile() {
  return Object.assign(document.createElement("span"), { className: "lost", textContent: "This image cannot be shown" });
}

const valueOf = (task) => isLost(task) ? UNSURE : sheet.marks.get(task.pair) ?? sheet.before.get(task.pair) ?? 0;
const wordOf = (value) => value === UNSURE ? "Can’t tell" : STEPS[value];
const levelOf = (value) => value === UNSURE ? "unsure" : value === 0 ? "low" : value === STEPS.length - 1 ? "high" : "mid";

function draw(task) { // what is said of a candidate
  const made = cells.get(task), value = valueOf(task);
  const signs = { unsure: "?", low: "", high: "✓", mid: String(value + 1) };
  made.dataset.level = levelOf(value);
  const mark = made.querySelector(".mark");
  mark.dataset.sign = signs[levelOf(value)];
  mark.textContent = wordOf(value);
  made.setAttribute("aria-label", `Candidate ${sheet.tasks.indexOf(task) + 1} of ${sheet.tasks.length}: ${wordOf(value)}${isLost(task) ? ", this image cannot be shown" : ""}`);
  made.setAttribute("aria-pressed", String(value > 0));
  if (task === shown) {
    find("[data-act=unsure]").setAttribute("aria-pressed", String(value === UNSURE));
    if (isZoomed()) closer();
  }
}

function buttons() {
  const off = !sheet || !complete || Boolean(ended);
  find("#confirm").disabled = off;
  find("[data-act=unsure]").disabled = off || isLost(shown);
  find("[data-act=later]").disabled = off || sheet.before.has(shown.pair); // one that has an answer keeps it
  find(".side [data-act=zoom]").disabled = !sheet;
  find("[data-act=undo]").disabled = !past?.length || Boolean(ended);
  const below = sheet && complete ? unseen().length : 0;
  find("#confirm b").textContent = isZoomed() ? "Back to the sheet" : below ? `${below} more below` : sheet?.before.size ? "Confirm again" : "Confirm";
  find("#confirm small").textContent = sheet && !isZoomed() ? counted() : "";
}

function counted() { // how many candidates have which answer, the highest first
  const values = sheet.tasks.map(valueOf);
  const all = [...STEPS.keys()].reverse().concat(UNSURE).map((value) => [values.filter((one) => one === value).length, wordOf(value)]);
  return all.filter(([n]) => n).map(([n, word]) => `${n} ${word[0].toLowerCase()}${word.slice(1)}`).join(", ");
}

// The candidate in focus
function focusOn(task) {
  if (shown) cells.get(shown)?.classList.remove("current");
  for (const made of cells.values()) made.tabIndex = -1;
  shown = task;
  const made = cells.get(task);
  made.tabIndex = 0;
  made.classList.add("current");
  if (!find("dialog[open]") && !isZoomed()) made.focus({ preventScroll: true });
  made.scrollIntoView({ block: "nearest" });
  if (isZoomed()) arrived();
  else draw(task);
  buttons();
}

function go(step) {
  if (!sheet) return;
  const to = sheet.tasks.indexOf(shown) + step;
  if (to >= 0 && to < sheet.tasks.length) focusOn(sheet.tasks[to]);
}

// Answers
const markable = () => sheet && shown && !ended && begun - visible >= GLANCE;

function mark(value) {
  if (!markable() || !complete || isLost(shown)) return;
  sheet.marks.set(shown.pair, value);
  draw(shown);
  buttons();
}
const lift = () => { if (shown) mark(valueOf(shown) === UNSURE ? 0 : (valueOf(shown) + 1) % STEPS.length); };
const markAndGo = (value) => { mark(value); go(1); };
const unsure = () => { if (shown) mark(valueOf(shown) === UNSURE ? 0 : UNSURE); };

function confirmSheet() {
  if (isZoomed()) return zoom(false); // first see the others again
  if (!sheet || !complete || ended || begun - visible < BREATH) return;
  const [below] = unseen();
  if (below) return cells.get(below).scrollIntoView({ block: "start" });
  const seconds = thousandth(looked() / sheet.tasks.length), clients = sheetIds(sheet.tasks.length), at = now();
  const answers = new Map(sheet.tasks.map((task) => [task.pair, valueOf(task)]));
  for (const [place, { pair }] of sheet.tasks.entries()) {
    paced(seconds);
    answered.add(pair);
    if (sheet.before.get(pair) === answers.get(pair)) continue; // what was confirmed and is not changed is not sent again
    box.put({ client: clients[place], kind: "vote", pair, answer: answers.get(pair), seconds, at, again: sheet.before.has(pair) });
  }
  remember({ tasks: sheet.tasks.map(plain), answers });
  say(`Confirmed: ${counted()}`);
  const done = new Set(sheet.tasks.map((task) => task.pair));
  tasks = tasks.filter((task) => !done.has(task.pair));
  sheet = null;
  show();
  measure();
  status();
  pump();
}

function sheetIds(n) { // UUIDs of version 8: alike but for the last two bytes, which say how many candidates, and which
  const bytes = uuid().split("");
  bytes[14] = "8";
  const byte = (number) => number.toString(16).padStart(2, "0");
  return Array.from({ length: n }, (_, place) => bytes.slice(0, 32).join("") + byte(n) + byte(place));
}

function later() {
  const task = shown;
  if (!markable() || !complete || sheet.before.has(task.pair)) return;
  box.put({ client: uuid(), kind: "later", pair: task.pair, at: now() });
  putOff.set(task.pair, false);
  remember({ late: true, tasks: [plain(task)], answers: new Map(), place: sheet.tasks.indexOf(task) });
  leave(task.pair);
  pump();
}

function undo() {
  if (!past?.length || ended) return;
  const last = past.pop();
  if (last.late && sheet?.tasks[0].query === last.tasks[0].query && !sheet.before.size) {
    sheet.tasks.splice(last.place, 0, last.tasks[0]); // put off by mistake: it comes back where it was
    say("Back again");
    show();
    return focusOn(last.tasks[0]);
  }
  if (sheet) aside.push(sheet);
  sheet = { tasks: last.tasks, marks: new Map(), before: last.answers };
  say(last.late ? "Back again" : "Your last sheet again, to change it");
  show();
}

function remember(one) { past = [...(past ?? []), one].slice(-20); }

// Looking closer: the candidate large, beside the query
const isZoomed = () => stage.classList.contains("close");

function zoom(on) {
  if (on && !sheet) return;
  if (on === isZoomed()) return;
  stage.classList.toggle("close", on);
  find("#item").hidden = !on;
  find(".side [data-act=zoom]").setAttribute("aria-pressed", String(on));
  if (on) arrived();
  else if (shown && cells.has(shown)) focusOn(shown);
}

function closer() {
  const large = picture(shown.item), made = cells.get(shown);
  const one = large.state === "ready" ? large : picture(shown.tile); // the small one until the large one is there
  const frame = find("#item .frame");
  if (one === large) fill(frame, large, made.ariaLabel, lost);
  else if (one.state === "ready") frame.replaceChildren(Object.assign(new Image(), { src: one.image.src, alt: made.ariaLabel, draggable: false }));
  else frame.replaceChildren(lostTile());
  seenCells.add(made);
  find("#item").dataset.level = made.dataset.level;
  find("#item figcaption").textContent = made.ariaLabel;
}

let holding, heldAt = null;
function press(task, event) {
  letGo();
  heldAt = [event.clientX, event.clientY];
  holding = setTimeout(() => { heldAt = null; focusOn(task); zoom(true); press.held = true; }, HOLD);
  press.held = false;
}
function letGo() { clearTimeout(holding); heldAt = null; }
for (const name of ["pointerup", "pointercancel", "blur"]) addEventListener(name, letGo);
addEventListener("pointermove", (event) => { if (heldAt && Math.hypot(event.clientX - heldAt[0], event.clientY - heldAt[1]) > 10) letGo(); }, { passive: true });

function tapped(task, event) {
  if (press.held) { press.held = false; return; } // the end of a press that was held
  begun = event.timeStamp;
  focusOn(task);
  lift();
}
find("#item").addEventListener("click", (event) => {
  if (press.held) { press.held = false; return; }
  if (event.target.closest(".frame")) { begun = event.timeStamp; lift(); }
});
find("#query").addEventListener("click", () => zoom(!isZoomed()));

// Keys and buttons
const acts = {
  mark: lift,
  yes: () => markAndGo(STEPS.length - 1),
  no: () => markAndGo(0),
  unsure,
  confirm: confirmSheet,
  later,
  undo,
  zoom: () => zoom(!isZoomed()),
  keys: () => { help.showModal(); look(); },
  "go left": () => go(-1),
  "go right": () => go(1),
  "go up": () => go(isZoomed() ? -1 : -columns),
  "go down": () => go(isZoomed() ? 1 : columns),
};
const keys = { arrowleft: "go left", arrowright: "go right", arrowup: "go up", arrowdown: "go down", " ": "mark", k: "yes", j: "no", enter: "confirm", t: "unsure", 0: "unsure", l: "later", u: "undo", z: "zoom", "?": "keys" };
const whileHeld = {};
for (const value of STEPS.keys()) {
  acts[`step ${value}`] = () => mark(value);
  keys[value + 1] = `step ${value}`;
}

help.addEventListener("close", () => { if (sheet) focusOn(shown); });

// The help names the steps of this study
for (const word of help.querySelectorAll("[data-step]")) word.textContent = `“${STEPS.at(word.dataset.step)}”`;
const [stepKeys, stepWords] = help.querySelectorAll(".steps");
stepKeys.replaceChildren(...[...STEPS.keys()].flatMap((value) => [Object.assign(document.createElement("kbd"), { textContent: value + 1 }), " "]));
stepWords.textContent = STEPS.map((word, value) => `${value + 1} ${word[0].toLowerCase()}${word.slice(1)}`).join(", ");

listen();
watch();
brief();
pump();
