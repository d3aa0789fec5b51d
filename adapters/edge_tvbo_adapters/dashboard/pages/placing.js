// Placing: a user drags the sensors to their places on the map, and downloads them as a file of positions.

import { html } from "./draw.js";

const STEP_M = 0.1, LARGE_STEP_M = 1; // of an arrow key, without and with Shift

export class Placing {
  constructor(plan, button, tools) {
    Object.assign(this, { plan, button, tools, grabbed: null });
    button.addEventListener("click", () => (plan.placing ? this.end() : this.begin()));
  }

  begin() {
    const { plan } = this;
    plan.placing = this;
    plan.layOut(plan.field);
    plan.box.classList.add("placing");
    this.button.textContent = "Done";
    this.tools.hidden = false;
    this.tools.replaceChildren(
      html("p", {}, "Drag each sensor to its place, or select it with the Tab key and move it with the arrow keys (0.1 m; with Shift 1 m). This page stores nothing. Download the file, put it beside the configuration, and name it in the configuration: ",
        html("code", {}, `positions = "${fileName(this.field)}"`)),
      html("button", { type: "button", id: "download-positions", on: { click: () => this.download() } }, "Download positions"),
      html("button", { type: "button", on: { click: () => this.discard() } }, "Discard changes"));
    plan.refresh();
  }

  end() {
    const { plan } = this;
    plan.placing = null;
    plan.box.classList.remove("placing");
    this.button.textContent = "Place sensors";
    this.tools.hidden = true;
    plan.layOut(plan.field);
    plan.refresh();
  }

  discard() {
    this.field.placed = null;
    this.end();
  }

  get field() { return this.plan.field; }

  // --- moving ------------------------------------------------------------------------------------------

  grab(event, k) {
    const [x, y] = this.plan.geometry.spots[k], [u, v] = this.pointer(event);
    this.grabbed = { k, offset: [x - u, y - v] };
    event.currentTarget.setPointerCapture(event.pointerId);
    event.currentTarget.focus(); // then the arrow keys move this sensor
    event.preventDefault();
  }

  drag(event, k) {
    if (this.grabbed?.k !== k) return;
    const [u, v] = this.pointer(event), [dx, dy] = this.grabbed.offset;
    this.moveTo(k, [u + dx, v + dy]);
  }

  // The place of the pointer on the map, in px.
  pointer(event) {
    const area = this.plan.root.getBoundingClientRect();
    return [event.clientX - area.left, event.clientY - area.top];
  }

  drop() { this.grabbed = null; }

  nudge(k, [dx, dy], large) {
    const { spots, zoom } = this.plan.geometry, step = (large ? LARGE_STEP_M : STEP_M) * zoom;
    this.moveTo(k, [spots[k][0] + dx * step, spots[k][1] + dy * step]);
  }

  moveTo(k, [x, y]) {
    const { geometry } = this.plan;
    const spot = [Math.max(0, Math.min(geometry.width, x)), Math.max(0, Math.min(geometry.height, y))];
    this.field.placed ??= geometry.spots.map((each) => geometry.toMetres(each));
    this.field.placed[k] = geometry.toMetres(spot);
    this.plan.move(k, spot);
  }

  // --- the file ----------------------------------------------------------------------------------------

  download() {
    const positions = this.field.placed ?? this.plan.geometry.spots.map((each) => this.plan.geometry.toMetres(each));
    const url = URL.createObjectURL(new Blob([positionsFile(this.field, positions)], { type: "text/plain" }));
    html("a", { href: url, download: fileName(this.field) }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
  }
}

const fileName = (field) => `${field.id}-positions.txt`;

function positionsFile(field, positions) {
  const lines = field.sensors.map((id, k) => `${id} ${positions[k].map((each) => each.toFixed(2)).join(" ")}`);
  return [`# positions of the sensors of the field ${field.id}, in m: id x y`, ...lines, ""].join("\n");
}
