// Pictures on canvas: a map, its lines from token to token, and the maps of all heads.

const FONT = '"Segoe UI", Roboto, "Helvetica Neue", "Liberation Sans", Arial, sans-serif';

/** Make a canvas as sharp as the screen, in CSS pixels; returns its context. */
function prepared(canvas, width, height) {
  const dots = window.devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(width * dots));
  canvas.height = Math.max(1, Math.round(height * dots));
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.setTransform(dots, 0, 0, dots, 0, 0);
  return context;
}

const clipped = (text, letters) => (text.length > letters ? `${text.slice(0, letters - 1)}…` : text);

/** Where the cells of a map of n tokens lie on a canvas of some width. */
function mapLayout(n, width) {
  const margin = (width - 56) / n >= 7.6 ? 56 : 0;
  const size = width - margin;
  return { n, margin, size, cell: size / n, height: size + margin };
}

/** Which part of its scale a value has, from 0 to 1. */
function partOf(value, most, shade, isDifference) {
  const share = most > 0 ? Math.min(1, Math.abs(value) / most) : 0;
  const part = shade === "root" ? Math.sqrt(share) : share;
  return isDifference ? 0.5 + 0.5 * Math.sign(value) * part : part;
}

function drawMap(canvas, matrix, tokens, most, shade, isDifference) {
  const layout = mapLayout(matrix.n, canvas.clientWidth);
  const context = prepared(canvas, canvas.clientWidth, layout.height);
  const pixels = pixelsOf(isDifference ? "diverging" : "sequential");
  const image = new ImageData(matrix.n, matrix.n);
  const into = new Uint32Array(image.data.buffer);
  for (let i = 0; i < into.length; i++) {
    into[i] = pixels[Math.round(255 * partOf(matrix.values[i], most, shade, isDifference))];
  }
  const small = new OffscreenCanvas(matrix.n, matrix.n);
  small.getContext("2d").putImageData(image, 0, 0);
  context.imageSmoothingEnabled = false;
  context.drawImage(small, layout.margin, 0, layout.size, layout.size);
  context.strokeStyle = variable("--rule");
  context.lineWidth = 1;
  context.strokeRect(layout.margin + 0.5, 0.5, layout.size - 1, layout.size - 1);
  if (layout.margin) drawLabels(context, layout, tokens, () => variable("--soft"));
  const base = new OffscreenCanvas(canvas.width, canvas.height);
  base.getContext("2d").drawImage(canvas, 0, 0);
  return { layout, base };
}

function drawLabels(context, layout, tokens, colour, only = null) {
  context.font = `${Math.min(11, Math.max(8.5, layout.cell))}px ${FONT}`;
  tokens.forEach(([text], i) => {
    if (only && !only.rows.includes(i) && !only.columns.includes(i)) return;
    const middle = (i + 0.5) * layout.cell;
    context.fillStyle = colour(i);
    context.textBaseline = "middle";
    context.textAlign = "right";
    if (!only || only.rows.includes(i)) context.fillText(clipped(text, 10), layout.margin - 5, middle);
    if (only && !only.columns.includes(i)) return;
    context.save();
    context.translate(layout.margin + middle, layout.size + 5);
    context.rotate(-Math.PI / 2);
    context.fillText(clipped(text, 10), 0, 0);
    context.restore();
  });
}

/** The crosshair of a cell, over what `drawMap` has drawn. */
function drawCell(canvas, picture, tokens, cell) {
  const context = canvas.getContext("2d");
  context.save();
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.clearRect(0, 0, canvas.width, canvas.height);
  context.drawImage(picture.base, 0, 0);
  context.restore();
  if (!cell) return;
  const { layout } = picture;
  const [x, y] = [layout.margin + cell.k * layout.cell, cell.q * layout.cell];
  const accent = variable("--ink");
  context.strokeStyle = accent;
  context.globalAlpha = 0.5;
  context.lineWidth = 1;
  context.strokeRect(layout.margin, y, layout.size, layout.cell);
  context.strokeRect(x, 0, layout.cell, layout.size);
  context.globalAlpha = 1;
  context.lineWidth = 2;
  context.strokeRect(x - 1, y - 1, layout.cell + 2, layout.cell + 2);
  if (layout.margin) {
    context.clearRect(0, y - 4, layout.margin - 1, layout.cell + 8);
    context.clearRect(x - 4, layout.size + 2, layout.cell + 8, layout.margin);
    drawLabels(context, layout, tokens, () => accent, { rows: [cell.q], columns: [cell.k] });
  }
}

/** Lines from the queries, on the left, to the keys, on the right; those of one query stand out where there is one. */
function drawLines(canvas, matrix, tokens, most, colourOf, query) {
  const { n, values } = matrix;
  const row = n <= 40 ? 16 : n <= 80 ? 9 : 4.5;
  const width = canvas.clientWidth;
  const named = row >= 9;
  const context = prepared(canvas, width, n * row + 8);
  context.font = `${row >= 16 ? 11.5 : 8.5}px ${FONT}`;
  const widest = Math.max(...tokens.map(([text]) => context.measureText(clipped(text, 13)).width));
  const side = named ? Math.min(widest + 2, width * 0.3) : 12;
  const [left, right] = [side + 4, width - side - 4];
  const middle = (i) => 4 + (i + 0.5) * row;
  context.lineWidth = row >= 9 ? 1.4 : 1;
  for (let q = 0; q < n; q++) {
    const muted = query !== null && q !== query;
    for (let k = 0; k < n; k++) {
      const value = values[q * n + k];
      const strength = Math.abs(value) / most;
      if (!(strength > 0.04)) continue;
      context.globalAlpha = muted ? 0.035 * strength : Math.min(1, query === null ? 0.85 * strength : 0.15 + strength);
      context.strokeStyle = colourOf(value);
      context.beginPath();
      context.moveTo(left, middle(q));
      context.bezierCurveTo(left + 0.4 * (right - left), middle(q), right - 0.4 * (right - left), middle(k), right, middle(k));
      context.stroke();
    }
  }
  context.globalAlpha = 1;
  if (!named) return row;
  context.textBaseline = "middle";
  tokens.forEach(([text], i) => {
    const stands = query === null || i === query;
    context.fillStyle = variable(stands ? "--ink" : "--faint");
    context.textAlign = "right";
    context.fillText(clipped(text, 13), side, middle(i));
    context.fillStyle = variable("--ink");
    context.textAlign = "left";
    context.fillText(clipped(text, 13), width - side, middle(i));
  });
  return row;
}

/** The maps of all heads, a row a layer; `partAt(layer, head)` gives a function of the place in the codes. */
function drawHeads(canvas, layers, heads, n, pixelAt, chosen) {
  const names = 22;
  const gap = 6;
  const cell = (Math.min(900, canvas.clientWidth) - names - gap * (heads - 1)) / heads;
  const layout = { names, gap, cell, layers, heads, height: names + layers * (cell + gap) };
  const context = prepared(canvas, canvas.clientWidth, layout.height);
  const image = new ImageData(n, n);
  const into = new Uint32Array(image.data.buffer);
  const small = new OffscreenCanvas(n, n);
  const smallContext = small.getContext("2d");
  context.imageSmoothingEnabled = n > cell;
  context.imageSmoothingQuality = "high";
  context.font = `11px ${FONT}`;
  context.textBaseline = "middle";
  for (let layer = 0; layer < layers; layer++) {
    const y = names + layer * (cell + gap);
    context.fillStyle = variable("--soft");
    context.textAlign = "right";
    context.fillText(String(layer), names - 8, y + cell / 2);
    for (let head = 0; head < heads; head++) {
      const x = names + head * (cell + gap);
      const start = (layer * heads + head) * n * n;
      for (let k = 0, at = start; k < n; k++) for (let q = 0; q < n; q++, at++) into[q * n + k] = pixelAt(at);
      smallContext.putImageData(image, 0, 0);
      context.drawImage(small, x, y, cell, cell);
      const isChosen = (chosen.layer === MEAN || chosen.layer === layer) && (chosen.head === MEAN || chosen.head === head);
      const stands = isChosen && (chosen.layer !== MEAN || chosen.head !== MEAN);
      context.strokeStyle = variable(stands ? "--accent" : "--line");
      context.lineWidth = stands ? 2.5 : 1;
      context.strokeRect(x - 0.5, y - 0.5, cell + 1, cell + 1);
    }
  }
  context.fillStyle = variable("--soft");
  context.textAlign = "center";
  for (let head = 0; head < heads; head++) context.fillText(String(head), names + head * (cell + gap) + cell / 2, names / 2);
  return layout;
}
