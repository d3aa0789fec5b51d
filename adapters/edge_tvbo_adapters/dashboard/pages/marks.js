// Marks on the time axis: changes of the model, states of sensors, and the periods of alerts, from the events of a field.

import { moment, svg } from "./draw.js";

const SENSOR_MARKS = {
  "sensor-lost": ["×", "bad"], "sensor-back": ["○", "good"], "sensor-faulty": ["!", "bad"], "sensor-agrees": ["○", "good"],
  "sensor-implausible": ["?", "bad"], "sensor-ignored": ["–", "muted"], "sensor-used": ["○", "good"], "battery-low": ["!", "bad"],
};
const MIN_DISTANCE = 11; // px between two marks; closer ones are one mark with a common text

// The events that are marked. They are in the lane of the model or of the sensors; events of alerts are in no lane.
export function marksOf(notices) {
  return notices.flatMap(({ event, at, text, sensor }) => {
    const mark = { event, at: Date.parse(at), text, sensor };
    if (event.startsWith("model")) return [{ ...mark, lane: "Model", glyph: "◆", kind: "warn" }];
    if (event in SENSOR_MARKS) return [{ ...mark, lane: "Sensors", glyph: SENSOR_MARKS[event][0], kind: SENSOR_MARKS[event][1] }];
    return event === "alert" || event === "alert-over" ? [mark] : [];
  }).sort((a, b) => a.at - b.at);
}

// The periods of alerts between `begin` and `end`, as pairs of times. A broker does not retain notices, so the last notices may be missing.
// The retained document then shows the end of the last alert, `alertOver`, or the beginning of an active alert.
export function alertSpans(marks, begin, end, { alert, alertOver }) {
  const changes = marks.filter((each) => each.event.startsWith("alert"));
  const spans = [];
  let since = changes[0]?.event === "alert-over" ? begin : null;
  for (const { event, at } of changes) {
    if (event === "alert") since ??= at;
    else if (since !== null) {
      spans.push([since, at]);
      since = null;
    }
  }
  const began = alert?.active ? (alert.since ? Date.parse(alert.since) : begin) : null;
  if (since === null && began > (changes.at(-1)?.at ?? 0)) since = began;
  if (since !== null) spans.push([since, alertOver > since ? alertOver : end]);
  return spans.map(([from, to]) => [Math.max(begin, from), Math.min(end, to)]).filter(([from, to]) => to > from);
}

// The lanes in which there are marks.
export const lanesOf = (marks) => ["Model", "Sensors"].filter((lane) => marks.some((each) => each.lane === lane));

export function drawMarks(marks, lanes, x, { top, plot, lane: size, left }, snapshot) {
  const baseline = (lane) => top + plot + (lanes.indexOf(lane) + 1) * size + 15;
  const drawn = lanes.map((lane) => svg("text", { x: left - 6, y: baseline(lane), "text-anchor": "end" }, lane));
  for (const group of lanes.flatMap((lane) => groups(marks.filter((each) => each.lane === lane), x))) {
    const { lane, glyph, kind, at } = group[0];
    if (lane === "Model") drawn.push(svg("line", { class: "reset", x1: x(at), x2: x(at), y1: top, y2: top + plot }));
    const texts = group.map((each) => `${moment(each.at, snapshot, true)} ${each.text}`);
    drawn.push(svg("text", { class: `mark ${kind}`, x: Math.max(x(at), left + (group.length > 1 ? 16 : 6)), y: baseline(lane), "text-anchor": "middle" }, group.length > 1 ? `${glyph}+${group.length - 1}` : glyph, svg("title", {}, texts.join("\n"))));
  }
  return drawn;
}

// Marks that are so close that they would cover each other.
function groups(marks, x) {
  const found = [];
  for (const mark of marks) {
    const last = found.at(-1);
    if (last && x(mark.at) - x(last[0].at) < MIN_DISTANCE + (last.length > 1 ? 14 : 0)) last.push(mark);
    else found.push([mark]);
  }
  return found;
}
