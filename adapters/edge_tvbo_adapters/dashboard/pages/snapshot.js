// Snapshots: everything that the page draws of one field at one time, from live data or a recorded day, and its texts.

import { isNumber, keepTogether, quantity } from "./draw.js";
import { quantile } from "./quantiles.js";

const ROUNDING = 0.1; // standard deviations by which a computed bound may exceed that of the runner-up, besides a few units of the last decimal
const MAX_INELIGIBLE = 50; // sensors that a decision names as ineligible, as in edge_tvbo/control/decision_text.py

export function liveSnapshot(field, data, connections, now) {
  const posterior = data.posterior;
  const elapsed = posterior ? (now - Date.parse(posterior.at)) / 1000 : 0;
  const present = columnsOf(posterior);
  const before = columnsOf(data.prediction?.interval === data.decision?.interval ? data.prediction : posterior);
  const estimates = field.sensors.map((id) => {
    const [mean, std, last, age] = ["mean", "std", "last", "age_s"].map((each) => present(each, id));
    const predicted = { mean: before("mean", id), std: before("std", id) };
    return { mean, std, last, age: age === null ? null : age + elapsed, predicted };
  });
  const health = connections?.health?.fields?.[data.name];
  const snapshot = build(field, data.selections, data.decision, estimates, now, field.is_published);
  for (const id of health?.suspects ?? []) snapshot.sensor(id).unresponsive = true;
  for (const [id, fault] of Object.entries(health?.faulty ?? {})) snapshot.sensor(id).fault = fault;
  for (const [id, reading] of Object.entries(health?.implausible ?? {})) snapshot.sensor(id).implausible = reading;
  for (const id of health?.ignored ?? []) snapshot.sensor(id).ignored = true;
  for (const id of health?.energy?.low_battery ?? []) snapshot.sensor(id).lowBattery = true;
  const hotspot = data.hotspot?.sensor ?? snapshot.hotspot;
  const alert = data.alert?.active ? data.alert : null;
  const threshold = data.alert?.threshold ?? null; // `field` may have an old threshold: a command or a reload of the daemon may have changed it
  if (alert) for (const id of sensorsBeyond(alert, snapshot)) snapshot.sensor(id).beyond = true;
  const alertOver = data.alert?.active === false && data.alert.since ? Date.parse(data.alert.since) : null;
  return Object.assign(snapshot, { live: true, paused: Boolean(health?.paused), hotspot, alert, alertOver, threshold, notices: data.notices });
}

// The sensors with a reading or an estimate beyond the threshold. An alert lasts longer, until the values are beyond its release level.
function sensorsBeyond({ readings, sensor, value, threshold }, { field, sign }) {
  const values = [...Object.entries(readings), ...(field.has_model ? [[sensor, value]] : [])];
  return values.filter(([, each]) => sign * (each - threshold) > 0).map(([id]) => id);
}

// Returns a function that returns the value of a column of a posterior for a sensor; null if it is unknown.
function columnsOf(posterior) {
  const rows = new Map((posterior?.sensors ?? []).map((id, k) => [id, k]));
  return (column, id) => (rows.has(id) ? posterior[column][rows.get(id)] ?? null : null);
}

export function recordedSnapshot(field, day, index) {
  const frame = day.frames[index];
  const now = Date.parse(frame.decision.at);
  const selections = day.selections.slice(0, index + 1), shown = day.frames.slice(0, index + 1);
  const estimates = field.sensors.map((id, k) => {
    const read = shown.findLast((each) => isNumber(each.readings[id]));
    const predicted = { mean: frame.mean?.[k] ?? null, std: frame.std?.[k] ?? null };
    return { ...predicted, predicted, last: read?.readings[id] ?? null, age: read ? (now - Date.parse(read.decision.at)) / 1000 : null };
  });
  const end = index + 1 < day.frames.length ? Date.parse(day.frames[index + 1].decision.at) : Infinity;
  const notices = day.notices.filter((each) => Date.parse(each.at) < end);
  const snapshot = build(field, selections, frame.decision, estimates, now, field.is_published || selections.some((each) => each.ending));
  const hotspot = field.has_model ? frame.hotspot ?? snapshot.hotspot : null;
  Object.assign(snapshot, { live: false, paused: false, hotspot, alert: null, threshold: field.threshold, notices, allNotices: day.notices, index, allSelections: day.selections });
  for (const notice of [...day.before, ...notices]) applyNotice(snapshot, notice, selections);
  return snapshot;
}

// The state of a sensor or an alert after a notice of a recorded day.
function applyNotice(snapshot, { event, sensor: id, text, at }, selections) {
  const sensor = snapshot.sensor(id);
  switch (event) {
    case "sensor-lost": case "sensor-back": sensor.unresponsive = event === "sensor-lost"; break;
    case "sensor-ignored": case "sensor-used": sensor.ignored = event === "sensor-ignored"; break;
    case "sensor-faulty": case "sensor-agrees": sensor.fault = event === "sensor-faulty" ? text : null; break;
    // No notice says that the battery was changed, but a sensor with a low battery is not selected.
    case "battery-low": sensor.lowBattery = !selections.some((each) => [each.sensor, ...each.earlier].includes(id) && Date.parse(each.at) > Date.parse(at)); break;
    case "alert": snapshot.alert = { active: true, since: at, text, sensor: id }; break;
    case "alert-over": snapshot.alert = null; break;
  }
}

// `estimates`, by sensor: mean, std, last reading, its age, and `predicted`, the mean and std before the reply. `hasReplies`: whether the
// replies are known. They are published with the estimates, and a history contains them.
function build(field, selections, decision, estimates, now, hasReplies) {
  const sign = field.objective === "min" ? -1 : 1;
  const nextId = decision?.runner_up ?? null; // null if the decision compared no bounds of the same width
  const stated = new Map(nextId ? [[decision.sensor, decision.ucb], [nextId, decision.runner_up_ucb]] : []);
  const counts = countReplies(selections);
  const sensors = field.sensors.map((id, k) => {
    const { activated = 0, timedOut = 0 } = counts.get(id) ?? {};
    const { mean, std } = estimates[k].predicted;
    const estimate = field.has_model ? {} : { mean: null, std: null }; // what is published without a model is the prior
    const bound = nextId && isNumber(mean) && isNumber(std) ? stated.get(id) ?? quantile(field, mean, std, sign * decision.width) : null;
    const problems = { unresponsive: false, fault: null, implausible: null, ignored: false, lowBattery: false, beyond: false };
    return { id, name: field.name(id), ...estimates[k], ...estimate, bound, activated, timedOut: hasReplies ? timedOut : null, ...problems };
  });
  const byId = new Map(sensors.map((each) => [each.id, each]));
  const ranked = sensors.filter((each) => isNumber(each.mean)).sort((a, b) => sign * (b.mean - a.mean));
  const differ = decision?.model.observations > 0 || ranked.some((each) => each.mean !== ranked[0].mean);
  return {
    field, selections, decision, sensors, now, sign,
    extreme: sign > 0 ? "highest" : "lowest",
    recommends: Boolean(decision?.recommended),
    activated: decision?.recommended ? "recommended" : "activated",
    selection: selections.at(-1) ?? null,
    hotspot: differ ? ranked[0]?.id ?? null : null,
    nextId,
    nextBound: decision?.runner_up_ucb ?? null,
    sensor: (id) => byId.get(id) ?? {},
  };
}

function countReplies(selections) {
  const counts = new Map();
  const add = (id, activated, timedOut) => {
    const count = counts.get(id) ?? { activated: 0, timedOut: 0 };
    counts.set(id, { activated: count.activated + activated, timedOut: count.timedOut + timedOut });
  };
  for (const { sensor, activated, ending, earlier } of selections) {
    add(sensor, activated, ending === "missed");
    for (const id of earlier) add(id, true, false);
  }
  return counts;
}

// --- texts --------------------------------------------------------------------------------------------

// The reason of a decision, or "turn". A policy without a model has no estimates, whatever the daemon says.
const reasonOf = ({ decision, field }) => {
  if (!["warmup", "exploit", "explore"].includes(decision?.reason)) return decision?.reason;
  if (!field.has_model) return "scheduled";
  return decision.in_turn ? "turn" : decision.reason;
};

export function reasonText(snapshot) {
  const { extreme } = snapshot;
  return {
    warmup: "no reading yet", exploit: `${extreme} estimate`, explore: `could be the ${extreme}`, turn: "in turn", scheduled: "no model",
    probe: "no sensor replies", asked: "requested", saved: "energy saved",
  }[reasonOf(snapshot)] ?? "–";
}

// What is wrong with a sensor: the words, the sign in the map, and the reason where one is known.
export function problemsOf({ recommends }, sensor) {
  return [
    sensor.ignored ? { word: "ignored", sign: "–", text: "by command" } : null,
    sensor.unresponsive ? { word: recommends ? "silent" : "unresponsive", sign: "×", text: "" } : null,
    sensor.fault ? { word: "faulty", sign: "!", text: sensor.fault } : null,
    sensor.implausible ? { word: "implausible", sign: "?", text: sensor.implausible } : null,
    sensor.lowBattery ? { word: "low battery", sign: "↓", text: "" } : null,
  ].filter(Boolean);
}

// Why no estimate of a sensor is known.
export const noEstimateText = ({ field }) => (field.has_model ? "not published" : "none, because the policy has no model");

export const beyondText = ({ sign }) => `${sign > 0 ? "above" : "below"} the threshold`;

export function stateText(snapshot, sensor) {
  const texts = [];
  if (snapshot.decision?.sensor === sensor.id) texts.push(snapshot.decision.reason === "saved" ? `selected, not ${snapshot.activated}` : "selected");
  if (snapshot.hotspot === sensor.id) texts.push(snapshot.extreme);
  if (sensor.beyond) texts.push(beyondText(snapshot));
  return [...texts, ...problemsOf(snapshot, sensor).map((each) => each.word)].join(", ");
}

// Whether a sensor could be selected. The runner-up is the best of the other sensors that could.
export function couldBeSelected(snapshot, sensor) {
  const { decision, field, sign, nextId, nextBound } = snapshot, { id, bound, predicted } = sensor;
  if ([decision.sensor, nextId].includes(id)) return true;
  if (ineligibilityOf(snapshot, sensor)) return false;
  const error = ROUNDING * Math.max(predicted.std, decision.std) + 4 * 10 ** -field.decimals;
  return sign * (bound - nextBound) <= error;
}

// The word for why a sensor could not be selected; null if no reason is known. A decision names only `MAX_INELIGIBLE` of these sensors, and
// a probe of the sensors in turn names none. The present state of a sensor that is not named shows the probable reason.
function ineligibilityOf({ decision, nextId }, { id, ignored, unresponsive, fault, lowBattery }) {
  const { ineligible, earlier, reason } = decision, isProbe = reason === "probe";
  if (id in ineligible) return ineligible[id];
  const namesAll = !isProbe && Object.keys(ineligible).length < MAX_INELIGIBLE;
  if (namesAll || id === nextId) return null;
  if (earlier.includes(id)) return "activated";
  if (ignored) return "ignored";
  if (lowBattery) return "low-battery";
  return fault || (unresponsive && !isProbe) ? "unnamed" : null;
}

// Why a sensor could not be selected, by the word of `ineligibilityOf`.
function ineligibilityText({ recommends, activated }, { fault }, word) {
  return {
    ignored: "it is ignored by command",
    "backed-off": `it is ${recommends ? "silent" : "unresponsive"}, and backed off`,
    faulty: `it seems to be faulty${fault ? `: ${fault}` : ""}`,
    compared: `it repeats its reading, so another sensor is ${activated} first, for comparison`,
    refused: "the broker refuses its activations",
    "low-battery": "its battery is low",
    "no-energy": "an activation of it costs more energy than is left",
    activated: `it was already ${activated} in this interval`,
    unnamed: `it is probably one of the sensors that could not be ${activated}`,
  }[word] ?? `it could not be ${activated}`;
}

// Why a sensor was selected, or why it was not.
export function selectionText(snapshot, sensor, digits) {
  const { decision, field } = snapshot;
  if (!decision) return "No decision yet.";
  const inUnit = (value) => quantity(value, digits, field.unit);
  if (decision.sensor === sensor.id) return `Selected: ${keepTogether(decision.text.replace(`${field.plainName(sensor.id)}: `, ""), field.unit)}.`;
  const ineligibility = ineligibilityOf(snapshot, sensor);
  if (ineligibility) return `Not selected: ${keepTogether(ineligibilityText(snapshot, sensor, ineligibility), field.unit)}.`;
  const selected = field.name(decision.sensor);
  switch (reasonOf(snapshot)) {
    case "warmup": return `Not selected: there was no reading since the start or a reset, and ${selected} was drawn from the sensors with the highest bound.`;
    case "scheduled": return `Not selected: the policy uses no model, and selected ${selected}.`;
    case "probe": return `Not selected: no sensor replies, so the sensors are ${snapshot.activated} in turn, now ${selected}.`;
    case "turn": return `Not selected: the sensors are ${snapshot.activated} in turn, now ${selected}.`;
    case "asked": return `Not selected: a command requested ${selected}.`;
    case "saved": return `No sensor was ${snapshot.activated}, to save energy.`;
  }
  if (snapshot.nextBound === null) return `Not selected. The decision compared no bounds of the same width; ${selected} was selected.`;
  if (!isNumber(sensor.bound)) return "Not selected. Its estimate is not published, so its bound is unknown.";
  if (!couldBeSelected(snapshot, sensor)) return `Not selected: it is one of the sensors that could not be ${snapshot.activated}.`;
  return `Not selected: its bound is ${inUnit(sensor.bound)}, the bound of ${selected} is ${inUnit(decision.ucb)}.`;
}
