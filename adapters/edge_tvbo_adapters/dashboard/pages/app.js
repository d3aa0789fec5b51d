// The page: what is shown, of which field, live or replayed; where it comes from, and when that is lost.

import { Scale, clock, digitsOf, html, known, redraw, say, set } from "./draw.js";
import { liveMoment, tapeMoment } from "./moment.js";
import { Table, drawDecision, drawEvents, drawSensor } from "./panels.js";
import { Picks } from "./picks.js";
import { Plan } from "./plan.js";

const SILENT = 12000; // ms without a sign of life, after which the server counts as lost
const AGAIN = 2000; // ms until a server that refused is asked again
const MOST_PICKS = 400, MOST_NOTICES = 200;

const byId = (id) => document.getElementById(id);
const page = {
  scene: null, // what does not change: fields, sensors, places
  field: "", mode: "live", selected: null, // what is looked at
  fields: {}, notices: [], standing: null, // what is live
  tape: null, index: 0, playing: null, // what is replayed
  heard: 0, lost: false, ahead: 0, // of the server; ms that its clock is ahead of ours
};
const choose = (id) => { page.selected = id; draw(); };
const plan = new Plan(byId("plan-box"), byId("legend"), byId("plan-note"), choose);
const picks = new Picks(byId("picks-box"), byId("picks-note"), (index) => seek(index));
const table = new Table(choose);

// --- what is drawn ----------------------------------------------------------------------------------------

function draw() {
  drawStanding();
  const moment = present();
  if (!moment) return;
  const look = lookOf(moment);
  const selected = page.selected ?? moment.decision?.sensor ?? moment.scene.sensors[0];
  drawDecision(moment, look.digits);
  picks.draw(moment, scaleOf((moment.allPicks ?? moment.picks).map((each) => each.value)), look.digits);
  plan.draw(moment, { ...look, selected });
  drawSensor(moment, selected, look.digits);
  table.draw(moment, selected, look.digits);
  drawEvents(moment, page.mode === "live" ? page.notices : []);
}

function present() {
  const scene = page.scene?.fields[page.field];
  if (!scene) return null;
  if (page.mode === "live") {
    const field = page.fields[page.field] ?? { picks: [], decision: null, posterior: null, chosen_by: null, hotspot: null, notices: [] };
    return liveMoment(scene, { ...field, name: page.field }, page.standing, Date.now() + page.ahead);
  }
  return page.tape?.frames.length ? tapeMoment(scene, page.tape, page.index) : null;
}

// The colours' scale and the widest ring of this moment; the digits are those the daemon rounds to.
function lookOf({ sensors, decision }) {
  const widest = sensors.map((each) => each.std).filter(known).reduce((a, b) => Math.max(a, b), 0);
  const digits = decision ? Math.max(...[decision.mean, decision.std, decision.ucb].map(digitsOf)) : 2;
  return { scale: scaleOf(sensors.map((each) => each.mean)), widest, digits };
}

function scaleOf(values) {
  const sound = values.filter(known);
  return sound.length ? new Scale(Math.min(...sound), Math.max(...sound)) : new Scale(0, 1);
}

function drawStanding() {
  const live = page.scene?.live && page.mode === "live";
  const { broker, daemon } = page.standing ?? {};
  byId("standing").hidden = !page.scene?.live;
  const online = broker?.online && !page.lost;
  const since = broker ? clock(broker.since, false, true) : "";
  state("broker", online, Boolean(broker) && !online, page.lost ? "Broker: not known" : online ? "Broker connected" : `Broker lost since ${since}`);
  const words = { online: "Daemon online", offline: "Daemon offline" };
  state("daemon", online && daemon === "online", online && daemon === "offline", online ? words[daemon] ?? "Daemon: nothing heard" : "Daemon: not known");
  let alarm = "";
  if (page.lost) alarm = `This page has lost its server; it is trying again. What is shown is from ${clock(page.heard, false, true)}.`;
  else if (live && broker && !online) alarm = `The broker is lost since ${since}: ${broker.why}. What is shown is from before.`;
  else if (live && daemon === "offline") alarm = "The daemon is offline: nobody decides. What is shown is from before.";
  else if (page.mode === "replay" && page.tape?.problem) alarm = page.tape.problem;
  byId("alarm").hidden = !alarm;
  say(byId("alarm"), alarm);
}

function state(id, good, bad, text) {
  set(byId(id), { class: good ? "good" : bad ? "bad" : null });
  say(byId(id), text);
}

// --- live -------------------------------------------------------------------------------------------------

function follow() {
  const source = new EventSource("events");
  const on = (kind, fold) => source.addEventListener(kind, (event) => {
    const document = JSON.parse(event.data);
    Object.assign(page, { heard: Date.now(), lost: false });
    const at = document.at ?? document.standing?.at;
    if (at) page.ahead = Date.parse(at) - Date.now();
    fold(document);
    if (page.mode === "live") draw();
    else drawStanding();
  });
  on("view", ({ standing, fields, notices }) => Object.assign(page, { standing, fields, notices }));
  on("standing", (standing) => { page.standing = standing; });
  on("pulse", () => {});
  on("field", fold);
  on("notice", ({ field, notice }) => {
    const list = field === null ? page.notices : page.fields[field].notices;
    list.push(notice);
    if (list.length > MOST_NOTICES) list.shift();
  });
  source.onerror = () => {
    lose();
    if (source.readyState === EventSource.CLOSED) setTimeout(follow, AGAIN);
  };
}

function fold({ field, pick, ...changed }) {
  const known = Object.assign(page.fields[field], changed);
  if (changed.posterior?.ending === null) known.chosen_by = changed.posterior;
  if (!pick) return;
  if (known.picks.at(-1)?.interval === pick.interval) known.picks.pop();
  known.picks.push(pick);
  if (known.picks.length > MOST_PICKS) known.picks.shift();
}

function lose() {
  page.lost = true;
  draw();
}

function tick() {
  if (page.scene?.live && page.heard && Date.now() - page.heard > SILENT) page.lost = true;
  if (page.mode === "live") draw();
}

// --- replayed -----------------------------------------------------------------------------------------------

async function load(day) {
  const query = new URLSearchParams({ field: page.field, ...(day ? { day } : {}) });
  let tape;
  try {
    const answer = await fetch(`tape.json?${query}`);
    if (!answer.ok) throw new Error(`the server says ${answer.status}`);
    tape = await answer.json();
  } catch (error) {
    tape = { days: [], day: "", frames: [], notices: [], complete: true, problem: `The recorded day cannot be loaded: ${error.message}.` };
  }
  tape.picks = tape.frames.map(({ decision, ending, value }) => ({
    interval: decision.interval, at: decision.at, sensor: decision.sensor, asked: decision.reason !== "saved",
    resets: decision.model.resets, ending, value,
  }));
  const unread = "The history cannot be read; the log of the dashboard says why";
  if (!tape.frames.length) tape.problem ??= tape.complete ? "Nothing is recorded yet." : `${unread}.`;
  else if (!tape.complete) say(byId("zone"), `Times are UTC. ${unread}: this is what was heard since it started.`);
  else if (day && day !== tape.day) say(byId("zone"), `Times are UTC. Nothing is kept of ${day}; this is ${tape.day}.`);
  page.tape = tape;
  redraw(byId("day"), JSON.stringify([page.field, tape.days]), () => tape.days.map((each) => html("option", { value: each }, each)));
  byId("day").value = tape.day;
  byId("slider").max = Math.max(0, tape.frames.length - 1);
  for (const id of ["play", "slider", "day"]) byId(id).disabled = !tape.frames.length;
  seek(0);
}

function seek(index) {
  page.index = index;
  const decision = page.tape?.frames[index]?.decision;
  const text = decision ? `${clock(decision.at, true)} UTC, interval ${decision.interval}` : "nothing recorded";
  byId("slider").value = index;
  set(byId("slider"), { "aria-valuetext": text });
  say(byId("when"), text);
  draw();
}

function play(on) {
  clearInterval(page.playing);
  page.playing = null;
  say(byId("play"), on ? "Pause" : "Play");
  set(byId("sentence"), { "aria-live": on ? "off" : "polite" });
  if (!on) return;
  const last = () => page.tape.frames.length - 1;
  if (page.index >= last()) seek(0);
  page.playing = setInterval(() => (page.index < last() ? seek(page.index + 1) : play(false)), 1000 / Number(byId("speed").value));
}

async function show(mode, day) {
  page.mode = mode;
  play(false);
  set(byId("live"), { "aria-pressed": mode === "live" });
  set(byId("replay"), { "aria-pressed": mode === "replay" });
  byId("transport").hidden = mode === "live";
  say(byId("zone"), mode === "live" ? `Times are those of this browser: ${Intl.DateTimeFormat().resolvedOptions().timeZone}.` : "Times are UTC.");
  if (mode === "replay") await load(day);
  draw();
}

// --- which field ----------------------------------------------------------------------------------------------

function route() {
  const wanted = new URLSearchParams(location.hash.slice(1));
  const names = Object.keys(page.scene.fields);
  const field = names.includes(wanted.get("field")) ? wanted.get("field") : page.field || names[0];
  if (field !== page.field) page.selected = null;
  page.field = field;
  byId("fields").hidden = names.length < 2;
  redraw(byId("fields"), JSON.stringify([names, field]), () =>
    names.map((each) => html("a", { href: `#${new URLSearchParams({ field: each })}`, "aria-current": each === field ? "page" : null }, each)));
  const day = wanted.get("day");
  show(page.scene.live && page.mode === "live" && !day ? "live" : "replay", day);
}

async function begin() {
  try {
    page.scene = await (await fetch("scene.json")).json();
  } catch {
    return void setTimeout(begin, AGAIN);
  }
  say(byId("title"), page.scene.title);
  document.title = `${page.scene.title} – edge_tvbo`;
  byId("live").disabled = !page.scene.live;
  byId("live").addEventListener("click", () => show("live"));
  byId("replay").addEventListener("click", () => show("replay"));
  byId("play").addEventListener("click", () => play(!page.playing));
  byId("slider").addEventListener("input", (event) => { play(false); seek(Number(event.target.value)); });
  byId("speed").addEventListener("change", () => page.playing && play(true));
  byId("day").addEventListener("change", (event) => { play(false); load(event.target.value); });
  addEventListener("hashchange", () => new URLSearchParams(location.hash.slice(1)).has("field") && route());
  route();
  if (page.scene.live) follow();
  setInterval(tick, 1000);
}

begin();
