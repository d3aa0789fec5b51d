// Names of sensors: the configured names, which the texts of the daemon contain, and which a person reads.

import { isolateName } from "./draw.js";

// Adds to a field `plainName(id)`, which the texts of the daemon contain, and `name(id)`, which is unique.
export function addNames(field) {
  const plain = (id) => field.names[id] ?? id;
  const counts = new Map();
  for (const id of field.sensors) counts.set(plain(id), (counts.get(plain(id)) ?? 0) + 1);
  field.plainName = plain;
  field.name = (id) => isolateName(counts.get(plain(id)) > 1 ? `${plain(id)} (${id})` : plain(id));
  return field;
}
