// Names of sensors: the configured names, which the texts of the daemon contain, and which a person reads.

import { isolateName } from "./draw.js";

// Adds to a field `name(id)`, which is unique, and `idOf(name)` for the names in the daemon's texts.
export function addNames(field) {
  const plain = (id) => field.names[id] ?? id;
  const counts = new Map();
  for (const id of field.sensors) counts.set(plain(id), (counts.get(plain(id)) ?? 0) + 1);
  const ids = new Map(field.sensors.map((id) => [plain(id), id]));
  field.plainName = plain;
  field.name = (id) => isolateName(counts.get(plain(id)) > 1 ? `${plain(id)} (${id})` : plain(id));
  field.idOf = (name) => ids.get(name) ?? null;
  return field;
}

// The sensor with which a text of the daemon begins; of "Attic" and "Attic window", the longer name that fits.
export function sensorOfText(field, text) {
  const fitting = field.sensors.filter((id) => text.startsWith(`${field.plainName(id)} `));
  return fitting.sort((a, b) => field.plainName(b).length - field.plainName(a).length)[0] ?? null;
}
