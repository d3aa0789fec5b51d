// What is written: the decision, its rivals, one sensor, the table of all, the events.

import { clock, html, known, number, plural, quantity, redraw, say, set, span, svg } from "./draw.js";
import { reasonOf, stateOf, verdict } from "./moment.js";

const MOST_RIVALS = 6, MOST_EVENTS = 100;
const byId = (id) => document.getElementById(id);

// --- the decision -------------------------------------------------------------------------------------

export function drawDecision(moment, digits) {
  const { decision, scene } = moment;
  say(byId("sentence"), decision ? `${decision.text}.` : "Nothing is decided yet.");
  const facts = decision
    ? [
      ["Interval", `${decision.interval}`], ["Why", reasonOf(moment)], ["Answer", answerOf(moment, digits)],
      ...(moment.live ? [["Next in", nextIn(moment)]] : []),
      ["Model", plural(decision.model.observations, "reading")], ["Policy", decision.policy],
    ]
    : [];
  redraw(byId("facts"), JSON.stringify(facts), () =>
    facts.map(([name, value]) => html("div", {}, html("dt", {}, name), html("dd", { class: value === "missed" ? "missed" : null }, value))));
  drawRivals(moment, digits);
  redraw(byId("factors"), JSON.stringify([decision?.factors, scene.unit]), () => (decision?.factors ?? []).map((each) => html("li", {}, each)));
}

function answerOf(moment, digits) {
  const { pick, decision, scene } = moment;
  if (decision.reason === "saved") return "not asked";
  if (pick?.ending === "answered") return quantity(pick.value, digits, scene.unit);
  if (pick?.ending === "missed") return "missed";
  return moment.live && Date.parse(decision.expires_at) > moment.now ? "waiting" : "no word";
}

function nextIn(moment) {
  if (moment.paused) return "paused";
  const { interval } = moment.scene;
  if (interval === null) return "with the answer";
  const left = (Date.parse(moment.decision.at) - moment.now) / 1000 + interval;
  return left > 0 ? span(Math.ceil(left)) : left > -interval ? "due" : "overdue";
}

// --- who else was considered ----------------------------------------------------------------------------

function drawRivals(moment, digits) {
  const { decision, scene, sign } = moment;
  const ranked = moment.sensors.filter((each) => known(each.bound)).sort((a, b) => sign * (b.bound - a.bound));
  const ours = ranked.find((each) => each.id === decision?.sensor);
  const shown = moment.compares && ours ? [ours, ...ranked.filter((each) => each !== ours)].slice(0, MOST_RIVALS) : [];
  const signature = JSON.stringify([shown.map((each) => [each.id, each.chosenBy.mean, each.bound]), scene.unit, decision?.sensor]);
  redraw(byId("rivals"), signature, () => {
    if (!shown.length) return [html("p", { class: "note" }, decision ? "No bounds were compared in this interval, or none are published." : "")];
    const ends = shown.flatMap((each) => [each.chosenBy.mean, each.bound]);
    const [low, high] = [Math.min(...ends), Math.max(...ends)];
    const x = (value) => 2 + 96 * ((value - low) / (high - low || 1));
    const far = sign > 0 ? "highest" : "lowest";
    const head = html("tr", {}, ...["Sensor", "", "Believed", "Could be"].map((each, k) => html("th", { scope: "col", class: k > 1 ? "number" : null }, k === 1 ? html("span", { class: "hidden" }, "Drawn") : each)));
    return [html("table", {},
      html("caption", {}, `Who could be the ${far}: the dot is what is believed, the line reaches to the bound`),
      html("thead", {}, head),
      html("tbody", {}, ...shown.map((each) => rival(each, each === ours, x, ours, digits, scene.unit))))];
  });
}

function rival(each, isOurs, x, ours, digits, unit) {
  const bar = svg("svg", { viewBox: "0 0 100 14", height: 14, preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("line", { class: "goal", x1: x(ours.bound), x2: x(ours.bound), y1: 0, y2: 14, "vector-effect": "non-scaling-stroke" }),
    svg("line", { class: "reach", x1: x(each.chosenBy.mean), x2: x(each.bound), y1: 7, y2: 7, "vector-effect": "non-scaling-stroke" }),
    svg("rect", { class: "mean", x: x(each.chosenBy.mean) - 1.1, y: 3, width: 2.2, height: 8 }));
  return html("tr", { class: isOurs ? "ours" : null },
    html("th", { scope: "row" }, each.id), html("td", { class: "bar" }, bar),
    html("td", { class: "number" }, number(each.chosenBy.mean, digits)), html("td", { class: "number" }, quantity(each.bound, digits, unit)));
}

// --- one sensor -----------------------------------------------------------------------------------------

export function drawSensor(moment, id, digits) {
  const sensor = moment.sensor(id);
  const { unit } = moment.scene;
  say(byId("sensor-title"), id ? `Sensor ${id}` : "Sensor");
  const rows = [
    ["Estimate", known(sensor.mean) ? `${number(sensor.mean, digits)} ± ${quantity(sensor.std, digits, unit)}` : "not published"],
    ["Last reading", known(sensor.last) ? `${quantity(sensor.last, digits, unit)}, ${span(sensor.age)} ago` : "none yet"],
    ["Asked", `${sensor.asked}×, missed ${sensor.missed}`],
    ["State", stateOf(moment, sensor) || "listens"],
  ];
  const why = verdict(moment, sensor, digits);
  redraw(byId("sensor-box"), JSON.stringify([id, rows, why]), () => [
    html("dl", {}, ...rows.flatMap(([name, value]) => [html("dt", {}, name), html("dd", {}, value)])),
    html("p", { class: "verdict" }, why),
  ]);
}

// --- all sensors ------------------------------------------------------------------------------------------

const COLUMNS = [
  ["Sensor", "id", ""], ["Estimate", "mean", "number"], ["±", "std", "number"], ["Last reading", "last", "number wide"],
  ["Age", "age", "number"], ["Asked", "asked", "number wide"], ["Missed", "missed", "number wide"], ["State", "state", ""],
];

export class Table {
  constructor(choose) {
    Object.assign(this, { choose, by: "mean", down: true, rows: new Map() });
    byId("columns").append(...COLUMNS.map(([title, key, kind]) =>
      html("th", { scope: "col", class: kind || null, "data-key": key }, html("button", { type: "button", on: { click: () => this.sort(key) } }, title))));
  }

  sort(key) {
    this.down = this.by === key ? !this.down : key !== "id";
    this.by = key;
    this.draw(this.moment, this.selected, this.digits);
  }

  draw(moment, selected, digits) {
    Object.assign(this, { moment, selected, digits });
    for (const th of byId("columns").children)
      set(th, { "aria-sort": th.dataset.key === this.by ? (this.down ? "descending" : "ascending") : null });
    if (this.scene !== moment.scene) this.begin(moment.scene);
    for (const sensor of moment.sensors) this.fill(this.rows.get(sensor.id), sensor);
    this.arrange();
  }

  begin(scene) {
    this.scene = scene;
    this.rows = new Map(scene.sensors.map((id) => {
      const cells = COLUMNS.slice(1).map(([, , kind]) => html("td", { class: kind || null }));
      return [id, { row: html("tr", {}, html("th", { scope: "row" }, html("button", { type: "button", on: { click: () => this.choose(id) } }, id)), ...cells), cells }];
    }));
    byId("rows").replaceChildren(...[...this.rows.values()].map((each) => each.row));
  }

  fill({ row, cells }, sensor) {
    const { moment, digits } = this;
    const asked = moment.decision?.sensor === sensor.id;
    const texts = [
      quantity(sensor.mean, digits, moment.scene.unit), number(sensor.std, digits), number(sensor.last, digits), span(sensor.age),
      `${sensor.asked}`, `${sensor.missed}`, stateOf(moment, sensor),
    ];
    texts.forEach((text, k) => say(cells[k], text));
    set(row, { class: [sensor.id === this.selected ? "selected" : "", asked ? "asked" : ""].join(" ").trim() || null });
    set(cells.at(-1), { class: sensor.suspect ? "suspect" : null });
  }

  arrange() {
    const key = (each) => (this.by === "state" ? stateOf(this.moment, each) : each[this.by]);
    const order = [...this.moment.sensors].sort((a, b) => (this.down ? -1 : 1) * compared(key(a), key(b)));
    const rows = order.map((each) => this.rows.get(each.id).row);
    const body = byId("rows");
    if (rows.some((row, k) => body.children[k] !== row) && !body.contains(document.activeElement)) body.append(...rows);
  }
}

function compared(a, b) {
  if (typeof a === "string" && typeof b === "string") return a.localeCompare(b, "en", { numeric: true });
  return (known(a) ? a : -Infinity) - (known(b) ? b : -Infinity) || 0;
}

// --- events -----------------------------------------------------------------------------------------------

const titleOf = (kind) => `${kind[0].toUpperCase()}${kind.slice(1).replaceAll("-", " ")}.`;

export function drawEvents(moment, ofDaemon) {
  const newest = [...moment.notices, ...ofDaemon].sort((a, b) => Date.parse(b.at) - Date.parse(a.at)).slice(0, MOST_EVENTS);
  redraw(byId("log"), JSON.stringify([newest.length, newest[0], newest.at(-1), moment.live]), () =>
    newest.length
      ? newest.map((each) => html("li", {}, html("time", { datetime: each.at }, clock(each.at, !moment.live, true)), html("span", {}, html("b", {}, titleOf(each.event)), ` ${each.text}`)))
      : [html("li", { class: "none" }, "Nothing happened yet.")]);
}
