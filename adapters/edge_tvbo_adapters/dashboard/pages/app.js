// The page: its state, the live connection to the server, the replay of a recorded day, and the choice of the field.

import { CourseChart } from "./chart.js";
import { LiveCourse, recordedCourse, withoutEstimates } from "./course.js";
import { Scale, clock, html, isNumber, keepTogether, moment, redraw, set, setText } from "./draw.js";
import { FloorPlan } from "./floor_plan.js";
import { addNames } from "./names.js";
import { SensorTable, drawDecision, drawEvents, drawProblems, drawSensor } from "./panels.js";
import { Placing } from "./placing.js";
import { liveSnapshot, recordedSnapshot } from "./snapshot.js";
import { Timeline } from "./timeline.js";

const HEARTBEAT_TIMEOUT_MS = 12000; // if no event arrives in this time, the server counts as lost
const CONNECT_TIMEOUT_MS = 4000; // if the server does not answer in this time, the connection is opened again
const RETRY_DELAY_MS = 2000; // after the server rejected a request
// A daemon whose clock shows an earlier time has a clock that is not set (daemon/clock.py).
const RELEASED = Date.UTC(2026);
const MAX_SELECTIONS = 400, MAX_NOTICES = 200;
const NO_DATA = { selections: [], decision: null, posterior: null, prediction: null, hotspot: null, alert: null, notices: [] };

const byId = (id) => document.getElementById(id);
const page = {
  config: null, configText: "", // constant: the title and the fields with their sensors and positions, and its JSON
  planProblem: "", // why the plan image is not shown
  field: "", mode: "live", inspected: null, // the shown field, live or replay, the sensor in the sensor panel
  fields: {}, notices: [], connections: null, // live data
  day: null, index: 0, timer: null, // the recorded day, the shown interval, the running replay
  dayRequests: 0, // how often a recorded day was requested; only the last request is shown
  source: null, subscribedAt: 0, // the connection of the events, and when it was requested or opened
  retry: null, // the timer of the next comparison with the server's configuration
  drawing: null, lastEventAt: 0, serverLost: false, clockOffset: 0, // ms that the server's clock is ahead of this one
};
const inspect = (id) => { page.inspected = id; draw(); };
const floorPlan = new FloorPlan(byId("plan-box"), byId("legend"), byId("plan-note"), inspect);
const placing = new Placing(floorPlan, byId("place"), byId("placing-tools"));
const course = new LiveCourse(() => draw());
const chart = new CourseChart(byId("course-box"), byId("course-legend"), byId("course-note"), (index) => seek(index));
const timeline = new Timeline(byId("timeline-box"), byId("timeline-note"), (index) => seek(index));
const table = new SensorTable(inspect);

// --- drawing ----------------------------------------------------------------------------------------------

function draw() {
  const snapshot = currentSnapshot();
  byId("main").classList.toggle("empty", !snapshot);
  for (const { available } of [chart, timeline, floorPlan]) available.measure();
  drawConnections();
  for (const id of ["play", "slider", "day"]) byId(id).disabled = !page.day?.frames.length;
  if (!snapshot) return void (byId("alert").hidden = true);
  const style = styleOf(snapshot);
  const inspected = page.inspected ?? snapshot.decision?.sensor ?? snapshot.field.sensors[0];
  const shown = snapshot.allSelections ?? snapshot.selections;
  drawDecision(snapshot, style.digits);
  drawAlert(snapshot);
  chart.draw(snapshot, coursePoints(snapshot), page.inspected, style.digits);
  timeline.draw(snapshot, scaleOf(shown.map((each) => each.value)), style.digits);
  floorPlan.draw(snapshot, { ...style, inspected });
  drawSensor(snapshot, inspected, style.digits);
  table.draw(snapshot, inspected, style.digits);
  drawProblems(snapshot, inspect);
  drawEvents(snapshot, page.mode === "live" ? page.notices : []);
}

// Draws once for all messages that arrive until the browser shows the next picture.
function drawSoon() {
  page.drawing ??= requestAnimationFrame(() => { page.drawing = null; draw(); });
}

function currentSnapshot() {
  const field = page.config?.fields[page.field];
  if (!field) return null;
  if (page.mode === "live") {
    const data = { ...(page.fields[page.field] ?? NO_DATA), name: page.field };
    return liveSnapshot(field, data, page.connections, Date.now() + page.clockOffset);
  }
  return page.day?.frames.length ? recordedSnapshot(field, page.day, page.index) : null;
}

// The colour scale and the largest standard deviation of a snapshot; the digits are those to which the daemon rounds.
function styleOf({ field, sensors }) {
  const maxStd = sensors.map((each) => each.std).filter(isNumber).reduce((a, b) => Math.max(a, b), 0);
  return { scale: scaleOf(sensors.map((each) => each.mean)), maxStd, digits: field.decimals };
}

function scaleOf(values) {
  const numbers = values.filter(isNumber);
  return numbers.length ? new Scale(Math.min(...numbers), Math.max(...numbers)) : new Scale(0, 1);
}

function coursePoints({ field, decision }) {
  if (page.mode === "live") course.load(field.id, page.inspected);
  const points = page.mode === "live" ? ofPresentClock(course.points, decision) : recordedCourse(field, page.day.frames, page.inspected);
  return field.has_model ? points : points.map(withoutEstimates);
}

// The points from before the daemon's clock was set, or the later points. The two groups are decades apart, so only one group is shown.
// The newest decision shows whether the clock is set now.
function ofPresentClock(points, decision) {
  const isSet = Date.parse(decision?.at) >= RELEASED;
  const found = points.filter(({ at }) => (at >= RELEASED) === isSet);
  return found.length ? found : points;
}

function drawAlert({ alert, live, now, field }) {
  byId("alert").hidden = !alert;
  const since = alert?.since ? ` (since ${moment(alert.since, { live, now })})` : "";
  setText(byId("alert"), alert ? `${keepTogether(alert.text, field.unit)}${since}.` : "");
}

function drawConnections() {
  const { broker, daemon, health, outdated } = page.connections ?? {};
  byId("connections").hidden = !page.config?.live;
  const isConnected = Boolean(broker?.online) && !page.serverLost;
  drawConnection("broker", isConnected, Boolean(broker?.reason) || page.serverLost, brokerText(broker, isConnected));
  const state = daemon === "online" && isSilent(health) ? "silent" : daemon;
  const words = { online: "Daemon online", offline: "Daemon offline", silent: "Daemon not responding" };
  const daemonText = isConnected ? words[state] ?? "Daemon: no status yet" : "Daemon: unknown";
  drawConnection("daemon", isConnected && state === "online", isConnected && ["offline", "silent"].includes(state), daemonText);
  const alarm = alarmText(broker, state, outdated);
  byId("alarm").hidden = !alarm;
  setText(byId("alarm"), alarm);
}

// Whether reports of the daemon are missing. The status does not show this: after a power failure, a broker with persistence
// still has the status "online".
function isSilent(health) {
  if (!health || Date.parse(health.at) < RELEASED || page.config?.silent_after === null) return false;
  const times = [health, ...Object.values(page.fields).map((each) => each.decision)].filter(Boolean).map(({ at }) => Date.parse(at));
  return Date.now() + page.clockOffset - Math.max(...times) > 1000 * page.config?.silent_after;
}

// The time of a message, to the second.
const dated = (time) => moment(time, { live: true, now: Date.now() + page.clockOffset }, true);

function brokerText(broker, isConnected) {
  if (page.serverLost || !broker) return "Broker: unknown";
  if (!isConnected && !broker.reason) return "Broker: connecting";
  return isConnected ? "Broker connected" : `Broker disconnected since ${dated(broker.since)}`;
}

function alarmText(broker, daemon, outdated) {
  if (page.serverLost) {
    const shown = page.lastEventAt ? ` and shows the data of ${dated(page.lastEventAt)}` : "";
    return `The dashboard server does not respond. The page keeps trying${shown}.`;
  }
  if (page.mode === "replay") return page.day?.problem ?? "";
  if (!page.config?.live) return "";
  if (broker?.reason)
    return `The broker has been disconnected since ${dated(broker.since)}: ${broker.reason}. The page shows older data.`;
  if (daemon === "offline") return "The daemon is offline, so no sensor is selected. The page shows older data.";
  if (daemon === "silent") return `The daemon has sent no report since ${dated(page.connections.health.at)}: it does not respond. The page shows older data.`;
  if (outdated)
    return "The daemon has other fields, sensors or units than this dashboard, because the configuration has changed. Restart the dashboard.";
  return "";
}

function drawConnection(id, isGood, isBad, text) {
  set(byId(id), { class: isGood ? "good" : isBad ? "bad" : null });
  setText(byId(id), text);
}

// --- live data --------------------------------------------------------------------------------------------

function subscribe() {
  page.source?.close();
  const source = new EventSource("events");
  Object.assign(page, { source, subscribedAt: Date.now() });
  const on = (name, update) => source.addEventListener(name, (event) => {
    const document = JSON.parse(event.data);
    Object.assign(page, { lastEventAt: Date.now(), serverLost: false });
    const at = document.at ?? document.connections?.at;
    if (at) page.clockOffset = Date.parse(at) - Date.now();
    update(document);
    if (page.mode === "live") drawSoon();
    else drawConnections();
  });
  on("view", ({ connections, fields, notices }) => {
    if (page.connections) reloadIfChanged(); // the server may have started again
    Object.assign(page, { connections, fields, notices });
    course.invalidate();
  });
  on("connections", (connections) => { page.connections = connections; });
  on("heartbeat", () => {});
  on("field", updateField);
  on("notice", ({ field, notice }) => {
    const list = field === null ? page.notices : page.fields[field].notices;
    list.push(notice);
    if (list.length > MAX_NOTICES) list.shift();
  });
  source.onopen = () => { page.subscribedAt = Date.now(); };
  source.onerror = () => {
    page.serverLost = true;
    draw();
    if (source.readyState === EventSource.CLOSED) setTimeout(() => page.source === source && subscribe(), RETRY_DELAY_MS);
  };
}

// Loads the whole page again if the server has another configuration than the page. A server that has just started may be too busy to
// answer: the pages of all browsers connect again at the same time.
async function reloadIfChanged() {
  clearTimeout(page.retry);
  try {
    if ((await fetchConfig()) !== page.configText) location.reload();
  } catch {
    page.retry = setTimeout(reloadIfChanged, RETRY_DELAY_MS);
  }
}

function updateField({ field, selection, course: newest, ...changed }) {
  const data = Object.assign(page.fields[field], changed);
  if (changed.posterior?.ending === null || changed.posterior === null) data.prediction = changed.posterior;
  if (!selection) return;
  // After a new start, the daemon can repeat the number of an interval, but the interval then begins at another time.
  const index = data.selections.findLastIndex((each) => each.interval === selection.interval && each.begin === selection.begin);
  if (index >= 0) data.selections[index] = selection;
  else data.selections.push(selection);
  if (data.selections.length > MAX_SELECTIONS) data.selections.shift();
  course.update(field, selection, data, newest);
}

// Opens the connection of the events again if no event arrives: the browser does not notice that a network has dropped the connection.
// Several attempts may be necessary, because the browser keeps up to five other connections, which may also have been dropped.
function tick() {
  const limit = page.source?.readyState === EventSource.CONNECTING ? CONNECT_TIMEOUT_MS : HEARTBEAT_TIMEOUT_MS;
  if (page.source && Date.now() - Math.max(page.lastEventAt, page.subscribedAt) > limit) {
    page.serverLost = true;
    subscribe();
  }
  if (page.mode === "live") draw();
  else drawConnections();
}

// --- replay -----------------------------------------------------------------------------------------------

async function loadDay(date) {
  const request = (page.dayRequests += 1);
  seek(page.day ? page.index : 0);
  const day = await fetchDay(date);
  if (request !== page.dayRequests || page.mode !== "replay") return; // another day, another field or the live data were chosen meanwhile
  day.selections = day.frames.map(({ decision, ending, value }) => ({
    interval: decision.interval, at: decision.at, sensor: decision.sensor, activated: decision.reason !== "saved",
    resets: decision.model.resets, ending, value, earlier: decision.earlier, begin: decision.at,
  }));
  const unreadable = "The history cannot be read; the dashboard's log shows the reason";
  if (!day.frames.length) day.problem ??= day.complete ? "No day is recorded yet." : `${unreadable}.`;
  else if (!day.complete) writeZone("UTC", `${unreadable}. The page shows what the dashboard received since its start.`);
  else if (date && date !== day.day) writeZone("UTC", `${date} is not one of the days that can be replayed; the page shows ${day.day}.`);
  page.day = day;
  redraw(byId("day"), JSON.stringify([page.field, day.days]), () => day.days.map((each) => html("option", { value: each }, each)));
  byId("day").value = day.day;
  byId("slider").max = Math.max(0, day.frames.length - 1);
  seek(0);
}

// Writes the time zone of the page, and why something is not shown.
const writeZone = (zone, problem) =>
  setText(byId("zone"), [`Times are in ${zone}.`, problem, page.planProblem].filter(Boolean).join(" "));

async function fetchDay(date) {
  const query = new URLSearchParams({ field: page.field, ...(date ? { day: date } : {}) });
  try {
    const response = await fetch(`day.json?${query}`);
    if (!response.ok) throw new Error(`the server returned status ${response.status}`);
    return await response.json();
  } catch (error) {
    const problem = `The recorded day cannot be loaded: ${error.message}.`;
    return { days: [], day: "", frames: [], notices: [], complete: true, problem };
  }
}

function seek(index) {
  page.index = index;
  const decision = page.day?.frames[index]?.decision;
  const text = decision ? `${clock(decision.at, true)} UTC, interval ${decision.interval}` : page.day ? "no recorded interval" : "loading";
  byId("slider").value = index;
  set(byId("slider"), { "aria-valuetext": text });
  setText(byId("when"), text);
  draw();
}

function startReplay() {
  stopReplay();
  setText(byId("play"), "Pause");
  set(byId("sentence"), { "aria-live": "off" });
  const last = () => page.day.frames.length - 1;
  if (page.index >= last()) seek(0);
  page.timer = setInterval(() => (page.index < last() ? seek(page.index + 1) : stopReplay()), 1000 / Number(byId("speed").value));
}

function stopReplay() {
  clearInterval(page.timer);
  page.timer = null;
  setText(byId("play"), "Play");
  set(byId("sentence"), { "aria-live": "polite" });
}

// --- mode and field ---------------------------------------------------------------------------------------

async function show(mode, date) {
  page.mode = mode;
  stopReplay();
  set(byId("live"), { "aria-pressed": mode === "live" });
  set(byId("replay"), { "aria-pressed": mode === "replay" });
  byId("transport").hidden = mode === "live";
  writeZone(mode === "live" ? `the time zone of this browser, ${Intl.DateTimeFormat().resolvedOptions().timeZone}` : "UTC");
  if (mode === "replay") await loadDay(date);
  else draw();
}

function route() {
  const wanted = new URLSearchParams(location.hash.slice(1));
  const names = Object.keys(page.config.fields);
  const field = names.includes(wanted.get("field")) ? wanted.get("field") : page.field || names[0];
  if (field !== page.field) Object.assign(page, { inspected: null, day: null });
  if (field !== page.field && floorPlan.placing) placing.end();
  page.field = field;
  setText(byId("course-title"), `${field[0].toUpperCase()}${field.slice(1).replaceAll("_", " ")} over time`);
  byId("fields").hidden = names.length < 2;
  redraw(byId("fields"), JSON.stringify([names, field]), () =>
    names.map((each) => html("a", { href: `#${new URLSearchParams({ field: each })}`, "aria-current": each === field ? "page" : null }, each)));
  const date = wanted.get("day");
  show(page.config.live && page.mode === "live" && !date ? "live" : "replay", date);
}

// Loads the plan image, because the map needs its height.
async function loadPlan(plan) {
  if (!plan) return;
  const image = Object.assign(new Image(), { src: "plan" });
  try {
    await image.decode();
    floorPlan.image = { url: image.src, width: plan.width, height: (plan.width * image.naturalHeight) / image.naturalWidth };
  } catch {
    page.planProblem = "The browser cannot read the plan image.";
  }
}

async function fetchConfig() {
  const response = await fetch("fields.json");
  if (!response.ok) throw new Error(`the server returned status ${response.status}`);
  return await response.text();
}

async function start() {
  try {
    page.configText = await fetchConfig();
    page.config = JSON.parse(page.configText);
  } catch {
    return void setTimeout(start, RETRY_DELAY_MS);
  }
  for (const [id, field] of Object.entries(page.config.fields)) addNames(Object.assign(field, { id, placed: null }));
  await loadPlan(page.config.plan);
  setText(byId("title"), page.config.title);
  document.title = `${page.config.title} – edge_tvbo`;
  byId("live").disabled = !page.config.live;
  byId("live").addEventListener("click", () => show("live"));
  byId("replay").addEventListener("click", () => show("replay"));
  byId("play").addEventListener("click", () => (page.timer ? stopReplay() : startReplay()));
  byId("slider").addEventListener("input", (event) => { stopReplay(); seek(Number(event.target.value)); });
  byId("speed").addEventListener("change", () => page.timer && startReplay());
  byId("day").addEventListener("change", (event) => { stopReplay(); loadDay(event.target.value); });
  addEventListener("hashchange", () => new URLSearchParams(location.hash.slice(1)).has("field") && route());
  route();
  if (page.config.live) subscribe();
  setInterval(tick, 1000);
}

start();
