"""Settings of what activations cost and what may be spent; see `settings`."""

from typing import Annotated

import msgspec
from msgspec import Meta

from edge_tvbo.config import field_types
from edge_tvbo.config.field_types import duration


class BatterySettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where sensors say how full their batteries are."""

    topic: Annotated[
        str,
        Meta(
            description="The MQTT topic of the batteries' charges; it may be that of the readings.",
            extra={
                "reads": field_types.reading_topic,
                "can": "a topic with {sensor} in one of its levels",
            },
        ),
    ]
    payload: Annotated[
        str, Meta(description="The format of the charges, in %.", extra={"can": "a format's name"})
    ] = "number"
    settings: Annotated[
        dict[str, str],
        Meta(
            description='Further keys are for the format: value = "battery" for one.',
            extra={"rest": str, "can": "a text"},
        ),
    ] = {}
    least: Annotated[
        float, Meta(ge=0, le=100, description="A sensor with less than this, in %, is not asked.")
    ] = 10.0
    max_age: Annotated[
        float,
        Meta(
            description="A charge that was reported longer ago than this keeps nobody from asking.",
            extra=duration("1min"),
        ),
    ] = 604800.0


class SensorEnergy(msgspec.Struct, frozen=True, kw_only=True):
    """What is different with one sensor."""

    cost: Annotated[float | None, Meta(gt=0, description="What it spends, instead of `cost`.")] = (
        None
    )
    budget: Annotated[
        float | None, Meta(ge=0, description="What it may spend in a period, instead of `budget`.")
    ] = None


class EnergySettings(msgspec.Struct, frozen=True, kw_only=True):
    """What activations cost and what may be spent."""

    unit: Annotated[
        str, Meta(max_length=16, description="What costs and budgets are counted in.")
    ] = "J"
    cost: Annotated[float, Meta(gt=0, description="What a sensor spends when it is asked.")] = 1.0
    budget: Annotated[
        float | None,
        Meta(
            ge=0,
            description="What each sensor may spend in any stretch of one period; without it, as"
            " much as it likes.",
        ),
    ] = None
    field_budget: Annotated[
        float | None,
        Meta(ge=0, description="What all of them together may spend, likewise."),
    ] = None
    period: Annotated[
        float,
        Meta(description="What a budget is for.", extra=duration("1min")),
    ] = 86400.0
    sensors: Annotated[
        dict[Annotated[str, Meta(extra={"can": "the id of a sensor"})], SensorEnergy],
        Meta(description="Sensors with costs and budgets of their own."),
    ] = {}
    battery: Annotated[
        BatterySettings | None,
        Meta(description="Where sensors say how full their batteries are."),
    ] = None
