// The guide by itself: on the key G, and by its button.
(() => {
  const guide = document.querySelector("#guide");
  if (!guide) return;
  const open = () => {
    if (document.querySelector("dialog[open]")) return;
    const text = guide.querySelector(".guide");
    if (!text.childElementCount) text.append(...document.querySelector("#keys .guide").cloneNode(true).childNodes);
    guide.showModal();
    guide.scrollTop = 0;
    guide.dispatchEvent(new Event("open"));
  };
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.repeat) return;
    if (event.target.closest?.("input, select, textarea, [contenteditable]")) return;
    const isG = event.key.toLowerCase() === "g" || (!/^[ -~]$/.test(event.key) && event.code === "KeyG");
    if (isG && guide.open) guide.close();
    else if (isG) open();
  });
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-guide]")) open();
    if (event.target !== guide) return;
    const { left, right, top, bottom } = guide.getBoundingClientRect();
    if (event.clientX < left || event.clientX > right || event.clientY < top || event.clientY > bottom) guide.close();
  });
})();
