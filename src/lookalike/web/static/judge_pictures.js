// What every page for experts shares, second part: pictures. The page says in SIDES which pictures a pair has, and
// is told by `arrived` when one is there.
// Loaded and decoded ahead, so that the next pair is there at once
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

function preload(addresses) {
  const wanted = new Set(addresses);
  for (const address of pictures.keys()) if (!wanted.has(address)) pictures.delete(address);
  for (const address of wanted) picture(address);
}

function fill(frame, one, words, instead) { // a frame with a picture; whether its picture is there, or known to be missing
  frame.classList.toggle("loading", one.state === "loading" || one.state === "away");
  if (one.state === "ready") {
    one.image.alt = words;
    if (frame.firstChild !== one.image) frame.replaceChildren(one.image);
  } else if (one.state === "missing") {
    if (!frame.querySelector(".lost")) frame.replaceChildren(instead());
  } else frame.replaceChildren();
  return one.state === "ready" || one.state === "missing";
}

const isLost = (task) => SIDES.some((side) => pictures.get(task[side])?.state === "missing");

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
