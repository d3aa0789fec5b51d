"""The states that our entities must have, computed from the retained topics without templates."""

import json
import re
from datetime import datetime

PREFIX = "edge_tvbo_lab"


def expected_states(components, retained, names):
    """Return the expected state of each entity by its id; entities of one moment are left out.

    `components` are those of the discovery message, `retained` the payloads by topic, and `names`
    the names of the sensors of each field.
    """
    states = {}
    for key, component in components.items():
        if component["platform"] in ("event", "button"):
            continue
        payload = retained.get(component["state_topic"])
        document = None if payload is None else json.loads(payload)
        states[entity_id(component)] = _state(key, component, document, names, retained)
    return states


def entity_id(component):
    """Return the id of an entity; without one in the message, it is made from the name."""
    words = re.sub("[^a-z0-9]+", "_", f"{PREFIX}_{component['name']}".lower())
    return component.get("default_entity_id", f"{component['platform']}.{words}")


def _state(key, component, document, names, retained):
    field = component["state_topic"].split("/")[2]
    health = json.loads(retained["edge_tvbo/lab/health"])
    own = health["fields"].get(field) or health["fields"].get(key.split("_")[0])
    if document is None:
        return "unknown"
    name = names.get(field, {}).get(document.get("sensor"), document.get("sensor"))
    match key.removeprefix(f"{key.split('_')[0]}_"):
        case "selected":
            return "unavailable" if own["paused"] else name
        case "hotspot_sensor":
            return name
        case "poll":
            return names[field].get(document["sensor"], "unknown")
        case "problem":
            return _switch(document["problem"])
        case "pause" if key == "pause":
            return _switch(any(each["paused"] for each in document["fields"].values()))
        case "pause":
            return _switch(own["paused"])
        case "alert":
            return _switch(document["active"])
        case "low_battery":
            return _switch(own["energy"]["low_battery"])
        case "energy_left":
            return own["energy"]["left"]
        case "reason":
            return document["reason"]
        case "alert_threshold" | "threshold" | "threshold_text":
            return document["threshold"]
        case "hotspot":
            return document["value"]
        case "hotspot_sd":
            return document["std"]
        case "resets":
            return document["model"]["resets"]
        case "last_reset":
            return document["model"]["last_reset"] or "unknown"
    kind, _, sensor = key.partition("_")[2].partition("_")
    sensor = sensor.replace("_u", "_").replace("_d", ".")
    if kind == "ignore":
        return _switch(sensor in own["ignored"])
    assert kind == "estimate", key
    estimates = dict(zip(document["sensors"], document["mean"], strict=True))
    return estimates.get(sensor, "unknown")


def _switch(is_on):
    return "on" if is_on else "off"


def same(shown, wanted):
    """Return whether the state that Home Assistant shows is the expected one."""
    if isinstance(wanted, float | int):
        try:
            return float(shown) == wanted
        except (TypeError, ValueError):
            return False
    if shown == wanted:
        return True
    try:  # a time
        return abs(datetime.fromisoformat(shown) - datetime.fromisoformat(wanted)).seconds == 0
    except (TypeError, ValueError):
        return False
