"""Described field: what the discovery message says about a field, and the names of its sensors."""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Literal

import msgspec


class DiscoveryField(msgspec.Struct, frozen=True, kw_only=True):
    """The properties of one field that the discovery message describes."""

    sensors: tuple[str, ...]
    unit: str = ""
    decimals: int = 2  # number of decimals of values in `unit`
    names: Mapping[str, str] = {}  # names of sensors, if they differ from the ids
    objective: Literal["max", "min"] = "max"
    device_class: str | None = None  # Home Assistant's class of the field's values
    spread_class: str | None = None  # Home Assistant's class of the standard deviations
    has_model: bool = True  # whether the policy estimates values
    has_posterior: bool = True  # whether the estimates of all sensors are published
    thresholds: tuple[float, float] | None = None  # range of the alert's threshold
    energy_unit: str | None = None  # unit of the field's budget; None without a budget
    has_batteries: bool = False  # whether sensors report the charge of their batteries


def labels_of(field: DiscoveryField) -> dict[str, str]:
    """Return a dict that maps the sensor ids of a field to the sensors' labels in Home Assistant.

    A label is the name of the sensor. If the name is not unique, the label also contains the id.
    """
    labels = {sensor: field.names.get(sensor, sensor) for sensor in field.sensors}
    while repeated := [label for label, n in Counter(labels.values()).items() if n > 1]:
        labels |= {each: f"{label} ({each})" for each, label in labels.items() if label in repeated}
    return labels


def title_of(field: str) -> str:
    return re.sub("[_-]+", " ", field).strip().capitalize() or field


def escaped(sensor: str) -> str:
    """Return the id of a described field's sensor, escaped for the key of an entity.

    Different ids remain different after the escaping.
    """
    return sensor.replace("_", "_u").replace(".", "_d")
