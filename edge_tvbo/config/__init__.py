"""One TOML file, read once into frozen settings; every mistake in it is reported at once.

The file goes through four rooms: `toml_lines` remembers where each key stands, `tables` reads
value by value as `settings` declares them, `rules` compares settings with each other and with
the disk, and only what came through without a finding is built. Nothing here imports numpy:
checking a file is quick, on a small computer too.
"""

import re
import tomllib
from collections.abc import Collection
from pathlib import Path

from edge_tvbo.config.field_settings import ActivateSettings, FieldSettings, ReadingSettings
from edge_tvbo.config.findings import ConfigErrors, Finding, Report
from edge_tvbo.config.mqtt_settings import Mqtt, Reconnect, Tls
from edge_tvbo.config.policy_settings import Beta, Kernel, Policy
from edge_tvbo.config.positions import unreadable
from edge_tvbo.config.reference import explain
from edge_tvbo.config.rules import Policies, Rules
from edge_tvbo.config.settings import Settings, State
from edge_tvbo.config.tables import Values, build, read_table
from edge_tvbo.config.toml_lines import key_lines
from edge_tvbo.config.values import Secret, seconds

__all__ = [
    "ActivateSettings",
    "Beta",
    "ConfigErrors",
    "FieldSettings",
    "Finding",
    "Kernel",
    "Mqtt",
    "Policy",
    "ReadingSettings",
    "Reconnect",
    "Secret",
    "Settings",
    "State",
    "Tls",
    "explain",
    "load",
    "seconds",
]

_EXAMPLE = "`edge-tvbo init my.toml --sensor hall` writes one to start from"
_AT = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


def load(
    path: Path, policies: Policies | None = None, payloads: Collection[str] | None = None
) -> Settings:
    """Read the configuration at `path`; raises `ConfigErrors` with all that is wrong with it.

    Parameters
    ----------
    path : Path
        The TOML file; the paths in it start at its directory.
    policies : mapping of str to tuple of str, optional
        The parameters that each policy takes; without it policy names go unchecked.
    payloads : collection of str, optional
        The payload formats there are; without it their names go unchecked.
    """
    text = _text(path)
    raw = _parsed(path, text)
    report = Report(path, key_lines(text))
    good = read_table(Settings, raw, (), report)
    Rules(report, path.parent, policies, payloads).apply(good)
    if found := report.findings():
        raise ConfigErrors(found)
    settings: Settings = build(Settings, good)
    return settings


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise _alone(path, 0, f"there is no such file; {_EXAMPLE}") from None
    except (OSError, ValueError) as error:
        raise _alone(path, 0, f"the file {unreadable(error)}; {_EXAMPLE}") from None
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _alone(path, line, "the file is not in UTF-8 here; save it as UTF-8") from None


def _parsed(path: Path, text: str) -> Values:
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise _alone(
            path, 1, "the file is nested too deeply; arrays of arrays are no use"
        ) from None
    except ValueError as error:  # TOMLDecodeError, and what int() and datetime() refuse
        message = str(error)
    where = _AT.search(message)
    line = int(where[1]) if where and where[1] else text.rstrip().count("\n") + 1
    column = f" at column {where[2]}" if where and where[2] else ""
    what = " ".join(_AT.sub("", message).split())
    raise _alone(path, line, f"this is not TOML{column}: {what}; {_toml_hint(what)}")


def _toml_hint(what: str) -> str:
    if "overwrite" in what or "Duplicate" in what or "twice" in what:
        return "each key and each table can be there once"
    return 'a line is `key = value`, and a text stands in "quotes"'


def _alone(path: Path, line: int, message: str) -> ConfigErrors:
    return ConfigErrors([Finding(str(path), line, "", message)])
