"""Device presets: the default topics of an integration, from which sensors are recognised."""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import msgspec

from edge_tvbo.errors import PayloadError
from edge_tvbo.messages.payloads import Activation, DetectedSensor
from edge_tvbo_adapters.payloads.decode import decode_text, parse_number
from edge_tvbo_adapters.payloads.json import parse_json

MAX_DEPTH = 4  # levels of nested objects in which numbers are searched for
MAX_VALUES = 500  # largest number of paths that are listed for one message
LEVEL = "[^/+#$][^/+#]*"  # one topic level; a level that starts with $ is not a sensor's


class DevicePreset(msgspec.Struct, frozen=True):
    """Preset of an integration: the pattern of its topics, and a check of its payloads.

    Attributes
    ----------
    topic : str
        Topic of the readings. Each ``{word}`` stands for a level, or for a part of a level.
    values : callable
        Takes a payload, and returns the texts that the setting ``value`` can have for this payload.
        Raises `PayloadError` for the payload of another integration.
    activate : Activation, optional
        The command that activates a sensor; None if the integration has no such command.
    alternative : DevicePreset, optional
        A second topic of the same integration.
    reserved : frozenset of str
        Texts that no ``{word}`` matches, because they are levels in topics of another kind.
    units : callable
        Takes the setting ``value``, and returns the units for which the codec needs the setting
        ``unit``. Each unit is mapped to a number; see `convertible_units`.

    Examples
    --------
    >>> tasmota = DevicePreset("tele/{sensor}/SENSOR", numbers_below())
    >>> tasmota.recognise("tele/hall/SENSOR", b'{"AM2301": {"Temperature": 24.6}}').values
    ('AM2301.Temperature',)
    """

    topic: str
    values: Callable[[bytes], tuple[str, ...]]
    activate: Activation | None = None
    alternative: "DevicePreset | None" = None
    reserved: frozenset[str] = frozenset()
    units: Callable[[str | None], Mapping[str, float]] = lambda value: {}

    def recognise(self, topic: str, payload: bytes) -> DetectedSensor | None:
        """Return the sensor of a message that matches the preset; None for any other message."""
        match = _pattern(self.topic).fullmatch(topic)
        if match is None:
            return self.alternative.recognise(topic, payload) if self.alternative else None
        if self.reserved.intersection(match.groups()):
            return None
        try:
            values = self.values(payload)
        except PayloadError:
            return None
        words = match.groupdict()
        sensor = words.pop("sensor")
        activate = self.activate
        if activate is not None:
            activate = msgspec.structs.replace(activate, topic=_filled(activate.topic, words))
        return DetectedSensor(sensor, _filled(self.topic, words), values, activate)


def numbers_below(
    *path: str, without: frozenset[str] = frozenset()
) -> Callable[[bytes], tuple[str, ...]]:
    """Return a preset's function that lists the paths of all numbers below `path` in a payload.

    The paths are relative to `path`, as in the setting ``value``. `without` contains keys; numbers
    at and below these keys are left out. The function raises `PayloadError` if it finds no number.
    """

    def values(payload: bytes) -> tuple[str, ...]:
        document = parse_json(payload)
        for step in path:
            document = document.get(step) if isinstance(document, dict) else None
        paths = zip(_number_paths(document, MAX_DEPTH, without), range(MAX_VALUES), strict=False)
        found = tuple(path for path, _ in paths)
        if not found:
            raise PayloadError("missing-value", "there is no number in the payload")
        return found

    return values


def expect_number(payload: bytes) -> tuple[str, ...]:
    """Return an empty tuple of paths if the payload of a device preset is one number.

    Raises `PayloadError` for any other payload.
    """
    parse_number(decode_text(payload))
    return ()


def _number_paths(document: Any, levels: int, without: frozenset[str]) -> Iterator[str]:
    """Yield the paths of the numbers in a preset's payload, down to `levels` levels."""
    if not isinstance(document, dict) or levels == 0:
        return
    for name, value in document.items():
        if re.search(r"[.\[\]]", name) or not name or name in without:
            continue
        if isinstance(value, int | float) and not isinstance(value, bool):
            yield name
        for path in _number_paths(value, levels - 1, without):
            yield f"{name}.{path}"


@cache  # a preset compares its topic with the topic of each message
def _pattern(template: str) -> re.Pattern[str]:
    """Return the regular expression of the topics that match a preset's topic."""
    return re.compile(re.sub(r"\\\{(\w+)\\\}", rf"(?P<\1>{LEVEL})", re.escape(template)))


def _filled(template: str, words: dict[str, str]) -> str:
    for word, text in words.items():
        template = template.replace(f"{{{word}}}", text)
    return template
