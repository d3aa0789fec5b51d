"""Every setting in words, generated from the structs."""

from typing import Any

import msgspec

from edge_tvbo.config.schema import Setting, rest_of, settings_of
from edge_tvbo.config.settings import Settings


def explain() -> str:
    """Say of every setting what it is, what it can be and what it is by default."""
    return "\n".join(_table(Settings, "")) + "\n"


def _table(kind: type[msgspec.Struct], prefix: str) -> list[str]:
    lines = []
    for name, setting in settings_of(kind).items():
        lines += _setting(setting, prefix + name)
    if rest := rest_of(kind):
        if rest.extra["rest"] is str:
            lines += [f"{prefix}<key> = {rest.can}", f"    {rest.description}", ""]
        else:
            lines += _table(rest.extra["rest"], prefix)
    return lines


def _setting(setting: Setting, key: str) -> list[str]:
    lines = [f"{key} = {setting.can}", f"    {setting.description}{_default(setting)}", ""]
    if setting.named:
        return lines + _table(setting.named[1], f"{key}.<name>.")
    return lines + (_table(setting.table, f"{key}.") if setting.table else [])


def _default(setting: Setting) -> str:
    if setting.required:
        return " Required."
    if setting.derived:
        return f" Default: {setting.extra['default']}."
    if setting.default is None or isinstance(setting.default, msgspec.Struct):
        return ""
    return f" Default: {_written(setting.default, setting)}."


def _written(value: Any, setting: Setting) -> str:
    text = setting.extra.get("text")
    return str(text(value)) if text else msgspec.json.encode(value).decode()
