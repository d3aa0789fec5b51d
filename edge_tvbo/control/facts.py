"""Facts about a field's sensors and energy, as data; `control.decision_text` words them."""

import msgspec


class BackedOff(msgspec.Struct, frozen=True):
    """The sensor is unresponsive, and not activated before interval `until`."""

    until: int
    silence: float | None  # s since its last reading; None before the first


class LowBattery(msgspec.Struct, frozen=True):
    """The sensor's battery is too low for an activation."""

    percent: float


class OutOfEnergy(msgspec.Struct, frozen=True):
    """The energy left to the sensor, or to the field, does not pay for an activation."""

    left: float
    unit: str


Ineligible = BackedOff | LowBattery | OutOfEnergy


class FieldEnergyLeft(msgspec.Struct, frozen=True):
    """The energy left of the field's budget."""

    left: float
    budget: float
    unit: str


class SensorsWithEnergy(msgspec.Struct, frozen=True):
    """How many of M sensors have energy for an activation; the field has no budget of its own."""

    sensors: int
    M: int


EnergyFact = FieldEnergyLeft | SensorsWithEnergy
