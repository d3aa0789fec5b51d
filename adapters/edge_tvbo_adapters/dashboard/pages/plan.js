// The floor plan: a disc for each sensor, its colour the estimate, its ring the uncertainty.

import { html, known, quantity, redraw, set, stops, svg } from "./draw.js";
import { stateOf } from "./moment.js";


export class Plan {
  constructor(box, legend, note, choose) {
    Object.assign(this, { box, legend, note, choose });
    this.places = new Map();
    new ResizeObserver(() => this.moment && this.draw(this.moment, this.look)).observe(box);
  }

  // `look`: { scale, widest, digits, selected }
  draw(moment, look) {
    Object.assign(this, { moment, look });
    const width = Math.max(280, Math.round(this.box.clientWidth));
    if (this.width !== width || this.scene !== moment.scene) this.lay(moment.scene, width);
    for (const sensor of moment.sensors) this.paint(this.places.get(sensor.id), sensor);
    this.explain();
  }

  // --- where everything is ---------------------------------------------------------------------------

  lay(scene, width) {
    const beside = width < 500 ? 26 : 36, margin = 46; // px around the outermost sensors; words go above and below
    Object.assign(this, { scene, width });
    const spots = scene.positions ?? circle(scene.sensors.length);
    const [left, right] = extent(spots.map((each) => each[0]));
    const [bottom, top] = extent(spots.map((each) => each[1]));
    const tallest = Math.min(540, width * 0.95);
    const zoom = Math.min((width - 2 * beside) / (right - left), (tallest - 2 * margin) / (top - bottom));
    const height = Math.round((top - bottom) * zoom + 2 * margin);
    const shift = (width - (right - left) * zoom) / 2;
    this.height = height;
    this.spots = spots.map(([x, y]) => [shift + (x - left) * zoom, height - margin - (y - bottom) * zoom]);
    this.radius = Math.max(6, Math.min(14, 0.35 * spacing(this.spots)));
    this.short = shortened(scene.sensors);
    this.inside = Math.max(...this.short.map((each) => each.length)) <= 3 && this.radius >= 7.5;
    this.root = svg("svg", {
      viewBox: `0 0 ${width} ${height}`, height, role: "listbox",
      "aria-label": "Sensors on the floor plan. Arrow keys go from one to the next, Enter chooses.",
    });
    this.metres = metresOf(zoom);
    if (scene.positions) this.root.append(...mesh(this.metres * zoom, shift - left * zoom, height - margin + bottom * zoom, width, height));
    this.places = new Map(scene.sensors.map((id, k) => [id, this.place(id, k)]));
    this.root.append(...[...this.places.values()].map((each) => each.group));
    this.box.replaceChildren(this.root);
    this.note.hidden = Boolean(scene.positions);
    this.note.textContent = "The configuration says no positions; the sensors stand in a circle, in its order.";
  }

  place(id, k) {
    const [x, y] = this.spots[k];
    const r = this.radius;
    const parts = {
      halo: svg("circle", { class: "halo" }), disc: svg("circle", { class: "disc", r }),
      chosen: svg("circle", { class: "chosen", r: r + 3.5 }),
      name: svg("text", { class: this.inside ? "id" : "below", y: this.inside ? 0 : r + 12 }, this.inside || this.radius >= 9 ? this.short[k] : ""),
      bracket: svg("path", { class: "bracket", d: brackets(r + 7) }), cross: svg("path", { class: "cross", d: `M${-r} ${-r}L${r} ${r}M${-r} ${r}L${r} ${-r}` }),
      peak: svg("path", { class: "peak", d: `M0 ${-r - 5}l-5.5 -9h11z` }), flag: svg("text", { class: "flag" }),
    };
    if (this.inside) parts.name.style.fontSize = `${Math.max(8, Math.min(11, r * 0.95))}px`;
    const group = svg("g", {
      class: "place", role: "option", tabindex: k === 0 ? 0 : -1, transform: `translate(${x} ${y})`,
      on: { click: () => this.choose(id), keydown: (event) => this.key(event, k), focus: () => this.rove(k) },
    }, svg("title", {}, id), svg("circle", { r: Math.max(r + 4, 14), fill: "transparent" }), ...Object.values(parts));
    return { id, k, x, y, group, ...parts };
  }

  // --- what it looks like now --------------------------------------------------------------------------

  paint(place, sensor) {
    const { scale, widest, digits, selected } = this.look;
    const unit = this.scene.unit;
    const believed = known(sensor.mean);
    const asked = this.moment.decision?.sensor === sensor.id;
    const highest = this.moment.hotspot === sensor.id;
    set(place.disc, { class: believed ? "disc" : "disc unknown" });
    place.disc.style.fill = believed ? scale.colour(sensor.mean) : "";
    set(place.halo, { r: halo(this.radius, sensor.std, widest) });
    if (this.inside) place.name.style.fill = believed ? scale.ink(sensor.mean) : "var(--text)";
    show(place.bracket, asked);
    show(place.cross, sensor.suspect);
    show(place.peak, highest);
    const words = [asked ? "asked" : "", highest ? (this.moment.sign > 0 ? "highest" : "lowest") : ""].filter(Boolean).join(" · ");
    this.hoist(place, words);
    set(place.group, {
      "aria-selected": sensor.id === selected,
      "aria-label": `${sensor.id}: ${quantity(sensor.mean, digits, unit)}, plus or minus ${quantity(sensor.std, digits, unit)}. ${stateOf(this.moment, sensor)}`,
    });
  }

  // Writes beside a sensor what is special about it, where that covers the fewest others.
  hoist(place, words) {
    if (place.flag.textContent !== words) place.flag.textContent = words;
    if (!words) return;
    const half = words.length * 3.3 + 3;
    const r = this.radius;
    const along = Math.max(half - place.x, Math.min(this.width - half - place.x, 0)); // so that it stays within the drawing
    const corners = [[along, -r - 20], [along, r + (this.inside ? 20 : 32)], [r + 12 + half, 0], [-r - 12 - half, 0]];
    const [, x, y] = corners.map(([x, y]) => [this.covered(place, x, y, half), x, y]).sort((a, b) => a[0] - b[0])[0];
    set(place.flag, { x, y: y + 4 });
    if (place.group.nextSibling && !this.root.contains(document.activeElement)) this.root.append(place.group);
  }

  // How many discs, and edges of the drawing, words of that half width would cover.
  covered(place, x, y, half) {
    const [u, v] = [place.x + x, place.y + y];
    let count = (u - half < 0 || u + half > this.width || v < 8 || v > this.height - 8) ? 10 : 0;
    for (const other of this.places.values())
      if (other !== place && Math.abs(other.x - u) < half + this.radius && Math.abs(other.y - v) < 6 + this.radius) count += 1;
    return count;
  }

  explain() {
    const { scale, widest, digits } = this.look;
    const { unit } = this.scene;
    const signature = JSON.stringify([scale.low, scale.high, widest, unit, this.moment.sign, this.scene.positions && this.metres]);
    redraw(this.legend, signature, () => {
      const ramp = svg("svg", { width: 120, height: 14, "aria-hidden": "true" },
        ...stops(24).map((fill, k) => svg("rect", { x: k * 5, width: 5.5, height: 14, fill })),
        svg("rect", { class: "ramp", x: 0.5, y: 0.5, width: 119, height: 13, fill: "none" }));
      const key = (width, ...shapes) => svg("svg", { width, height: 22, viewBox: `${-width / 2} -11 ${width} 22`, "aria-hidden": "true" }, ...shapes);
      const disc = () => svg("circle", { class: "disc", r: 5, fill: "none" });
      return [
        html("span", {}, `estimate ${scale.low.toFixed(scale.digits)}`, ramp, `${scale.high.toFixed(scale.digits)} ${unit}`),
        known(widest) && widest > 0 ? html("span", {}, key(24, disc(), svg("circle", { class: "halo", r: 10 })), `ring: ± ${quantity(widest, digits, unit)}`) : null,
        html("span", {}, key(20, disc(), svg("path", { class: "bracket", d: brackets(9) })), "asked"),
        html("span", {}, key(14, svg("path", { class: "peak", d: "M0 5l-5.5 -9h11z" })), this.moment.sign > 0 ? "highest" : "lowest"),
        html("span", {}, key(16, disc(), svg("path", { class: "cross", d: "M-5 -5L5 5M-5 5L5 -5" })), "silent"),
        this.scene.positions ? html("span", {}, `squares of ${this.metres} m`) : null,
      ].filter(Boolean);
    });
  }

  // --- the keyboard ------------------------------------------------------------------------------------

  rove(k) {
    for (const place of this.places.values()) set(place.group, { tabindex: place.k === k ? 0 : -1 });
  }

  key(event, k) {
    if (event.key === "Enter" || event.key === " ") this.choose(this.scene.sensors[k]);
    else if (event.key in WAYS) this.step(k, WAYS[event.key]);
    else return;
    event.preventDefault();
  }

  // Goes to the nearest sensor that lies that way, as the eye would.
  step(k, [dx, dy]) {
    const [x, y] = this.spots[k];
    let best = null, least = Infinity;
    for (const place of this.places.values()) {
      const ahead = (place.x - x) * dx + (place.y - y) * dy;
      const aside = Math.abs((place.x - x) * dy) + Math.abs((place.y - y) * dx);
      if (ahead > 0.5 && ahead + 2 * aside < least) [best, least] = [place, ahead + 2 * aside];
    }
    best?.group.focus();
  }
}

const WAYS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

const show = (element, visible) => set(element, { visibility: visible ? null : "hidden" });
const halo = (r, std, widest) => (known(std) && widest > 0 ? r + 1.5 + (std / widest) * r * 0.9 : 0);

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
  const turn = (2 * Math.PI * k) / count - Math.PI / 2;
  return [1.35 * Math.cos(turn), -Math.sin(turn)];
});

// The distance to the nearest neighbour: what a tenth of the sensors stay below.
function spacing(spots) {
  if (spots.length < 2) return 60;
  const nearest = spots.map(([x, y], k) => Math.min(...spots.map(([u, v], j) => (j === k ? Infinity : Math.hypot(x - u, y - v)))));
  return nearest.sort((a, b) => a - b)[Math.floor(nearest.length / 10)];
}

// "node-17" is "17" where all others are node-something too.
function shortened(ids) {
  const prefix = ids[0].replace(/\d+$/, "");
  const alike = ids.length > 1 && ids.every((each) => each.startsWith(prefix) && /^\d+$/.test(each.slice(prefix.length)));
  return ids.map((each) => (alike ? each.slice(prefix.length) : each.length > 12 ? `${each.slice(0, 11)}…` : each));
}

const metresOf = (zoom) => [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000].find((each) => each * zoom >= 60) ?? 10000;

// Lines every `step` px, through where the sensors' coordinates begin.
function mesh(step, x0, y0, width, height) {
  const lines = [];
  for (let x = ((x0 % step) + step) % step; x < width; x += step)
    lines.push(svg("line", { class: "mesh", x1: x, x2: x, y1: 0, y2: height }));
  for (let y = ((y0 % step) + step) % step; y < height; y += step)
    lines.push(svg("line", { class: "mesh", y1: y, y2: y, x1: 0, x2: width }));
  return lines;
}
