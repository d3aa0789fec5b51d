"""Configuration template: a first configuration that runs unedited, with comments for editing."""

import json
from collections.abc import Iterator, Mapping
from itertools import count

import msgspec

from edge_tvbo.config.cross_checks import RESERVED
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
{login}"""

FIELD_TEMPLATE = """
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


class FieldValues(msgspec.Struct, frozen=True, kw_only=True):
    """Values that fill the template of one field."""

    name: str
    sensors: Mapping[str, str]  # sensor ids, each with the sensor's name in topics
    unit: str
    topic: str
    payload: str
    value: str | None = None
    activate: Activation | None = None  # how sensors of this integration are activated, if known
    mean: float  # of the readings
    spread: float  # standard deviation of the readings


class TemplateValues(msgspec.Struct, frozen=True, kw_only=True):
    """Values that fill the template of a first configuration."""

    fields: tuple[FieldValues, ...]
    host: str
    port: int
    user: str | None = None
    password_file: str | None = None
    tls: bool = False
    interval: str
    live: bool = False  # whether the daemon activates sensors, if it is known how


def render_config(values: TemplateValues) -> str:
    """Return the text of a first configuration, in which `values` fill the template."""
    head = TEMPLATE.format(host=_quoted(values.host), port=values.port, login=_login(values))
    names: set[str] = set()
    for field in values.fields:
        name = next(each for each in _names(field.name) if each not in {*names, *RESERVED})
        names.add(name)
        head += _render_field(field, name, values)
    return head


def _names(name: str) -> Iterator[str]:
    yield name
    yield from (f"{name[:60]}-{number}" for number in count(2))


def _render_field(field: FieldValues, name: str, values: TemplateValues) -> str:
    others = {sensor: named for sensor, named in field.sensors.items() if sensor != named}
    return FIELD_TEMPLATE.format(
        field=name,
        unit=_quoted(field.unit),
        interval=_quoted(values.interval),
        sensors=", ".join(map(_quoted, field.sensors)),
        names=f"names = {_table(others)}\n" if others else "",
        topic=_quoted(field.topic),
        payload=_quoted(field.payload),
        value="" if field.value is None else f", value = {_quoted(field.value)}",
        modes='"live" also activates the sensor.' if field.activate else "no sensor is activated.",
        activate=_activate(field.activate, values.live),
        mean=field.mean,
        variance=field.spread * field.spread,
        noise=0.01 * field.spread * field.spread,
        first=_quoted(next(iter(field.sensors))),
    )


def _login(values: TemplateValues) -> str:
    settings = {"username": values.user, "password_file": values.password_file}
    lines = [f"{key} = {_quoted(text)}\n" for key, text in settings.items() if text]
    return "".join(lines) + ("\n[mqtt.tls]\n" if values.tls else "")


def _activate(known: Activation | None, live: bool) -> str:
    """Return the line of the configuration that sets `activate`.

    If the mode is "advise" and the command to the sensors is known, a second line contains the
    command as a comment.
    """
    advise = 'activate = { mode = "advise" }'
    if known is None:
        return advise
    settings = {"mode": known.mode, "topic": known.topic, "payload": known.payload}
    line = f"activate = {_table(settings)}"
    return line if live else f"{advise}\n# {line}"


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
