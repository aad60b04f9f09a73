// Whole paths below pictures, and the path of one picture in the clipboard.
const PATHS = "lookalike-paths";
const showPaths = (on) => {
  document.documentElement.classList.toggle("paths", on);
  try { sessionStorage.setItem(PATHS, on ? "1" : ""); } catch { /* then the next page forgets it */ }
};
try { showPaths(sessionStorage.getItem(PATHS) === "1"); } catch { /* they are not shown */ }

async function copyPath() {
  const path = (document.activeElement?.closest("[data-path]") ?? document.querySelector("[data-path]:hover"))?.dataset.path;
  if (!path) return notify("Nothing to copy", "Choose a picture first, by the arrows or by pointing at it.");
  try {
    await navigator.clipboard.writeText(path);
    notify("Copied", path);
  } catch {
    notify("Not copied", `The browser does not allow it. The path is ${path}`);
  }
}

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.target.matches("input:not([type=file]), select, textarea, [contenteditable]")) return;
  if (event.key === "P") showPaths(!document.documentElement.classList.contains("paths"));
  else if (event.key === "c") copyPath();
  else return;
  event.preventDefault();
});
