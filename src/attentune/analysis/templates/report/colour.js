// Colours: the scales that the file brings along, by theme, and the theme itself.

const data = JSON.parse(document.getElementById("data").textContent);

function bytesOf(text) {
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) bytes[i] = letters.charCodeAt(i);
  return bytes;
}

const scales = {};
for (const [name, themes] of Object.entries(data.scales)) {
  scales[name] = { light: bytesOf(themes.light), dark: bytesOf(themes.dark) };
}

const theme = {
  settings: ["system", "light", "dark"],
  setting: "system",
  system: window.matchMedia("(prefers-color-scheme: dark)"),
  listeners: [],
  get name() {
    return this.setting === "system" ? (this.system.matches ? "dark" : "light") : this.setting;
  },
  apply() {
    document.documentElement.dataset.theme = this.name;
    document.getElementById("theme").textContent = `Theme: ${this.setting}`;
    for (const listener of this.listeners) listener();
  },
  next() {
    this.setting = this.settings[(this.settings.indexOf(this.setting) + 1) % 3];
    this.apply();
  },
};

const variable = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** The colour of a part from 0 to 1 of a scale, as [red, green, blue]. */
function shadeOf(scale, part) {
  const at = 3 * Math.round(255 * Math.min(1, Math.max(0, part)));
  const colours = scales[scale][theme.name];
  return [colours[at], colours[at + 1], colours[at + 2]];
}

const css = (rgb) => `rgb(${rgb[0]}, ${rgb[1]}, ${rgb[2]})`;

/** Black or white, whichever is easier to read on a colour. */
function inkOn(rgb) {
  const [r, g, b] = rgb.map((value) => {
    const part = value / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000000" : "#ffffff";
}

/** A scale as packed pixels, for drawing many at once. */
function pixelsOf(scale) {
  const colours = scales[scale][theme.name];
  const pixels = new Uint32Array(256);
  for (let i = 0; i < 256; i++) {
    pixels[i] = 0xff000000 | (colours[3 * i + 2] << 16) | (colours[3 * i + 1] << 8) | colours[3 * i];
  }
  return pixels;
}

const runColour = (arm) => {
  if (!data.arms[arm].trained) return variable("--before");
  const isSingle = data.arms.filter((other) => other.trained).length === 1;
  return variable(`--run${isSingle ? 1 : data.arms.slice(0, arm).filter((other) => other.trained).length % 5}`);
};
