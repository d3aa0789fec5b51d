// The map: a disc for each sensor; its colour shows the estimate, its ring the standard deviation, its sign a problem.

import { BoxWidth, colourStops, digitsFor, html, isNumber, quantity, redraw, set, setText, svg } from "./draw.js";
import { Geometry, gridLines } from "./geometry.js";
import { LINE, LabelSpace, linesOf, shortNames } from "./labels.js";
import { beyondText, noEstimateText, problemsOf, stateText } from "./snapshot.js";

const MAX_NAMES = 120; // with more sensors, only the selected sensor, the hot spot and sensors with a problem are named

export class FloorPlan {
  // `image`: the plan behind the map with its `width` and `height` in m, or null
  constructor(box, legend, note, inspect) {
    Object.assign(this, { box, legend, note, inspect, image: null, placing: null });
    this.places = new Map();
    this.available = new BoxWidth(box, () => this.snapshot && this.draw(this.snapshot, this.style));
  }

  // `style`: { scale, maxStd, digits, inspected }
  draw(snapshot, style) {
    Object.assign(this, { snapshot, style });
    const width = this.available.px;
    if (this.width !== width || this.field !== snapshot.field) this.layOut(snapshot.field, width);
    for (const sensor of snapshot.sensors) this.update(this.places.get(sensor.id), sensor);
    this.drawLabels();
    this.drawLegend();
  }

  // Draws the last snapshot again, after a change of the layout.
  refresh() {
    this.draw(this.snapshot, this.style);
  }

  // --- layout ----------------------------------------------------------------------------------------

  layOut(field, width = this.width) {
    const geometry = new Geometry(field, width, this.image, Boolean(this.placing));
    Object.assign(this, { field, width, geometry, radius: geometry.radius });
    this.hasGrid = geometry.isMetric && !this.image;
    const names = field.sensors.map(field.name), short = shortNames(names);
    this.namesInside = Math.max(...short.map((each) => each.length)) * 3.2 + 1.6 <= this.radius;
    this.names = this.namesInside ? short : names;
    this.lines = this.names.map(linesOf); // measured once, because the map is drawn each second
    this.root = svg("svg", {
      viewBox: `0 0 ${width} ${geometry.height}`, height: geometry.height, role: "listbox",
      "aria-label": this.placing
        ? "Sensors on the map. The Tab key moves between them, the arrow keys move a sensor to its place."
        : "Sensors on the map. The arrow keys move between them, Enter shows the details.",
    });
    this.box.classList.toggle("on-plan", Boolean(this.image));
    this.root.append(...geometry.picture(), ...(this.hasGrid ? gridLines(geometry) : []));
    this.places = new Map(field.sensors.map((id, k) => [id, this.place(id, k)]));
    this.root.append(...[...this.places.values()].map((each) => each.group));
    this.labels = this.root.appendChild(svg("g", { "aria-hidden": "true" }));
    this.box.replaceChildren(this.root);
    this.note.hidden = geometry.isMetric;
    setText(this.note, `The configuration has no positions, so the sensors are drawn in ${geometry.hasRows ? "rows" : "a circle"}, in the configured order. “Place sensors” writes a file of positions.`);
  }

  place(id, k) {
    const [x, y] = this.geometry.spots[k], r = this.radius;
    const parts = {
      halo: svg("circle", { class: "halo" }), disc: svg("circle", { class: "disc", r }),
      cursor: svg("circle", { class: "cursor", r: r + 3.5 }),
      name: svg("text", { class: "inside" }, this.namesInside ? this.names[k] : ""),
      bracket: svg("path", { class: "bracket", d: brackets(r + 7) }),
      peak: svg("path", { class: "peak", d: `M0 ${-r - 4}l-5.5 -9h11z` }),
      badge: svg("circle", { class: "badge", cx: 0.8 * r, cy: -0.8 * r, r: 6.5 }), sign: svg("text", { class: "sign", x: 0.8 * r, y: -0.8 * r + 0.5 }),
    };
    const group = svg("g", {
      class: "place", role: "option", tabindex: k === 0 || this.placing ? 0 : -1, transform: `translate(${x} ${y})`,
      on: {
        click: () => this.inspect(id), keydown: (event) => this.onKey(event, k), focus: () => this.makeTabStop(k),
        pointerdown: (event) => this.placing?.grab(event, k), pointermove: (event) => this.placing?.drag(event, k), pointerup: () => this.placing?.drop(),
      },
    }, svg("title", {}, this.field.name(id)), svg("circle", { r: this.geometry.reach, fill: "transparent" }), ...Object.values(parts));
    return { id, k, group, ...parts };
  }

  // Moves a sensor to another place, in px.
  move(k, spot) {
    this.geometry.spots[k] = spot;
    set(this.places.get(this.field.sensors[k]).group, { transform: `translate(${spot[0]} ${spot[1]})` });
    this.drawLabels();
  }

  // --- drawing -----------------------------------------------------------------------------------------

  update(place, sensor) {
    const { scale, maxStd, digits, inspected } = this.style;
    const hasEstimate = isNumber(sensor.mean);
    const [problem] = problemsOf(this.snapshot, sensor);
    set(place.disc, { class: ["disc", hasEstimate ? "" : "unknown", sensor.ignored ? "ignored" : "", sensor.beyond ? "beyond" : ""].join(" ").trim() });
    place.disc.style.fill = hasEstimate ? scale.colour(sensor.mean) : "";
    set(place.halo, { r: haloRadius(this.radius, sensor.std, maxStd) });
    if (this.namesInside) place.name.style.fill = hasEstimate ? scale.textColour(sensor.mean) : "var(--text)";
    setVisible(place.bracket, this.snapshot.decision?.sensor === sensor.id);
    setVisible(place.peak, this.snapshot.hotspot === sensor.id);
    for (const part of [place.badge, place.sign]) setVisible(part, problem);
    setText(place.sign, problem?.sign ?? "");
    const estimate = [sensor.mean, sensor.std].map((each) => quantity(each, digitsFor(sensor.std, digits), this.field.unit)).join(", plus or minus ");
    set(place.group, {
      "aria-selected": sensor.id === inspected,
      "aria-label": `${sensor.name}: ${hasEstimate ? estimate : `estimate ${noEstimateText(this.snapshot)}`}. ${stateText(this.snapshot, sensor)}`,
    });
  }

  // Writes names and states beside the discs where there is room, and always those of the selected sensor and of the hot spot.
  drawLabels() {
    const { width, height, spots } = this.geometry;
    const items = this.snapshot.sensors.map((sensor, k) => this.labelOf(sensor, k)).filter((each) => each.name.length + each.words.length);
    items.sort((a, b) => b.rank - a.rank);
    redraw(this.labels, JSON.stringify([items, spots]), () => {
      const reach = haloRadius(this.radius, 1, 1);
      const space = new LabelSpace(width, height, spots.map(([x, y]) => [x, y, reach]));
      return items.flatMap(({ k, name, words, rank }) => {
        if (rank === 2) return [label(name, words, space.place([...spots[k], this.radius + 13], [...name, ...words], true))];
        const fitting = [[name, words], [[], words], [name, []]].filter(([a, b]) => a.length + b.length);
        for (const [a, b] of fitting) {
          const at = space.place([...spots[k], reach], [...a, ...b]);
          if (at) return [label(a, b, at)];
        }
        return [];
      });
    });
  }

  // The name and the state of a sensor, in lines; rank 2 for the selected sensor and the hot spot, 1 for a problem.
  labelOf(sensor, k) {
    const isSelected = this.snapshot.decision?.sensor === sensor.id, isHotspot = this.snapshot.hotspot === sensor.id;
    const problems = problemsOf(this.snapshot, sensor).map((each) => each.word);
    const states = [isSelected ? "selected" : "", isHotspot ? this.snapshot.extreme : ""].filter(Boolean);
    const rank = states.length ? 2 : problems.length ? 1 : 0;
    const isNamed = !this.namesInside && (rank || this.names.length <= MAX_NAMES);
    return { k, rank, name: isNamed ? this.lines[k] : [], words: [states.join(" · "), ...problems].filter(Boolean) };
  }

  drawLegend() {
    const { scale, maxStd, digits } = this.style;
    const { unit } = this.field, { gridSize } = this.geometry;
    const problems = new Map(this.snapshot.sensors.flatMap((each) => problemsOf(this.snapshot, each)).map(({ word, sign }) => [word, sign]));
    const isBeyond = this.snapshot.sensors.some((each) => each.beyond);
    redraw(this.legend, JSON.stringify([this.field.id, isBeyond, scale.low, scale.high, maxStd, unit, this.snapshot.sign, this.hasGrid && gridSize, [...problems]]), () => {
      const ramp = svg("svg", { width: 120, height: 14, "aria-hidden": "true" },
        ...colourStops(24).map((fill, k) => svg("rect", { x: k * 5, width: 5.5, height: 14, fill })),
        svg("rect", { class: "ramp", x: 0.5, y: 0.5, width: 119, height: 13, fill: "none" }));
      const key = (width, ...shapes) => svg("svg", { width, height: 22, viewBox: `${-width / 2} -11 ${width} 22`, "aria-hidden": "true" }, ...shapes);
      const disc = () => svg("circle", { class: "disc", r: 5, fill: "none" });
      return [
        maxStd > 0 ? html("span", {}, `estimate ${scale.low.toFixed(scale.digits)}`, ramp, `${scale.high.toFixed(scale.digits)} ${unit}`) : null,
        maxStd > 0 ? html("span", {}, key(24, disc(), svg("circle", { class: "halo", r: 9 })), `largest ring: ± ${quantity(maxStd, digitsFor(maxStd, digits), unit)}`) : null,
        html("span", {}, key(20, disc(), svg("path", { class: "bracket", d: brackets(9) })), "selected"),
        this.field.has_model ? html("span", {}, key(14, svg("path", { class: "peak", d: "M0 5l-5.5 -9h11z" })), `${this.snapshot.extreme} estimate`) : null,
        isBeyond ? html("span", {}, key(16, svg("circle", { class: "disc beyond", r: 5.5 })), beyondText(this.snapshot)) : null,
        ...[...problems].map(([word, sign]) => html("span", {}, key(16, svg("circle", { class: "badge", r: 6.5 }), svg("text", { class: "sign", y: 0.5 }, sign)), word)),
        this.hasGrid ? html("span", {}, `grid: ${gridSize} m`) : null,
      ].filter(Boolean);
    });
  }

  // --- the keyboard ------------------------------------------------------------------------------------

  // The arrow keys reach all other sensors, unless they move the sensors to their places; then the Tab key reaches all sensors.
  makeTabStop(k) {
    if (this.placing) return;
    for (const place of this.places.values()) set(place.group, { tabindex: place.k === k ? 0 : -1 });
  }

  onKey(event, k) {
    if (event.key === "Enter" || event.key === " ") this.inspect(this.field.sensors[k]);
    else if (!(event.key in DIRECTIONS)) return;
    else if (this.placing) this.placing.nudge(k, DIRECTIONS[event.key], event.shiftKey);
    else this.focusNext(k, DIRECTIONS[event.key]);
    event.preventDefault();
  }

  // Moves the focus to the nearest sensor in that direction.
  focusNext(k, [dx, dy]) {
    const { spots } = this.geometry, [x, y] = spots[k];
    let nearest = null, distance = Infinity;
    for (const place of this.places.values()) {
      const [u, v] = spots[place.k];
      const ahead = (u - x) * dx + (v - y) * dy;
      const aside = Math.abs((u - x) * dy) + Math.abs((v - y) * dx);
      if (ahead > 0.5 && ahead + 2 * aside < distance) [nearest, distance] = [place, ahead + 2 * aside];
    }
    nearest?.group.focus();
  }
}

const DIRECTIONS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

const setVisible = (element, visible) => set(element, { visibility: visible ? null : "hidden" });
const haloRadius = (r, std, maxStd) => (isNumber(std) && maxStd > 0 ? r + 1.5 + (std / maxStd) * r * 0.7 : 0);

function brackets(r) {
  const a = r * 0.45;
  return [[-1, -1], [1, -1], [1, 1], [-1, 1]]
    .map(([x, y]) => `M${x * r} ${y * (r - a)}V${y * r}H${x * (r - a)}`).join("");
}

function label(name, words, { x, y }) {
  const lines = [...name.map((text) => [text, "name"]), ...words.map((text) => [text, "state"])];
  return svg("text", { class: "label" }, ...lines.map(([text, kind], k) =>
    svg("tspan", { class: kind, x, y: y + 4 + LINE * (k - (lines.length - 1) / 2) }, text)));
}
