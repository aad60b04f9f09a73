// What the organiser's page does beyond links and forms: copying, and closing what was opened.
document.addEventListener("click", async ({ target }) => {
  for (const open of document.querySelectorAll(".sure[open]")) if (!open.contains(target)) open.open = false;
  const button = target.closest("[data-copy]");
  if (!button) return;
  const link = button.parentNode.querySelector(".link");
  link.select();
  try { await navigator.clipboard.writeText(link.value); } catch { document.execCommand("copy"); } // without https there is no clipboard
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = "Copy"; }, 1_500);
});
document.addEventListener("focusin", ({ target }) => { if (target.matches(".link")) target.select(); });
document.addEventListener("keydown", ({ key }) => { if (key === "Escape") for (const open of document.querySelectorAll(".sure[open]")) open.open = false; });
document.addEventListener("htmx:afterSwap", ({ detail }) => {
  const notice = document.querySelector("#notice");
  if (detail.target?.id !== "notice" || !notice.childElementCount) return;
  const close = Object.assign(document.createElement("button"), { type: "button", textContent: "×" });
  close.setAttribute("aria-label", "Close");
  close.addEventListener("click", () => notice.replaceChildren());
  notice.append(close);
});
