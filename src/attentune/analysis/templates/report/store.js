// The maps: kept deflated, unpacked when an example is looked at, and a few kept unpacked.

const MEAN = -1;
const KEPT = 12;

const store = {
  unpacked: new Map(), // "example-slot" → a promise of its codes
  made: new Map(), // "example-slot-layer-head" → a matrix
  squares: Float32Array.from({ length: 256 }, (_, code) => (code / data.steps) ** 2),

  arm: (slot) => data.explored[slot],
  grid: (slot) => Object.values(data.arms[data.explored[slot]].grids)[0],
  layers(slot) {
    return this.grid(slot).length;
  },
  heads(slot) {
    return this.grid(slot)[0].length;
  },
  tokens: (example, slot) => data.examples[example].tokens[slot] ?? data.examples[example].tokens[0],
  /** Whether only the mean over the heads of each layer is in the file. */
  hasMeans: (example) => data.examples[example].means,
  hasMaps: (example) => data.examples[example].has_maps,

  /** The codes of all maps of an example, (layers, heads, keys, queries). */
  codes(example, slot) {
    const name = `${example}-${slot}`;
    if (!this.unpacked.has(name)) {
      const packed = new Blob([bytesOf(document.getElementById(`maps-${name}`).textContent)]);
      const stream = packed.stream().pipeThrough(new DecompressionStream("deflate-raw"));
      this.unpacked.set(name, new Response(stream).arrayBuffer().then((buffer) => new Uint8Array(buffer)));
      if (this.unpacked.size > KEPT) this.unpacked.delete(this.unpacked.keys().next().value);
    }
    return this.unpacked.get(name);
  },

  /** One map, or the mean of several: values[q * n + k] is what query q gives to key k. */
  async matrix(example, slot, layer, head) {
    const name = [example, slot, layer, head].join("-");
    if (this.made.has(name)) return this.made.get(name);
    const n = this.tokens(example, slot).length;
    const codes = await this.codes(example, slot);
    const layers = layer === MEAN ? [...Array(this.layers(slot)).keys()] : [layer];
    const kept = this.hasMeans(example) ? 1 : this.heads(slot);
    const heads = kept === 1 ? [0] : head === MEAN ? [...Array(kept).keys()] : [head];
    const values = new Float32Array(n * n);
    for (const l of layers) {
      for (const h of heads) {
        let at = (l * kept + h) * n * n;
        for (let k = 0; k < n; k++) {
          for (let q = 0; q < n; q++) values[q * n + k] += this.squares[codes[at++]];
        }
      }
    }
    const count = layers.length * heads.length;
    for (let i = 0; i < values.length; i++) values[i] /= count;
    this.made.set(name, { n, values });
    if (this.made.size > 4 * KEPT) this.made.delete(this.made.keys().next().value);
    return this.made.get(name);
  },

  /** What each token receives, as shares: the mean over the queries. */
  received(matrix) {
    const { n, values } = matrix;
    const shares = new Float32Array(n);
    for (let q = 0; q < n; q++) for (let k = 0; k < n; k++) shares[k] += values[q * n + k] / n;
    return shares;
  },

  /** The same of an example whose maps are not in the file: the mean over a layer's heads, or over all. */
  receivedWithoutMaps(example, slot, layer) {
    const codes = bytesOf(document.getElementById(`received-${example}-${slot}`).textContent);
    const n = this.tokens(example, slot).length;
    const layers = layer === MEAN ? [...Array(this.layers(slot)).keys()] : [layer];
    const shares = new Float32Array(n);
    for (const l of layers) {
      for (let k = 0; k < n; k++) shares[k] += (codes[l * n + k] / data.received_steps) ** 2 / layers.length;
    }
    return shares;
  },
};
