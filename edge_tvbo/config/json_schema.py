"""The settings as JSON Schema, for editors that complete and check a file while it is written.

It takes every file that `load` takes. What `load` knows beside it, rules between settings above
all, it does not say.
"""

from typing import Annotated, Any, get_args, get_origin

import msgspec
from msgspec import Meta

from edge_tvbo.config import field_types
from edge_tvbo.config.introspection import Setting, rest_of, settings_of
from edge_tvbo.config.settings import Settings

Schema = dict[str, Any]
_TEXT: Schema = {"type": "string"}
_NUMBER: Schema = {"type": "number"}
_WORDS: Schema = {"anyOf": [_NUMBER, _TEXT]}
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
    field_types.share_or_fitted: _WORDS,
    field_types.interval_or_fitted: _WORDS,
    field_types.length_or_learned: _WORDS,
    field_types.number_or_least_bound: _WORDS,
}
_TYPES = {int: "integer", float: "number", bool: "boolean", str: "string"}


def json_schema() -> Schema:
    """Give the schema of a configuration, JSON Schema draft 2020-12."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A configuration of edge_tvbo",
        **_table(Settings),
    }


def _table(kind: type[msgspec.Struct]) -> Schema:
    known = settings_of(kind)
    properties = {name: _described(setting) for name, setting in known.items()}
    more: bool | Schema = False
    if rest := rest_of(kind):
        inside = rest.extra["rest"]
        more = _TEXT if inside is str else {"type": ["string", "number", "boolean"]}
        if inside is not str:
            properties |= {name: _described(each) for name, each in settings_of(inside).items()}
    required = [name for name, setting in known.items() if setting.required]
    return {
        "type": "object",
        "properties": properties,
        "additionalProperties": more,
        **({"required": required} if required else {}),
    }


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
    if setting.named:
        return {"type": "object", "additionalProperties": _table(setting.named[1])}
    if setting.table:
        return _table(setting.table)
    return _kind(setting.kind)


def _kind(kind: Any) -> Schema:
    """Write a plain type, and its limits."""
    bare, meta = get_args(kind)[:2] if get_origin(kind) is Annotated else (kind, Meta())
    if get_origin(bare) is tuple:
        made: Schema = {"type": "array", "items": _kind(get_args(bare)[0])}
        return made | _limits(meta, minItems="min_length", maxItems="max_length")
    if bare not in _TYPES:  # a Literal
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


def _limits(meta: Meta, **names: str) -> Schema:
    limits = {name: getattr(meta, attribute) for name, attribute in names.items()}
    return {name: limit for name, limit in limits.items() if limit is not None}
