"""Who talks on a broker, as far as it looks like sensors: by make, topic and quantity.

What is heard is anybody's: nothing of it is believed before a codec has read it, and what is kept
of it is bounded, however long or odd the messages are. A codec or a preset may be anybody's too:
where one fails, however it does, the message is none of its make's.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, count
from statistics import median

import msgspec

from edge_tvbo.messages.payloads import Activation, DetectedSensor, PayloadCodec, Preset

OURS = "edge_tvbo/"
PLACE = "{sensor}"
LARGEST = 65_536  # bytes of a message that is looked at
MOST_GROUPS = 256
MOST_SENSORS = 2000  # of a group
MOST_VALUE = 1e12  # beyond it a number is no measurement
LEAST_SPREAD = 1e-9  # likewise below it
SOME = 3  # sensors that are named of a group
MOST_NAMED = 5  # topics that look like nothing, or names that cannot be used
_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_LONGEST_NAME = 64  # characters


class Quantity(msgspec.Struct, frozen=True):
    """What sensors measure, and how much it usually differs between places."""

    name: str
    unit: str
    spread: float  # sd, in the unit


_KNOWN = {  # by the words that makes have for it
    "temperature": Quantity("temperature", "°C", 3.0),
    "tc": Quantity("temperature", "°C", 3.0),
    "humidity": Quantity("humidity", "%", 10.0),
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
_PLAIN = {"number": "plain numbers", "json": "JSON"}  # that are no make
_ORDER = list(dict.fromkeys(each.name for each in _KNOWN.values()))


class Group(msgspec.Struct, frozen=True):
    """Sensors of one make that measure one quantity."""

    make: str
    topic: str  # {sensor} in the place of the sensor
    value: str | None  # the setting `value`; None where a payload is one number
    activate: Activation | None
    readings: dict[str, float]  # the last of each sensor, by what its topic calls it
    messages: int

    @property
    def quantity(self) -> Quantity:
        """What is measured, by the words in `value` or in the topic."""
        words = re.split(r"[./:]", self.value or self.topic.replace(PLACE, ""))
        for word in reversed(words):
            if known := _KNOWN.get(word.lower()):
                return known
        name = re.sub(r"[^a-z0-9_-]+", "-", words[-1].lower()).strip("-")[:64]
        tenth = 0.1 * abs(self.center)
        return Quantity(name or "field", "", tenth if tenth > LEAST_SPREAD else 1.0)

    @property
    def center(self) -> float:
        """The median of the sensors' last readings, which no single liar moves far."""
        return median(self.readings.values())

    @property
    def spread(self) -> float:
        """The sd of the last readings, by their median; what is usual where that is more."""
        off = median(abs(each - self.center) for each in self.readings.values())
        return max(1.5 * off, self.quantity.spread)

    def told(self) -> str:
        """Say in a line what was heard."""
        values, quantity = self.readings.values(), self.quantity
        count = len(values)
        who = "1 sensor that looks" if count == 1 else f"{count} sensors that look"
        what = f"{_PLAIN.get(self.make, self.make)}: {quantity.name}"
        span = f"{min(values):.4g} to {max(values):.4g} {quantity.unit}".rstrip()
        some = [f"{shown(name)} {value:.4g}" for name, value in self.readings.items()][:SOME]
        more = ", ..." if count > SOME else ""
        return f"{who} like {what}, {span} in {self.messages} messages: {', '.join(some)}{more}"


class Discovery:
    """Sorts what is heard into groups.

    Parameters
    ----------
    presets : mapping of str to Preset
        The makes that are known, by their payload's name.
    codec : callable
        Makes the codec of a payload with its settings.
    """

    def __init__(
        self,
        presets: Mapping[str, Preset],
        codec: Callable[[str, dict[str, str]], PayloadCodec],
    ) -> None:
        self._presets = presets
        self._make = codec
        self._codecs: dict[tuple[str, str | None], PayloadCodec] = {}
        self._groups: dict[tuple[str, str, str | None], _Growing] = {}
        self.messages = 0
        self.unknown: dict[str, None] = {}  # some topics that look like no make's
        self.unusable: dict[str, None] = {}  # some sensors whose names no setting can hold

    def hear(self, topic: str, payload: bytes) -> None:
        """Take a message; whatever it holds, it raises nothing."""
        if topic.startswith((OURS, "$")):  # $ begins the broker's own
            return
        self.messages += 1
        seen = list(self._recognised(topic, payload)) or list(guess_by_topic(topic, payload))
        taken = [self._take(make, each, payload) for make, each in seen]
        if not any(taken) and len(self.unknown) < MOST_NAMED:
            self.unknown[topic] = None

    def groups(self) -> list[Group]:
        """Give what was found: known quantities first, then by the number of sensors."""
        return sorted((each.group() for each in self._groups.values()), key=_rank)

    def _recognised(self, topic: str, payload: bytes) -> Iterator[tuple[str, DetectedSensor]]:
        for make, preset in self._presets.items() if len(payload) < LARGEST else ():
            try:
                seen = preset.recognise(topic, payload)
            except Exception:
                continue
            if seen is not None:
                yield make, seen

    def _take(self, make: str, seen: DetectedSensor, payload: bytes) -> bool:
        """Note each value of a message, and say whether there was one."""
        if not all(map(_usable, (seen.sensor, *seen.topic.replace(PLACE, "x", 1).split("/")))):
            self.unusable |= {seen.sensor: None} if len(self.unusable) < MOST_NAMED else {}
            return False
        values = [each for each in seen.values if _sayable(each)] if seen.values else [None]
        noted = [self._note(make, seen, value, payload) for value in values]
        return any(noted)

    def _note(self, make: str, seen: DetectedSensor, value: str | None, payload: bytes) -> bool:
        key = (make, seen.topic, value)
        if key not in self._groups and len(self._groups) >= MOST_GROUPS:
            return False
        try:
            number, _ = self._codec(make, value)(payload)
            measured = abs(number) <= MOST_VALUE
        except Exception:
            measured = False
        if not measured:
            return False
        growing = self._groups.setdefault(key, _Growing(*key, seen.activate))
        growing.take(seen.sensor, number)
        return True

    def _codec(self, make: str, value: str | None) -> PayloadCodec:
        codec = self._codecs.get((make, value))
        if codec is None:
            codec = self._make(make, {} if value is None else {"value": value})
            if len(self._codecs) < MOST_GROUPS:
                self._codecs[make, value] = codec
        return codec


class _Growing:
    """A group that is still listened to."""

    def __init__(
        self, make: str, topic: str, value: str | None, activate: Activation | None
    ) -> None:
        self._facts = (make, topic, value, activate)
        self._readings: dict[str, float] = {}
        self._messages = 0

    def take(self, sensor: str, value: float) -> None:
        self._messages += 1
        if sensor in self._readings or len(self._readings) < MOST_SENSORS:
            self._readings[sensor] = value

    def group(self) -> Group:
        return Group(*self._facts, dict(sorted(self._readings.items())), self._messages)


def guess_by_topic(topic: str, payload: bytes) -> Iterator[tuple[str, DetectedSensor]]:
    """Take a message of no make by the quantity that its topic, or a key of its JSON, names.

    >>> for payload, seen in guess_by_topic("home/hall/temperature", b"21.3"):
    ...     print(payload, seen.sensor, seen.topic)
    number hall home/{sensor}/temperature
    >>> for payload, seen in guess_by_topic("home/hall", b'{"co2": 415}'):
    ...     print(payload, seen.sensor, seen.topic, seen.values)
    json hall home/{sensor} ('co2',)
    """
    *above, last = topic.split("/")
    if above and last.lower() in _KNOWN:
        yield "number", DetectedSensor(above[-1], "/".join([*above[:-1], PLACE, last]), ())
    elif keys := tuple(key for key in _keys(payload) if key.lower() in _KNOWN):
        yield "json", DetectedSensor(last, "/".join([*above, PLACE]), keys)


def _keys(payload: bytes) -> Iterable[str]:
    try:
        document = msgspec.json.decode(payload) if len(payload) < LARGEST else None
    except (ValueError, RecursionError):
        return ()
    return document if isinstance(document, dict) else ()


def _rank(group: Group) -> tuple[bool, int, int, str]:
    name = group.quantity.name
    order = _ORDER.index(name) if name in _ORDER else len(_ORDER)
    return order == len(_ORDER), -len(group.readings), order, f"{group.topic} {group.value}"


def ids(names: Iterable[str]) -> dict[str, str]:
    """Give the names that topics have for sensors, each by an id.

    >>> ids(["Living room", "Küche", "hall", "Kuche"])
    {'hall': 'hall', 'Kuche': 'Kuche', 'Living-room': 'Living room', 'Kuche-2': 'Küche'}
    """
    every = list(names)
    given = {name: name for name in every if _ID.fullmatch(name)}
    for name in every:
        if name not in given:
            plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
            plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", plain)[:59].strip("-") or "sensor"
            numbered = (f"{plain}-{number}" for number in count(2))
            given[next(each for each in chain([plain], numbered) if each not in given)] = name
    return given


def shown(name: str) -> str:
    """Give a name that somebody sent as it can be shown: short, and without control characters.

    >>> print(shown("a" * 50), shown("hall"), shown(chr(10)) == repr(chr(10)))
    aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa hall True
    """
    short = name[:40]
    return short if short.isprintable() else repr(short)


def _sayable(value: str) -> bool:
    """Say whether a setting can hold this name of a value; ${ would be filled in."""
    return len(value) <= _LONGEST_NAME and value.isprintable() and "${" not in value


def _usable(name: str) -> bool:
    return (
        0 < len(name) <= _LONGEST_NAME
        and name.isprintable()
        and not any(each in name for each in "/+#{}")
    )
