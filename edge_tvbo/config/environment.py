"""Environment variables: they override settings, or fill in texts of the configuration.

The variable `EDGE_TVBO__MQTT__HOST=broker.lan` overrides the setting `host` in the table [mqtt];
two underscores separate the levels of the key path. In any text of the file,

- `${BROKER}` is replaced with the value of the variable BROKER;
- `${BROKER:-broker.lan}` is replaced with the text after `:-` if BROKER is not set;
- `${BROKER:?set it in my.env}` is an error with the text after `:?` if BROKER is not set or empty;
- `$${` is replaced with `${`. Any other `${` is an error.
"""

import re
import tomllib
from collections.abc import Mapping
from typing import Any

import msgspec

from edge_tvbo.config.deprecated import current
from edge_tvbo.config.errors import KeyPath, Report, shown
from edge_tvbo.config.introspection import Setting, policy_parameters, setting_of
from edge_tvbo.config.reader import Values, accepts
from edge_tvbo.config.settings import Settings
from edge_tvbo.errors import Code
from edge_tvbo.policy.settings import PolicySettings

PREFIX = "EDGE_TVBO__"
_VARIABLE = re.compile(
    r"\$\$\{|\$\{(?:(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"(?::(?P<kind>[-?])(?P<text>(?:(?!\$\{)[^}])*))?\})?"
)
_FORMS = "${NAME}, ${NAME:-default}, ${NAME:?message}; for the characters ${ themselves, write $${"


def variables(environ: Mapping[str, str]) -> dict[KeyPath, str]:
    """Return a dict that maps key paths of settings to the environment variables that set them.

    >>> variables({"EDGE_TVBO__MQTT__HOST": "lan", "HOME": "/root"})
    {('mqtt', 'host'): 'EDGE_TVBO__MQTT__HOST'}
    """
    names = sorted(name for name in environ if name.startswith(PREFIX))
    return {tuple(name.removeprefix(PREFIX).lower().split("__")): name for name in names}


def with_environment(raw: Values, report: Report, environ: Mapping[str, str]) -> Values:
    """Return a copy of the configuration `raw` that contains the values of environment variables.

    `${NAME}` is replaced with the value of a variable. The variables in `report.variables` replace
    settings. A variable that is not set or not UTF-8 is reported, and so is `${` without a valid
    name.
    """
    raw = _filled_in(raw, (), report, environ)
    for path, name in report.variables.items():
        if not _is_utf_8(environ[name]):
            report.add(path, "is not UTF-8; set it to a text in UTF-8", code=Code.ENVIRONMENT)
            continue
        raw = _with(raw, path, _read(environ[name], _setting(current(path))))
    return raw


def _filled_in(value: Any, path: KeyPath, report: Report, environ: Mapping[str, str]) -> Any:
    match value:
        case _ if path in report.variables:  # a variable replaces the setting
            return value
        case str():
            return _fill(value, path, report, environ)
        case dict():
            return {
                key: _filled_in(each, (*path, key), report, environ) for key, each in value.items()
            }
        case list():
            return [
                _filled_in(each, (*path, index), report, environ)
                for index, each in enumerate(value)
            ]
        case _:
            return value


def _fill(text: str, path: KeyPath, report: Report, environ: Mapping[str, str]) -> str:
    def wrong(problem: str) -> str:
        report.add(path, problem, code=Code.ENVIRONMENT)
        return ""

    def fill(found: re.Match[str]) -> str:
        if found[0] == "$${":
            return "${"
        name, kind, given = found["name"], found["kind"], found["text"]
        if name is None:
            return wrong(f"contains ${{ that is not followed by a name and }}; allowed: {_FORMS}")
        reference = f"refers to the environment variable {name[:60]}"
        filled = environ.get(name, given if kind == "-" else None)
        if kind == "?" and not filled:
            return wrong(f"{reference}, which is not set, or is empty: {shown(given)}")
        if filled is None:
            default = f"${{{name[:60]}:-default}}"
            return wrong(f"{reference}, which is not set; set it, or write {default}")
        if not _is_utf_8(filled):
            return wrong(f"{reference}, which is not UTF-8; set it to a text in UTF-8")
        return filled

    return _VARIABLE.sub(fill, text)


def _is_utf_8(text: str) -> bool:
    """Return whether the environment variable with the value `text` was valid UTF-8.

    Python replaces each invalid byte with a character that is not allowed in UTF-8.
    """
    return not re.search("[\ud800-\udfff]", text)


def _with(table: Values, path: KeyPath, value: Any) -> Values:
    """Return a copy of `table` in which an environment variable sets the key `path` to `value`."""
    first, *rest = path
    if rest:
        below = table.get(str(first))
        value = _with(below if isinstance(below, dict) else {}, tuple(rest), value)
    return {**table, str(first): value}


def _read(text: str, setting: Setting | None) -> Any:
    """Convert the text of an environment variable to a value for `setting`.

    If the setting accepts a text, the text is returned unchanged: the password 1234 does not become
    a number. Otherwise the text is read as a TOML value; if this fails, the text is returned
    unchanged.
    """
    if setting is not None and accepts(setting, text):
        return text
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError, KeyError):
        return text


def _setting(path: KeyPath) -> Setting | None:
    """Return the setting at the key path of an environment variable; None if there is none."""
    kind: type[msgspec.Struct] | None = Settings
    found: Setting | None = None
    names = iter(path)
    for name in names:
        found = _setting_in(kind, str(name))
        if found is None:
            return None
        kind = found.table
        if found.named and next(names, None):  # skip the name that the user chose
            kind = found.named[1]
    return found


def _setting_in(kind: type[msgspec.Struct] | None, name: str) -> Setting | None:
    """Return the setting `name` of the table `kind` for an environment variable; None if unknown.

    In the table of a policy, the name can be a parameter of any built-in policy.
    """
    if kind is None:
        return None
    return policy_parameters().get(name) if kind is PolicySettings else setting_of(kind, name)
