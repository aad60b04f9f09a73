// What the organiser's page does beyond links and forms: copying, saying what was done, and closing what was opened.
htmx.config.attributesToSettle = ["class"]; // a style that something has put on an element would be refused by the page's policy
document.addEventListener("click", async ({ target }) => {
  for (const open of document.querySelectorAll(".sure[open]")) if (!open.contains(target)) open.open = false;
  const button = target.closest("[data-copy]");
  if (!button) return;
  const link = button.parentNode.querySelector(".link");
  try {
    await navigator.clipboard.writeText(link.value);
  } catch { // without https there is no clipboard
    link.select();
    document.execCommand("copy");
    button.focus();
  }
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = "Copy"; }, 1_500);
});
document.addEventListener("focusin", ({ target }) => { if (target.matches(".link")) target.select(); });
document.addEventListener("keydown", ({ key }) => { if (key === "Escape") for (const open of document.querySelectorAll(".sure[open]")) open.open = false; });
document.addEventListener("htmx:afterSwap", ({ detail }) => {
  const done = document.querySelector("#links[data-done], #people[data-done]");
  if (done) report(done);
  else if (detail.target?.id === "notice") closable();
});

document.addEventListener("htmx:beforeRequest", (event) => { // what is about to be confirmed stays open
  if (event.target.id === "people" && event.target.querySelector(".sure[open]")) event.preventDefault();
});

let fading;
function report(links) { // what was done, and to whom
  const words = Object.assign(document.createElement("p"), { textContent: links.dataset.done });
  delete links.dataset.done;
  document.querySelector("#notice").replaceChildren(words);
  closable();
  fading = setTimeout(closeNotice, 9_000);
  links.querySelector(".changed :is([data-copy], summary)")?.focus();
  htmx.trigger("#figures", "anew");
}

function closable() {
  clearTimeout(fading);
  const notice = document.querySelector("#notice");
  if (!notice.childElementCount) return;
  const close = Object.assign(document.createElement("button"), { type: "button", textContent: "×" });
  close.setAttribute("aria-label", "Close");
  close.addEventListener("click", closeNotice);
  notice.append(close);
}

function closeNotice() { document.querySelector("#notice").replaceChildren(); }
