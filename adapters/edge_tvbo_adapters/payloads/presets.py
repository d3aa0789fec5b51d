"""What the makes of sensors have in common: topics that name the sensor, values that have names."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from edge_tvbo.errors import PayloadError
from edge_tvbo.messages.payloads import Activation, DetectedSensor
from edge_tvbo_adapters.payloads.decode import decoded_text, number_in
from edge_tvbo_adapters.payloads.json import parsed

DEEPEST = 4  # levels of a document in which values are looked for
MOST = 64  # values named of one message
LEVEL = "[^/+#$][^/+#]*"  # of a topic; $ begins what is not a sensor's


class DevicePreset(msgspec.Struct, frozen=True):
    """A `Preset`: the topic by which a make is known, and what it says there.

    >>> make = DevicePreset("tele/{sensor}/SENSOR", values_below())
    >>> make.recognise("tele/hall/SENSOR", b'{"AM2301": {"Temperature": 24.6}}').values
    ('AM2301.Temperature',)
    """

    topic: str
    values: Callable[[bytes], tuple[str, ...]]  # raises `PayloadError` for another make's payload
    activate: Activation | None = None
    other: "DevicePreset | None" = None  # another topic of the same make

    def recognise(self, topic: str, payload: bytes) -> DetectedSensor | None:
        """Say what is seen in a message; None where it looks like none of this make."""
        words = re.fullmatch(_pattern(self.topic), topic)
        if words is None:
            return self.other.recognise(topic, payload) if self.other else None
        try:
            values = self.values(payload)
        except PayloadError:
            return None
        found = words.groupdict()
        sensor = found.pop("sensor")
        activate = self.activate
        if activate is not None:
            activate = msgspec.structs.replace(activate, topic=_filled(activate.topic, found))
        return DetectedSensor(sensor, _filled(self.topic, found), values, activate)


def values_below(*path: str) -> Callable[[bytes], tuple[str, ...]]:
    """Give what names the numbers of a JSON object below `path`, as the setting `value` does.

    It raises `PayloadError` where there is none.
    """

    def values(payload: bytes) -> tuple[str, ...]:
        document = parsed(payload)
        for step in path:
            document = document.get(step) if isinstance(document, dict) else None
        names = [name for name, _ in zip(_numbers(document, DEEPEST), range(MOST), strict=False)]
        if not isinstance(document, dict) or not names:
            raise PayloadError("missing-value", "there is no number in it")
        return tuple(names)

    return values


def one_number(payload: bytes) -> tuple[str, ...]:
    """Give no name, for a payload that is one number; raises `PayloadError` for any other."""
    number_in(decoded_text(payload))
    return ()


def _numbers(document: Any, levels: int) -> Iterator[str]:
    if not isinstance(document, dict) or levels == 0:
        return
    for name, value in document.items():
        if re.search(r"[.\[\]]", name) or not name:
            continue
        if isinstance(value, int | float) and not isinstance(value, bool):
            yield name
        for below in _numbers(value, levels - 1):
            yield f"{name}.{below}"


def _pattern(template: str) -> str:
    """Give a regular expression for the topics that `template` stands for."""
    return re.sub(r"\\\{(\w+)\\\}", rf"(?P<\1>{LEVEL})", re.escape(template))


def _filled(template: str, words: dict[str, str]) -> str:
    for word, text in words.items():
        template = template.replace(f"{{{word}}}", text)
    return template
