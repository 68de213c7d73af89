// The charts: grids of layers and heads, and training curves.

function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key === "class") made.className = value;
    else if (key in made) made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

function drawn(name, attributes, text = "") {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text;
  return made;
}

const tip = {
  box: document.querySelector(".tip"),
  show(event, text) {
    this.box.textContent = text;
    this.box.hidden = false;
    const { offsetWidth: width, offsetHeight: height } = this.box;
    this.box.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - width - 8))}px`;
    this.box.style.top = `${event.clientY + height + 22 > innerHeight ? event.clientY - height - 10 : event.clientY + 16}px`;
  },
  hide() {
    this.box.hidden = true;
  },
};

const minus = (text) => text.replace("-", "−");
const percent = (value, digits = 1) => minus(`${(100 * value).toFixed(digits)} %`);
const points = (value) => minus(`${value < 0 ? "" : "+"}${(100 * value).toFixed(1)} points`);

function written(value, isShare, sign = false) {
  const plus = sign && value >= 0 ? "+" : "";
  return plus + (isShare ? percent(value) : minus(value.toFixed(3)));
}

/** The grids of one measure: one for each arm, and the difference between the last run and the first. */
function drawGrids(measure, choose) {
  const place = document.querySelector(".grids");
  const trained = data.arms.flatMap((arm, i) => (arm.trained ? [i] : []));
  const grids = data.arms.map((arm) => ({ title: arm.title, grid: arm.grids[measure.name], isDifference: false }));
  const base = trained.length > 1 ? trained[0] : data.arms.findIndex((arm) => !arm.trained);
  const last = trained[trained.length - 1];
  if (base >= 0 && base !== last && sameShape(grids[base].grid, grids[last].grid)) {
    const grid = grids[last].grid.map((row, l) =>
      row.map((value, h) => (value === null || grids[base].grid[l][h] === null ? null : value - grids[base].grid[l][h])),
    );
    grids.push({ title: `${data.arms[last].title} − ${data.arms[base].title}`, grid, isDifference: true });
  }
  const known = grids.filter((one) => !one.isDifference).flatMap((one) => one.grid.flat()).filter((v) => v !== null);
  const [low, high] = [Math.min(...known), Math.max(...known)];
  place.replaceChildren(
    ...grids.map((one) => {
      const most = Math.max(...one.grid.flat().map((v) => Math.abs(v ?? 0)), 1e-9);
      const partIn = (v) => (one.isDifference ? 0.5 + (0.5 * v) / most : (v - low) / (high - low || 1));
      const ends = one.isDifference ? [-most, most] : [low, high];
      return gridFigure(one, measure, partIn, ends, choose);
    }),
  );
}

const sameShape = (one, other) => one && other && one.length === other.length && one[0].length === other[0].length;

function gridFigure({ title, grid, isDifference }, measure, partIn, ends, choose) {
  const [layers, heads] = [grid.length, grid[0].length];
  const names = 20;
  const cell = Math.min(22, (Math.min(innerWidth - 60, 420) - names) / heads);
  const [width, height] = [names + heads * cell, names + layers * cell];
  const canvas = element("canvas", { role: "img", "aria-label": `${measure.title} by layer and head: ${title}` });
  canvas.style.width = `${width}px`;
  const scale = isDifference ? "diverging" : "sequential";
  const context = prepared(canvas, width, height);
  context.font = `10.5px ${FONT}`;
  context.textBaseline = "middle";
  context.textAlign = "center";
  grid.forEach((row, layer) => {
    row.forEach((value, head) => {
      if (value !== null) context.fillStyle = css(shadeOf(scale, partIn(value)));
      else context.fillStyle = variable("--line");
      context.fillRect(names + head * cell, names + layer * cell, cell - 1, cell - 1);
    });
    context.fillStyle = variable("--soft");
    context.fillText(String(layer), names / 2 - 2, names + (layer + 0.5) * cell);
  });
  for (let head = 0; head < heads; head++) context.fillText(String(head), names + (head + 0.5) * cell, names / 2);
  const under = (event) => {
    const box = canvas.getBoundingClientRect();
    const head = Math.floor((event.clientX - box.left - names) / cell);
    const layer = Math.floor((event.clientY - box.top - names) / cell);
    return head >= 0 && head < heads && layer >= 0 && layer < layers ? { layer, head } : null;
  };
  canvas.addEventListener("pointermove", (event) => {
    const at = under(event);
    if (!at) return tip.hide();
    const value = grid[at.layer][at.head];
    const told = value === null ? "nothing to measure" : written(value, measure.share, isDifference);
    return tip.show(event, `layer ${at.layer}, head ${at.head}\n${told}`);
  });
  canvas.addEventListener("pointerleave", () => tip.hide());
  canvas.addEventListener("click", (event) => {
    const at = under(event);
    if (at) choose(at);
  });
  const legend = legendOf(scale, ...ends.map((end) => written(end, measure.share, isDifference)));
  return element("figure", {}, element("figcaption", { textContent: title }), canvas, legend);
}

/** A bar of a scale between the two values at its ends. */
function legendOf(scale, low, high, title = "") {
  const bar = element("canvas", { width: 256, height: 1 });
  const context = bar.getContext("2d");
  for (let i = 0; i < 256; i++) {
    context.fillStyle = css(shadeOf(scale, i / 255));
    context.fillRect(i, 0, 1, 1);
  }
  return element("span", { class: "legend" }, ...(title ? [`${title}: `] : []), low, bar, high);
}

/** One chart for the task's loss and one for each term of a guide, a line a run. */
function drawCurves() {
  const place = document.querySelector(".curves");
  const terms = [...new Set(data.arms.flatMap((arm) => Object.keys(arm.curves)))];
  if (!terms.length) return;
  document.getElementById("training").hidden = false;
  const runs = data.arms.flatMap((arm, i) => (Object.keys(arm.curves).length ? [i] : []));
  const keys = runs.map((i) => {
    const key = element("span", { class: "key" });
    key.style.color = runColour(i);
    return element("span", {}, key, data.arms[i].title);
  });
  place.replaceChildren(element("div", { class: "legend-line" }, ...keys), ...terms.map((term) => curveFigure(term, runs)));
}

function curveFigure(term, runs) {
  const [width, height, left, bottom] = [300, 168, 38, 22];
  const lines = runs.filter((i) => data.arms[i].curves[term]).map((i) => ({ arm: i, ...data.arms[i].curves[term] }));
  const steps = lines.flatMap((line) => line.steps);
  const values = lines.flatMap((line) => line.values);
  const most = Math.max(...steps);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const x = (step) => left + ((width - left - 8) * step) / (most || 1);
  const y = (value) => 8 + (height - bottom - 12) * (1 - (value - low) / (high - low || 1));
  const svg = drawn("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${term} by step` });
  for (const value of [low, (low + high) / 2, high]) {
    svg.append(drawn("line", { class: "tick", x1: left, x2: width - 8, y1: y(value), y2: y(value) }));
    svg.append(drawn("text", { x: left - 6, y: y(value) + 3.5, "text-anchor": "end" }, Number(value.toPrecision(3)).toString()));
  }
  for (const step of [0, Math.round(most / 2), most]) {
    const anchor = step === 0 ? "start" : step === most ? "end" : "middle";
    svg.append(drawn("text", { x: x(step), y: height - 5, "text-anchor": anchor }, step === most ? `step ${step}` : String(step)));
  }
  svg.append(drawn("line", { class: "axis", x1: left, x2: width - 8, y1: height - bottom + 2, y2: height - bottom + 2 }));
  for (const line of lines) {
    const path = line.steps.map((step, i) => `${i ? "L" : "M"}${x(step).toFixed(1)} ${y(line.values[i]).toFixed(1)}`).join("");
    const group = drawn("g", {});
    group.style.color = runColour(line.arm);
    group.append(drawn("path", { d: path }));
    if (line.steps.length === 1) group.append(drawn("circle", { cx: x(line.steps[0]), cy: y(line.values[0]), r: 2.5 }));
    svg.append(group);
  }
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const step = (((event.clientX - box.left) / box.width) * width - left) * (most / (width - left - 8));
    const near = lines.map((line) => {
      const i = line.steps.reduce((best, s, at) => (Math.abs(s - step) < Math.abs(line.steps[best] - step) ? at : best), 0);
      return `${data.arms[line.arm].title}, step ${line.steps[i]}: ${line.values[i].toPrecision(4)}`;
    });
    tip.show(event, near.join("\n"));
  });
  svg.addEventListener("pointerleave", () => tip.hide());
  return element("figure", {}, element("figcaption", { textContent: term === "task loss" ? term : `guide: ${term}` }), svg);
}
