// What every page for experts shares, first part: answers that wait in this browser until the server has them on disk.
const find = (selector) => document.querySelector(selector);
const page = find("#judge").dataset;
const stage = find("#stage");
const help = find("#keys");
const GLANCE = 150; // ms: what is said of a pair that was on show for less was meant for the one before
const MOST = 100; // answers in one request
const PATIENCE = 15_000; // ms until a request counts as lost
const UNSURE = -1; // the answer "can't tell"; all others are steps from 0

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
    if (entry.kind === "vote") entry.scale ??= page.scale ?? ""; // on which it was answered
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
    return found.sort((a, b) => a.at - b.at || (a.client < b.client ? -1 : 1)); // those of a sheet: by their places
  },
};
const read = (text) => { try { return JSON.parse(text); } catch { return null; } };
const waiting = () => box.all().filter((entry) => entry.kind === "vote");
