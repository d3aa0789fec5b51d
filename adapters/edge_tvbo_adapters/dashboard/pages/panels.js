// Panels: the decision, its candidates, one sensor, the table of all sensors, the events.

import { dayOf, digitsFor, duration, html, isNumber, keepTogether, moment, number, plural, quantity, redraw, set, setText, svg } from "./draw.js";
import { couldBeSelected, noEstimateText, problemsOf, reasonText, selectionText, stateText } from "./snapshot.js";

const MAX_CANDIDATES = 6, MAX_EVENTS = 100;
const byId = (id) => document.getElementById(id);

// --- the decision -------------------------------------------------------------------------------------

export function drawDecision(snapshot, digits) {
  const { decision, field } = snapshot;
  setText(byId("sentence"), decision ? `${keepTogether(decision.text, field.unit)}.` : "No decision yet.");
  const facts = decision
    ? [
      ["Interval", `${decision.interval}`], ["Reason", reasonText(snapshot)],
      [snapshot.recommends ? "Reading" : "Reply", replyText(snapshot, digits)],
      ...(snapshot.live ? [["Next in", nextText(snapshot)]] : []),
      ["Model", plural(decision.model.observations, "reading")], ["Policy", decision.policy],
    ]
    : [];
  redraw(byId("facts"), JSON.stringify(facts), () => facts.map(([name, value]) =>
    html("div", {}, html("dt", {}, name), html("dd", { class: value === "timed out" ? "timed-out" : null }, value))));
  drawCandidates(snapshot, digits);
  redraw(byId("factors"), JSON.stringify([decision?.factors, field.unit]), () => (decision?.factors ?? []).map((each) => html("li", {}, keepTogether(each, field.unit))));
}

function replyText(snapshot, digits) {
  const { selection, decision, field } = snapshot;
  if (decision.reason === "saved") return `not ${snapshot.activated}`;
  if (selection?.ending === "answered") return quantity(selection.value, digits, field.unit);
  if (selection?.ending === "missed") return "timed out";
  if (selection?.ending === "undelivered") return "command not sent";
  if (snapshot.recommends) return snapshot.live ? noReadingText(snapshot) : "none";
  if (snapshot.live && !field.is_published) return noReadingText(snapshot);
  return snapshot.live && Date.parse(decision.expires_at) > snapshot.now ? "waiting" : "unknown";
}

// Why no reading of a sensor is known. The readings are published with the estimates.
const noReadingText = ({ live, field }) => (live && !field.is_published ? "not published" : "none yet");

function nextText(snapshot) {
  if (snapshot.paused) return "paused";
  const { interval } = snapshot.field;
  if (interval === null) return "after the reply";
  const left = (Date.parse(snapshot.selection?.begin ?? snapshot.decision.at) - snapshot.now) / 1000 + interval;
  return left > 0 ? duration(Math.ceil(left)) : left > -interval ? "due" : "overdue";
}

// The class of a long name, which may be broken into lines; a name with a very long word may be broken at any place.
function longName(name) {
  if (name.length <= 14) return null;
  return name.split(" ").some((word) => word.length > 16) ? "long unbroken" : "long";
}

// --- the candidates -------------------------------------------------------------------------------------

function drawCandidates(snapshot, digits) {
  const { decision, field, sign } = snapshot;
  const ranked = snapshot.sensors.filter((each) => isNumber(each.bound) && couldBeSelected(snapshot, each)).sort((a, b) => sign * (b.bound - a.bound));
  const selected = ranked.find((each) => each.id === decision?.sensor);
  const others = ranked.filter((each) => each !== selected);
  const shown = selected ? [selected, ...others].slice(0, MAX_CANDIDATES) : [];
  const note = decision && !shown.length ? noBoundsText(snapshot) : "";
  const signature = JSON.stringify([field.id, note, shown.map((each) => [each.id, each.predicted.mean, each.bound]), decision?.sensor]);
  redraw(byId("candidates"), signature, () => {
    if (!shown.length) return [html("p", { class: "note" }, note)];
    const ends = shown.flatMap((each) => [each.predicted.mean, each.bound]);
    const [low, high] = [Math.min(...ends), Math.max(...ends)];
    const x = (value) => 2 + 96 * ((value - low) / (high - low || 1));
    const side = sign > 0 ? "upper" : "lower";
    const columns = [["Sensor", null], ["", null], ["Estimate", "number"], ["Bound", "number"]];
    const head = html("tr", {}, ...columns.map(([title, kind]) =>
      html("th", { scope: "col", class: kind }, title || html("span", { class: "hidden" }, "Chart"))));
    return [html("table", {},
      html("caption", {}, `Of the sensors that could be ${snapshot.activated}, the one with the ${snapshot.extreme} ${side} bound is selected. A bar marks the estimate before the reply. The line from the bar ends at the ${side} bound.`),
      html("thead", {}, head),
      html("tbody", {}, ...shown.map((each) => candidateRow(each, each === selected, x, selected, digits, field.unit))))];
  });
}

const MAX_IN_USUAL_PACKET = 500; // sensors; estimates of more can exceed 64 kB
function noBoundsText({ live, field, nextBound }) {
  if (!field.has_model) return "The policy has no model, so there are no bounds to compare.";
  if (!live || field.is_published)
    return nextBound === null ? "In this interval, no bounds of the same width were compared." : "The estimates of this interval are unknown, and so are the bounds.";
  const count = field.sensors.length;
  const limit = count > MAX_IN_USUAL_PACKET ? " First raise the broker's limit for the size of packets (mosquitto: max_packet_size) to 100 bytes for each sensor." : "";
  return `The estimates and readings of this field are not published. To see them, set publish_posterior = ${count} in its configuration.${limit}`;
}

function candidateRow(each, isSelected, x, selected, digits, unit) {
  const bar = svg("svg", { viewBox: "0 0 100 14", height: 14, preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("line", { class: "goal", x1: x(selected.bound), x2: x(selected.bound), y1: 0, y2: 14, "vector-effect": "non-scaling-stroke" }),
    svg("line", { class: "reach", x1: x(each.predicted.mean), x2: x(each.bound), y1: 7, y2: 7, "vector-effect": "non-scaling-stroke" }),
    svg("rect", { class: "mean", x: x(each.predicted.mean) - 1.1, y: 3, width: 2.2, height: 8 }));
  return html("tr", { class: isSelected ? "selected" : null },
    html("th", { scope: "row", class: longName(each.name) }, each.name), html("td", { class: "bar" }, bar),
    html("td", { class: "number" }, number(each.predicted.mean, digits)), html("td", { class: "number" }, quantity(each.bound, digits, unit).replace("\u00a0", " ")));
}

// --- one sensor -----------------------------------------------------------------------------------------

export function drawSensor(snapshot, id, digits) {
  const sensor = snapshot.sensor(id);
  const { unit } = snapshot.field, exact = digitsFor(sensor.std, digits);
  setText(byId("sensor-title"), id ? `Sensor ${sensor.name}` : "Sensor");
  const rows = [
    ...(sensor.name === id ? [] : [["Id", id]]),
    ["Estimate", isNumber(sensor.mean) ? `${number(sensor.mean, exact)}\u00a0±\u00a0${quantity(sensor.std, exact, unit)}` : noEstimateText(snapshot)],
    ["Last reading", isNumber(sensor.last) ? `${quantity(sensor.last, digits, unit)}, ${duration(sensor.age)} ago` : noReadingText(snapshot)],
    ...(sensor.implausible ? [["Implausible reading", sensor.implausible]] : []),
    ...(sensor.fault ? [["Fault", sensor.fault]] : []),
    snapshot.recommends ? ["Recommended", `${sensor.activated}×`] : ["Activated", `${sensor.activated}×${isNumber(sensor.timedOut) ? `, timed out ${sensor.timedOut}×` : ""}`],
    ["State", stateText(snapshot, sensor) || "normal"],
  ];
  const text = selectionText(snapshot, sensor, digits);
  redraw(byId("sensor-box"), JSON.stringify([id, rows, text]), () => [
    html("dl", {}, ...rows.flatMap(([name, value]) => [html("dt", {}, name), html("dd", {}, value)])),
    html("p", { class: "why-text" }, text),
  ]);
}

// --- all sensors ------------------------------------------------------------------------------------------

const COLUMNS = [
  ["Sensor", "name", ""], ["Estimate", "mean", "number"], ["±", "std", "number"], ["Last reading", "last", "number wide"],
  ["Age", "age", "number wide"], ["Activated", "activated", "number wide"], ["Timed out", "timedOut", "number wide"], ["State", "state", ""],
];

export class SensorTable {
  constructor(inspect) {
    Object.assign(this, { inspect, sortKey: "mean", descending: true, rows: new Map() });
    byId("columns").append(...COLUMNS.map(([title, key, kind]) =>
      html("th", { scope: "col", class: kind || null, "data-key": key }, html("button", { type: "button", on: { click: () => this.sort(key) } }, title))));
  }

  sort(key) {
    this.descending = this.sortKey === key ? !this.descending : key !== "name";
    this.sortKey = key;
    this.draw(this.snapshot, this.inspected, this.digits);
  }

  draw(snapshot, inspected, digits) {
    Object.assign(this, { snapshot, inspected, digits });
    for (const th of byId("columns").children) {
      set(th, { "aria-sort": th.dataset.key === this.sortKey ? (this.descending ? "descending" : "ascending") : null });
      if (th.dataset.key === "activated") setText(th.firstChild, snapshot.recommends ? "Recommended" : "Activated");
    }
    if (this.field !== snapshot.field) this.createRows(snapshot.field);
    for (const sensor of snapshot.sensors) this.fill(this.rows.get(sensor.id), sensor);
    this.reorder();
  }

  createRows(field) {
    this.field = field;
    this.rows = new Map(field.sensors.map((id) => {
      const cells = COLUMNS.slice(1).map(([, , kind]) => html("td", { class: kind || null }));
      const button = html("button", { type: "button", title: id, on: { click: () => this.inspect(id) } }, field.name(id));
      return [id, { row: html("tr", {}, html("th", { scope: "row", class: longName(field.name(id)) }, button), ...cells), cells }];
    }));
    byId("rows").replaceChildren(...[...this.rows.values()].map((each) => each.row));
  }

  fill({ row, cells }, sensor) {
    const { snapshot, digits } = this, exact = digitsFor(sensor.std, digits);
    const isSelected = snapshot.decision?.sensor === sensor.id;
    const texts = [
      quantity(sensor.mean, exact, snapshot.field.unit), number(sensor.std, exact), number(sensor.last, digits), duration(sensor.age),
      `${sensor.activated}`, number(sensor.timedOut, 0), stateText(snapshot, sensor),
    ];
    texts.forEach((text, k) => setText(cells[k], text));
    set(row, { class: [sensor.id === this.inspected ? "inspected" : "", isSelected ? "selected" : ""].join(" ").trim() || null });
    set(cells.at(-1), { class: problemsOf(snapshot, sensor).length || sensor.beyond ? "problem" : null });
  }

  reorder() {
    const key = (each) => (this.sortKey === "state" ? stateText(this.snapshot, each) : each[this.sortKey]);
    const order = [...this.snapshot.sensors].sort((a, b) => (this.descending ? -1 : 1) * compare(key(a), key(b)));
    const rows = order.map((each) => this.rows.get(each.id).row);
    const body = byId("rows");
    if (rows.some((row, k) => body.children[k] !== row) && !body.contains(document.activeElement)) body.append(...rows);
  }
}

function compare(a, b) {
  if (typeof a === "string" && typeof b === "string") return a.localeCompare(b, "en", { numeric: true });
  return (isNumber(a) ? a : -Infinity) - (isNumber(b) ? b : -Infinity) || 0;
}

// --- problems ------------------------------------------------------------------------------------------

const MAX_NAMED = 4; // sensors that a line names

// One line for each kind of problem, above the table, because sensors with a problem are hard to find in a long table.
export function drawProblems(snapshot, inspect) {
  const kinds = new Map();
  for (const sensor of snapshot.sensors)
    for (const { word, text } of problemsOf(snapshot, sensor)) kinds.set(word, [...(kinds.get(word) ?? []), [sensor, text]]);
  byId("problems").hidden = !kinds.size;
  redraw(byId("problems"), JSON.stringify([...kinds].map(([word, each]) => [word, each.map(([{ id, name }, text]) => [id, name, text])])), () =>
    [...kinds].map(([word, found]) => html("li", {}, html("b", {}, `${found.length} ${word}: `),
      ...found.slice(0, MAX_NAMED).flatMap(([sensor, text], k) => [k ? ", " : "",
        html("button", { type: "button", on: { click: () => inspect(sensor.id) } }, sensor.name), text && found.length === 1 ? ` (${text})` : ""]),
      found.length > MAX_NAMED ? ` and ${found.length - MAX_NAMED} more` : "")));
}

// --- events -----------------------------------------------------------------------------------------------

const eventTitle = (kind) => `${kind[0].toUpperCase()}${kind.slice(1).replaceAll("-", " ")}.`;

export function drawEvents(snapshot, ofDaemon) {
  const newest = [...snapshot.notices, ...ofDaemon].sort((a, b) => Date.parse(b.at) - Date.parse(a.at)).slice(0, MAX_EVENTS);
  redraw(byId("log"), JSON.stringify([snapshot.field.id, newest.length, newest[0], newest.at(-1), snapshot.live, dayOf(snapshot.now, !snapshot.live)]), () =>
    newest.length
      ? newest.map((each) => html("li", {},
        html("time", { datetime: each.at }, moment(each.at, snapshot, true)),
        html("span", {}, html("b", {}, eventTitle(each.event)), ` ${keepTogether(each.text, snapshot.field.unit)}`)))
      : [html("li", { class: "none" }, "No events yet.")]);
}
