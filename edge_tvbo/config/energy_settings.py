"""Energy settings: costs, budgets and batteries of the sensors of one field."""

from typing import Annotated

import msgspec
from msgspec import Meta

from edge_tvbo.config.field_types import duration
from edge_tvbo.config.topic_types import READING_TOPIC


class BatterySettings(msgspec.Struct, frozen=True, kw_only=True):
    """Topic and format of the messages in which sensors report their battery charge."""

    topic: Annotated[
        str,
        Meta(
            description="The MQTT topic on which a sensor reports the charge of its battery. It may"
            " be the topic of the readings.",
            extra=READING_TOPIC,
        ),
    ]
    payload: Annotated[
        str,
        Meta(
            description="The format of a message with a battery charge. The charge is in %.",
            extra={"expected": "the name of a format"},
        ),
    ] = "number"
    settings: Annotated[
        dict[str, str],
        Meta(
            description='Other keys are options of the format, such as value = "battery".',
            extra={"extra_keys": True, "expected": "a text"},
        ),
    ] = {}
    least: Annotated[
        float,
        Meta(
            ge=0,
            le=100,
            description="Minimum battery charge, in %. A sensor with a lower charge is not"
            " activated.",
        ),
    ] = 10.0
    max_age: Annotated[
        float,
        Meta(
            description="Maximum age of a reported battery charge. An older charge is ignored.",
            extra=duration("1min"),
        ),
    ] = 604800.0


class SensorEnergy(msgspec.Struct, frozen=True, kw_only=True):
    """Cost and budget of one sensor; they replace the field's `cost` and `budget`."""

    cost: Annotated[
        float | None,
        Meta(gt=0, description="Cost of activating this sensor; it replaces the field's `cost`."),
    ] = None
    budget: Annotated[
        float | None,
        Meta(
            ge=0,
            description="The energy that this sensor may spend within any one period; it replaces"
            " the field's `budget`. With 0, this sensor is never activated.",
        ),
    ] = None


class EnergySettings(msgspec.Struct, frozen=True, kw_only=True):
    """Costs of activations, and energy budgets of the sensors and of the whole field."""

    unit: Annotated[str, Meta(max_length=16, description="The unit of costs and budgets.")] = "J"
    cost: Annotated[
        float,
        Meta(
            gt=0,
            description='Cost of activating a sensor. With mode "advise", no sensor is activated,'
            " so no energy is charged.",
        ),
    ] = 1.0
    budget: Annotated[
        float | None,
        Meta(
            ge=0,
            description="The energy that each sensor may spend within any one period. Without"
            " a budget, there is no limit.",
        ),
    ] = None
    field_budget: Annotated[
        float | None,
        Meta(
            ge=0,
            description="The energy that all sensors together may spend within any one period.",
        ),
    ] = None
    period: Annotated[
        float,
        Meta(
            description="The length of time that a budget covers, counted in whole intervals. A"
            " command can be sent late in its interval, so the energy of a budget can be spent in a"
            " time that is up to one interval shorter than this period.",
            extra=duration("1min"),
        ),
    ] = 86400.0
    sensors: Annotated[
        dict[Annotated[str, Meta(extra={"expected": "the id of a sensor"})], SensorEnergy],
        Meta(description="Sensors with another cost or budget than the field."),
    ] = {}
    battery: Annotated[
        BatterySettings | None,
        Meta(
            description="Topic and format of the messages in which sensors report their battery"
            " charge."
        ),
    ] = None

    @property
    def limits_activations(self) -> bool:
        """Whether the energy budgets can leave an interval without an activation.

        Budgets of 0 for single sensors have no such effect: another sensor is activated instead.
        """
        budgets = (each.budget for each in self.sensors.values())
        return any((self.budget, self.field_budget, *budgets))
