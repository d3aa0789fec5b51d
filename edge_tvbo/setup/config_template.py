"""A first configuration, written for a person: it runs as it is, and says what to improve."""

import json
from collections.abc import Mapping

import msgspec

from edge_tvbo.messages.payloads import Activation

TEMPLATE = """\
#:schema ./edge-tvbo.schema.json
# edge_tvbo: which sensor to activate next.
# Every setting with its range and default:  edge-tvbo config explain
# For an editor that completes and checks:   edge-tvbo schema > edge-tvbo.schema.json

instance = "edge"

[mqtt]
host = {host}
port = {port}
{login}
[fields.{field}]
unit = {unit}
objective = "max"  # "min" follows the lowest
interval = {interval}  # or "on-reading"
policy = {{ name = "auto" }}  # finds out how the field changes; needs no setting

sensors = [{sensors}]
{names}reading = {{ topic = {topic}, payload = {payload}{value} }}

# "advise" only publishes edge_tvbo/edge/{field}/selected; {modes}
{activate}

# What is expected before any reading: the mean, how much places differ (variance, in unit²), how
# exact a sensor is (noise_variance, in unit²), and that any two sensors are equally alike.
# Recorded days teach far more (`edge-tvbo fit`): then  model = "..."  replaces this table.
[fields.{field}.kernel]
name = "exchangeable"  # "matern-5/2" with length_scale, where positions are known
correlation = 0.5
mean = {mean:.4g}
variance = {variance:.4g}
noise_variance = {noise:.4g}

# [fields.{field}.positions]  # in m
# {first} = [0.0, 0.0]
"""


class TemplateValues(msgspec.Struct, frozen=True, kw_only=True):
    """What a first configuration is made of."""

    sensors: Mapping[str, str]  # what topics call each, by its id
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
    activate: Activation | None = None  # how sensors of this make are asked, if it is known
    live: bool = False  # ask them so
    mean: float
    spread: float  # sd


def render_config(start: TemplateValues) -> str:
    """Give the text of a configuration."""
    others = {sensor: name for sensor, name in start.sensors.items() if sensor != name}
    return TEMPLATE.format(
        host=_quoted(start.host),
        port=start.port,
        login=_login(start),
        field=start.field,
        unit=_quoted(start.unit),
        interval=_quoted(start.interval),
        sensors=", ".join(map(_quoted, start.sensors)),
        names=f"names = {_table(others)}\n" if others else "",
        topic=_quoted(start.topic),
        payload=_quoted(start.payload),
        value="" if start.value is None else f", value = {_quoted(start.value)}",
        modes='"live" also commands the sensor.' if start.activate else "no sensor is commanded.",
        activate=_activate(start),
        mean=start.mean,
        variance=start.spread * start.spread,
        noise=0.01 * start.spread * start.spread,
        first=_quoted(next(iter(start.sensors))),
    )


def _login(start: TemplateValues) -> str:
    settings = {"username": start.user, "password_file": start.password_file}
    lines = [f"{key} = {_quoted(text)}\n" for key, text in settings.items() if text]
    return "".join(lines) + ("\n[mqtt.tls]\n" if start.tls else "")


def _activate(start: TemplateValues) -> str:
    """Write how sensors are asked; where they are not, as a comment that can be uncommented."""
    advise = 'activate = { mode = "advise" }'
    if start.activate is None:
        return advise
    usual = start.activate
    words = {"mode": usual.mode, "topic": usual.topic, "payload": usual.payload}
    line = f"activate = {_table(words)}"
    return line if start.live else f"{advise}\n# {line}"


def _table(words: Mapping[str, str]) -> str:
    return f"{{ {', '.join(f'{_key(key)} = {_quoted(text)}' for key, text in words.items())} }}"


def _key(text: str) -> str:
    return (
        text
        if text.replace("-", "").replace("_", "").isalnum() and text.isascii()
        else _quoted(text)
    )


def _quoted(text: str) -> str:
    """Give a text as TOML writes it, which for one line is as JSON does."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
