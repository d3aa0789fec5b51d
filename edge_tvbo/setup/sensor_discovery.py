"""Sensor discovery: groups the messages of a broker by integration, topic and quantity.

Messages come from unknown senders. Therefore a value is used only if a codec can decode it, and the
memory for topics and sensors is bounded. Codecs and presets may come from third parties. If a codec
or a preset raises an exception, the message is ignored for that integration.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from statistics import median

import msgspec

from edge_tvbo.control.units import OTHER_UNITS
from edge_tvbo.messages.formatting import counted
from edge_tvbo.messages.payloads import Activation, DetectedSensor, PayloadCodec, Preset

OWN_TOPICS = "edge_tvbo/"
PLACEHOLDER = "{sensor}"
MAX_PAYLOAD = 65_536  # bytes
MAX_GROUPS = 256
MAX_SENSORS = 2000  # in a group
MAX_VALUE = 1e12  # a greater number is not a measurement
MIN_SPREAD = 1e-9  # a smaller spread is rounding error
LISTED_SENSORS = 3  # sensors of a group that its description names
LISTED_NAMES = 5  # unknown topics that are stored, and unusable sensor names that are stored
FAR, NEAR = 5.0, 2.0  # spreads from the center: above FAR, another unit; below NEAR, usual
MAX_NAME_LENGTH = 64  # characters


class Quantity(msgspec.Struct, frozen=True):
    """A measured quantity, with its unit and the usual spread of its readings."""

    name: str
    unit: str
    spread: float  # standard deviation, in the unit


_QUANTITIES = {  # quantities by the words that integrations use
    "temperature": Quantity("temperature", "°C", 3.0),
    "temperature_c": Quantity("temperature", "°C", 3.0),
    "temp": Quantity("temperature", "°C", 3.0),
    "temp_c": Quantity("temperature", "°C", 3.0),
    "tempc": Quantity("temperature", "°C", 3.0),
    "tc": Quantity("temperature", "°C", 3.0),
    "humidity": Quantity("humidity", "%", 10.0),
    "hum": Quantity("humidity", "%", 10.0),
    "rh": Quantity("humidity", "%", 10.0),
    "co2": Quantity("co2", "ppm", 300.0),
    "carbondioxide": Quantity("co2", "ppm", 300.0),
    "pm25": Quantity("pm25", "µg/m³", 10.0),
    "voc": Quantity("voc", "ppb", 200.0),
    "noise": Quantity("noise", "dB", 10.0),
    "illuminance": Quantity("illuminance", "lx", 200.0),
    "soil_moisture": Quantity("soil_moisture", "%", 10.0),
    "pressure": Quantity("pressure", "hPa", 10.0),
}
_GENERIC = ("value", "state", "degrees", "celsius")  # words that may follow that of a quantity
_GENERIC_LEVELS = ("sensor", "sensors")  # words between the sensor and the quantity in a topic
INSIDE = {"internal", "cpu"}  # words for the temperature inside a device
_OTHER_LEVELS = ("get", "set", "events")  # last levels of topics of commands, or of many sensors
_PARTS = {*_GENERIC, "min", "max", "mean", "average", "raw", "target", "setpoint"}  # of a quantity
_PLAIN = {"number": "plain numbers", "json": "JSON"}  # formats without an integration
_NUMBER = re.compile(r"[-_:](0x)?[A-F]*\d[\dA-F]*(?=[./]|$)|\d+$")  # of one of a device's probes
_ORDER = list(dict.fromkeys(each.name for each in _QUANTITIES.values()))


class SensorGroup(msgspec.Struct, frozen=True):
    """Group of sensors of one integration that measure the same quantity."""

    integration: str
    topic: str  # with {sensor} in place of the name
    value: str | None  # the setting `value`; None if a payload is one number
    activate: Activation | None
    readings: dict[str, float]  # the last value of each sensor, by its name in the topic
    messages: int
    retained: tuple[str, ...] = ()  # sensors of which only a retained message was received

    @property
    def topics(self) -> set[str]:
        """The topics of the sensors up to and including their names."""
        place = self.topic.partition(PLACEHOLDER)[0]
        return {place + name for name in self.readings}

    @property
    def probe(self) -> tuple[str, str, str, str]:
        """The group's place and value without the number of a probe.

        They are equal for the probes of a device, such as ``DS18B20-1`` and ``DS18B20-2``.
        """
        place, _, below = self.topic.partition(PLACEHOLDER)
        return self.integration, place, _NUMBER.sub("", below), _NUMBER.sub("", self.value or "")

    @property
    def is_plain(self) -> bool:
        """Whether the messages have a format without an integration."""
        return self.integration in _PLAIN

    @property
    def quantity(self) -> Quantity:
        """The quantity that the sensors measure, derived from `value` or from the topic.

        The quantity is the last word that is neither a number nor a generic word like ``value``. So
        ``temperature:0.id`` is an id, not a temperature. A number at the end of the word is
        ignored: ``Temperature1`` and ``temperature_1`` are temperatures.

        In a topic, the word may also end with the quantity, as in ``living_room_temperature`` of
        ESPHome, but not with the temperature inside a device, as in ``cpu_temperature``.
        """
        text = self.value or self.topic.replace(PLACEHOLDER, "").removesuffix("/")
        words = re.split(r"[./:]", text)
        while any(words[:-1]) and (words[-1].lower() in _GENERIC or words[-1].isdecimal()):
            words.pop()
        last = words[-1].lower()
        if known := _quantity_of(last):
            return known
        if self.value is None and not INSIDE.intersection(last.split("_")):  # as in ESPHome
            for word, known in _QUANTITIES.items():
                if last.endswith(f"_{word}"):
                    return known
        name = re.sub(r"[^a-z0-9_-]+", "-", words[-1].lower()).strip("-")[:64]
        tenth = 0.1 * abs(self.center)
        return Quantity(name or "field", "", tenth if tenth > MIN_SPREAD else 1.0)

    @property
    def center(self) -> float:
        """Median of the last readings of the group; one faulty sensor hardly affects the median."""
        return median(self.readings.values())

    @property
    def spread(self) -> float:
        """The standard deviation of the group's readings, from the median absolute deviation.

        The result is at least the usual spread of the quantity.
        """
        deviation = median(abs(each - self.center) for each in self.readings.values())
        return max(1.5 * deviation, self.quantity.spread)

    def describe(self) -> str:
        """Return one line of text about the sensors of the group."""
        values, quantity = self.readings.values(), self.quantity
        count = len(values)
        number, messages = counted(count, "sensor"), counted(self.messages, "message")
        source = source_name(self.integration)
        span = f"{min(values):.4g} to {max(values):.4g} {quantity.unit}".rstrip()
        some = [f"{shown(name)} {value:.4g}" for name, value in self.readings.items()][
            :LISTED_SENSORS
        ]
        more = ", ..." if count > LISTED_SENSORS else ""
        return (
            f"{number} of {source}: {quantity.name}, {span} in {messages}: {', '.join(some)}{more}"
        )


class Discovery:
    """Collector that finds groups of sensors in the messages of a broker.

    Parameters
    ----------
    presets : mapping of str to Preset
        The known integrations, by the name of their payload format.
    codec : callable
        Returns the codec of a payload format; the arguments are the format's name and settings.
    """

    def __init__(
        self,
        presets: Mapping[str, Preset],
        codec: Callable[[str, dict[str, str]], PayloadCodec],
    ) -> None:
        self._presets = presets
        self._make_codec = codec
        self._codecs: dict[tuple[str, str | None], PayloadCodec] = {}
        self._groups: dict[tuple[str, str, str | None], _GroupBuilder] = {}
        self.messages = 0
        self.unknown: dict[str, None] = {}  # some topics that belong to no known integration
        self.unusable: dict[str, None] = {}  # some sensor names that no configuration can contain

    def add_message(self, topic: str, payload: bytes, retained: bool = False) -> None:
        """Add the values in a message to the groups; `retained` is the message's retain flag.

        No message raises an exception, whatever it contains.
        """
        if topic.startswith((OWN_TOPICS, "$")):  # the broker's own topics begin with $
            return
        self.messages += 1
        seen = list(self._recognised(topic, payload)) or list(guess_by_topic(topic, payload))
        added = [self._add(integration, each, payload, retained) for integration, each in seen]
        if not any(added) and len(self.unknown) < LISTED_NAMES:
            self.unknown[topic] = None

    def groups(self) -> list[SensorGroup]:
        """Return the discovered groups: known quantities first, large groups before small ones."""
        return sorted((each.group() for each in self._groups.values()), key=_rank)

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

        Return whether a value was added.
        """
        if not all(
            map(is_usable_name, (seen.sensor, *seen.topic.replace(PLACEHOLDER, "x", 1).split("/")))
        ):
            self.unusable |= {seen.sensor: None} if len(self.unusable) < LISTED_NAMES else {}
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
        if key not in self._groups and len(self._groups) >= MAX_GROUPS:
            return False
        try:
            number, _ = self._codec(integration, value)(payload)
            measured = abs(number) <= MAX_VALUE
        except Exception:
            measured = False
        if not measured:
            return False
        activate = _activation_of(seen.activate, value)
        group = self._groups.setdefault(key, _GroupBuilder(*key, activate))
        group.add(seen.sensor, number, retained)
        return True

    def _codec(self, integration: str, value: str | None) -> PayloadCodec:
        codec = self._codecs.get((integration, value))
        if codec is None:
            codec = self._make_codec(integration, {} if value is None else {"value": value})
            if len(self._codecs) < MAX_GROUPS:
                self._codecs[integration, value] = codec
        return codec


class _GroupBuilder:
    """Builder of a `SensorGroup`, to which readings are added one by one."""

    def __init__(
        self, integration: str, topic: str, value: str | None, activate: Activation | None
    ) -> None:
        self._facts = (integration, topic, value, activate)
        self._readings: dict[str, float] = {}
        self._live: set[str] = (
            set()
        )  # sensors of which a message was received that was not retained
        self._messages = 0

    def add(self, sensor: str, value: float, retained: bool) -> None:
        self._messages += 1
        if sensor in self._readings or len(self._readings) < MAX_SENSORS:
            self._readings[sensor] = value
            if not retained:
                self._live.add(sensor)

    def group(self) -> SensorGroup:
        readings = dict(sorted(self._readings.items()))
        retained = tuple(each for each in readings if each not in self._live)
        return SensorGroup(*self._facts, readings, self._messages, retained)


def guess_by_topic(topic: str, payload: bytes) -> Iterator[tuple[str, DetectedSensor]]:
    """Yield the payload format and the sensor of a message that contains a known quantity.

    The topic or a JSON key names the quantity. A message of another kind yields nothing.

    >>> for payload, seen in guess_by_topic("home/hall/temperature", b"21.3"):
    ...     print(payload, seen.sensor, seen.topic)
    number hall home/{sensor}/temperature
    >>> for payload, seen in guess_by_topic("temperature/hall", b"21.3"):
    ...     print(payload, seen.sensor, seen.topic)
    number hall temperature/{sensor}
    >>> for payload, seen in guess_by_topic("home/hall", b'{"co2": 415}'):
    ...     print(payload, seen.sensor, seen.topic, seen.values)
    json hall home/{sensor} ('co2',)
    """
    *above, last = topic.split("/")
    if last in _OTHER_LEVELS:
        return
    if above and _quantity_of(last):
        below = [last]
        if len(above) > 1 and above[-1].lower() in _GENERIC_LEVELS:
            below = [above.pop(), last]
        yield "number", DetectedSensor(above[-1], "/".join([*above[:-1], PLACEHOLDER, *below]), ())
    elif keys := tuple(key for key in _keys(payload) if _quantity_of(key)):
        yield "json", DetectedSensor(last, "/".join([*above, PLACEHOLDER]), keys)
    elif above and _quantity_of(above[-1]) and not _is_part(last):
        yield "number", DetectedSensor(last, "/".join([*above, PLACEHOLDER]), ())


def _quantity_of(word: str) -> Quantity | None:
    """Return the quantity of a discovered `word`, which may end with a number; None if unknown.

    >>> _quantity_of("Temperature_1").name, _quantity_of("pm25").name, _quantity_of("door1")
    ('temperature', 'pm25', None)
    """
    word = word.lower()
    return _QUANTITIES.get(word) or _QUANTITIES.get(re.sub(r"[_-]?\d+$", "", word))


def _is_part(level: str) -> bool:
    """Return whether the level of a topic below a quantity cannot be the name of a sensor."""
    return level.startswith("$") or level.lower() in _PARTS


def _keys(payload: bytes) -> Iterable[str]:
    try:
        document = msgspec.json.decode(payload) if len(payload) < MAX_PAYLOAD else None
    except (ValueError, RecursionError):
        return ()
    return document if isinstance(document, dict) else ()


def _rank(group: SensorGroup) -> tuple[bool, int, int, str]:
    name = group.quantity.name
    order = _ORDER.index(name) if name in _ORDER else len(_ORDER)
    return order == len(_ORDER), -len(group.readings), order, f"{group.topic} {group.value}"


def in_other_units(group: SensorGroup, unit: str) -> Iterator[str]:
    """Yield a text for each sensor that seems to send another unit than `unit`, the group's unit.

    >>> rooms = {"attic": 24.0, "hall": 21.0, "office": 22.0, "porch": 66.2}
    >>> print(*in_other_units(SensorGroup("json", "home/{sensor}", "t", None, rooms, 4), "°C"))
    porch sent 66.2. The median of all sensors is 23 °C, but 66.2 °F are 19 °C. If porch sends °F, \
give it a [[fields.<name>.readings]] of its own, with scale = 0.5556 and offset = -17.78.
    """
    for sensor, value in group.readings.items():
        for other, factor, shift in OTHER_UNITS.get(unit, ()):
            converted = (value - shift) / factor
            is_far = abs(value - group.center) > FAR * group.spread
            if is_far and abs(converted - group.center) < NEAR * group.spread:
                yield (
                    f"{shown(sensor)} sent {value:.4g}. The median of all sensors is "
                    f"{group.center:.4g} {unit}, but {value:.4g} {other} are {converted:.4g} "
                    f"{unit}. If {shown(sensor)} sends {other}, give it a "
                    "[[fields.<name>.readings]] of its own, with "
                    f"scale = {1.0 / factor:.4g} and offset = {-shift / factor:.4g}."
                )


def companions(first: SensorGroup, groups: Iterable[SensorGroup]) -> list[SensorGroup]:
    """Return the groups that become sources of one field: `first` and its companions.

    A companion measures the same quantity as `first`. Only the first group of each integration is
    returned, except in two cases. In these cases, several groups are returned if they have no
    sensor in common:

    - Each topic contains one value, as in ESPHome. There may be a topic for each device.
    - Several topics need the same setting `value`. In Zigbee2MQTT, there may be a topic for each
      room.

    Some integrations publish their readings a second time, as plain numbers or JSON. Therefore a
    group of plain numbers or JSON is left out if one of its sensors has the name of a sensor in an
    earlier group.
    """
    found = [first]
    for group in groups:
        same = [each for each in found if each.integration == group.integration]
        values = {None, *(each.value for each in same)}
        is_possible = not same or (not group.is_plain and group.value in values)
        names = {name for each in found for name in each.readings}
        is_repeated = (group.is_plain and names & set(group.readings)) or any(
            each.topics & group.topics for each in same
        )
        is_probe = group not in found and group.probe in {each.probe for each in found}
        if group.quantity == first.quantity and (is_probe or (is_possible and not is_repeated)):
            found.append(group)
    return found


def left_out(group: SensorGroup, chosen: Collection[SensorGroup]) -> list[str]:
    """Return the names of the sensors of `group` that are not in the `chosen` groups.

    A sensor with the name of a chosen sensor is returned only if it is another sensor of the same
    device, or a device of the same integration. Otherwise, its readings are probably those of the
    chosen sensor, which some integrations publish twice.
    """
    used = {(each.topic, each.value, name) for each in chosen for name in each.readings}
    names = {name for _, _, name in used}
    devices = {(each.integration, name) for each in chosen for name in each.readings}
    messages = {(each.integration, each.topic, name) for each in chosen for name in each.readings}
    has_own_topic = group.value is None and not group.is_plain  # as in ESPHome
    is_probe = group.probe in {each.probe for each in chosen}
    return [
        name
        for name in group.readings
        if (group.topic, group.value, name) not in used
        and (
            has_own_topic
            or is_probe
            or name not in names
            or (group.integration, group.topic, name) in messages
            or (group.is_plain and (group.integration, name) in devices)
        )
    ]


def shown(name: str) -> str:
    """Return the name of a discovered sensor or topic, short and without control characters.

    >>> print(shown("a" * 50), shown("hall"), shown(chr(10)) == repr(chr(10)))
    aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa hall True
    """
    short = name[:40]
    return short if short.isprintable() else repr(short)


def source_name(integration: str) -> str:
    """Return the name of a discovered integration or plain format, as it appears in a sentence."""
    return _PLAIN.get(integration, integration)


def known_quantity(name: str) -> Quantity:
    """Return the quantity `name` for the sensor discovery; an unknown quantity has no unit.

    >>> known_quantity("humidity").unit, known_quantity("radon").unit
    ('%', '')
    """
    return _QUANTITIES.get(name.lower()) or Quantity(name, "", 3.0)


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


def is_usable_name(name: str) -> bool:
    """Return whether the name of a discovered sensor can be one level of an MQTT topic."""
    return (
        0 < len(name) <= MAX_NAME_LENGTH
        and name.isprintable()
        and not any(each in name for each in "/+#{}")
    )
