"""A first configuration, written for a person to complete."""

import json

TEMPLATE = """\
# edge_tvbo: which sensor to activate next.
# Every setting with its range and default:  edge-tvbo config explain

instance = "edge"

[mqtt]
host = {host}
port = {port}

[fields.temperature]
unit = {unit}
objective = "max"                  # "min" follows the coldest
interval = {interval}                # or "on-reading"
policy = {{ name = "auto" }}          # finds out how the field changes; needs no setting

sensors = [{sensors}]
reading = {{ topic = {topic}, payload = "number" }}

# "advise" only publishes edge_tvbo/edge/temperature/selected; "live" also commands the sensor.
activate = {{ mode = "advise" }}

# What is expected before any reading: how far apart sensors still read alike (length_scale, in m),
# the mean, how much places differ (variance) and how exact a sensor is (noise_variance).
[fields.temperature.kernel]
name = "matern-5/2"
length_scale = 6.0
mean = {mean:g}
variance = {variance:g}
noise_variance = {noise:g}

# Where the sensors stand, in m. These are made up: put yours in.
[fields.temperature.positions]
{positions}
"""


def starter(
    *,
    sensors: tuple[str, ...],
    host: str,
    port: int,
    topic: str,
    interval: str,
    unit: str,
    mean: float,
    spread: float,
) -> str:
    """Give the text of a configuration for `sensors`, with placeholders for their positions."""
    rows = [f"{_quoted(each)} = [{3.0 * index:.1f}, 0.0]" for index, each in enumerate(sensors)]
    return TEMPLATE.format(
        host=_quoted(host),
        port=port,
        unit=_quoted(unit),
        interval=_quoted(interval),
        variance=spread**2,
        noise=0.01 * spread**2,
        mean=mean,
        sensors=", ".join(_quoted(each) for each in sensors),
        topic=_quoted(topic),
        positions="\n".join(rows),
    )


def _quoted(text: str) -> str:
    """Give a text as TOML writes it, which for one line is as JSON does."""
    return json.dumps(text, ensure_ascii=False)
