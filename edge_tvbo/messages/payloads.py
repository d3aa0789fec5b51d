"""Payload formats: codecs that decode sensors' payloads, and presets of integrations.

A third party adds a payload format with an implementation of `PayloadFormat`, and optionally an
implementation of `Preset`.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Literal, Protocol

import msgspec

PollMode = Literal["live", "sleepy", "lorawan"]


class PayloadCodec(Protocol):
    """Decoder of the payloads of one kind of sensor."""

    def __call__(self, payload: bytes) -> tuple[float, float | timedelta | None]:
        """Return the value and the time of a reading; the time is None if the payload has no time.

        The time is in seconds since 1970, or a `timedelta` relative to the arrival of the message.
        If a payload contains several readings, the newest reading is returned. Raises
        `PayloadError` for invalid bytes, and no other exception.
        """
        ...


class PayloadFormat(Protocol):
    """Function that makes a codec from the settings in a configuration."""

    def __call__(self, settings: Mapping[str, str]) -> PayloadCodec:
        """Return the codec of this payload format; raises `ConfigError` for an unknown setting."""
        ...


class Activation(msgspec.Struct, frozen=True):
    """Topic and payload of the command that activates a sensor of an integration."""

    mode: PollMode
    topic: str
    payload: str  # in a preset, {value} stands for the name of the value
    withdrawal: str | None = None  # lorawan: the payload that empties the downlink queue


class DetectedSensor(msgspec.Struct, frozen=True):
    """A sensor that was recognised in a message of an integration."""

    sensor: str  # the sensor's name in the topic
    topic: str  # topic of its readings, with {sensor} in place of the name
    values: tuple[str, ...]  # choices for the setting `value`; () if a payload is one number
    activate: Activation | None = None


class Preset(Protocol):
    """Preset of an integration: its usual topics, and how to recognise and poll its sensors."""

    @property
    def topic(self) -> str:
        """Topic on which the sensors of an integration usually publish their readings.

        `{sensor}` stands for the name of a sensor. Any other `{...}` is a placeholder that the user
        replaces in the configuration.
        """
        ...

    @property
    def activate(self) -> Activation | None:
        """Command by which an integration activates a sensor; None if it has no such command."""
        ...

    def recognise(self, topic: str, payload: bytes) -> DetectedSensor | None:
        """Return the sensor that sent a message; None for a message of another integration."""
        ...
