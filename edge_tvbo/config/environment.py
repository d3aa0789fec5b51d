"""What the environment says instead of the file, as containers like to be told.

`EDGE_TVBO__MQTT__HOST=broker.lan` is `host` of [mqtt], whatever the file says; levels are parted by
two underscores. And `"${BROKER:-broker.lan}"` in any text of the file is the variable BROKER, or
what stands behind `:-` where there is none.
"""

import re
import tomllib
from collections.abc import Mapping
from typing import Any

import msgspec

from edge_tvbo.config.deprecated import current
from edge_tvbo.config.errors import KeyPath, Report
from edge_tvbo.config.introspection import Setting, policy_parameters, settings_of
from edge_tvbo.config.reader import Values, takes
from edge_tvbo.config.settings import Settings
from edge_tvbo.errors import Code
from edge_tvbo.policy.settings import PolicySettings

PREFIX = "EDGE_TVBO__"
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


def variables(environ: Mapping[str, str]) -> dict[KeyPath, str]:
    """Give the variables that stand for settings, by the setting.

    >>> variables({"EDGE_TVBO__MQTT__HOST": "lan", "HOME": "/root"})
    {('mqtt', 'host'): 'EDGE_TVBO__MQTT__HOST'}
    """
    ours = sorted(name for name in environ if name.startswith(PREFIX))
    return {tuple(name.removeprefix(PREFIX).lower().split("__")): name for name in ours}


def override(raw: Values, given: Mapping[KeyPath, str], environ: Mapping[str, str]) -> Values:
    """Give `raw` with what the variables `given` say instead."""
    for path, name in given.items():
        raw = _with(raw, path, _read(environ[name], _setting(current(path))))
    return raw


def filled_in(value: Any, path: KeyPath, report: Report, environ: Mapping[str, str]) -> Any:
    """Give `value` with every `${NAME}` in its texts filled in; what is not set is reported."""
    match value:
        case str():
            return _filled(value, path, report, environ)
        case dict():
            return {
                key: filled_in(each, (*path, key), report, environ) for key, each in value.items()
            }
        case list():
            return [
                filled_in(each, (*path, index), report, environ) for index, each in enumerate(value)
            ]
        case _:
            return value


def _filled(text: str, path: KeyPath, report: Report, environ: Mapping[str, str]) -> str:
    def fill(found: re.Match[str]) -> str:
        name, instead = found[1], found[2]
        if name not in environ and instead is None:
            report.add(
                path,
                f"names the variable {name[:60]}, which is not set; set it, or write"
                f" ${{{name[:60]}:-...}} with what to take instead",
                code=Code.ENVIRONMENT,
            )
        return environ.get(name, instead or "")

    return _VARIABLE.sub(fill, text)


def _with(table: Values, path: KeyPath, value: Any) -> Values:
    """Give a copy of `table` in which `path` holds `value`; a table on the way is made."""
    first, *rest = path
    if rest:
        below = table.get(str(first))
        value = _with(below if isinstance(below, dict) else {}, tuple(rest), value)
    return {**table, str(first): value}


def _read(text: str, setting: Setting | None) -> Any:
    """Take a text as it is where that will do, so that a password may be 1234; else as TOML."""
    if setting is not None and takes(setting, text):
        return text
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError, KeyError):
        return text


def _setting(path: KeyPath) -> Setting | None:
    """Find what a path leads to, if there is such a setting."""
    kind: type[msgspec.Struct] | None = Settings
    found: Setting | None = None
    names = iter(path)
    for name in names:
        found = _settings_in(kind).get(str(name))
        if found is None:
            return None
        kind = found.table
        if found.named and next(names, None):  # the name that somebody chose
            kind = found.named[1]
    return found


def _settings_in(kind: type[msgspec.Struct] | None) -> dict[str, Setting]:
    """Return the settings of a table; in that of a policy, the parameters of every policy."""
    if kind is None:
        return {}
    return policy_parameters() if kind is PolicySettings else settings_of(kind)
