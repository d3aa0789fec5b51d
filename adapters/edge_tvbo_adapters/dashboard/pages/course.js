// The course of a field: its hot spot and a chosen sensor in each interval, from the server, live data or a recorded day.

const MAX_POINTS = 1500; // as many intervals as the server stores
const byTime = (a, b) => a.at - b.at;

export class LiveCourse {
  constructor(changed) {
    Object.assign(this, { changed, key: "", field: null, points: [] });
  }

  // Loads the stored intervals, unless those of this field and sensor are loaded.
  async load(field, sensor) {
    const key = JSON.stringify([field, sensor]);
    if (this.key === key) return;
    if (field !== this.field || sensor !== this.sensor) this.points = [];
    Object.assign(this, { key, field, sensor });
    try {
      const response = await fetch(`course.json?${new URLSearchParams({ field, ...(sensor ? { sensor } : {}) })}`);
      if (!response.ok) throw new Error(`the server returned status ${response.status}`);
      const stored = (await response.json()).map(storedPoint);
      if (this.key !== key) return; // another sensor was chosen meanwhile
      const last = stored.at(-1)?.at ?? -Infinity;
      this.points = [...stored, ...this.points.filter((each) => each.at > last)].sort(byTime).slice(-MAX_POINTS);
      this.changed();
    } catch {
      if (this.key === key) this.key = "";
    }
  }

  // Loads the stored intervals again at the next `load`, because messages may have been missed.
  invalidate() { this.key = ""; }

  // Adds the interval of a message about the loaded field, or replaces it. After a new start, the daemon can repeat the number of an
  // interval, but the interval then begins at another time. The points are sorted, because a command may have begun a later interval.
  update(field, selection, data, { hotspot, readings }) {
    if (field !== this.field) return;
    const point = livePoint(selection, data, hotspot, readings, this.sensor);
    const known = this.points.findLastIndex((each) => each.interval === point.interval && each.begin === point.begin);
    if (known >= 0) this.points.splice(known, 1);
    this.points.push(point);
    this.points.sort(byTime);
    if (this.points.length > MAX_POINTS) this.points.shift();
  }
}

function livePoint({ at, interval, sensor, value, begin }, { prediction, posterior }, hotspot, readings, chosen) {
  const before = [prediction, posterior].find((each) => each?.interval === interval);
  const estimate = (id) => {
    const k = before?.sensors.indexOf(id) ?? -1;
    return { mean: before?.mean[k] ?? null, std: before?.std[k] ?? null, reading: readings[id] ?? null };
  };
  return { at: Date.parse(at), interval, hotspot, hottest: hotspot ? estimate(hotspot) : null, chosen: chosen ? estimate(chosen) : null, sensor, value, begin };
}

const estimateOf = (columns) => (columns ? { mean: columns[0], std: columns[1], reading: columns[2] } : null);

function storedPoint([at, interval, hotspot, hottest, chosen, sensor, value, begin]) {
  return { at: Date.parse(at), interval, hotspot, hottest: estimateOf(hottest), chosen: estimateOf(chosen), sensor, value, begin };
}

// A point of a field whose policy has no model: the stored estimates are the prior.
export const withoutEstimates = (point) => ({ ...point, hotspot: null, hottest: null, chosen: point.chosen && { ...point.chosen, mean: null, std: null } });

export function recordedCourse(field, frames, chosen) {
  const order = new Map(field.sensors.map((id, k) => [id, k]));
  return frames.map(({ decision, mean, std, hotspot, readings, value }) => {
    const estimate = (id) => (id ? { mean: mean?.[order.get(id)] ?? null, std: std?.[order.get(id)] ?? null, reading: readings[id] ?? null } : null);
    const { at, interval, sensor } = decision;
    return { at: Date.parse(at), interval, hotspot, hottest: estimate(hotspot), chosen: estimate(chosen), sensor, value };
  });
}
