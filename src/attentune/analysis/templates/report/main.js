// The beginning: theme, grids, curves, explorer.

for (const section of document.querySelectorAll(".needs-script:not(#training)")) section.hidden = false;

const measureSelect = document.getElementById("measure");
for (const measure of data.measures.filter((one) => one.by_head)) {
  measureSelect.append(element("option", { value: measure.name, textContent: measure.title }));
}

function showGrids() {
  const measure = data.measures.find((one) => one.name === measureSelect.value);
  drawGrids(measure, (at) => {
    explorer.change(at);
    document.getElementById("explorer").scrollIntoView();
  });
}

measureSelect.addEventListener("change", showGrids);
theme.apply();
document.getElementById("theme").addEventListener("click", () => theme.next());
theme.system.addEventListener("change", () => theme.apply());
showGrids();
drawCurves();
if (data.explored.length && data.examples.length) explorer.begin();
theme.listeners.push(showGrids, drawCurves, () => {
  explorer.makeList();
  explorer.tellExample();
  explorer.draw();
});
