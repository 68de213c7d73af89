// The explorer: which example, layer, head and runs are looked at, and everything that follows from it.

const explorer = {
  box: document.querySelector(".explorer"),
  example: 0,
  layer: MEAN,
  head: MEAN,
  left: 0,
  right: data.explored.length > 1 ? 1 : 0,
  shade: "root",
  filter: "all",
  heads: "difference",
  cell: null,
  held: false,
  drawing: 0,
  panels: {},

  find(selector) {
    return this.box.querySelector(selector);
  },
  title: (slot) => data.arms[store.arm(slot)].title,

  begin() {
    this.box.hidden = false;
    for (const panel of this.box.querySelectorAll(".panel")) {
      const name = panel.dataset.panel;
      this.panels[name] = { map: panel.querySelector(".map"), lines: panel.querySelector(".lines"), caption: panel.querySelector("figcaption") };
      this.watchMap(this.panels[name]);
    }
    this.makeFilters();
    this.makeSelects();
    this.watchKeys();
    this.watchHeads();
    let width = 0;
    new ResizeObserver(([{ contentRect }]) => {
      if (contentRect.width && contentRect.width !== width) this.draw();
      width = contentRect.width || width;
    }).observe(this.find(".panels"));
    Object.assign(this, this.mostChanged());
    this.go(0);
  },

  /** The head whose place among the heads has changed most, to begin with. */
  mostChanged() {
    const [one, other] = [this.left, this.right].map((slot) => data.arms[store.arm(slot)].grids.diversity);
    let most = { layer: MEAN, head: MEAN, change: 0 };
    if (!sameShape(one, other)) return {};
    one.forEach((row, layer) => {
      row.forEach((value, head) => {
        const change = Math.abs((other[layer][head] ?? 0) - (value ?? 0));
        if (change > most.change) most = { layer, head, change };
      });
    });
    return { layer: most.layer, head: most.head };
  },

  // What can be chosen.

  makeFilters() {
    const kinds = { all: "All", interesting: data.arms.filter((arm) => arm.trained).length > 1 ? "Disagree" : "Wrong", maps: "With maps" };
    const buttons = Object.entries(kinds).flatMap(([kind, title]) => {
      const count = data.examples.filter((_, i) => this.passes(i, kind)).length;
      if (kind !== "all" && (count === 0 || (kind === "maps" && count === data.examples.length))) return [];
      const button = element("button", { type: "button", textContent: `${title} ${count}`, "aria-pressed": kind === "all" });
      button.addEventListener("click", () => {
        this.filter = kind;
        for (const other of buttons) other.setAttribute("aria-pressed", other === button);
        this.makeList();
      });
      return [button];
    });
    this.find(".filters").replaceChildren(...buttons);
    this.makeList();
  },

  passes(i, kind) {
    return kind === "all" || (kind === "maps" ? store.hasMaps(i) && !store.hasMeans(i) : data.examples[i].interesting);
  },

  makeList() {
    const rows = data.examples.flatMap((example, i) => {
      if (!this.passes(i, this.filter)) return [];
      const marks = example.answers.flatMap((answer, arm) => {
        if (!answer) return [];
        const said = answer.right === undefined ? answer.label : answer.right ? "✓" : "✗";
        const mark = element("span", { textContent: `${said} ${data.arms[arm].title}` });
        mark.style.color = runColour(arm);
        return [mark];
      });
      const text = example.pair === null ? example.text : `${example.text} ⁄ ${example.pair}`;
      const button = element(
        "button",
        { type: "button", "data-example": i, "aria-current": i === this.example },
        element("span", { class: "clip", textContent: text }),
        element("span", { class: "marks" }, ...marks),
      );
      button.addEventListener("click", () => this.go(i));
      return [element("li", {}, button)];
    });
    this.find(".examples").replaceChildren(...rows);
  },

  makeSelects() {
    const options = (select, entries) => {
      this.find(select).replaceChildren(...entries.map(([value, text]) => element("option", { value, textContent: text })));
    };
    const numbers = (count, mean) => [[MEAN, mean], ...Array.from({ length: count }, (_, i) => [i, String(i)])];
    options("#layer", numbers(store.layers(0), "mean of all"));
    options("#head", numbers(store.heads(0), "mean of all"));
    for (const side of ["left", "right"]) {
      options(`#${side}`, data.explored.map((_, slot) => [slot, this.title(slot)]));
      this.find(`#${side}`).addEventListener("change", (event) => this.change({ [side]: Number(event.target.value) }));
    }
    for (const what of ["layer", "head"]) {
      this.find(`#${what}`).addEventListener("change", (event) => this.change({ [what]: Number(event.target.value) }));
    }
    this.find("#shade").addEventListener("change", (event) => this.change({ shade: event.target.value }));
    for (const button of this.box.querySelectorAll("[data-step]")) {
      button.addEventListener("click", () => this.step(button.dataset.step, Number(button.dataset.by)));
    }
    const kinds = ["left", "right", "difference"];
    this.segments = kinds.map((kind) => {
      const button = element("button", { type: "button", "data-heads": kind });
      button.addEventListener("click", () => this.change({ heads: kind }));
      return button;
    });
    this.find(".segments").replaceChildren(...this.segments);
  },

  step(what, by) {
    const count = what === "layer" ? store.layers(this.left) : store.heads(this.left);
    this.change({ [what]: ((this[what] + 1 + by + count + 1) % (count + 1)) - 1 });
  },

  change(changes) {
    Object.assign(this, changes);
    this.draw();
  },

  go(example) {
    this.example = example;
    this.cell = null;
    this.held = false;
    for (const button of this.box.querySelectorAll("[data-example]")) {
      const isThis = Number(button.dataset.example) === example;
      button.setAttribute("aria-current", isThis);
      if (isThis) {
        const [list, row] = [this.find(".examples"), button.parentElement];
        if (row.offsetTop < list.scrollTop) list.scrollTop = row.offsetTop;
        if (row.offsetTop + row.offsetHeight > list.scrollTop + list.clientHeight) list.scrollTop = row.offsetTop + row.offsetHeight - list.clientHeight;
      }
    }
    this.tellExample();
    this.draw();
  },

  tellExample() {
    const example = data.examples[this.example];
    this.find(".gold").replaceChildren(`Example ${example.id} · true label `, element("b", { textContent: example.label }));
    const answers = example.answers.flatMap((answer, arm) => {
      if (!answer) return [];
      const isNumber = answer.right === undefined;
      const sure = answer.p[answer.label] ?? 0;
      const filled = element("span");
      filled.style.width = `${100 * sure}%`;
      const who = element("span", { textContent: data.arms[arm].title });
      const bar = element("span", { class: "bar" }, filled);
      who.style.color = bar.style.color = runColour(arm);
      const said = isNumber
        ? element("span", { class: "said", textContent: answer.label })
        : element("span", { class: `said ${answer.right ? "right" : "wrong"}`, textContent: `${answer.label} ${percent(sure, 0)}` });
      return [element("span", { class: "answer" }, who, ...(isNumber ? [] : [bar]), said)];
    });
    this.find(".answers").replaceChildren(...answers);
  },

  // What is drawn. Nothing is drawn of an example that is no longer looked at when its maps are unpacked.

  async draw() {
    const turn = ++this.drawing;
    this.box.setAttribute("aria-busy", "true");
    await this.drawAll(turn);
    if (turn === this.drawing) this.box.setAttribute("aria-busy", "false");
  },

  async drawAll(turn) {
    const { example } = this;
    this.find("#layer").value = this.layer;
    this.find("#head").value = this.head;
    this.find("#left").value = this.left;
    this.find("#right").value = this.right;
    const everyHead = store.hasMaps(example) && !store.hasMeans(example);
    this.find("#head").disabled = !everyHead;
    this.segments.forEach((button, i) => {
      button.textContent = [this.title(this.left), this.title(this.right), "Difference"][i];
      button.setAttribute("aria-pressed", this.heads === button.dataset.heads);
    });
    this.find(".panels").hidden = !store.hasMaps(example);
    this.find(".overview").hidden = !everyHead;
    this.find(".missing").hidden = everyHead;
    const whole = data.examples.filter((_, i) => this.passes(i, "maps")).length;
    this.find(".missing").textContent = `The file had room for the maps of all heads of ${whole} examples, and this one is not among them. Of it there ${store.hasMeans(example) ? "is the mean over the heads of each layer" : "is what the words receive from each layer, the mean over its heads"}.`;
    const slots = [this.left, this.right];
    const tokens = slots.map((slot) => store.tokens(example, slot));
    const comparable = tokens[0].length === tokens[1].length && tokens[0].every(([text], i) => text === tokens[1][i][0]);
    if (!store.hasMaps(example)) {
      this.shown = { tokens, comparable, shares: slots.map((slot) => store.receivedWithoutMaps(example, slot, this.layer)) };
      this.drawWords();
      this.tell();
      return;
    }
    const exists = (slot) => this.layer < store.layers(slot) && this.head < store.heads(slot);
    if (!slots.every(exists)) {
      this.layer = Math.min(this.layer, ...slots.map((slot) => store.layers(slot) - 1));
      this.head = Math.min(this.head, ...slots.map((slot) => store.heads(slot) - 1));
    }
    const matrices = await Promise.all(slots.map((slot) => store.matrix(example, slot, this.layer, this.head)));
    if (turn !== this.drawing) return;
    const difference = comparable ? { n: matrices[0].n, values: matrices[1].values.map((value, i) => value - matrices[0].values[i]) } : null;
    const most = Math.max(...matrices.map((matrix) => matrix.values.reduce((a, b) => Math.max(a, b), 0)));
    const apart = difference ? difference.values.reduce((a, b) => Math.max(a, Math.abs(b)), 0) : 0;
    this.shown = { tokens, comparable, matrices, difference, most, apart, shares: matrices.map((matrix) => store.received(matrix)) };
    this.drawPanels();
    this.drawWords();
    this.drawLegends();
    this.tell();
    if (everyHead) await this.drawOverview(turn);
  },

  where() {
    const layer = this.layer === MEAN ? "all layers" : `layer ${this.layer}`;
    return `${layer}, ${this.head === MEAN || this.find("#head").disabled ? "all heads" : `head ${this.head}`}`;
  },

  drawPanels() {
    const { matrices, difference, most, apart, tokens } = this.shown;
    const shown = { left: matrices[0], right: matrices[1], difference };
    const titles = { left: this.title(this.left), right: this.title(this.right), difference: `${this.title(this.right)} − ${this.title(this.left)}` };
    for (const [name, panel] of Object.entries(this.panels)) {
      const matrix = shown[name];
      const isDifference = name === "difference";
      panel.caption.textContent = matrix ? titles[name] : `${titles[name]}: the tokens are not the same`;
      panel.map.hidden = panel.lines.hidden = !matrix;
      panel.picture = null;
      if (!matrix) continue;
      panel.matrix = matrix;
      panel.tokens = tokens[name === "right" ? 1 : 0];
      panel.picture = drawMap(panel.map, matrix, panel.tokens, isDifference ? apart : most, this.shade, isDifference);
      panel.map.setAttribute("aria-label", `Map of ${titles[name]}, ${this.where()}; arrow keys go from cell to cell`);
      panel.lines.setAttribute("aria-label", `Lines from token to token: ${titles[name]}, ${this.where()}`);
    }
    this.drawSelection();
  },

  drawSelection() {
    const query = this.cell ? this.cell.q : null;
    const colours = { left: runColour(store.arm(this.left)), right: runColour(store.arm(this.right)) };
    const [less, more] = [css(shadeOf("diverging", 0)), css(shadeOf("diverging", 1))];
    for (const [name, panel] of Object.entries(this.panels)) {
      if (!panel.picture) continue;
      drawCell(panel.map, panel.picture, panel.tokens, this.cell);
      const colourOf = name === "difference" ? (value) => (value < 0 ? less : more) : () => colours[name];
      drawLines(panel.lines, panel.matrix, panel.tokens, name === "difference" ? this.shown.apart : this.shown.most, colourOf, query);
    }
  },

  /** The words, shaded by what they receive, or by what the chosen word gives them; 1 is an even share. */
  drawWords() {
    const { tokens, matrices, shares, comparable } = this.shown;
    const query = this.cell ? this.cell.q : null;
    const of = (side) => {
      const from = query === null || !matrices ? shares[side] : matrices[side].values.subarray(query * tokens[side].length, (query + 1) * tokens[side].length);
      return Array.from(from, (share) => share * tokens[side].length);
    };
    const sides = [of(0), of(1)];
    const rows = [0, 1].map((side) => this.wordRow(this.title([this.left, this.right][side]), runColour(store.arm([this.left, this.right][side])), tokens[side], sides[side], "sequential"));
    if (comparable && this.left !== this.right) {
      const change = sides[1].map((value, i) => value - sides[0][i]);
      rows.push(this.wordRow("difference", "", tokens[0], change, "diverging"));
    }
    this.find(".shaded").replaceChildren(...(this.left === this.right ? rows.slice(0, 1) : rows));
  },

  wordRow(title, colour, tokens, shares, scale) {
    const who = element("span", { class: "who", textContent: title });
    if (colour) who.style.color = colour;
    const words = element("span", { class: "words" });
    tokens.forEach(([text, kind], i) => {
      const part = Math.min(1, Math.abs(shares[i]) / 8) ** 0.85;
      const rgb = shadeOf(scale, scale === "diverging" ? 0.5 + 0.5 * Math.sign(shares[i]) * part : part);
      const word = element("span", { class: `word${kind === 2 ? " special" : ""}${this.cell && this.cell.q === i ? " query" : ""}`, textContent: text, "data-token": i });
      word.style.background = css(rgb);
      word.style.color = inkOn(rgb);
      if (i && kind !== 1) words.append(" ");
      words.append(word);
      const sign = scale === "diverging" && shares[i] >= 0 ? "+" : "";
      word.addEventListener("pointermove", (event) => tip.show(event, minus(`${text}\n${sign}${shares[i].toFixed(2)} × an even share`)));
      word.addEventListener("pointerleave", () => tip.hide());
      word.addEventListener("click", () => {
        const again = this.held && this.cell && this.cell.q === i;
        this.held = !again;
        this.choose(again ? null : { q: i, k: this.cell ? this.cell.k : i });
      });
    });
    return element("div", { class: "row" }, who, words);
  },

  drawLegends() {
    const { most, apart, difference } = this.shown;
    const root = this.shade === "root" ? "√ scale" : "even scale";
    const legends = [legendOf("sequential", "0", percent(most), `maps, ${root}`), legendOf("sequential", "0", "8 ×", "words, times an even share")];
    if (difference) legends.push(legendOf("diverging", points(-apart), points(apart), "difference"));
    this.find(".legends").replaceChildren(...legends);
  },

  async drawOverview(turn) {
    const slots = this.heads === "difference" ? [this.left, this.right] : [this[this.heads]];
    const codes = await Promise.all(slots.map((slot) => store.codes(this.example, slot)));
    if (turn !== this.drawing) return;
    const canvas = this.find(".heads");
    const n = this.shown.tokens[0].length;
    const isDifference = slots.length > 1;
    if (isDifference && (!this.shown.comparable || codes[0].length !== codes[1].length)) {
      prepared(canvas, canvas.clientWidth, 1);
      this.headLayout = null;
      return;
    }
    const pixels = pixelsOf(isDifference ? "diverging" : "sequential");
    let pixelAt;
    if (isDifference) {
      const apart = (at) => store.squares[codes[1][at]] - store.squares[codes[0][at]];
      pixelAt = (at) => {
        const value = apart(at);
        return pixels[Math.round(127.5 + 127.5 * Math.sign(value) * Math.min(1, Math.sqrt(Math.abs(value) / 0.6)))];
      };
    } else {
      const table = Uint32Array.from({ length: 256 }, (_, code) => pixels[Math.min(255, Math.round((255 * code) / data.steps))]);
      pixelAt = (at) => table[codes[0][at]];
    }
    const own = store.tokens(this.example, slots[0]).length;
    this.headLayout = drawHeads(canvas, store.layers(slots[0]), store.heads(slots[0]), own || n, pixelAt, { layer: this.layer, head: this.head });
  },

  /** One sentence on the cell, or on what can be done. */
  tell() {
    const readout = this.find(".readout");
    const { matrices, tokens, difference, comparable } = this.shown;
    if (!this.cell || !matrices) {
      const hint = matrices ? " Point at a cell to read it; click a word to see where it looks." : "";
      readout.replaceChildren(`Words are shaded by the attention that they receive: ${this.where()}.${hint}`);
      return;
    }
    const { q, k } = this.cell;
    const n = matrices[0].n;
    const figure = (title, text) => element("span", { class: "figure" }, `${title} `, element("b", { textContent: text }));
    const parts = [element("b", { textContent: `${tokens[0][q][0]} → ${tokens[0][k][0]}` }), ` (${this.where()}): `];
    [this.left, this.right].forEach((slot, side) => {
      if (side === 0 || comparable) parts.push(figure(this.title(slot), percent(matrices[side].values[q * n + k])));
    });
    if (difference) parts.push(figure("difference", points(difference.values[q * n + k])));
    readout.replaceChildren(...parts);
  },

  // Pointing and keys.

  choose(cell) {
    this.cell = cell;
    this.drawSelection();
    this.drawWords();
    this.tell();
  },

  watchMap(panel) {
    const under = (event) => {
      if (!panel.picture) return null;
      const { layout } = panel.picture;
      const box = panel.map.getBoundingClientRect();
      const k = Math.floor((event.clientX - box.left - layout.margin) / layout.cell);
      const q = Math.floor((event.clientY - box.top) / layout.cell);
      return q >= 0 && q < layout.n && k >= 0 && k < layout.n ? { q, k } : null;
    };
    const same = (one, other) => one && other && one.q === other.q && one.k === other.k;
    panel.map.addEventListener("pointermove", (event) => {
      const cell = under(event);
      if (!this.held && !same(cell, this.cell)) this.choose(cell);
    });
    panel.map.addEventListener("pointerleave", () => {
      if (!this.held) this.choose(null);
    });
    panel.map.addEventListener("click", (event) => {
      const cell = under(event);
      this.held = Boolean(cell) && !(this.held && same(cell, this.cell));
      this.choose(cell);
    });
    panel.map.addEventListener("keydown", (event) => {
      const by = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
      if (!panel.picture || (!by && event.key !== "Enter")) return;
      event.preventDefault();
      const { n } = panel.matrix;
      this.held = event.key === "Enter" ? !this.held : true;
      const at = this.cell ?? { q: 0, k: 0 };
      const within = (i) => Math.min(n - 1, Math.max(0, i));
      this.choose(by && this.cell ? { q: within(at.q + by[0]), k: within(at.k + by[1]) } : at);
    });
  },

  watchHeads() {
    const canvas = this.find(".heads");
    const under = (event) => {
      if (!this.headLayout) return null;
      const { names, gap, cell, layers, heads } = this.headLayout;
      const box = canvas.getBoundingClientRect();
      const head = Math.floor((event.clientX - box.left - names) / (cell + gap));
      const layer = Math.floor((event.clientY - box.top - names) / (cell + gap));
      return head >= 0 && head < heads && layer >= 0 && layer < layers ? { layer, head } : null;
    };
    canvas.addEventListener("pointermove", (event) => {
      const at = under(event);
      if (at) tip.show(event, `layer ${at.layer}, head ${at.head}`);
      else tip.hide();
    });
    canvas.addEventListener("pointerleave", () => tip.hide());
    canvas.addEventListener("click", (event) => {
      const at = under(event);
      if (at) this.change(at.layer === this.layer && at.head === this.head ? { layer: MEAN, head: MEAN } : at);
    });
    canvas.addEventListener("keydown", (event) => {
      const by = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
      if (!by || !this.headLayout) return;
      event.preventDefault();
      const { layers, heads } = this.headLayout;
      const [layer, head] = [Math.max(0, this.layer), Math.max(0, this.head)];
      const first = this.layer === MEAN || this.head === MEAN;
      this.change(first ? { layer, head } : { layer: (layer + by[0] + layers) % layers, head: (head + by[1] + heads) % heads });
    });
  },

  watchKeys() {
    document.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
      const listed = [...this.box.querySelectorAll("[data-example]")].map((button) => Number(button.dataset.example));
      const at = listed.indexOf(this.example);
      if (event.key === "j" && at + 1 < listed.length) this.go(listed[at + 1]);
      else if (event.key === "k" && at > 0) this.go(listed[at - 1]);
      else if (event.key === "[") this.step("head", -1);
      else if (event.key === "]") this.step("head", 1);
      else if (event.key === "{") this.step("layer", -1);
      else if (event.key === "}") this.step("layer", 1);
      else if (event.key === "Escape") {
        this.held = false;
        this.choose(null);
      }
    });
  },
};
