// The end of what an open link offers: the completion code can be copied.
const code = document.querySelector(".code input");
code?.addEventListener("focus", () => code.select());
document.querySelector("[data-copy]")?.addEventListener("click", async ({ currentTarget }) => {
  try {
    await navigator.clipboard.writeText(code.value);
  } catch { // without https there is no clipboard
    code.select();
    document.execCommand("copy");
    currentTarget.focus();
  }
  currentTarget.textContent = "Copied";
  document.querySelector("#said").textContent = "The code was copied";
});
