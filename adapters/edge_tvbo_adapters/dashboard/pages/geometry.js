// Geometry of the map: from positions in m to px, with the extent of the sensors and of the plan image.

import { svg } from "./draw.js";

// The margins in px around the outermost sensors, for their labels: wider with few sensors. Around an image, there is only room for the
// symbols of a sensor: the triangle is the largest.
const marginsOf = (sensors, image) => (image ? [27, 28] : [34, sensors > 30 ? 46 : 72]);
const CIRCLE_RADIUS_M = 5; // of sensors without positions, when they are placed
const MAX_IN_CIRCLE = 60; // sensors; more would overlap, and are drawn in rows

export class Geometry {
  // `image`: { url, width, height } in m, or null; `placing`: whether a user moves the sensors
  constructor(field, width, image, placing) {
    [this.marginX, this.marginY] = marginsOf(field.sensors.length, image);
    const known = field.placed ?? field.positions;
    this.isMetric = Boolean(known || image || placing);
    this.hasRows = field.sensors.length > MAX_IN_CIRCLE;
    const positions = known ?? (this.hasRows ? rows : circle)(field.sensors.length, image);
    const frame = image ? [[0, 0], [image.width, image.height]] : [];
    const [left, right] = extent([...positions, ...frame].map((each) => each[0]), placing && !image);
    const [bottom, top] = extent([...positions, ...frame].map((each) => each[1]), placing && !image);
    const maxHeight = Math.min(620, width * 1.1);
    this.zoom = Math.min((width - 2 * this.marginX) / (right - left), (maxHeight - 2 * this.marginY) / (top - bottom)); // px per m
    Object.assign(this, { width, image, left, bottom, height: Math.round((top - bottom) * this.zoom + 2 * this.marginY) });
    this.shift = (width - (right - left) * this.zoom) / 2;
    this.spots = positions.map((each) => this.toPixels(each));
    const distance = spacing(this.spots);
    this.radius = Math.max(5, Math.min(14, 0.38 * distance));
    this.reach = Math.max(this.radius, Math.min(Math.max(this.radius + 4, 14), 0.5 * distance)); // of a click
    this.gridSize = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000].find((each) => each * this.zoom >= 60) ?? 10000;
  }

  toPixels([x, y]) { return [this.shift + (x - this.left) * this.zoom, this.height - this.marginY - (y - this.bottom) * this.zoom]; }

  toMetres([x, y]) { return [(x - this.shift) / this.zoom + this.left, (this.height - this.marginY - y) / this.zoom + this.bottom]; }

  // The plan image, as an SVG element, if there is one.
  picture() {
    if (!this.image) return [];
    const [x, y] = this.toPixels([0, this.image.height]);
    const size = { width: this.image.width * this.zoom, height: this.image.height * this.zoom };
    return [svg("image", { class: "picture", href: this.image.url, x, y, ...size, preserveAspectRatio: "none" })];
  }
}

// Lines through the origin of the coordinates.
export function gridLines({ gridSize, zoom, width, height, ...geometry }) {
  const step = gridSize * zoom, x0 = geometry.shift - geometry.left * zoom, y0 = height - geometry.marginY + geometry.bottom * zoom;
  const lines = [];
  for (let x = ((x0 % step) + step) % step; x < width; x += step) lines.push(svg("line", { class: "grid", x1: x, x2: x, y1: 0, y2: height }));
  for (let y = ((y0 % step) + step) % step; y < height; y += step) lines.push(svg("line", { class: "grid", y1: y, y2: y, x1: 0, x2: width }));
  return lines;
}

// The range of coordinates; with `loose`, there is room to move sensors outwards.
function extent(values, loose) {
  const low = values.reduce((a, b) => Math.min(a, b)), high = values.reduce((a, b) => Math.max(a, b));
  const more = high > low ? (loose ? 0.2 * (high - low) : 0) : 1;
  return [low - more, high + more];
}

// Positions in a circle, the first on top: in the middle of the image, or around the origin.
function circle(count, image) {
  const [x, y, rx, ry] = image ? [image.width / 2, image.height / 2, 0.4 * image.width, 0.4 * image.height] : [0, 0, 1.35 * CIRCLE_RADIUS_M, CIRCLE_RADIUS_M];
  return Array.from({ length: count }, (_, k) => {
    const angle = (2 * Math.PI * k) / count;
    return [x + rx * Math.sin(angle), y + ry * Math.cos(angle)];
  });
}

// Positions in rows, in the configured order: in the image, or 1 m apart.
function rows(count, image) {
  const columns = Math.ceil(Math.sqrt(1.35 * count)), lines = Math.ceil(count / columns);
  const [left, top, dx, dy] = image
    ? [0.1 * image.width, 0.9 * image.height, (0.8 * image.width) / (columns - 1), (0.8 * image.height) / (lines - 1)] : [0, lines - 1, 1, 1];
  return Array.from({ length: count }, (_, k) => [left + dx * (k % columns), top - dy * Math.floor(k / columns)]);
}

// The distance of a sensor to its nearest neighbour: the 10 % quantile over all sensors.
function spacing(spots) {
  if (spots.length < 2) return 60;
  const nearest = spots.map(([x, y], k) => Math.min(...spots.map(([u, v], j) => (j === k ? Infinity : Math.hypot(x - u, y - v)))));
  return nearest.sort((a, b) => a - b)[Math.floor(nearest.length / 10)];
}
