"""JSON Schema of the settings, for editors that complete and check a file while it is written.

The schema accepts every file that `load` accepts, with two exceptions. The schema rejects an
environment variable, such as ${MODE}, in these settings:

- a setting that allows only a few words, such as "live" and "advise";
- a `unit`, if the text with `${...}` is longer than a unit is allowed to be.

The schema also accepts some invalid files, because a schema does not compare settings with each
other.

msgspec generates the schema of each plain type with its limits. This module generates the schemas
of tables, because a file differs from the structs into which it is read:

- a duration is a text;
- a setting that is not set is missing, and not null;
- some defaults depend on other settings;
- the keys of a policy's table depend on its key `name`, which selects a struct.
"""

from typing import Any

import msgspec

from edge_tvbo.config import deprecated, field_types
from edge_tvbo.config.errors import dotted
from edge_tvbo.config.introspection import (
    Setting,
    description_of,
    extra_keys_of,
    settings_of,
)
from edge_tvbo.config.settings import Settings
from edge_tvbo.config.topic_types import topic_names
from edge_tvbo.messages.declared_types import is_struct, members, split
from edge_tvbo.policy.registry import loadable_settings

Schema = dict[str, Any]
_TEXT: Schema = {"type": "string"}
_VARIABLE = r"\$\{"  # a text that contains an environment variable, such as ${HOST}
_PARSED: dict[Any, Schema] = {  # schemas of parsers that accept more than a text
    field_types.keepalive: {"anyOf": [{"type": "integer", "minimum": 5, "maximum": 3600}, _TEXT]},
    field_types.plausible: {
        "anyOf": [
            {"type": "number", "exclusiveMinimum": 0},
            msgspec.json.schema(tuple[float, float]),
        ]
    },
    field_types.text_or_table: msgspec.json.schema(str | dict[str, tuple[float, float]]),
    topic_names: msgspec.json.schema(dict[str, str]),
    field_types.device_classes: msgspec.json.schema(dict[str, str]),
}


def json_schema() -> Schema:
    """Return the schema of a configuration file, in JSON Schema draft 2020-12."""
    settings = _table(Settings)
    _add_deprecated(settings)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A configuration of edge_tvbo",
        **settings,
    }


def _add_deprecated(schema: Schema) -> None:
    """Add the old names of settings to the schema, so that an editor marks them as deprecated."""
    for old, new in deprecated.RENAMED.items():
        table = schema
        for key in new[:-1]:
            table = table["properties"][key]
        properties = table["properties"]
        description = f"Old name of {dotted(new)}."
        properties[str(old[-1])] = properties[new[-1]] | {
            "description": description,
            "deprecated": True,
        }


def _table(kind: type[msgspec.Struct]) -> Schema:
    known = settings_of(kind)
    properties = {name: _described(setting) for name, setting in known.items()}
    required = [name for name, setting in known.items() if setting.required]
    return {
        "type": "object",
        "properties": properties,
        "additionalProperties": _TEXT if extra_keys_of(kind) else False,
        **({"required": required} if required else {}),
    }


def _policy(setting: Setting) -> Schema:
    """Return the schema of a policy's table, with one alternative for each policy."""
    tables = []
    for kind in loadable_settings():
        title = {"title": kind.__struct_config__.tag, "description": description_of(kind)}
        table: Schema = {**title, **_table(kind)}
        if kind is not type(setting.default):
            table["required"] = ["name"]
        tables.append(table)
    return {"anyOf": tables}


def _described(setting: Setting) -> Schema:
    schema = _value(setting)
    schema["description"] = f"{setting.description} Allowed: {setting.expected}."
    default = setting.default
    if default is not None and not isinstance(default, msgspec.Struct | dict):
        to_text = setting.extra.get("to_text")
        schema["default"] = to_text(default) if to_text else default
    return schema


def _value(setting: Setting) -> Schema:
    if parse := setting.extra.get("parse"):
        return dict(_PARSED.get(parse, _TEXT))
    if setting.is_policy:
        return _policy(setting)
    if setting.named:
        return {"type": "object", "additionalProperties": _table(setting.named[1])}
    if is_struct(setting.items):
        return {"type": "array", "items": _table(setting.items)}
    return _kind(setting.kind)


def _kind(kind: Any) -> Schema:
    """Return the JSON Schema of a type; each struct in it is written out, not referenced."""
    several = members(split(kind)[0])
    if len(several) > 1:
        return {"anyOf": [_kind(each) for each in several]}
    if is_struct(several[0]):
        return _table(several[0])
    schema = msgspec.json.schema(kind)
    for part in (schema, schema.get("items")):
        if part and "pattern" in part:  # JSON Schema reads \Z as the letter Z
            part["pattern"] = part["pattern"].replace(r"\Z", "$") + f"|{_VARIABLE}"
    return schema
