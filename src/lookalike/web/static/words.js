// The box that searches names or looks, and the parts of a search. Every page works without.
(() => {
  const box = () => document.querySelector("#q");
  let removed = null; // the place of the part that was just removed

  document.addEventListener("change", ({ target }) => {
    if (!target.matches(".by input")) return;
    box().placeholder = box().dataset[target.value];
    box().form.classList.toggle("looks", target.value === "looks");
  });
  document.addEventListener("click", (event) => {
    if (event.target.closest(".by label") && event.detail > 0) setTimeout(() => box().focus()); // by pointer: go on typing
    const link = event.target.closest(".part .remove");
    if (link) removed = [...document.querySelectorAll(".part .remove")].indexOf(link);
  });
  document.addEventListener("keydown", (event) => {
    if (!event.target.matches(".part .remove") || !["Delete", "Backspace"].includes(event.key)) return;
    event.preventDefault();
    event.stopPropagation(); // Backspace would go back
    event.target.click();
  }, true);
  document.addEventListener("htmx:afterSettle", () => {
    if (removed === null) return;
    const left = [...document.querySelectorAll(".part .remove")];
    (left[Math.min(removed, left.length - 1)] ?? document.querySelector(".back") ?? box()).focus();
    removed = null;
  });
})();
