"""Configuration template: a first configuration that runs unedited, with comments for editing."""

import json
from collections.abc import Mapping

import msgspec

from edge_tvbo.messages.payloads import Activation

TEMPLATE = """\
#:schema ./edge-tvbo.schema.json
# edge_tvbo: which sensor to activate next.
# Every setting with its range and default:  edge-tvbo config explain
# Completion and checks in an editor:         edge-tvbo schema > edge-tvbo.schema.json

instance = "edge"

[mqtt]
host = {host}
port = {port}
{login}
[fields.{field}]
unit = {unit}
objective = "max"  # search for the highest value; "min" for the lowest
interval = {interval}  # or "on-reading"
policy = {{ name = "auto" }}  # learns how the field changes; needs no parameter

sensors = [{sensors}]
{names}reading = {{ topic = {topic}, payload = {payload}{value} }}

# "advise" only publishes edge_tvbo/edge/{field}/selected; {modes}
{activate}

# The prior: mean and variance (in unit²) of the field, noise_variance (in unit²) of a reading, and
# the correlation of any two sensors. A model that `edge-tvbo fit` learns from recorded days is much
# better: then  model = "..."  replaces this table.
[fields.{field}.kernel]
name = "exchangeable"  # with positions, "matern-5/2" and length_scale
correlation = 0.5
mean = {mean:.4g}
variance = {variance:.4g}
noise_variance = {noise:.4g}

# [fields.{field}.positions]  # in m
# {first} = [0.0, 0.0]
"""


class TemplateValues(msgspec.Struct, frozen=True, kw_only=True):
    """Values that fill the template of a first configuration."""

    sensors: Mapping[str, str]  # sensor ids, each with the sensor's name in topics
    host: str
    port: int
    user: str | None = None
    password_file: str | None = None
    tls: bool = False
    field: str
    unit: str
    interval: str
    topic: str
    payload: str
    value: str | None = None
    activate: Activation | None = None  # how sensors of this integration are activated, if known
    live: bool = False  # whether the daemon activates sensors
    mean: float  # of the readings
    spread: float  # standard deviation of the readings


def render_config(values: TemplateValues) -> str:
    """Return the text of a first configuration, in which `values` fill the template."""
    others = {sensor: name for sensor, name in values.sensors.items() if sensor != name}
    return TEMPLATE.format(
        host=_quoted(values.host),
        port=values.port,
        login=_login(values),
        field=values.field,
        unit=_quoted(values.unit),
        interval=_quoted(values.interval),
        sensors=", ".join(map(_quoted, values.sensors)),
        names=f"names = {_table(others)}\n" if others else "",
        topic=_quoted(values.topic),
        payload=_quoted(values.payload),
        value="" if values.value is None else f", value = {_quoted(values.value)}",
        modes='"live" also activates the sensor.' if values.activate else "no sensor is activated.",
        activate=_activate(values),
        mean=values.mean,
        variance=values.spread * values.spread,
        noise=0.01 * values.spread * values.spread,
        first=_quoted(next(iter(values.sensors))),
    )


def _login(values: TemplateValues) -> str:
    settings = {"username": values.user, "password_file": values.password_file}
    lines = [f"{key} = {_quoted(text)}\n" for key, text in settings.items() if text]
    return "".join(lines) + ("\n[mqtt.tls]\n" if values.tls else "")


def _activate(values: TemplateValues) -> str:
    """Return the line of the configuration that sets `activate`.

    If the mode is "advise" and the command to the sensors is known, a second line contains the
    command as a comment.
    """
    advise = 'activate = { mode = "advise" }'
    if values.activate is None:
        return advise
    known = values.activate
    settings = {"mode": known.mode, "topic": known.topic, "payload": known.payload}
    line = f"activate = {_table(settings)}"
    return line if values.live else f"{advise}\n# {line}"


def _table(settings: Mapping[str, str]) -> str:
    return f"{{ {', '.join(f'{_key(key)} = {_quoted(text)}' for key, text in settings.items())} }}"


def _key(text: str) -> str:
    return (
        text
        if text.replace("-", "").replace("_", "").isalnum() and text.isascii()
        else _quoted(text)
    )


def _quoted(text: str) -> str:
    """Return a text of one line as a TOML string, in the syntax that TOML and JSON share."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
