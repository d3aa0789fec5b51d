// The timeline: the selected sensors from left to right, with one line for each sensor.

import { BoxWidth, html, isNumber, moment, number, plural, quantity, redraw, shortened, svg, textWidth } from "./draw.js";

const TOP = 20, BOTTOM = 22; // px, margins of the chart

export class Timeline {
  constructor(box, note, seek) {
    Object.assign(this, { box, note, seek });
    this.available = new BoxWidth(box, () => this.snapshot && this.draw(this.snapshot, this.scale, this.digits));
  }

  draw(snapshot, scale, digits) {
    Object.assign(this, { snapshot, scale, digits });
    const width = this.available.px;
    if (this.field !== snapshot.field) this.widest = Math.max(...snapshot.field.sensors.map((id) => textWidth(snapshot.field.name(id))));
    this.field = snapshot.field;
    this.left = Math.min(this.widest + 12, 0.47 * width); // px, for the names
    const fitting = Math.max(20, Math.floor((width - this.left) / 9));
    const selections = snapshot.allSelections ?? snapshot.selections.slice(-fitting);
    const open = selections.slice(-2); // a message may change both
    const signature = JSON.stringify([snapshot.field.id, width, selections.length, selections[0]?.at, open, snapshot.index, scale.low, scale.high]);
    this.summarise(selections);
    redraw(this.box, signature, () =>
      (selections.length ? [this.chart(selections, width)] : [html("p", { class: "note" }, "No sensor was selected yet.")]));
  }

  chart(selections, width) {
    const present = new Set(selections.map((each) => each.sensor));
    const rows = this.snapshot.field.sensors.filter((each) => present.has(each));
    const rowHeight = rows.length <= 40 ? Math.max(12, Math.min(18, Math.floor(300 / rows.length))) : 6;
    const height = TOP + rows.length * rowHeight + BOTTOM;
    const { left } = this;
    const columnWidth = (width - left - 8) / Math.max(selections.length, 24);
    const x = (k) => left + k * columnWidth;
    const y = (sensor) => TOP + rows.indexOf(sensor) * rowHeight;
    const geometry = { rows, rowHeight, height, columnWidth, width, left, x, y };
    const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": this.note.textContent });
    root.append(...this.lines(geometry), ...this.currentInterval(selections, geometry));
    root.append(...this.resets(selections, geometry), ...selections.map((each, k) => this.cell(each, k, geometry)));
    root.append(...timeLabels(selections, geometry, this.snapshot));
    if (this.snapshot.allSelections) root.append(this.clickArea(selections, geometry));
    return root;
  }

  lines({ rows, rowHeight, width, left, y }) {
    const every = Math.ceil(11 / rowHeight);
    return rows.flatMap((sensor, k) => [
      svg("line", { class: "row", x1: left, x2: width, y1: y(sensor) + rowHeight / 2, y2: y(sensor) + rowHeight / 2 }),
      k % every ? "" : svg("text", { x: left - 8, y: y(sensor) + rowHeight / 2 + 4, "text-anchor": "end" }, this.shortName(sensor)),
    ]).filter(Boolean);
  }

  shortName(sensor) {
    return shortened(this.snapshot.field.name(sensor), this.left - 12);
  }

  currentInterval(selections, { x, columnWidth, height }) {
    const k = this.snapshot.index ?? selections.length - 1;
    const middle = x(k) + columnWidth / 2;
    if (columnWidth > 5)
      return [svg("rect", { class: "current", x: x(k) - 1, width: columnWidth + 2, y: TOP - 6, height: height - TOP - BOTTOM + 12 })];
    return [svg("line", { class: "current-line", x1: middle, x2: middle, y1: TOP - 6, y2: height - BOTTOM + 6 })];
  }

  resets(selections, { x, height }) {
    let labelled = -Infinity;
    return selections.flatMap((each, k) => {
      if (!k || each.resets <= selections[k - 1].resets) return [];
      const at = x(k) + 0.5, later = this.isLater(k) ? " later" : "";
      const line = svg("line", { class: `reset${later}`, x1: at, x2: at, y1: TOP - 6, y2: height - BOTTOM });
      if (at - labelled < 44) return [line];
      labelled = at;
      return [line, svg("text", { class: `reset-label${later}`, x: at, y: TOP - 9, "text-anchor": "middle" }, "reset")];
    });
  }

  // Whether an interval is after the one that the replay shows.
  isLater(k) { return this.snapshot.index !== undefined && k > this.snapshot.index; }

  cell(selection, k, { x, y, columnWidth, rowHeight }) {
    const [width, height] = [Math.max(1.5, Math.min(columnWidth - 1, 16)), Math.max(3, rowHeight - 4)];
    const [left, top] = [x(k) + (columnWidth - width) / 2, y(selection.sensor) + (rowHeight - height) / 2];
    const shape = shapeOf(selection, left, top, width, height, this.scale);
    const time = moment(selection.at, this.snapshot, true);
    shape.append(svg("title", {}, `${time} ${this.snapshot.field.name(selection.sensor)}: ${endingText(selection, this.digits, this.snapshot)}`));
    if (this.isLater(k)) shape.classList.add("later");
    return shape;
  }

  clickArea(selections, { columnWidth, height, width, left }) {
    const seek = (event) => {
      const area = event.currentTarget.getBoundingClientRect();
      this.seek(Math.max(0, Math.min(selections.length - 1, Math.floor((event.clientX - area.left) / columnWidth))));
    };
    return svg("rect", { class: "click-area", x: left, y: 0, width: width - left, height, on: { click: seek } });
  }

  // The number of ended intervals whose result is unknown. If a recommended sensor sends no reading, no result is published.
  countUnknown(selections) {
    const { recommends, live, field } = this.snapshot;
    if (recommends && (field.is_published || !live)) return 0;
    return selections.filter((each, k) => each.activated && each.ending === null && !(live && k === selections.length - 1)).length;
  }

  summarise(selections) {
    if (!selections.length) return void (this.note.textContent = "");
    const count = (ending) => selections.filter((each) => each.ending === ending).length;
    const unknown = this.countUnknown(selections);
    const counts = this.snapshot.recommends ? [`${count("answered")} with a reading`] : [`${count("answered")} with a reply`, `${count("missed")} timed out (×)`];
    if (unknown) counts.push(`${unknown} with an unknown result`);
    const resets = selections.filter((each, k) => k && each.resets > selections[k - 1].resets).length;
    const frequent = mostFrequent(selections).map(([id, n]) => `${this.snapshot.field.name(id)} ${n}×`).join(", ");
    this.note.textContent =
      `${plural(selections.length, "interval")}: ${counts.join(", ")}, ${plural(resets, "model reset")}. ` +
      `Most often selected: ${frequent}.` +
      (selections.some((each) => isNumber(each.value)) ? ` Colours from ${number(this.scale.low, this.scale.digits)} (dark) to ${quantity(this.scale.high, this.scale.digits, this.snapshot.field.unit)} (light).` : "");
  }
}

function shapeOf(selection, x, y, width, height, scale) {
  if (selection.ending === "missed") {
    const r = Math.min(4, Math.max(2, width / 2));
    const [u, v] = [x + width / 2, y + height / 2];
    return svg("path", { class: "timed-out", d: `M${u - r} ${v - r}L${u + r} ${v + r}M${u - r} ${v + r}L${u + r} ${v - r}` });
  }
  const kind = !selection.activated ? "saved" : selection.ending === "answered" ? "replied" : "open";
  const rect = svg("rect", { x, y, width, height, rx: Math.min(2, width / 3), class: kind });
  if (selection.ending === "answered") rect.style.fill = selection.value === null ? "var(--edge)" : scale.colour(selection.value);
  return rect;
}

function endingText(selection, digits, { activated, recommends }) {
  if (!selection.activated) return `selected, not ${activated}`;
  if (recommends) return selection.ending === "answered" ? `reported ${number(selection.value, digits)}` : "recommended";
  if (selection.ending === "answered") return selection.value === null ? "replied" : `replied ${number(selection.value, digits)}`;
  return { missed: "timed out", undelivered: "the command was not sent" }[selection.ending] ?? "reply unknown";
}

function mostFrequent(selections) {
  const counts = new Map();
  for (const { sensor } of selections) counts.set(sensor, (counts.get(sensor) ?? 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1]).slice(0, 3);
}

function timeLabels(selections, { x, left, width, height }, snapshot) {
  const [first, last] = [Date.parse(selections[0].at), Date.parse(selections.at(-1).at)];
  const withSeconds = last - first < 1200e3;
  const longest = 6.8 * Math.max(...[selections[0], selections.at(-1)].map((each) => moment(each.at, snapshot, withSeconds).length)); // px
  const fitting = Math.max(1, Math.floor((x(selections.length) - left) / (longest + 40)));
  const every = Math.ceil(selections.length / fitting);
  return selections.flatMap((each, k) =>
    (k % every || x(k) > width - longest ? [] : [svg("text", { x: x(k), y: height - 5 }, moment(each.at, snapshot, withSeconds))]));
}
