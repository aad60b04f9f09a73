// What every page for experts shares, fourth part: what is said, of answers that wait, of progress, and in place of pairs.
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
