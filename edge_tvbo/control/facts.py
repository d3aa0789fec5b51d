"""Data types of facts about a field's sensors and energy; other modules turn facts into texts."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from edge_tvbo.messages.documents import Ineligibility

FaultKind = Literal["stuck", "drift", "spikes", "unit"]


class BackedOff(msgspec.Struct, frozen=True):
    """The sensor is unresponsive and is not activated before interval `until`."""

    until: int
    silence: float | None  # s since its last reading; None before the first


class Silence(msgspec.Struct, frozen=True):
    """The sensor has sent no usable reading for far longer than usual."""

    time: float  # s without a reading; if `while_recommended`, only s in which it was recommended
    usual: float  # s that usually pass between two readings, counted like `time`
    while_recommended: bool  # whether its readings were only seen when it was recommended
    of_others: bool = False  # whether `usual` is from other sensors: its own is unknown
    has_reported: bool = True  # whether it has sent a reading since the daemon began to listen


class LowBattery(msgspec.Struct, frozen=True):
    """The sensor's battery is too low for an activation."""

    percent: float


class OutOfEnergy(msgspec.Struct, frozen=True):
    """An activation costs more energy than is left of the sensor's budget."""

    left: float
    unit: str


class FieldOutOfEnergy(msgspec.Struct, frozen=True):
    """An activation costs more energy than is left of the field's budget."""

    cost: float
    left: float
    unit: str


class WasActivated(msgspec.Struct, frozen=True):
    """The sensor was already activated in this interval."""


class Deviation(msgspec.Struct, frozen=True):
    """The distance of a reading from the estimate of the model, in the unit of the field."""

    value: float  # the reading
    estimate: float  # the estimate before the reading
    distance: float
    stds: float  # `distance` in standard deviations of the estimated reading
    limit: float | None  # largest distance at which the event trigger does not fire; None: no limit


class Fault(msgspec.Struct, frozen=True):
    """The sensor is faulty: its readings contradict the other sensors' readings, or each other."""

    kind: FaultKind
    value: float  # the reading at which the fault was detected, in the field's unit
    expected: float  # the model's estimate of this reading
    count: int  # number of readings that show the fault
    unit: str  # the unit in which the sensor seems to report; only for the kind "unit"


class Excluded(msgspec.Struct, frozen=True):
    """The sensor is faulty and is not tried again before interval `until`."""

    until: int
    fault: Fault


class Compared(msgspec.Struct, frozen=True):
    """The sensor repeats one value; another sensor is read before this sensor is activated again.

    The other sensor's reading shows whether the field has changed meanwhile.
    """


class Refused(msgspec.Struct, frozen=True):
    """The broker refuses the sensor's activations; none is sent before interval `until`."""

    until: int


class Ignored(msgspec.Struct, frozen=True):
    """A command has taken the sensor out of use."""


EnergyShortage = LowBattery | OutOfEnergy | FieldOutOfEnergy
Ineligible = BackedOff | EnergyShortage | WasActivated | Excluded | Compared | Refused | Ignored
INELIGIBILITY: Mapping[type[Ineligible], Ineligibility] = {
    BackedOff: Ineligibility.BACKED_OFF,
    LowBattery: Ineligibility.LOW_BATTERY,
    OutOfEnergy: Ineligibility.NO_ENERGY,
    FieldOutOfEnergy: Ineligibility.NO_ENERGY,
    WasActivated: Ineligibility.ACTIVATED,
    Excluded: Ineligibility.FAULTY,
    Compared: Ineligibility.COMPARED,
    Refused: Ineligibility.REFUSED,
    Ignored: Ineligibility.IGNORED,
}


class FieldEnergyLeft(msgspec.Struct, frozen=True):
    """The energy that is left of the field's budget."""

    left: float
    budget: float
    unit: str


class SensorsWithEnergy(msgspec.Struct, frozen=True):
    """Number of sensors whose budget and battery allow an activation.

    This fact is used if the field as a whole has no budget.
    """

    sensors: int
    M: int


EnergyFact = FieldEnergyLeft | SensorsWithEnergy
