"""Environment variables: they override settings of the file, or are filled into its texts.

`EDGE_TVBO__MQTT__HOST=broker.lan` overrides `host` of [mqtt]; two underscores separate the levels.
`"${BROKER:-broker.lan}"` in any text of the file is replaced by the variable BROKER, or by the text
after `:-` if BROKER is not set.
"""

import re
import tomllib
from collections.abc import Mapping
from typing import Any

import msgspec

from edge_tvbo.config.deprecated import current
from edge_tvbo.config.errors import KeyPath, Report
from edge_tvbo.config.introspection import Setting, policy_parameters, settings_of
from edge_tvbo.config.reader import Values, accepts
from edge_tvbo.config.settings import Settings
from edge_tvbo.errors import Code
from edge_tvbo.policy.settings import PolicySettings

PREFIX = "EDGE_TVBO__"
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


def variables(environ: Mapping[str, str]) -> dict[KeyPath, str]:
    """Return the environment variables that override settings, by the setting's key path.

    >>> variables({"EDGE_TVBO__MQTT__HOST": "lan", "HOME": "/root"})
    {('mqtt', 'host'): 'EDGE_TVBO__MQTT__HOST'}
    """
    names = sorted(name for name in environ if name.startswith(PREFIX))
    return {tuple(name.removeprefix(PREFIX).lower().split("__")): name for name in names}


def override(raw: Values, given: Mapping[KeyPath, str], environ: Mapping[str, str]) -> Values:
    """Return the configuration `raw`, overridden by the environment variables `given`."""
    for path, name in given.items():
        raw = _with(raw, path, _read(environ[name], _setting(current(path))))
    return raw


def fill_in(value: Any, path: KeyPath, report: Report, environ: Mapping[str, str]) -> Any:
    """Return `value` with environment variables in place of `${NAME}`; report unset variables."""
    match value:
        case str():
            return _fill(value, path, report, environ)
        case dict():
            return {
                key: fill_in(each, (*path, key), report, environ) for key, each in value.items()
            }
        case list():
            return [
                fill_in(each, (*path, index), report, environ) for index, each in enumerate(value)
            ]
        case _:
            return value


def _fill(text: str, path: KeyPath, report: Report, environ: Mapping[str, str]) -> str:
    def fill(found: re.Match[str]) -> str:
        name, instead = found[1], found[2]
        if name not in environ and instead is None:
            report.add(
                path,
                f"names the variable {name[:60]}, which is not set; set it, or write"
                f" ${{{name[:60]}:-...}} with a default",
                code=Code.ENVIRONMENT,
            )
        return environ.get(name, instead or "")

    return _VARIABLE.sub(fill, text)


def _with(table: Values, path: KeyPath, value: Any) -> Values:
    """Return a copy of `table` with `value` at `path`; create missing tables of the path."""
    first, *rest = path
    if rest:
        below = table.get(str(first))
        value = _with(below if isinstance(below, dict) else {}, tuple(rest), value)
    return {**table, str(first): value}


def _read(text: str, setting: Setting | None) -> Any:
    """Return the value of an environment variable for a setting.

    The value is the text itself if the setting accepts it, such as a password 1234. Otherwise the
    text is read as TOML.
    """
    if setting is not None and accepts(setting, text):
        return text
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError, KeyError):
        return text


def _setting(path: KeyPath) -> Setting | None:
    """Return the setting at a key path; None if there is no such setting."""
    kind: type[msgspec.Struct] | None = Settings
    found: Setting | None = None
    names = iter(path)
    for name in names:
        found = _settings_in(kind).get(str(name))
        if found is None:
            return None
        kind = found.table
        if found.named and next(names, None):  # the name that the user chose
            kind = found.named[1]
    return found


def _settings_in(kind: type[msgspec.Struct] | None) -> dict[str, Setting]:
    """Return the settings of a table; for a policy's table, the parameters of all policies."""
    if kind is None:
        return {}
    return policy_parameters() if kind is PolicySettings else settings_of(kind)
