// The history of picks: time from left to right, a line for each sensor that was picked.

import { clock, html, number, plural, quantity, redraw, svg } from "./draw.js";

const GUTTER = 78, TOP = 20, BOTTOM = 22; // px

export class Picks {
  constructor(box, note, seek) {
    Object.assign(this, { box, note, seek });
    new ResizeObserver(() => this.moment && this.draw(this.moment, this.scale, this.digits)).observe(box);
  }

  draw(moment, scale, digits) {
    Object.assign(this, { moment, scale, digits });
    const width = Math.max(280, Math.round(this.box.clientWidth));
    const all = moment.allPicks ?? moment.picks;
    const picks = moment.allPicks ? all : all.slice(-Math.max(20, Math.floor((width - GUTTER) / 9)));
    const last = picks.at(-1);
    const signature = JSON.stringify([width, picks.length, picks[0]?.at, last, moment.index, scale.low, scale.high]);
    redraw(this.box, signature, () => (picks.length ? [this.raster(picks, width)] : [html("p", { class: "note" }, "Nothing was picked yet.")]));
    this.summarise(picks);
  }

  raster(picks, width) {
    const seen = new Set(picks.map((each) => each.sensor));
    const rows = this.moment.scene.sensors.filter((each) => seen.has(each));
    const high = Math.max(5, Math.min(18, Math.floor(300 / rows.length)));
    const height = TOP + rows.length * high + BOTTOM;
    const wide = (width - GUTTER - 8) / Math.max(picks.length, 24);
    const geometry = { rows, high, height, wide, width, x: (k) => GUTTER + k * wide, y: (sensor) => TOP + rows.indexOf(sensor) * high };
    const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": this.note.textContent || "Picks over time" });
    root.append(...this.lines(geometry), ...this.present(picks, geometry));
    root.append(...this.resets(picks, geometry), ...picks.map((pick, k) => this.cell(pick, k, geometry)));
    root.append(...ticks(picks, geometry, !this.moment.live));
    if (this.moment.allPicks) root.append(this.target(picks, geometry));
    return root;
  }

  lines({ rows, high, width, y }) {
    const every = Math.ceil(11 / high);
    return rows.flatMap((sensor, k) => [
      svg("line", { class: "row", x1: GUTTER, x2: width, y1: y(sensor) + high / 2, y2: y(sensor) + high / 2 }),
      k % every ? "" : svg("text", { x: GUTTER - 8, y: y(sensor) + high / 2 + 4, "text-anchor": "end" }, sensor.length > 11 ? `${sensor.slice(0, 10)}…` : sensor),
    ]).filter(Boolean);
  }

  present(picks, { x, wide, height }) {
    const k = this.moment.index ?? picks.length - 1;
    const middle = x(k) + wide / 2;
    const band = svg("rect", { class: "present", x: x(k) - 1, width: wide + 2, y: TOP - 6, height: height - TOP - BOTTOM + 12 });
    return wide > 5 ? [band] : [svg("line", { class: "present-line", x1: middle, x2: middle, y1: TOP - 6, y2: height - BOTTOM + 6 })];
  }

  resets(picks, { x, height }) {
    let labelled = -Infinity;
    return picks.flatMap((pick, k) => {
      if (!k || pick.resets <= picks[k - 1].resets) return [];
      const at = x(k) + 0.5, later = this.isLater(k) ? " later" : "";
      const line = svg("line", { class: `reset${later}`, x1: at, x2: at, y1: TOP - 6, y2: height - BOTTOM });
      if (at - labelled < 44) return [line];
      labelled = at;
      return [line, svg("text", { class: `reset-label${later}`, x: at, y: TOP - 9, "text-anchor": "middle" }, "reset")];
    });
  }

  isLater(k) { return this.moment.index !== undefined && k > this.moment.index; }

  cell(pick, k, { x, y, wide, high }) {
    const [w, h] = [Math.max(1.5, Math.min(wide - 1, 16)), Math.max(3, high - 4)];
    const [left, top] = [x(k) + (wide - w) / 2, y(pick.sensor) + (high - h) / 2];
    const shape = shapeOf(pick, left, top, w, h, this.scale);
    shape.append(svg("title", {}, `${clock(pick.at, !this.moment.live, true)} ${pick.sensor}: ${endingOf(pick, this.digits)}`));
    if (this.isLater(k)) shape.classList.add("later");
    return shape;
  }

  target(picks, { wide, height, width }) {
    const seek = (event) => {
      const place = event.currentTarget.getBoundingClientRect();
      this.seek(Math.max(0, Math.min(picks.length - 1, Math.floor((event.clientX - place.left) / wide))));
    };
    return svg("rect", { class: "target", x: GUTTER, y: 0, width: width - GUTTER, height, on: { click: seek } });
  }

  summarise(picks) {
    if (!picks.length) return void (this.note.textContent = "");
    const count = (ending) => picks.filter((each) => each.ending === ending).length;
    const resets = picks.filter((each, k) => k && each.resets > picks[k - 1].resets).length;
    const often = mostOften(picks);
    this.note.textContent =
      `${plural(picks.length, "interval")}: ${count("answered")} answered, ${count("missed")} missed (×), ${plural(resets, "reset")}. ` +
      `Most often: ${often.map(([id, n]) => `${id} ${n}×`).join(", ")}. ` +
      `Dark is ${quantity(this.scale.low, this.scale.digits, "")}, light is ${quantity(this.scale.high, this.scale.digits, this.moment.scene.unit)}.`;
  }
}

function shapeOf(pick, x, y, width, height, scale) {
  if (pick.ending === "missed") {
    const r = Math.min(4, Math.max(2, width / 2));
    const [u, v] = [x + width / 2, y + height / 2];
    return svg("path", { class: "missed", d: `M${u - r} ${v - r}L${u + r} ${v + r}M${u - r} ${v + r}L${u + r} ${v - r}` });
  }
  const rect = svg("rect", { x, y, width, height, rx: Math.min(2, width / 3), class: !pick.asked ? "saved" : pick.ending === "answered" ? "answered" : "open" });
  if (pick.ending === "answered") rect.style.fill = pick.value === null ? "var(--edge)" : scale.colour(pick.value);
  return rect;
}

function endingOf(pick, digits) {
  if (!pick.asked) return "named, not asked";
  if (pick.ending === "answered") return `answered${pick.value === null ? "" : ` ${number(pick.value, digits)}`}`;
  return pick.ending === "missed" ? "missed" : "no word of it";
}

function mostOften(picks) {
  const counts = new Map();
  for (const { sensor } of picks) counts.set(sensor, (counts.get(sensor) ?? 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1]).slice(0, 3);
}

function ticks(picks, { x, width, height }, utc) {
  const [begin, end] = [Date.parse(picks[0].at), Date.parse(picks.at(-1).at)];
  const seconds = end - begin < 1200e3;
  const most = Math.max(1, Math.floor((x(picks.length) - GUTTER) / (seconds ? 90 : 75)));
  const every = Math.ceil(picks.length / most);
  return picks.flatMap((pick, k) => (k % every || x(k) > width - 30 ? [] : [svg("text", { x: x(k), y: height - 5 }, clock(pick.at, utc, seconds))]));
}
