// The floor plan: a disc for each sensor; its colour shows the estimate, its ring the standard deviation.

import { colourStops, html, isNumber, quantity, redraw, set, svg } from "./draw.js";
import { stateText } from "./snapshot.js";

export class FloorPlan {
  constructor(box, legend, note, inspect) {
    Object.assign(this, { box, legend, note, inspect });
    this.places = new Map();
    new ResizeObserver(() => this.snapshot && this.draw(this.snapshot, this.style)).observe(box);
  }

  // `style`: { scale, maxStd, digits, inspected }
  draw(snapshot, style) {
    Object.assign(this, { snapshot, style });
    const width = Math.max(280, Math.round(this.box.clientWidth));
    if (this.width !== width || this.field !== snapshot.field) this.layOut(snapshot.field, width);
    for (const sensor of snapshot.sensors) this.update(this.places.get(sensor.id), sensor);
    this.drawLegend();
  }

  // --- layout ----------------------------------------------------------------------------------------

  layOut(field, width) {
    const sideMargin = width < 500 ? 26 : 36, margin = 46; // px around the outermost sensors; labels are above and below
    Object.assign(this, { field, width });
    const positions = field.positions ?? circle(field.sensors.length);
    const [left, right] = extent(positions.map((each) => each[0]));
    const [bottom, top] = extent(positions.map((each) => each[1]));
    const maxHeight = Math.min(540, width * 0.95);
    const zoom = Math.min((width - 2 * sideMargin) / (right - left), (maxHeight - 2 * margin) / (top - bottom));
    const height = Math.round((top - bottom) * zoom + 2 * margin);
    const shift = (width - (right - left) * zoom) / 2;
    this.height = height;
    this.spots = positions.map(([x, y]) => [shift + (x - left) * zoom, height - margin - (y - bottom) * zoom]);
    this.radius = Math.max(6, Math.min(14, 0.35 * spacing(this.spots)));
    this.names = shortNames(field.sensors);
    this.namesInside = Math.max(...this.names.map((each) => each.length)) <= 3 && this.radius >= 7.5;
    this.root = svg("svg", {
      viewBox: `0 0 ${width} ${height}`, height, role: "listbox",
      "aria-label": "Sensors on the floor plan. The arrow keys move between them, Enter shows the details.",
    });
    this.gridSize = gridSizeOf(zoom);
    if (field.positions) this.root.append(...grid(this.gridSize * zoom, shift - left * zoom, height - margin + bottom * zoom, width, height));
    this.places = new Map(field.sensors.map((id, k) => [id, this.place(id, k)]));
    this.root.append(...[...this.places.values()].map((each) => each.group));
    this.box.replaceChildren(this.root);
    this.note.hidden = Boolean(field.positions);
    this.note.textContent = "The configuration has no positions, so the sensors are drawn in a circle, in the configured order.";
  }

  place(id, k) {
    const [x, y] = this.spots[k];
    const r = this.radius;
    const parts = {
      halo: svg("circle", { class: "halo" }), disc: svg("circle", { class: "disc", r }),
      cursor: svg("circle", { class: "cursor", r: r + 3.5 }),
      name: svg("text", { class: this.namesInside ? "inside" : "below", y: this.namesInside ? 0 : r + 12 }, this.namesInside || this.radius >= 9 ? this.names[k] : ""),
      bracket: svg("path", { class: "bracket", d: brackets(r + 7) }), cross: svg("path", { class: "cross", d: `M${-r} ${-r}L${r} ${r}M${-r} ${r}L${r} ${-r}` }),
      peak: svg("path", { class: "peak", d: `M0 ${-r - 5}l-5.5 -9h11z` }), label: svg("text", { class: "label" }),
    };
    if (this.namesInside) parts.name.style.fontSize = `${Math.max(8, Math.min(11, r * 0.95))}px`;
    const group = svg("g", {
      class: "place", role: "option", tabindex: k === 0 ? 0 : -1, transform: `translate(${x} ${y})`,
      on: { click: () => this.inspect(id), keydown: (event) => this.onKey(event, k), focus: () => this.makeTabStop(k) },
    }, svg("title", {}, id), svg("circle", { r: Math.max(r + 4, 14), fill: "transparent" }), ...Object.values(parts));
    return { id, k, x, y, group, ...parts };
  }

  // --- drawing -----------------------------------------------------------------------------------------

  update(place, sensor) {
    const { scale, maxStd, digits, inspected } = this.style;
    const unit = this.field.unit;
    const hasEstimate = isNumber(sensor.mean);
    const isSelected = this.snapshot.decision?.sensor === sensor.id;
    const isHotspot = this.snapshot.hotspot === sensor.id;
    set(place.disc, { class: hasEstimate ? "disc" : "disc unknown" });
    place.disc.style.fill = hasEstimate ? scale.colour(sensor.mean) : "";
    set(place.halo, { r: haloRadius(this.radius, sensor.std, maxStd) });
    if (this.namesInside) place.name.style.fill = hasEstimate ? scale.textColour(sensor.mean) : "var(--text)";
    setVisible(place.bracket, isSelected);
    setVisible(place.cross, sensor.unresponsive || sensor.ignored || Boolean(sensor.fault));
    setVisible(place.peak, isHotspot);
    const text = [isSelected ? "selected" : "", isHotspot ? this.snapshot.extreme : ""].filter(Boolean).join(" · ");
    this.drawLabel(place, text);
    set(place.group, {
      "aria-selected": sensor.id === inspected,
      "aria-label": `${sensor.id}: ${quantity(sensor.mean, digits, unit)}, plus or minus ${quantity(sensor.std, digits, unit)}. ${stateText(this.snapshot, sensor)}`,
    });
  }

  // Writes a label beside a sensor, on the side where it covers the fewest other sensors.
  drawLabel(place, text) {
    if (place.label.textContent !== text) place.label.textContent = text;
    if (!text) return;
    const half = text.length * 3.3 + 3;
    const r = this.radius;
    const along = Math.max(half - place.x, Math.min(this.width - half - place.x, 0)); // keeps it within the drawing
    const sides = [[along, -r - 20], [along, r + (this.namesInside ? 20 : 32)], [r + 12 + half, 0], [-r - 12 - half, 0]];
    const [, x, y] = sides.map(([x, y]) => [this.countCovered(place, x, y, half), x, y]).sort((a, b) => a[0] - b[0])[0];
    set(place.label, { x, y: y + 4 });
    if (place.group.nextSibling && !this.root.contains(document.activeElement)) this.root.append(place.group);
  }

  // The number of discs that a label of that half width would cover; crossing an edge of the drawing counts as ten.
  countCovered(place, x, y, half) {
    const [u, v] = [place.x + x, place.y + y];
    let count = (u - half < 0 || u + half > this.width || v < 8 || v > this.height - 8) ? 10 : 0;
    for (const other of this.places.values())
      if (other !== place && Math.abs(other.x - u) < half + this.radius && Math.abs(other.y - v) < 6 + this.radius) count += 1;
    return count;
  }

  drawLegend() {
    const { scale, maxStd, digits } = this.style;
    const { unit, positions } = this.field;
    const signature = JSON.stringify([scale.low, scale.high, maxStd, unit, this.snapshot.sign, positions && this.gridSize]);
    redraw(this.legend, signature, () => {
      const ramp = svg("svg", { width: 120, height: 14, "aria-hidden": "true" },
        ...colourStops(24).map((fill, k) => svg("rect", { x: k * 5, width: 5.5, height: 14, fill })),
        svg("rect", { class: "ramp", x: 0.5, y: 0.5, width: 119, height: 13, fill: "none" }));
      const key = (width, ...shapes) => svg("svg", { width, height: 22, viewBox: `${-width / 2} -11 ${width} 22`, "aria-hidden": "true" }, ...shapes);
      const disc = () => svg("circle", { class: "disc", r: 5, fill: "none" });
      return [
        html("span", {}, `estimate ${scale.low.toFixed(scale.digits)}`, ramp, `${scale.high.toFixed(scale.digits)} ${unit}`),
        maxStd > 0 ? html("span", {}, key(24, disc(), svg("circle", { class: "halo", r: 10 })), `largest ring: ± ${quantity(maxStd, digits, unit)}`) : null,
        html("span", {}, key(20, disc(), svg("path", { class: "bracket", d: brackets(9) })), "selected"),
        html("span", {}, key(14, svg("path", { class: "peak", d: "M0 5l-5.5 -9h11z" })), `${this.snapshot.extreme} estimate`),
        html("span", {}, key(16, disc(), svg("path", { class: "cross", d: "M-5 -5L5 5M-5 5L5 -5" })), "unresponsive, faulty or ignored"),
        positions ? html("span", {}, `grid: ${this.gridSize} m`) : null,
      ].filter(Boolean);
    });
  }

  // --- the keyboard ------------------------------------------------------------------------------------

  makeTabStop(k) {
    for (const place of this.places.values()) set(place.group, { tabindex: place.k === k ? 0 : -1 });
  }

  onKey(event, k) {
    if (event.key === "Enter" || event.key === " ") this.inspect(this.field.sensors[k]);
    else if (event.key in DIRECTIONS) this.focusNext(k, DIRECTIONS[event.key]);
    else return;
    event.preventDefault();
  }

  // Moves the focus to the nearest sensor in that direction.
  focusNext(k, [dx, dy]) {
    const [x, y] = this.spots[k];
    let nearest = null, distance = Infinity;
    for (const place of this.places.values()) {
      const ahead = (place.x - x) * dx + (place.y - y) * dy;
      const aside = Math.abs((place.x - x) * dy) + Math.abs((place.y - y) * dx);
      if (ahead > 0.5 && ahead + 2 * aside < distance) [nearest, distance] = [place, ahead + 2 * aside];
    }
    nearest?.group.focus();
  }
}

const DIRECTIONS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

const setVisible = (element, visible) => set(element, { visibility: visible ? null : "hidden" });
const haloRadius = (r, std, maxStd) => (isNumber(std) && maxStd > 0 ? r + 1.5 + (std / maxStd) * r * 0.9 : 0);

function brackets(r) {
  const a = r * 0.45;
  return [[-1, -1], [1, -1], [1, 1], [-1, 1]]
    .map(([x, y]) => `M${x * r} ${y * (r - a)}V${y * r}H${x * (r - a)}`).join("");
}

function extent(values) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  return high > low ? [low, high] : [low - 1, high + 1];
}

const circle = (count) => Array.from({ length: count }, (_, k) => {
  const angle = (2 * Math.PI * k) / count - Math.PI / 2;
  return [1.35 * Math.cos(angle), -Math.sin(angle)];
});

// The distance to the nearest neighbour, as its 10 % quantile over the sensors.
function spacing(spots) {
  if (spots.length < 2) return 60;
  const nearest = spots.map(([x, y], k) => Math.min(...spots.map(([u, v], j) => (j === k ? Infinity : Math.hypot(x - u, y - v)))));
  return nearest.sort((a, b) => a - b)[Math.floor(nearest.length / 10)];
}

// Names without a common prefix: "node-17" becomes "17" where all names are node- and a number.
function shortNames(ids) {
  const prefix = ids[0].replace(/\d+$/, "");
  const hasPrefix = ids.length > 1 && ids.every((each) => each.startsWith(prefix) && /^\d+$/.test(each.slice(prefix.length)));
  return ids.map((each) => (hasPrefix ? each.slice(prefix.length) : each.length > 12 ? `${each.slice(0, 11)}…` : each));
}

const gridSizeOf = (zoom) => [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000].find((each) => each * zoom >= 60) ?? 10000;

// Lines every `step` px, through the origin of the sensors' coordinates.
function grid(step, x0, y0, width, height) {
  const lines = [];
  for (let x = ((x0 % step) + step) % step; x < width; x += step)
    lines.push(svg("line", { class: "grid", x1: x, x2: x, y1: 0, y2: height }));
  for (let y = ((y0 % step) + step) % step; y < height; y += step)
    lines.push(svg("line", { class: "grid", y1: y, y2: y, x1: 0, x2: width }));
  return lines;
}
