// Keys of the page on which the organiser settles disagreements, and zoom. Everything else is links and a form.
htmx.config.attributesToSettle = ["class"];

function meant(event) { // what a key presses: by its letter, or by its place on keyboards that have other letters
  const key = event.key === " " ? "Space" : event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const place = event.code.startsWith("Key") && !/^[ -~]$/.test(event.key) ? event.code.slice(3).toLowerCase() : key;
  return [...document.querySelectorAll("[data-key]")].find((one) => one.dataset.key.split(" ").some((name) => name === key || name === place));
}

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.target.closest?.("input:not([type=hidden]), textarea, select")) return;
  if ([" ", "Enter"].includes(event.key) && event.target.closest?.("button, a")) return; // which is pressed by it
  const target = meant(event);
  if (!target) return;
  event.preventDefault();
  if (!event.repeat && !document.querySelector(".htmx-request")) target.click();
});

function follow(event) { // both pictures at the same place
  const frame = event.target.closest?.(".frame"), stage = document.querySelector("#stage.zoomed");
  if (!frame || !stage) return;
  const { left, top, width, height } = frame.getBoundingClientRect();
  const share = (value) => `${Math.round(1000 * Math.min(1, Math.max(0, value))) / 10}%`;
  stage.style.setProperty("--x", share((event.clientX - left) / width));
  stage.style.setProperty("--y", share((event.clientY - top) / height));
}

document.addEventListener("click", (event) => {
  const stage = document.querySelector("#stage");
  if (!stage || !event.target.closest("[data-zoom], #stage .frame")) return;
  const on = stage.classList.toggle("zoomed");
  document.querySelector("[data-zoom]").setAttribute("aria-pressed", String(on));
  if (on) follow(event);
});
document.addEventListener("pointermove", follow);
document.addEventListener("htmx:afterSwap", () => { // keys are heard wherever the focus was; readers of screens begin with the pair
  if (document.activeElement === document.body) document.querySelector("#main")?.focus();
  document.querySelector("#said").textContent = document.querySelector(".votes")?.textContent ?? "";
});
