// What is known at one moment of one field, from what is live or from a tape: all that is drawn.

import { known, quantity, span } from "./draw.js";

export function liveMoment(scene, field, standing, now) {
  const posterior = field.posterior;
  const since = posterior ? (now - Date.parse(posterior.at)) / 1000 : 0;
  const rows = new Map((posterior?.sensors ?? []).map((id, k) => [id, k]));
  const by = field.chosen_by?.interval === field.decision?.interval ? field.chosen_by : posterior;
  const at = (document, column, id) => (rows.has(id) ? document[column][rows.get(id)] ?? null : null);
  const believed = scene.sensors.map((id) => {
    const [mean, std, last, age] = ["mean", "std", "last", "age_s"].map((each) => at(posterior, each, id));
    const chosenBy = { mean: at(by, "mean", id), std: at(by, "std", id) };
    return { mean, std, last, age: age === null ? null : age + since, chosenBy };
  });
  const health = standing?.health?.fields?.[field.name];
  const moment = build(scene, field.picks, field.decision, believed, now);
  for (const id of health?.suspects ?? []) moment.suspect(id);
  for (const id of health?.energy?.low_battery ?? []) moment.sensor(id).lowBattery = true;
  return Object.assign(moment, { live: true, paused: Boolean(health?.paused), hotspot: field.hotspot?.sensor ?? moment.hotspot, notices: field.notices });
}

export function tapeMoment(scene, tape, index) {
  const frame = tape.frames[index];
  const now = Date.parse(frame.decision.at);
  const picks = tape.picks.slice(0, index + 1);
  const believed = scene.sensors.map((id, k) => {
    const pick = picks.findLast((each) => each.sensor === id && known(each.value));
    const chosenBy = { mean: frame.mean?.[k] ?? null, std: frame.std?.[k] ?? null };
    return { ...chosenBy, chosenBy, last: pick?.value ?? null, age: pick ? (now - Date.parse(pick.at)) / 1000 : null };
  });
  const end = index + 1 < tape.frames.length ? Date.parse(tape.frames[index + 1].decision.at) : Infinity;
  const notices = tape.notices.filter((each) => Date.parse(each.at) < end);
  const moment = build(scene, picks, frame.decision, believed, now);
  return Object.assign(moment, { live: false, paused: false, notices, index, allPicks: tape.picks });
}

function build(scene, picks, decision, believed, now) {
  const beliefs = new Map(scene.sensors.map((id, k) => [id, believed[k].chosenBy]));
  const stated = statedBounds(decision);
  const width = widthOf(decision, beliefs, stated);
  const counts = new Map();
  for (const pick of picks) {
    const count = counts.get(pick.sensor) ?? { asked: 0, missed: 0, silent: false };
    count.asked += pick.asked;
    if (pick.ending === "missed") [count.missed, count.silent] = [count.missed + 1, true];
    if (pick.ending === "answered") count.silent = false;
    counts.set(pick.sensor, count);
  }
  const sensors = scene.sensors.map((id, k) => {
    const { asked = 0, missed = 0, silent = false } = counts.get(id) ?? {};
    const { mean, std } = believed[k].chosenBy;
    const bound = known(mean) && known(std) ? stated.get(id) ?? mean + width * std : null;
    return { id, ...believed[k], bound, asked, missed, suspect: silent, lowBattery: false };
  });
  const byId = new Map(sensors.map((each) => [each.id, each]));
  const sign = scene.objective === "min" ? -1 : 1;
  const ranked = sensors.filter((each) => known(each.mean)).sort((a, b) => sign * (b.mean - a.mean));
  return {
    scene, picks, decision, sensors, now, sign,
    pick: picks.at(-1) ?? null,
    hotspot: ranked[0]?.id ?? null,
    compares: width !== 0 && ["explore", "exploit"].includes(decision?.reason),
    sensor: (id) => byId.get(id) ?? {},
    suspect: (id) => { if (byId.has(id)) byId.get(id).suspect = true; },
  };
}

// The bounds that a decision states: its own, and in words that of who came next.
function statedBounds(decision) {
  if (!decision || !["explore", "exploit"].includes(decision.reason)) return new Map();
  const next = decision.factors.map((each) => /^next is (\S+) with (-?[\d.]+)/.exec(each)).find(Boolean);
  return new Map([[decision.sensor, decision.ucb], ...(next ? [[next[1], Number(next[2])]] : [])]);
}

// How many standard deviations a bound is off the mean, from whom it can be told best: all are rounded.
function widthOf(decision, beliefs, stated) {
  let [width, widest] = [0, 0];
  for (const [id, bound] of stated) {
    const { mean, std } = id === decision.sensor ? decision : beliefs.get(id) ?? {};
    if (known(mean) && std > widest) [width, widest] = [(bound - mean) / std, std];
  }
  return width;
}

// --- in words -----------------------------------------------------------------------------------------

export function reasonOf(moment) {
  const most = moment.scene.objective === "min" ? "lowest" : "highest";
  return {
    warmup: "nothing known yet", exploit: `believed ${most}`, explore: "uncertain enough", scheduled: "its turn",
    probe: "each in turn", asked: "somebody asked", saved: "energy saved",
  }[moment.decision?.reason] ?? "–";
}

export function stateOf(moment, sensor) {
  const most = moment.scene.objective === "min" ? "lowest" : "highest";
  const words = [];
  if (moment.decision?.sensor === sensor.id) words.push(moment.decision.reason === "saved" ? "named, not asked" : "asked now");
  if (moment.hotspot === sensor.id) words.push(most);
  if (sensor.suspect) words.push(known(sensor.age) ? `silent for ${span(sensor.age)}` : "silent");
  if (sensor.lowBattery) words.push("battery low");
  return words.join(", ");
}

// Why a sensor was chosen, or why it was not.
export function verdict(moment, sensor, digits) {
  const { decision, scene } = moment;
  if (!decision) return "Nothing is decided yet.";
  const said = (value) => quantity(value, digits, scene.unit);
  if (decision.sensor === sensor.id) return `Chosen: ${decision.text.replace(`${sensor.id}: `, "")}.`;
  const excuse = decision.factors.find((each) => each.startsWith(`${sensor.id} is left`) || each.startsWith(`${sensor.id} has`));
  if (excuse) return `Not chosen: ${excuse}.`;
  if (sensor.suspect) return "Not chosen: it did not answer when it was last asked, and is left alone for a while.";
  if (sensor.lowBattery) return "Not chosen: its battery is low.";
  switch (decision.reason) {
    case "warmup": return `Not chosen: nothing was known yet, and ${decision.sensor} was drawn.`;
    case "scheduled": return `Not chosen: it is the turn of ${decision.sensor}.`;
    case "probe": return `Not chosen: nobody answers, so each is asked in turn; now ${decision.sensor}.`;
    case "asked": return `Not chosen: somebody asked for ${decision.sensor}.`;
    case "saved": return "Nobody was asked, to save energy.";
  }
  if (!known(sensor.bound)) return "Not chosen; what is believed of it is not published here.";
  return `Not chosen: its bound is ${said(sensor.bound)}, that of ${decision.sensor} is ${said(decision.ucb)}.`;
}
