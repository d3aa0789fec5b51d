"""Sensor discovery: groups the messages of a broker by integration, topic and quantity.

Messages come from unknown senders. Therefore a value is used only if a codec can decode it, and the
memory for topics and sensors is bounded. Codecs and presets may come from third parties. If a codec
or a preset raises an exception, the message is ignored for that integration.
"""

import re
from collections.abc import Callable, Iterator, Mapping

import msgspec

from edge_tvbo.messages.formatting import may_be_same_unit
from edge_tvbo.messages.payloads import Activation, DetectedSensor, PayloadCodec, Preset
from edge_tvbo.messages.sensor_ids import MAX_NAME_LENGTH, is_usable_name
from edge_tvbo.setup.announced_units import AnnouncedUnits
from edge_tvbo.setup.home_assistant_states import (
    named_by_entity,
    sign_of_base,
    states_of_home_assistant,
)
from edge_tvbo.setup.json_objects import MAX_PAYLOAD, decode_object, quantity_paths
from edge_tvbo.setup.known_quantities import GENERIC, NOT_CURRENT, quantity_of
from edge_tvbo.setup.sensor_groups import (
    PLACEHOLDER,
    SensorGroup,
    Unit,
    known_quantity_in,
    rank,
)
from edge_tvbo.setup.sensor_units import unit_of, units_of

OWN_TOPICS = "edge_tvbo/"
MAX_GROUPS = 5000  # a house of ESPHome devices has a group for each sensor of each device
MAX_SENSORS = 2000  # in a group
MAX_READINGS = 500_000  # in all groups
MAX_VALUE = 1e12  # a greater number is not a measurement
MAX_UNUSABLE = 500  # sensors with unusable names that are stored
LISTED_NAMES = 5  # unknown topics that are stored
_GENERIC_LEVELS = ("sensor", "sensors")  # words between the sensor and the quantity in a topic
_OTHER_LEVELS = ("get", "set", "events")  # last levels of topics for commands, or for many sensors
# Topics on which a device repeats its readings in the reply to a command (Tasmota), or states the
# temperature inside itself (OpenMQTTGateway, and the relays of Shelly's first generation):
_OF_DEVICE = re.compile(
    r"(.*/)?stat/(.*/)?(STATUS\d*|RESULT)|.*/SYStoMQTT|shellies/[^/]+/temperature"
)
# After a quantity in a topic, these levels are not the name of a sensor:
_PARTS = NOT_CURRENT.union(GENERIC)


class SensorDiscovery:
    """Collector that finds groups of sensors in the messages of a broker.

    Parameters
    ----------
    presets : mapping of str to Preset
        The known integrations, by the name of their payload format.
    codec : callable
        Returns the codec of a payload format; the arguments are the format's name and settings.
    units : callable, optional
        Returns the units for which a payload format needs the setting `unit`. Each unit is mapped
        to the factor from the usual unit of the quantity to this unit: 1.8 for °F, because a
        difference of 1 °C is a difference of 1.8 °F. The arguments are the format's name and its
        setting `value`.
    unit : str, optional
        The unit of the readings of each quantity that can have this unit. All other quantities
        have their usual unit, as with None.
    """

    def __init__(
        self,
        presets: Mapping[str, Preset],
        codec: Callable[[str, dict[str, str]], PayloadCodec],
        units: Callable[[str, str | None], Mapping[str, float]] = lambda name, value: {},
        unit: str | None = None,
    ) -> None:
        self._presets = presets
        self._make_codec = codec
        self._units = units
        self._unit = unit
        self._codecs: dict[tuple[str, str | None, str | None], PayloadCodec] = {}
        self._groups: dict[tuple[str, str, str | None], _GroupBuilder] = {}
        self._announced = AnnouncedUnits()
        self._signs: dict[str, bool] = {}  # base topic -> whether it is Home Assistant's
        self._readings = 0  # in all groups
        self.messages = 0
        self.is_full = False  # whether a sensor was left out, because there are too many
        self.unknown: dict[str, None] = {}  # some topics that belong to no known integration
        self.unusable: dict[str, None] = {}  # sensor names that no configuration can contain

    def add_message(self, topic: str, payload: bytes, retained: bool = False) -> None:
        """Add the values in a message to the groups; `retained` is the message's retain flag.

        No message raises an exception, whatever it contains.
        """
        if topic.startswith((OWN_TOPICS, "$")):  # the broker's own topics begin with $
            return
        self._announced.add_message(topic, payload)
        if (sign := sign_of_base(topic, payload)) and len(self._signs) < MAX_GROUPS:
            self._signs[sign[0]] = sign[1] or self._signs.get(sign[0], False)
        self.messages += 1
        seen = list(self._recognised(topic, payload)) or list(guess_by_topic(topic, payload))
        added = [self._add(integration, each, payload, retained) for integration, each in seen]
        if not any(added) and len(self.unknown) < LISTED_NAMES:
            self.unknown[topic] = None

    def groups(self) -> list[SensorGroup]:
        """Return the discovered groups: known quantities first, large groups before small ones."""
        groups = named_by_entity((each.group() for each in self._groups.values()), self._signs)
        return sorted((part for each in groups for part in self._by_unit(each)), key=rank)

    def _by_unit(self, group: SensorGroup) -> list[SensorGroup]:
        """Divide a sensor group: return a group for each unit that sensors of `group` announce.

        If the codec of the group converts units itself, the group stays whole.
        """
        if self._units(group.integration, group.value):
            return [group]
        usual = group.quantity.unit
        units = {name: self._announced_unit(group, name) for name in group.readings}
        sensors: dict[str, list[str]] = {}  # by the announced unit
        for name, unit in units.items():
            sensors.setdefault(unit or usual, []).append(name)
        if len(sensors) == 1:
            return [group.part(group.readings, units)]
        return [group.part(names, units) for names in sensors.values()]

    def _announced_unit(self, group: SensorGroup, sensor: str) -> str:
        """Return the unit of the group's quantity that a sensor announces; "" if there is none."""
        topic = group.topic.replace(PLACEHOLDER, sensor)
        announced = self._announced.unit_at(topic, group.value)
        if announced is None and group.integration == "json":
            announced = self._announced.unit_beside(topic, group.value)
        units = units_of(group.quantity) if announced else ()
        return next((each for each in units if may_be_same_unit(each, announced or "")), "")

    def _recognised(self, topic: str, payload: bytes) -> Iterator[tuple[str, DetectedSensor]]:
        for integration, preset in self._presets.items() if len(payload) < MAX_PAYLOAD else ():
            try:
                seen = preset.recognise(topic, payload)
            except Exception:
                continue
            if seen is not None:
                yield integration, seen

    def _add(self, integration: str, seen: DetectedSensor, payload: bytes, retained: bool) -> bool:
        """Add the values in a message to the discovered groups.

        Levels of the topic other than the sensor's name may be empty, as in ``/home/hall``. Return
        whether a value was added.
        """
        levels = seen.topic.replace(PLACEHOLDER, "x", 1).split("/")
        if not all(map(is_usable_name, (seen.sensor, *filter(None, levels)))):
            if len(self.unusable) < MAX_UNUSABLE:
                self.unusable[seen.sensor[: MAX_NAME_LENGTH + 1]] = None
            return False
        values = [each for each in seen.values if _is_usable_value(each)] if seen.values else [None]
        added = [self._add_value(integration, seen, value, payload, retained) for value in values]
        return any(added)

    def _add_value(
        self,
        integration: str,
        seen: DetectedSensor,
        value: str | None,
        payload: bytes,
        retained: bool,
    ) -> bool:
        key = (integration, seen.topic, value)
        group = self._groups.get(key)
        if group is None and len(self._groups) >= MAX_GROUPS:
            self.is_full = True
            return False
        try:
            unit = group.unit if group else self._converted_to(*key)
            number, _ = self._codec(integration, value, unit.name if unit else None)(payload)
            measured = abs(number) <= MAX_VALUE
        except Exception:
            measured = False
        if not measured:
            return False
        known = group.readings if group else {}
        if seen.sensor not in known:
            if len(known) >= MAX_SENSORS or self._readings >= MAX_READINGS:
                self.is_full = True
                return True
            self._readings += 1
        if group is None:
            activate = _activation_of(seen.activate, value)
            group = self._groups[key] = _GroupBuilder(*key, activate, unit)
        group.add(seen.sensor, number, retained)
        return True

    def _converted_to(self, integration: str, topic: str, value: str | None) -> Unit | None:
        """Return the unit that must be set for the codec of discovered readings.

        The result is None if the payload format does not need the setting `unit` for this unit.
        """
        known = known_quantity_in(topic, value)
        wanted = unit_of(known, self._unit) if known else self._unit or ""
        factor = self._units(integration, value).get(wanted)
        return None if factor is None else Unit(wanted, factor if known else 1.0)

    def _codec(self, integration: str, value: str | None, unit: str | None) -> PayloadCodec:
        key = (integration, value, unit)
        codec = self._codecs.get(key)
        if codec is None:
            settings = {"value": value, "unit": unit}
            given = {name: text for name, text in settings.items() if text is not None}
            codec = self._make_codec(integration, given)
            if len(self._codecs) < MAX_GROUPS:
                self._codecs[key] = codec
        return codec


class _GroupBuilder:
    """Builder of a `SensorGroup`, to which readings are added one by one."""

    def __init__(
        self,
        integration: str,
        topic: str,
        value: str | None,
        activate: Activation | None,
        unit: Unit | None,
    ) -> None:
        self._facts = (integration, topic, value, activate)
        self.unit = unit
        self.readings: dict[str, float] = {}
        self._live: set[str] = set()  # sensors with a message that was not retained
        self._messages = 0

    def add(self, sensor: str, value: float, retained: bool) -> None:
        self._messages += 1
        self.readings[sensor] = value
        if not retained:
            self._live.add(sensor)

    def group(self) -> SensorGroup:
        readings = dict(sorted(self.readings.items()))
        retained = tuple(each for each in readings if each not in self._live)
        return SensorGroup(*self._facts, readings, self._messages, retained, self.unit)


def guess_by_topic(topic: str, payload: bytes) -> Iterator[tuple[str, DetectedSensor]]:
    """Yield the payload format and the sensor of a message that contains a known quantity.

    A quantity is known by its name in the topic or in a JSON key, which may be in a nested object.
    Other messages yield nothing.

    >>> for payload, seen in guess_by_topic("home/hall/temperature", b"21.3"):
    ...     print(payload, seen.sensor, seen.topic)
    number hall home/{sensor}/temperature
    >>> for payload, seen in guess_by_topic("temperature/hall", b"21.3"):
    ...     print(payload, seen.sensor, seen.topic)
    number hall temperature/{sensor}
    >>> for payload, seen in guess_by_topic("home/hall", b'{"co2": 415}'):
    ...     print(payload, seen.sensor, seen.topic, seen.values)
    json hall home/{sensor} ('co2',)
    >>> for payload, seen in guess_by_topic("home/hall", b'{"air": {"temperature": 21.3}}'):
    ...     print(payload, seen.sensor, seen.topic, seen.values)
    json hall home/{sensor} ('air.temperature',)
    """
    *above, last = topic.split("/")
    if last in _OTHER_LEVELS or _OF_DEVICE.fullmatch(topic):
        return
    if above and quantity_of(last):
        below = [last]
        if len(above) > 1 and above[-1].lower() in _GENERIC_LEVELS:
            below = [above.pop(), last]
        yield "number", DetectedSensor(above[-1], "/".join([*above[:-1], PLACEHOLDER, *below]), ())
    elif paths := quantity_paths(decode_object(payload)):
        yield "json", DetectedSensor(last, "/".join([*above, PLACEHOLDER]), paths)
    elif above and quantity_of(above[-1]) and not (last.startswith("$") or last.lower() in _PARTS):
        yield "number", DetectedSensor(last, "/".join([*above, PLACEHOLDER]), ())
    elif last == "state" and above[-2:-1] == ["sensor"]:
        yield from states_of_home_assistant("/".join(above[:-2]), above[-1])


def _activation_of(activate: Activation | None, value: str | None) -> Activation | None:
    """Return the command that requests the JSON key `value` from a discovered sensor.

    The name of the key replaces {value} in the payload. Return None if the payload cannot contain
    this name.

    >>> _activation_of(Activation("live", "z/{sensor}/get", '{"{value}": ""}'), "humidity").payload
    '{"humidity": ""}'
    """
    if activate is None or "{value}" not in activate.payload:
        return activate
    key = (value or "").partition(".")[0]
    if not key or any(each in key for each in '{}"\\'):
        return None
    return msgspec.structs.replace(activate, payload=activate.payload.replace("{value}", key))


def _is_usable_value(value: str) -> bool:
    """Return whether a discovered JSON key, `value`, can be used in a configuration.

    The setting `value` names the key. A name with ${ cannot be used, because the configuration
    reads ${ as the start of an environment variable.
    """
    return len(value) <= MAX_NAME_LENGTH and value.isprintable() and "${" not in value
