"""Payload formats: the codec of a sensor's payloads, and the preset of an integration.

A payload format of a third party implements `PayloadFormat`, and may have a `Preset` beside it.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Literal, Protocol

import msgspec

PollMode = Literal["live", "sleepy", "lorawan"]


class PayloadCodec(Protocol):
    """Decodes the payloads of one kind of sensor."""

    def __call__(self, payload: bytes) -> tuple[float, float | timedelta | None]:
        """Return the value and, where the payload contains it, the time of the measurement.

        The time is in seconds since 1970, or an offset from the arrival of the message. Of several
        readings in one payload the newest is returned. Raises `PayloadError` for invalid bytes, and
        no other exception.
        """
        ...


class PayloadFormat(Protocol):
    """Makes a codec from the settings of a configuration."""

    def __call__(self, settings: Mapping[str, str]) -> PayloadCodec:
        """Return a codec; raises `ConfigError` for an unknown setting."""
        ...


class Activation(msgspec.Struct, frozen=True):
    """How sensors of an integration are polled."""

    mode: PollMode
    topic: str
    payload: str
    withdrawal: str | None = None  # lorawan: the payload that empties the downlink queue


class DetectedSensor(msgspec.Struct, frozen=True):
    """A sensor of some integration, recognised in a message."""

    sensor: str  # as its topic names it
    topic: str  # of its readings, with {sensor} in place of the name
    values: tuple[str, ...]  # allowed for the setting `value`; () for a payload of one number
    activate: Activation | None = None


class Preset(Protocol):
    """The usual topics of an integration: how its sensors are recognised and polled."""

    @property
    def topic(self) -> str:
        """Topic of the readings; {sensor} is the sensor, the user fills in other braces."""
        ...

    @property
    def activate(self) -> Activation | None:
        """How its sensors are polled, with the same braces in the topic; None if they cannot be."""
        ...

    def recognise(self, topic: str, payload: bytes) -> DetectedSensor | None:
        """Return the sensor that sent a message; None for a message of another integration."""
        ...
