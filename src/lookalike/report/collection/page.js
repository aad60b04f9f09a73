// One choice of the model for groups and pairs alike.
const choosers = all(".by");
for (const chooser of choosers)
  chooser.addEventListener("change", ({ target }) => {
    for (const panel of all("[data-by]")) panel.hidden = panel.dataset.by !== target.value;
    for (const input of all("input", choosers.find((other) => other !== chooser) ?? chooser)) input.checked = input.value === target.value;
    for (const select of all(".by select")) select.value = target.value;
  });

await draw();
