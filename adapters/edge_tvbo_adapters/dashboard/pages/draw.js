// Drawing helpers: elements, numbers, times and colours. Texts are inserted as text, never as markup.

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
    if (name === "on") for (const [kind, listener] of Object.entries(value)) element.addEventListener(kind, listener);
    else if (value === null || value === false) element.removeAttribute(name);
    else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
  }
  return element;
}

export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Replaces the children of `element` if `signature` differs from that of the last call.
export function redraw(element, signature, draw) {
  if (element.signature === signature) return;
  element.signature = signature;
  element.replaceChildren(...draw());
}

const MIN_WIDTH = 280; // px of a picture

// The width of the box of a picture, in px; `changed` is called when the box has another size. A box is measured before the page is
// changed: after a change, the browser would lay out the whole page for each measurement.
export class BoxWidth {
  constructor(box, changed) {
    this.box = box;
    this.measure();
    new ResizeObserver(() => { this.measure(); changed(); }).observe(box);
  }

  measure() { this.px = Math.max(MIN_WIDTH, Math.round(this.box.clientWidth)); }
}

// --- numbers and times -----------------------------------------------------------------------------

export const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

// The number of decimals of a number: 2 of 0.25, 8 of 1.2e-7.
export function digitsOf(value) {
  const [mantissa, exponent = 0] = String(value).split("e");
  return Math.max(0, Math.min(15, (mantissa.split(".")[1] ?? "").length - exponent));
}

export const number = (value, digits) =>
  isNumber(value) ? value.toFixed(digits).replace("-", "−") : "–";

// The number of decimals of an estimate: its standard deviation has at least two significant digits, unless the daemon sends fewer decimals.
export const digitsFor = (std, digits) => (std > 0 ? Math.max(0, Math.min(digits, 1 - Math.floor(Math.log10(std)))) : digits);

export const quantity = (value, digits, unit) =>
  isNumber(value) ? number(value, digits) + (unit ? `\u00a0${unit}` : "") : "–";

// A text of the daemon, in which numbers stay on one line with their unit, and names do not change the order of the numbers.
export const keepTogether = (text, unit) => isolate(unit ? text.replaceAll(` ${unit}`, `\u00a0${unit}`) : text).replaceAll(" ± ", "\u00a0±\u00a0");

const RIGHT_TO_LEFT = "[\\u0590-\\u08ff\\ufb1d-\\ufdff\\ufe70-\\ufeff]+"; // Hebrew and Arabic letters
const NAMES = new RegExp(`${RIGHT_TO_LEFT}([ '"’./0-9-]*${RIGHT_TO_LEFT})*`, "g");

// A text whose words from right to left, such as names, do not reverse the numbers that follow.
export const isolate = (text) => text.replace(NAMES, "\u2068$&\u2069");

// A name from right to left as a whole, with its digits and marks.
export const isolateName = (name) => (name.search(NAMES) < 0 ? name : `\u2068${name}\u2069`);

const pen = document.createElement("canvas").getContext("2d");
pen.font = `650 11px ${getComputedStyle(document.body).fontFamily}`; // the boldest text in the pictures

// The width of a text in a picture, in px.
export const textWidth = (text) => pen.measureText(text).width;

// A text, or its beginning with an ellipsis if the text is wider than `width` px. An emoji is not cut into halves.
export function shortened(text, width) {
  let shown = text;
  for (let size = text.length - 1; size > 0 && textWidth(shown) > width; size--)
    shown = `${text.slice(0, size).replace(/[\ud800-\udbff]$/, "")}…`;
  return shown;
}

export const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

export function duration(seconds) {
  if (!isNumber(seconds)) return "–";
  for (const [unit, size, limit] of [["s", 1, 120], ["min", 60, 7200], ["h", 3600, 172800]])
    if (seconds < limit) return `${Math.max(0, Math.round(seconds / size))} ${unit}`;
  return `${Math.round(seconds / 86400)} d`;
}

export function clock(time, utc, seconds = false) {
  const at = new Date(time);
  if (Number.isNaN(at.getTime())) return "–";
  const format = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
  if (seconds) format.second = "2-digit";
  return formatted(at, format, utc);
}

const formats = new Map();

// A time or a date as text, in UTC or by this browser's clock. A format is stored, because to create it takes much longer than to use it.
// A stored format always has the zone UTC, because the zone of the browser changes when a phone travels.
export function formatted(time, options, utc) {
  const key = JSON.stringify(options);
  if (!formats.has(key)) formats.set(key, new Intl.DateTimeFormat("en-GB", { ...options, timeZone: "UTC" }));
  return formats.get(key).format(shown(time, utc));
}

// The time whose hours and minutes in UTC are those that a clock shows at `time`, in UTC or by this browser's clock; ms since 1970.
const shown = (time, utc) => Number(new Date(time)) - (utc ? 0 : new Date(time).getTimezoneOffset() * 60000);

// The number of the day of a time, in UTC or by this browser's clock.
export const dayOf = (time, utc) => Math.floor(shown(time, utc) / 86400e3);

// A time with its date, unless it is on the day that is shown: today or, in a replay, the recorded day.
export function moment(time, { live, now }, seconds = false) {
  const days = dayOf(now, !live) - dayOf(time, !live);
  if (!days || Number.isNaN(days)) return clock(time, !live, seconds);
  const format = { day: "numeric", month: "short", ...(Math.abs(days) > 300 ? { year: "numeric" } : {}) };
  return `${formatted(time, format, !live)}, ${clock(time, !live, seconds)}`;
}

// --- colours: viridis, perceptually uniform and suitable for all kinds of colour vision --------------

const VIRIDIS = ["440154", "482475", "414487", "355f8d", "2a788e", "21918c", "22a884", "44bf70", "7ad151", "bddf26", "fde725"]
  .map((each) => [0, 2, 4].map((at) => parseInt(each.slice(at, at + 2), 16)));

function interpolate(share) {
  const at = Math.max(0, Math.min(1, share)) * (VIRIDIS.length - 1);
  const first = Math.min(VIRIDIS.length - 2, Math.floor(at));
  return VIRIDIS[first].map((each, k) => Math.round(each + (at - first) * (VIRIDIS[first + 1][k] - each)));
}

const css = (rgb) => `rgb(${rgb.join(" ")})`;

export class Scale {
  constructor(low, high) {
    const width = Math.max(high > low ? high - low : 1, 1e-9 * Math.max(Math.abs(low), Math.abs(high)));
    const step = 10 ** Math.floor(Math.log10(width)) / 2;
    this.low = Math.floor(low / step + 1e-9) * step;
    this.high = Math.max(this.low + step, Math.ceil(high / step - 1e-9) * step);
    this.digits = Math.max(0, -Math.floor(Math.log10(step)));
  }
  share(value) { return (value - this.low) / (this.high - this.low); }
  colour(value) { return css(interpolate(this.share(value))); }
  // Black or white, whichever contrasts more with the colour, by WCAG's relative luminance.
  textColour(value) {
    const [r, g, b] = interpolate(this.share(value)).map((each) => {
      const c = each / 255;
      return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000000" : "#ffffff";
  }
}

export const colourStops = (count) => Array.from({ length: count }, (_, k) => css(interpolate(k / (count - 1))));
