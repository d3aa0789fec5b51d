"""Configuration template: a first configuration that `run` accepts unedited, with comments."""

import json
from collections.abc import Iterator, Mapping
from itertools import count

import msgspec

from edge_tvbo.config.cross_checks import RESERVED
from edge_tvbo.config.field_settings import PUBLISHED_SENSORS
from edge_tvbo.messages.payloads import Activation

MAX_PUBLISHED_SENSORS = 500  # 500 estimates take at most 50 kB; many brokers accept 64 kB

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
[state]  # the state and the readings survive a restart; `edge-tvbo fit` learns from the readings
dir = {state}
history = "64MiB"  # for `edge-tvbo why` and the dashboard
"""

FIELD_TEMPLATE = """
[fields.{field}]
unit = {unit}
objective = "max"  # search for the highest value; "min" for the lowest
interval = {interval}  # or "on-reading"
{timeout}policy = {{ name = "auto" }}  # learns how the field changes; needs no parameter
# model = {model}  # from `edge-tvbo fit`; it replaces the table `kernel` below
{publish}
sensors = [{sensors}]
{names}{reading}
# "advise" only publishes edge_tvbo/edge/{field}/selected; {modes}
{activate}
{sources}
# The prior: mean and variance (in unit²) of the field, noise_variance (in unit²) of a reading, and
# the correlation of any two sensors. A model that `edge-tvbo fit` learns from recorded days is much
# better: to use one, set `model` above and remove this table.
[fields.{field}.kernel]
name = "exchangeable"  # better, if positions are known: "matern-5/2", with a length_scale
correlation = 0.5
mean = {mean:.10g}
variance = {variance:.4g}
noise_variance = {noise:.4g}

# [fields.{field}.positions]  # in m
# {first} = [0.0, 0.0]
"""


class SourceValues(msgspec.Struct, frozen=True, kw_only=True):
    """Values for one source of a field's readings."""

    sensors: Mapping[str, str]  # sensor ids, each with the sensor's name in topics
    topic: str
    payload: str
    value: str | None = None
    unit: str | None = None  # unit to which the codec converts, if the configuration must name it
    scale: float = 1.0  # of the conversion to the field's unit; see `ReadingSettings`
    offset: float = 0.0
    activate: Activation | None = None  # how sensors of this integration are activated, if known


class FieldValues(msgspec.Struct, frozen=True, kw_only=True):
    """Values that fill the template of one field."""

    name: str
    unit: str
    sources: tuple[SourceValues, ...]
    mean: float  # of the readings
    spread: float  # standard deviation of the readings


class TemplateValues(msgspec.Struct, frozen=True, kw_only=True):
    """Values that fill the template of a first configuration."""

    fields: tuple[FieldValues, ...]
    host: str
    port: int
    state: str = "state"  # directory of the stored state, relative to that of the configuration
    user: str | None = None
    password_file: str | None = None
    tls: bool = False
    ca: str | None = None  # file with the certificate of the CA, for `tls`
    interval: str
    live: bool = False  # whether the daemon activates sensors whose command is known


def render_config(values: TemplateValues) -> str:
    """Return the text of a first configuration, in which `values` fill the template."""
    head = TEMPLATE.format(
        host=toml_string(values.host),
        port=values.port,
        login=_login(values),
        state=toml_string(values.state),
    )
    names: set[str] = set()
    for field in values.fields:
        name = next(each for each in _names(field.name) if each not in {*names, *RESERVED})
        names.add(name)
        head += _render_field(field, name, values)
    return head


def model_file(field: str, fields: int) -> str:
    """Return the usual name of the model file of `field`, in the template and for ``fit``.

    `fields` is the number of fields in the configuration.

    >>> model_file("humidity", 1), model_file("humidity", 2)
    ('model.json', 'humidity.model.json')
    """
    return "model.json" if fields == 1 else f"{field}.model.json"


def _names(name: str) -> Iterator[str]:
    yield name
    yield from (f"{name[:60]}-{number}" for number in count(2))


def _render_field(field: FieldValues, name: str, values: TemplateValues) -> str:
    sensors = {sensor: named for each in field.sources for sensor, named in each.sensors.items()}
    others = {sensor: named for sensor, named in sensors.items() if sensor != named}
    command = _command(field.sources)
    return FIELD_TEMPLATE.format(
        field=name,
        model=toml_string(model_file(name, len(values.fields))),
        unit=toml_string(field.unit),
        interval=toml_string(values.interval),
        timeout=_timeout(command, values),
        publish=_publish(len(sensors)),
        sensors=", ".join(map(toml_string, sensors)),
        names=f"names = {_table(others)}\n" if others else "",
        reading=_reading(field.sources[0]) if len(field.sources) == 1 else "",
        modes=_modes(command),
        activate=_activate(command, values.live),
        sources="".join(_source(each, name, values.live) for each in field.sources)
        if len(field.sources) > 1
        else "",
        mean=field.mean,
        variance=field.spread * field.spread,
        noise=0.01 * field.spread * field.spread,
        first=toml_string(next(iter(sensors))),
    )


def _publish(sensors: int) -> str:
    """Return the template's line `publish_posterior` for a field with this number of `sensors`.

    With this line, the dashboard shows the estimates of all sensors. Returns "" if the estimates
    are shown by default, or if the field has too many sensors.
    """
    if not PUBLISHED_SENSORS < sensors <= MAX_PUBLISHED_SENSORS:
        return ""
    return f"publish_posterior = {sensors}  # for the dashboard: the estimates of all sensors\n"


def _reading(source: SourceValues) -> str:
    words = [f"{key} = {toml_string(text)}" for key, text in _format(source).items()]
    return f"reading = {{ {', '.join(words + _conversion(source))} }}\n"


def _format(source: SourceValues) -> dict[str, str]:
    optional = {"value": source.value, "unit": source.unit}
    given = {name: text for name, text in optional.items() if text is not None}
    return {"topic": source.topic, "payload": source.payload, **given}


def _conversion(source: SourceValues) -> list[str]:
    """Return a source's settings that convert to the field's unit; empty without conversion."""
    if (source.scale, source.offset) == (1.0, 0.0):
        return []
    return [f"scale = {source.scale:.6g}", f"offset = {source.offset:.6g}"]


def _source(source: SourceValues, field: str, live: bool) -> str:
    """Return the template's TOML table of a source, for a field with several sources.

    If `live` is false, the daemon does not activate sensors, and the command is only a comment.
    """
    lines = [f"\n[[fields.{field}.readings]]"]
    lines += [f"{key} = {toml_string(text)}" for key, text in _format(source).items()]
    lines += _conversion(source)
    lines.append(f"sensors = [{', '.join(map(toml_string, source.sensors))}]")
    if known := source.activate:
        command = _table({"topic": known.topic, "payload": known.payload})
        lines.append(f"{'' if live else '# '}activate = {command}")
    return "\n".join(lines) + "\n"


def _command(sources: tuple[SourceValues, ...]) -> dict[str, str]:
    """Return the template's table `activate`, which applies to all sources of a field.

    If there are several sources, the table contains only the mode, because each source has its own
    topic and payload. The table is empty if a source has no command, or if the modes of the
    sources differ.
    """
    known = [each.activate for each in sources if each.activate is not None]
    if len(known) < len(sources) or len({each.mode for each in known}) > 1:
        return {}
    if len(known) > 1:
        return {"mode": known[0].mode}
    return {"mode": known[0].mode, "topic": known[0].topic, "payload": known[0].payload}


def _login(values: TemplateValues) -> str:
    settings = {"username": values.user, "password_file": values.password_file}
    lines = [f"{key} = {toml_string(text)}\n" for key, text in settings.items() if text]
    if values.tls:
        lines.append("\n[mqtt.tls]\n")
    if values.ca is not None:
        lines.append(f"ca = {toml_string(values.ca)}\n")
    return "".join(lines)


def _timeout(command: Mapping[str, str], values: TemplateValues) -> str:
    """Return the template's line `reply_timeout` for LoRaWAN devices; "" for other sensors.

    By default, the reply timeout is a part of the interval. This is too short, because a device
    receives the command only after its next uplink. If `values.live` is false, the daemon does not
    activate sensors, and the line is a comment.
    """
    if command.get("mode") != "lorawan":
        return ""
    timeout = "1h" if values.interval == "on-reading" else values.interval
    line = f"reply_timeout = {toml_string(timeout)}  # longer than the time between two uplinks\n"
    return line if values.live else f"# {line}"


def _modes(command: Mapping[str, str]) -> str:
    """Return the template's comment about the mode in which sensors are activated."""
    if not command:
        return "no sensor is activated."
    if command["mode"] == "lorawan":
        return '"lorawan" also activates the sensor, with a downlink after its next uplink.'
    return f'"{command["mode"]}" also activates the sensor, which must reply.'


def _activate(command: Mapping[str, str], live: bool) -> str:
    """Return the template's line `activate`.

    An empty `command` means that no command to the sensors is known: then the mode is "advise". If
    `live` is false, the mode is "advise", too, and a second line contains the command as a comment.
    """
    advise = 'activate = { mode = "advise" }'
    if not command:
        return advise
    line = f"activate = {_table(command)}"
    return line if live else f"{advise}\n# {line}"


def _table(settings: Mapping[str, str]) -> str:
    entries = (f"{_key(key)} = {toml_string(text)}" for key, text in settings.items())
    return f"{{ {', '.join(entries)} }}"


def _key(text: str) -> str:
    is_bare = text.isascii() and text.replace("-", "").replace("_", "").isalnum()
    return text if is_bare else toml_string(text)


def toml_string(text: str) -> str:
    """Return a one-line text as a TOML string for a configuration.

    A text with double quotes becomes a literal string, in single quotes, if that is possible.

    >>> print(toml_string("hall"), toml_string('{"t": ""}'))
    "hall" '{"t": ""}'
    """
    if '"' in text and "'" not in text and text.isprintable():
        return f"'{text}'"
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
