// The chart over time: the hot spot's and a chosen sensor's estimate with its 90 % band, readings, the threshold, and marks.

import { BoxWidth, clock, digitsFor, digitsOf, formatted, html, isNumber, moment, number, plural, quantity, redraw, svg, textWidth } from "./draw.js";
import { alertSpans, drawMarks, lanesOf, marksOf } from "./marks.js";
import { quantile } from "./quantiles.js";

const MIN_LEFT = 62, CHARACTER = 7, RIGHT = 10, TOP = 14, PLOT = 190, LANE = 20, BOTTOM = 22; // px
const Z90 = 1.645; // the 90 % band in standard deviations
const MAX_GAP = 3; // intervals without a decision, after which a line is interrupted

export class CourseChart {
  constructor(box, legend, note, seek) {
    Object.assign(this, { box, legend, note, seek });
    this.available = new BoxWidth(box, () => this.last && this.draw(...this.last));
  }

  draw(snapshot, points, chosen, digits) {
    this.last = [snapshot, points, chosen, digits];
    const width = this.available.px;
    const marks = marksOf(snapshot.allNotices ?? snapshot.notices);
    const open = points.slice(-2); // a message may change both
    const signature = JSON.stringify([snapshot.field.id, width, points.length, points[0]?.at, open, chosen, snapshot.index, marks.length, marks.at(-1)?.at, snapshot.threshold, snapshot.alertOver]);
    redraw(this.box, signature, () => {
      this.note.textContent = "";
      this.legend.replaceChildren();
      if (!points.some(({ hottest, value }) => isNumber(hottest?.mean) || isNumber(value)))
        return [html("p", { class: "note" }, "The chart appears when estimates or readings of a few intervals are known.")];
      this.note.textContent = summary(snapshot, points, chosen, digits);
      this.legend.replaceChildren(...legend(snapshot, chosen));
      return [this.chart(snapshot, points, marks, chosen, width, digits)];
    });
  }

  chart(snapshot, points, marks, chosen, width, digits) {
    const { field } = snapshot;
    const gap = gapOf(field, points);
    const [begin, end] = [points[0].at, points.at(-1).at + gap / MAX_GAP];
    const visible = marks.filter(({ at }) => at >= begin && at <= end);
    const lanes = lanesOf(visible);
    const height = TOP + PLOT + (1 + lanes.length) * LANE + BOTTOM;
    const scale = valueScale(field, points, snapshot.threshold);
    const rows = valueTicks(scale, field.unit);
    const left = Math.max(MIN_LEFT, CHARACTER * Math.max(...rows.map((each) => each.text.length)) + 8);
    const x = (time) => left + ((time - begin) / (end - begin)) * (width - left - RIGHT);
    const y = (value) => TOP + PLOT * (1 - (value - scale.low) / (scale.high - scale.low));
    const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": this.note.textContent });
    root.append(...valueAxis(rows, y, left, width), ...timeAxis(begin, end, x, height, left, width, !snapshot.live));
    for (const [from, to] of alertSpans(marks, begin, end, snapshot)) root.append(svg("rect", { class: "alert-span", x: x(from), width: Math.max(2, x(to) - x(from)), y: TOP, height: PLOT }));
    for (const [kind, of] of [["hottest", (each) => each.hottest], ["chosen", (each) => each.chosen]])
      root.append(...estimates(field, points, of, kind, x, y, gap));
    root.append(...readings(points, chosen, x, y), ...threshold(snapshot, scale, y, left, width));
    root.append(...hotspotLane(snapshot, points, x, end, gap, left, TOP + PLOT + 4));
    root.append(...drawMarks(visible, lanes, x, { top: TOP, plot: PLOT, lane: LANE, left }, snapshot));
    const cursor = svg("line", { class: "cursor-line", y1: TOP, y2: TOP + PLOT, visibility: "hidden" });
    const current = points[snapshot.index];
    root.append(cursor, ...(current ? [svg("line", { class: "current-line", x1: x(current.at), x2: x(current.at), y1: TOP - 6, y2: TOP + PLOT + LANE })] : []));
    root.append(this.pointerArea(snapshot, points, x, cursor, left, width, digits));
    return root;
  }

  // Shows the numbers of an interval under the pointer; in a replay, a click moves to this interval.
  pointerArea(snapshot, points, x, cursor, left, width, digits) {
    const text = this.note.textContent;
    const nearest = (event) => {
      const at = event.clientX - event.currentTarget.getBoundingClientRect().left + left;
      return points.reduce((best, each, k) => (Math.abs(x(each.at) - at) < Math.abs(x(points[best].at) - at) ? k : best), 0);
    };
    const on = {
      pointermove: (event) => {
        const point = points[nearest(event)];
        for (const end of ["x1", "x2"]) cursor.setAttribute(end, x(point.at));
        cursor.removeAttribute("visibility");
        this.note.textContent = pointText(snapshot, point, digits);
      },
      pointerleave: () => { cursor.setAttribute("visibility", "hidden"); this.note.textContent = text; },
      click: (event) => !snapshot.live && this.seek(nearest(event)),
    };
    return svg("rect", { class: snapshot.live ? "pointer-area" : "pointer-area click-area", x: left, y: 0, width: width - left, height: TOP + PLOT + LANE, on });
  }
}

// A line is interrupted after this time without an estimate, in ms: a few intervals. If the length of an interval is not fixed, the median
// length is used.
function gapOf(field, points) {
  const steps = points.slice(1).map((each, k) => each.at - points[k].at).sort((a, b) => a - b);
  return MAX_GAP * (1000 * (field.interval ?? 0) || steps[Math.floor(steps.length / 2)] || 1000);
}

// The range of the values, with a little room. A threshold far away from all values is left out.
function valueScale(field, points, limit) {
  const values = points.flatMap(({ hottest, chosen, value }) => [
    value, ...[hottest, chosen].flatMap((each) => (isNumber(each?.mean) && isNumber(each.std) ? [-Z90, Z90].map((z) => quantile(field, each.mean, each.std, z)) : [])),
    hottest?.reading, chosen?.reading]).filter(isNumber);
  let [low, high] = [values.reduce((a, b) => Math.min(a, b)), values.reduce((a, b) => Math.max(a, b))];
  const reach = 1.5 * (high - low || 1);
  if (isNumber(limit) && limit > low - reach && limit < high + reach) [low, high] = [Math.min(low, limit), Math.max(high, limit)];
  const room = 0.05 * (high - low || 1);
  return { low: low - room, high: high + room };
}

function roundStep(size) {
  const power = 10 ** Math.floor(Math.log10(size));
  return power * [1, 2, 5, 10].find((each) => power * each >= size * 0.999);
}

// The values with a label, and the labels; the highest has the unit.
function valueTicks({ low, high }, unit) {
  const step = roundStep((high - low) / 6);
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const first = Math.ceil(low / step), count = Math.floor(high / step) - first + 1;
  return Array.from({ length: count }, (_, k) => (first + k) * step)
    .map((value, k) => ({ value, text: k === count - 1 ? quantity(value, digits, unit) : number(value, digits) }));
}

const valueAxis = (rows, y, left, width) => rows.flatMap(({ value, text }) => [
  svg("line", { class: "row", x1: left, x2: width - RIGHT, y1: y(value), y2: y(value) }),
  svg("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, text),
]);

const STEPS_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800];

// The times from `begin` to `end` that are multiples of `step` on the clock, ms; the clock may change between summer and winter time.
function* ticks(begin, end, step, utc) {
  const zone = (at) => (utc ? 0 : new Date(at).getTimezoneOffset() * 60000);
  for (let local = Math.ceil((begin - zone(begin)) / step) * step; ; local += step) {
    const at = local + zone(local + zone(begin));
    if (at > end) return;
    yield at;
  }
}

function timeAxis(begin, end, x, height, left, width, utc) {
  const step = 1000 * (STEPS_S.find((each) => x(begin + 1000 * each) - x(begin) >= (each < 60 ? 76 : 60)) ?? 2592000);
  const drawn = [];
  for (const at of ticks(begin, end, step, utc)) {
    if (x(at) > width - 28) break;
    const label = step >= 86400e3 ? formatted(at, { day: "numeric", month: "short" }, utc) : clock(at, utc, step < 60000);
    drawn.push(svg("line", { class: "tick", x1: x(at), x2: x(at), y1: TOP, y2: TOP + PLOT }));
    drawn.push(svg("text", { x: Math.max(x(at), left - 20), y: height - 6, "text-anchor": "middle" }, label));
  }
  return drawn;
}

function threshold({ threshold: limit, field: { unit } }, { low, high }, y, left, width) {
  if (!isNumber(limit)) return [];
  const text = `alert threshold ${quantity(limit, digitsOf(limit), unit)}`;
  if (limit > high || limit < low) {
    const [arrow, at] = limit > high ? ["↑", TOP + 12] : ["↓", TOP + PLOT - 6];
    return [svg("text", { class: "threshold-label", x: width - RIGHT - 4, y: at, "text-anchor": "end" }, `${text} ${arrow}`)];
  }
  const above = y(limit) - TOP > 18 ? -5 : 14;
  return [svg("line", { class: "threshold", x1: left, x2: width - RIGHT, y1: y(limit), y2: y(limit) }),
    svg("text", { class: "threshold-label", x: width - RIGHT - 4, y: y(limit) + above, "text-anchor": "end" }, text)];
}

// The band and the line of one course, in pieces without gaps.
function estimates(field, points, of, kind, x, y, gap) {
  const pieces = [[]];
  for (const each of points) {
    const estimate = of(each);
    if (!isNumber(estimate?.mean) || !isNumber(estimate.std)) continue;
    if (pieces.at(-1).length && each.at - pieces.at(-1).at(-1).at > gap) pieces.push([]);
    pieces.at(-1).push({ at: each.at, ...estimate });
  }
  return pieces.filter((each) => each.length).flatMap((piece) => {
    const line = (sign) => piece.map(({ at, mean, std }) => `${x(at).toFixed(1)} ${y(quantile(field, mean, std, sign * Z90)).toFixed(1)}`);
    return [svg("path", { class: `band ${kind}`, d: `M${[...line(1), ...line(-1).reverse()].join("L")}Z` }),
      svg("path", { class: `line ${kind}`, d: `M${line(0).join("L")}h0.1` })];
  });
}

function readings(points, chosen, x, y) {
  const dots = { other: [], hottest: [], chosen: [] };
  for (const { at, hotspot, hottest, chosen: own, sensor, value } of points) {
    if (isNumber(hottest?.reading)) dots.hottest.push([at, hottest.reading]);
    if (isNumber(own?.reading) && chosen !== hotspot) dots.chosen.push([at, own.reading]);
    if (isNumber(value) && ![hotspot, chosen].includes(sensor)) dots.other.push([at, value]);
  }
  const circle = (r) => ([at, value]) => `M${(x(at) - r).toFixed(1)} ${y(value).toFixed(1)}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0`;
  return Object.entries(dots).filter(([, each]) => each.length).map(([kind, each]) =>
    svg("path", { class: `dots ${kind}`, d: each.map(circle(kind === "other" ? 1.8 : 2.4)).join("") }));
}

// Which sensor was the hot spot: a block for each period, with its name where there is room.
function hotspotLane({ field }, points, x, end, gap, left, top) {
  return !field.has_model ? [] : [
    svg("text", { x: left - 6, y: top + 12, "text-anchor": "end" }, "Hot spot"),
    ...hotspotPeriods(points, end, gap).flatMap(({ from, to, hotspot }, k) => {
      const [begin, width] = [x(from), x(to) - x(from)];
      const name = field.name(hotspot);
      const block = svg("rect", { class: `period ${k % 2 ? "odd" : "even"}`, x: begin, width: Math.max(1, width - 1), y: top, height: 16 }, svg("title", {}, name));
      return width > textWidth(name) + 8 ? [block, svg("text", { class: "period-name", x: begin + width / 2, y: top + 12, "text-anchor": "middle" }, name)] : [block];
    }),
  ];
}

// The periods in which a sensor was the hot spot. A period ends one interval after its last point if the next point is too late.
export function hotspotPeriods(points, end, gap) {
  const periods = [];
  for (const { at, hotspot } of points.filter((each) => each.hotspot)) {
    const last = periods.at(-1);
    const continues = last && at - last.seen <= gap;
    if (last) last.to = continues ? at : last.seen + gap / MAX_GAP;
    if (continues && last.hotspot === hotspot) last.seen = at;
    else periods.push({ from: at, seen: at, to: at, hotspot });
  }
  if (periods.length) periods.at(-1).to = Math.min(end, periods.at(-1).seen + gap / MAX_GAP);
  return periods;
}

function legend({ field, extreme }, chosen) {
  const key = (...shapes) => svg("svg", { width: 26, height: 14, viewBox: "0 0 26 14", "aria-hidden": "true" }, ...shapes);
  const estimate = (kind) => (field.has_model ? [svg("rect", { class: `band ${kind}`, width: 26, height: 12, y: 1 }), svg("line", { class: `line ${kind}`, x2: 26, y1: 7, y2: 7 })] : []);
  const sample = (kind) => key(...estimate(kind), svg("circle", { class: `dots ${kind}`, cx: 13, cy: 7, r: 2.6 }));
  return [
    ...(field.has_model ? [html("span", {}, sample("hottest"), `sensor with the ${extreme} estimate`)] : []),
    ...(chosen ? [html("span", {}, sample("chosen"), field.name(chosen))] : []),
    html("span", {}, key(svg("circle", { class: "dots other", cx: 13, cy: 7, r: 2.2 })), field.has_model || chosen ? "reading of another sensor" : "reading"),
  ];
}

function summary({ field, extreme, live, now }, points, chosen, digits) {
  const last = points.findLast(({ hottest }) => isNumber(hottest?.mean));
  const hotspots = new Set(points.map((each) => each.hotspot).filter(Boolean)).size;
  const begin = [points[0], points.at(-1)].map(({ at }) => moment(at, { live, now })).join(" to ");
  if (!field.has_model) return `${plural(points.length, "interval")}, ${begin}. Dots are readings.${chosen ? "" : " Select a sensor to mark its readings."}`;
  const estimate = last ? ` In the last interval with an estimate, ${field.name(last.hotspot)} has the ${extreme} estimate, ${quantity(last.hottest.mean, digitsFor(last.hottest.std, digits), field.unit)}.` : "";
  return `${plural(points.length, "interval")}, ${begin}: ${plural(hotspots, "sensor")} had the ${extreme} estimate.${estimate} ` +
    `Lines are estimates before the reply, bands contain the true value with 90\u00a0% probability, dots are readings.${chosen ? "" : " Select a sensor to see its course, too."}`;
}

function pointText({ field, live, now }, { at, hotspot, hottest, chosen, sensor, value }, digits) {
  const estimate = (mean, std, exact) => `${quantity(mean, exact, field.unit)} (${[-Z90, Z90].map((z) => number(quantile(field, mean, std, z), exact)).join(" to ")})`;
  const band = ({ mean, std, reading }) => [
    isNumber(mean) ? estimate(mean, std, digitsFor(std, digits)) : field.has_model ? "estimate unknown" : "",
    isNumber(reading) ? `reading ${number(reading, digits)}` : ""].filter(Boolean).join(", ") || "no reading";
  const parts = [hotspot ? `hot spot ${field.name(hotspot)}: ${band(hottest)}` : "", chosen ? `chosen sensor: ${band(chosen)}` : "",
    isNumber(value) && sensor !== hotspot ? `${field.name(sensor)} replied ${number(value, digits)}` : ""];
  return `${moment(at, { live, now }, true)}: ${parts.filter(Boolean).join("; ")}`;
}
