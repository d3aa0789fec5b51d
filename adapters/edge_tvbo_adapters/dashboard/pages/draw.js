// Elements, numbers, times and colours. Text goes in as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";

export function make(space, tag, attributes, children) {
  const element = space ? document.createElementNS(space, tag) : document.createElement(tag);
  set(element, attributes);
  element.append(...children.filter((each) => each !== null));
  return element;
}

export const html = (tag, attributes = {}, ...children) => make(null, tag, attributes, children);
export const svg = (tag, attributes = {}, ...children) => make(SVG, tag, attributes, children);

export function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "on") for (const [kind, f] of Object.entries(value)) element.addEventListener(kind, f);
    else if (value === null || value === false) element.removeAttribute(name);
    else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
  }
  return element;
}

export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Replaces what is in `element` if `signature` is another than the last one.
export function redraw(element, signature, draw) {
  if (element.drawn === signature) return;
  element.drawn = signature;
  element.replaceChildren(...draw());
}

// --- numbers and times -----------------------------------------------------------------------------

export const known = (value) => typeof value === "number" && Number.isFinite(value);

export const digitsOf = (value) => Math.min(6, (String(value).split(".")[1] ?? "").length);

export const number = (value, digits) =>
  known(value) ? value.toFixed(digits).replace("-", "−") : "–";

export const quantity = (value, digits, unit) =>
  known(value) ? number(value, digits) + (unit ? ` ${unit}` : "") : "–";

export const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

export function span(seconds) {
  if (!known(seconds)) return "–";
  for (const [unit, size, most] of [["s", 1, 120], ["min", 60, 7200], ["h", 3600, 172800]])
    if (seconds < most) return `${Math.max(0, Math.round(seconds / size))} ${unit}`;
  return `${Math.round(seconds / 86400)} d`;
}

export function clock(moment, utc, seconds = false) {
  const at = new Date(moment);
  if (Number.isNaN(at.getTime())) return "–";
  const how = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
  if (seconds) how.second = "2-digit";
  if (utc) how.timeZone = "UTC";
  return at.toLocaleTimeString("en-GB", how);
}

// --- colours: viridis, even to the eye and for every kind of colour vision ---------------------------

const VIRIDIS = ["440154", "482475", "414487", "355f8d", "2a788e", "21918c", "22a884", "44bf70", "7ad151", "bddf26", "fde725"]
  .map((each) => [0, 2, 4].map((at) => parseInt(each.slice(at, at + 2), 16)));

function mixed(share) {
  const at = Math.max(0, Math.min(1, share)) * (VIRIDIS.length - 1);
  const first = Math.min(VIRIDIS.length - 2, Math.floor(at));
  return VIRIDIS[first].map((each, k) => Math.round(each + (at - first) * (VIRIDIS[first + 1][k] - each)));
}

const css = (rgb) => `rgb(${rgb.join(" ")})`;

export class Scale {
  constructor(low, high) {
    const width = high > low ? high - low : 1;
    const step = 10 ** Math.floor(Math.log10(width)) / 2;
    this.low = Math.floor(low / step + 1e-9) * step;
    this.high = Math.max(this.low + step, Math.ceil(high / step - 1e-9) * step);
    this.digits = Math.max(0, -Math.floor(Math.log10(step)));
  }
  share(value) { return (value - this.low) / (this.high - this.low); }
  colour(value) { return css(mixed(this.share(value))); }
  // What can be read on that colour: WCAG's relative luminance, where black and white are even.
  ink(value) {
    const [r, g, b] = mixed(this.share(value)).map((each) => {
      const c = each / 255;
      return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000000" : "#ffffff";
  }
}

export const stops = (count) => Array.from({ length: count }, (_, k) => css(mixed(k / (count - 1))));
