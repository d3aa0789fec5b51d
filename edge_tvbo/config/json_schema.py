"""JSON Schema of the settings, for editors that complete and check a file while it is written.

The schema accepts every file that `load` accepts. It leaves out rules between settings.
"""

from inspect import getdoc
from typing import Any, Literal, get_args, get_origin

import msgspec
from msgspec import Meta

from edge_tvbo.config import deprecated, field_types
from edge_tvbo.config.errors import dotted
from edge_tvbo.config.introspection import Setting, rest_of, settings_of
from edge_tvbo.config.settings import Settings
from edge_tvbo.messages.declared_types import is_struct, members, split
from edge_tvbo.policy.registry import policies, settings_class

Schema = dict[str, Any]
_TEXT: Schema = {"type": "string"}
_NUMBER: Schema = {"type": "number"}
_READ: dict[Any, Schema] = {  # what TOML may give a reader; any other reads a text
    field_types.keepalive: {"anyOf": [{"type": "integer", "minimum": 5, "maximum": 3600}, _TEXT]},
    field_types.text_or_table: {
        "anyOf": [
            _TEXT,
            {
                "type": "object",
                "additionalProperties": {
                    "type": "array",
                    "items": _NUMBER,
                    "minItems": 2,
                    "maxItems": 2,
                },
            },
        ]
    },
    field_types.topic_names: {"type": "object", "additionalProperties": _TEXT},
}
_TYPES = {int: "integer", float: "number", bool: "boolean", str: "string"}


def json_schema() -> Schema:
    """Give the schema of a configuration, JSON Schema draft 2020-12."""
    settings = _table(Settings)
    _add_deprecated(settings)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A configuration of edge_tvbo",
        **settings,
    }


def _add_deprecated(schema: Schema) -> None:
    """Add the deprecated names of settings, so that an editor marks them."""
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
        "additionalProperties": _TEXT if rest_of(kind) else False,
        **({"required": required} if required else {}),
    }


def _policy(setting: Setting) -> Schema:
    """Return the schema of a policy's table: for each policy one with its parameters."""
    tables = []
    for kind in map(settings_class, policies()):
        description = " ".join((getdoc(kind) or "").split())
        table = {"title": kind.__struct_config__.tag, "description": description, **_table(kind)}
        if kind is not type(setting.default):
            table["required"] = ["name"]
        tables.append(table)
    return {"anyOf": tables}


def _described(setting: Setting) -> Schema:
    made = {"description": f"{setting.description} It can be {setting.can}."}
    default = setting.default
    if default is not None and not isinstance(default, msgspec.Struct | dict):
        written = setting.extra.get("text")
        made["default"] = written(default) if written else default
    return made | _value(setting)


def _value(setting: Setting) -> Schema:
    if reads := setting.extra.get("reads"):
        plain = _READ.get(reads, _TEXT)
        return {"anyOf": [plain, _table(setting.table)]} if setting.table else plain
    if setting.is_policy:
        return _policy(setting)
    if setting.named:
        return {"type": "object", "additionalProperties": _table(setting.named[1])}
    return _kind(setting.kind)


def _kind(kind: Any) -> Schema:
    """Return the schema of a type, and its limits."""
    bare, meta = split(kind)
    if len(members(bare)) > 1:
        return {"anyOf": [_kind(each) for each in members(bare)]}
    if is_struct(bare):
        return _table(bare)
    if get_origin(bare) is tuple:
        return _array(get_args(bare), meta)
    if get_origin(bare) is Literal:
        return {"enum": list(get_args(bare))}
    return {"type": _TYPES[bare]} | _limits(
        meta,
        minimum="ge",
        maximum="le",
        exclusiveMinimum="gt",
        exclusiveMaximum="lt",
        minLength="min_length",
        maxLength="max_length",
    )


def _array(items: tuple[Any, ...], meta: Meta) -> Schema:
    made: Schema = {"type": "array", "items": _kind(items[0])}
    if items[-1] is not ...:  # of so many items, all of one type
        return made | {"minItems": len(items), "maxItems": len(items)}
    return made | _limits(meta, minItems="min_length", maxItems="max_length")


def _limits(meta: Meta, **names: str) -> Schema:
    limits = {name: getattr(meta, attribute) for name, attribute in names.items()}
    return {name: limit for name, limit in limits.items() if limit is not None}
