// Labels of the map: each is placed beside its disc, where it covers neither a disc nor another label.

import { shortened, textWidth } from "./draw.js";

const MAX_WIDTH = 156; // px of a name
export const LINE = 13; // px of a line

export class LabelSpace {
  // `discs`: [x, y, radius] of every sensor, with its ring
  constructor(width, height, discs) {
    Object.assign(this, { width, height, discs, taken: [] });
  }

  // Reserves a place for the label of a disc, and returns the middle of this place; null if no place is free. With `must`, the best
  // place is used even if it is not free.
  place([x, y, r], lines, must = false) {
    const half = Math.max(...lines.map(textWidth)) / 2 + 2, tall = (lines.length * LINE) / 2;
    const inside = Math.max(half, Math.min(x, this.width - half)); // beside the edge, a label is shifted inwards
    const [below, above, right, left] = [y + r + tall + 1, y - r - tall - 1, x + r + half + 2, x - r - half - 2];
    const places = [[inside, below], [inside, above], [right, y], [left, y], [right, below - tall], [left, below - tall], [right, above + tall], [left, above + tall],
      [inside, below + LINE], [inside, above - LINE]]
      .map(([u, v]) => ({ x: u, y: v, box: [u - half, v - tall, u + half, v + tall] }));
    const best = places.map((each) => ({ ...each, covered: this.countCovered(each.box) })).sort((a, b) => a.covered - b.covered)[0];
    if (best.covered && !must) return null;
    this.taken.push(best.box);
    return best;
  }

  // How many discs and labels a box covers; a label counts as five discs. A box that crosses an edge of the map
  // is the worst, because it would be cut.
  countCovered([left, top, right, bottom]) {
    const crosses = left < -1 || top < 0 || right > this.width + 1 || bottom > this.height;
    const discs = this.discs.filter(([x, y, r]) => x + r > left && x - r < right && y + r > top && y - r < bottom);
    const labels = this.taken.filter(([l, t, r, b]) => r > left && l < right && b > top && t < bottom);
    return (crosses ? 1e6 : 0) + discs.length + 5 * labels.length;
  }
}

// A name in one line, or in two if it is long; a word that fits no line is shortened.
export function linesOf(name) {
  const parts = name.length > 13 && name.includes(" ") ? halves(name) : [name];
  return parts.map((each) => shortened(each, MAX_WIDTH));
}

function halves(name) {
  const spaces = [...name.matchAll(/ /g)].map((each) => each.index);
  const middle = spaces.reduce((best, at) => (Math.abs(at - name.length / 2) < Math.abs(best - name.length / 2) ? at : best));
  return [name.slice(0, middle), name.slice(middle + 1)];
}

// Names without a common prefix: "node-17" becomes "17" where all names are node- and a number.
export function shortNames(names) {
  const prefix = names[0].replace(/\d+$/, "");
  const hasPrefix = names.length > 1 && names.every((each) => each.startsWith(prefix) && /^\d+$/.test(each.slice(prefix.length)));
  return names.map((each) => (hasPrefix ? each.slice(prefix.length) : each));
}
