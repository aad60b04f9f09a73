// What every page for experts shares, fifth part: how long something was looked at, keys, buttons and the help. The page has
// `acts` by name, `whileHeld` for those that last as long as their key is held, and `keys`.
let since = 0, hidden = 0, hiddenSince = null; // when all images were there; time not looked at
let visible = 0; // since when it can be seen
let complete = false;

function completed() { // all images are there: it can be looked at from now on
  complete = true;
  since = visible = performance.now();
  hidden = 0;
  hiddenSince = covered() ? since : null;
}

function looked() { // seconds, without those when something else was on top
  const time = performance.now() - since - hidden - (hiddenSince === null ? 0 : performance.now() - hiddenSince);
  return Math.min(86_400, Math.max(0, time / 1000));
}
const thousandth = (seconds) => Math.round(seconds * 1000) / 1000;

const covered = () => document.hidden || Boolean(find("dialog[open]")); // by another window, the help or a note

function look() { // or look away
  if (covered()) hiddenSince ??= performance.now();
  else if (hiddenSince !== null) {
    visible = performance.now();
    hidden += visible - hiddenSince;
    hiddenSince = null;
  }
}

// Keys and buttons
function meant(event) { // by the letter; by its place on keyboards that have other letters
  const key = event.key.toLowerCase();
  if (keys[key]) return keys[key];
  const digit = event.shiftKey ? null : /^Digit([0-9])$/.exec(event.code); // some keyboards have other signs there
  if (digit && keys[digit[1]]) return keys[digit[1]];
  return /^[ -~]$/.test(key) || !event.code.startsWith("Key") ? undefined : keys[event.code.slice(3).toLowerCase()];
}

function listen() { // called when the page's own script is there
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || find("dialog[open]")) return;
    if (event.target.closest?.("input, select, textarea, [contenteditable]")) return;
    if ([" ", "Enter"].includes(event.key) && event.target.closest?.("button:not(.cell), a")) return; // which is pressed by it
    if (event.key === "Escape") return zoom(false);
    const act = meant(event);
    if (!act) return;
    event.preventDefault();
    if (event.repeat && !act.startsWith("go")) return; // a key that is held says it once
    begun = event.timeStamp;
    (whileHeld[act] ?? acts[act])(true);
  });
  addEventListener("keyup", (event) => {
    if (event.key === " " && event.target.closest?.(".cell")) event.preventDefault(); // or some browsers click it
    whileHeld[meant(event)]?.(false);
  });
  addEventListener("blur", () => { for (const act of Object.values(whileHeld)) act(false); });

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-act]");
    if (event.target === help && outside(help, event)) help.close();
    if (!button) return;
    if (event.detail > 0) button.blur(); // else the space bar would press it again
    begun = event.timeStamp;
    acts[button.dataset.act]?.();
  });
  document.addEventListener("contextmenu", (event) => { if (event.target.closest("#stage, .answers")) event.preventDefault(); });
}

function outside(element, { clientX, clientY }) {
  const { left, right, top, bottom } = element.getBoundingClientRect();
  return clientX < left || clientX > right || clientY < top || clientY > bottom;
}

// The help: by itself at the first visit, and when the question or the guide is another than before
const briefed = `lookalike-briefed/${page.box}`;
function brief() {
  try { if (localStorage.getItem(briefed) === page.briefing) return; } catch { /* the browser keeps nothing */ }
  help.querySelector("form button").textContent = "Begin";
  acts.keys();
}
for (const kind of ["open", "close"]) find("#guide")?.addEventListener(kind, look);
help.addEventListener("close", () => {
  try { localStorage.setItem(briefed, page.briefing); } catch { /* then it is shown again next time */ }
  help.querySelector("form button").textContent = "Close";
  look();
});

// How long the next takes to appear, for whoever measures
let begun = 0;
function measure() {
  const from = begun, task = shown;
  requestAnimationFrame(() => requestAnimationFrame(() => {
    if (task && shown === task && complete) stage.dataset.took = (performance.now() - from).toFixed(1);
  }));
}
