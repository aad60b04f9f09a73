// Notes and flags on the pair on show. They wait in this browser, as answers do, until the server has them on disk.
(() => { // its names are its own
const remark = find("#remark");
const words = find("#remark-text");
const flagged = { // pairs that this expert has flagged, as far as this browser knows
  key: `lookalike-flags/${page.box}`,
  all() { try { return new Set(read(localStorage.getItem(this.key)) ?? []); } catch { return this.held; } },
  held: new Set(),
  put(pair, on) {
    const pairs = this.all();
    if (on) pairs.add(pair); else pairs.delete(pair);
    this.held = pairs;
    try { localStorage.setItem(this.key, JSON.stringify([...pairs].slice(-500))); } catch { /* it is known until the page is closed */ }
  },
};
const noted = new Map(); // pair → how many notes were added here
const drafts = new Map(); // what was begun and not sent: by kind and pair
let about = null; // which pair the form is about, and whether it is a note or a flag

function write(kind) {
  if (!shown || ended) return;
  about = { kind, pair: shown.pair };
  const isFlag = kind === "flag", is = isFlag && flagged.all().has(shown.pair);
  find("#remark-title").textContent = isFlag ? (is ? "You have flagged this pair" : "Flag this pair as broken") : "A note on this pair";
  find("#remark-hint").textContent = isFlag ? "Such as a wrong or damaged image. A word on why helps; you can still judge the pair, or put it off." : "The organiser reads it; no other expert does.";
  words.placeholder = isFlag ? "Why? You may leave this empty" : "What should the organiser know?";
  words.rows = isFlag ? 1 : 3;
  find("[data-remark=send] span").textContent = isFlag ? (is ? "Flag again" : "Flag") : "Add note";
  find("[data-remark=send] kbd").textContent = isFlag ? "↵" : "Ctrl ↵";
  find("[data-remark=back]").hidden = !is;
  words.value = drafts.get(`${kind} ${shown.pair}`) ?? "";
  typed();
  remark.showModal();
  words.focus();
  look();
}

function typed() {
  const left = 1000 - words.value.length;
  find("#remark-left").textContent = left <= 200 ? `${left} characters left` : "";
  find("[data-remark=send]").disabled = about?.kind === "note" && !words.value.trim();
}

function put(kind, text) {
  const { pair } = about, client = uuid();
  box.put({ client, kind: "note", pair, at: now(), body: { client, pair, kind, text } });
  if (kind === "note") noted.set(pair, (noted.get(pair) ?? 0) + 1);
  else flagged.put(pair, kind === "flag");
  drafts.delete(`${about.kind} ${pair}`);
  about = null;
  remark.close();
  mark();
  pump();
}

function mark() { // what this expert has added to the pair on show
  const n = noted.get(shown?.pair) ?? 0, is = shown !== null && flagged.all().has(shown.pair);
  const parts = [is ? "Flagged" : "", n ? (n === 1 ? "Note added" : `${n} notes added`) : ""].filter(Boolean).join(", ");
  if (find("#marked").textContent !== parts) find("#marked").textContent = parts;
  find("[data-act=flag]").setAttribute("aria-pressed", String(is));
}

Object.assign(acts, { note: () => write("note"), flag: () => write("flag") });
Object.assign(keys, { c: "note", x: "flag" });
words.addEventListener("input", typed);
words.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.isComposing) return;
  if (event.ctrlKey || event.metaKey || (about?.kind === "flag" && !event.shiftKey)) {
    event.preventDefault();
    if (!event.repeat) find("[data-remark=send]").click();
  }
});
remark.querySelector("form").addEventListener("submit", (event) => {
  event.preventDefault();
  if (about && (about.kind === "flag" || words.value.trim())) put(about.kind, words.value.trim());
});
remark.addEventListener("click", (event) => {
  if (event.target.closest("[data-remark=back]")) put("unflag", words.value.trim());
  else if (event.target.closest("[data-remark=close]") || (event.target === remark && outside(remark, event))) remark.close();
});
remark.addEventListener("close", () => {
  if (about) drafts.set(`${about.kind} ${about.pair}`, words.value);
  about = null;
  look();
});
new MutationObserver(mark).observe(stage, { subtree: true, childList: true, attributes: true, attributeFilter: ["hidden", "tabindex"] });
mark();
})();
