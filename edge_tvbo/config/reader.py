"""From the tables of a TOML file to the values of a struct, past every mistake on the way.

A value that is wrong is reported and left out, so that what follows judges only what is right.
"""

import math
from typing import Any

import msgspec

from edge_tvbo.config.energy_settings import BatterySettings, EnergySettings
from edge_tvbo.config.errors import KeyPath, Report, did_you_mean, dotted, listed, shown
from edge_tvbo.config.field_settings import ActivateSettings, FieldSettings, ReadingSettings
from edge_tvbo.config.introspection import Setting, rest_of, settings_of
from edge_tvbo.config.kernel_settings import Kernel
from edge_tvbo.config.mqtt_settings import Mqtt, Reconnect, Tls
from edge_tvbo.config.settings import Settings
from edge_tvbo.errors import Code, ConfigError
from edge_tvbo.messages.declared_types import allowed_values, choices, convert
from edge_tvbo.policy.registry import find_settings_class, policies
from edge_tvbo.policy.settings import BUILT_IN, PolicySettings

Values = dict[str, Any]
_WRONG: Any = object()
_HOMES: dict[type[msgspec.Struct], str] = {  # where a misplaced setting may belong
    Settings: "at the top, before the first [table]",
    Mqtt: "in [mqtt]",
    Reconnect: "in mqtt.reconnect",
    Tls: "in [mqtt.tls]",
    FieldSettings: "in [fields.<name>]",
    PolicySettings: "in policy",
    Kernel: "in kernel",
    ReadingSettings: "in reading",
    ActivateSettings: "in activate",
    EnergySettings: "in energy",
    BatterySettings: "in energy.battery",
    **dict.fromkeys(BUILT_IN, "in policy"),
}


def read_table(kind: type[msgspec.Struct], raw: Values, path: KeyPath, report: Report) -> Values:
    """Read a table by the struct `kind`: what is right of it, defaults filled in."""
    known = settings_of(kind)
    good: Values = {}
    rest = {key: value for key, value in raw.items() if key not in known}
    for name, setting in known.items():
        if name in raw:
            value = _value(setting, raw[name], (*path, name), report)
        else:
            value = _absent(setting, path, report)
        if value is not _WRONG:
            good[name] = value
    _rest(kind, rest, path, report, good)
    return good


def build(kind: type[msgspec.Struct], good: Values) -> Any:
    """Make the frozen struct `kind` of values that are all right."""
    known = settings_of(kind)
    made = {name: _built(known.get(name), value) for name, value in good.items()}
    return kind(**made)


def _built(setting: Setting | None, value: Any) -> Any:
    if setting is None or not isinstance(value, dict):
        return value
    if setting.named:
        return {name: build(setting.named[1], each) for name, each in value.items()}
    return build(setting.table, value) if setting.table else value


def _absent(setting: Setting, path: KeyPath, report: Report) -> Any:
    if setting.required:
        what = setting.description.rstrip(".")
        missing = f"is missing; it can be {setting.can}"
        report.add((*path, setting.name), missing, what, code=Code.MISSING)
        return _WRONG
    if setting.derived:
        return _WRONG
    if setting.table and isinstance(setting.default, setting.table) and not setting.is_policy:
        return read_table(setting.table, {}, (*path, setting.name), report)
    return setting.default


def _value(setting: Setting, value: Any, path: KeyPath, report: Report) -> Any:
    if isinstance(value, dict) and setting.is_policy:
        return _policy(setting, value, path, report)
    if isinstance(value, dict) and setting.table:
        return read_table(setting.table, value, path, report)
    if isinstance(value, dict) and setting.named:
        return _named(setting, value, path, report)
    if isinstance(value, list) and setting.items:
        return _items(setting, value, path, report)
    try:
        return _plain(setting, value)
    except (ValueError, OverflowError) as error:
        hint = "" if isinstance(error, msgspec.ValidationError) else str(error)
        what = "is not what it can be" if setting.extra.get("secret") else f"is {_shown(value)}"
        near = did_you_mean(value, choices(setting.kind)) if isinstance(value, str) else ""
        report.add(path, f"{what}; it can be {setting.can}", hint, near)
        return _WRONG


def takes(setting: Setting, value: Any) -> bool:
    """Say whether `value`, which is no table, is what `setting` can be."""
    try:
        _plain(setting, value)
    except (ValueError, OverflowError):
        return False
    return True


def _shown(value: Any) -> str:
    """Show a value, but not what may be a password inside a URL."""
    return "a text with @ in it" if isinstance(value, str) and "@" in value else shown(value)


def _plain(setting: Setting, value: Any) -> Any:
    if reads := setting.extra.get("reads"):
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError
        return reads(value)
    if setting.named or setting.items or setting.is_only_table:
        raise ValueError
    return convert(value, setting.declared)


def _named(setting: Setting, raw: Values, path: KeyPath, report: Report) -> Values:
    """Read a table of tables, each under a name that somebody chose."""
    name_kind, kind = setting.named
    good: Values = {}
    for name, table in raw.items():
        where = (*path, name)
        if not isinstance(table, dict):
            near = "it belongs in one of them" if name in settings_of(kind) else ""
            report.add(where, f"is {shown(table)}; it can be a table [{dotted(where)}]", near)
            continue
        if not _fits(name, name_kind):
            report.add(where, f"is not a name we can use; one has {allowed_values(name_kind)}")
        good[name] = read_table(kind, table, where, report)
    return good


def _items(setting: Setting, raw: list[Any], path: KeyPath, report: Report) -> Any:
    good = []
    for index, item in enumerate(raw):
        if _fits(item, setting.items):
            good.append(item)
        else:
            can = allowed_values(setting.items)
            report.add((*path, index), f"is {shown(item)}; it can be {can}")
    if not _fits(raw, setting.kind) and len(good) == len(raw):
        report.add(path, f"has {len(raw)} items; it can be {setting.can}")
        return _WRONG
    return tuple(good) if len(good) == len(raw) else _WRONG


def _fits(value: Any, kind: Any) -> bool:
    try:
        msgspec.convert(value, kind, strict=True)
    except (msgspec.ValidationError, OverflowError):
        return False
    return True


def _policy(setting: Setting, raw: Values, path: KeyPath, report: Report) -> Any:
    """Read the table of a policy by the struct of that policy, and return the struct."""
    name = raw.get("name", setting.default.name)
    kind = _policy_struct(name, (*path, "name"), report)
    if kind is None:
        return _WRONG
    known, read = settings_of(kind), {}
    for key, value in raw.items():
        if key not in known:
            takes = [each for each in known if each != "name"]
            report.add(
                (*path, key),
                f"is not a parameter of {name}; it takes {listed(takes, most=99)}",
                did_you_mean(key, takes),
                code=Code.UNKNOWN_NAME,
            )
        elif key != "name":
            read[key] = _value(known[key], value, (*path, key), report)
    return _WRONG if _WRONG in read.values() else build(kind, read)


def _policy_struct(name: Any, path: KeyPath, report: Report) -> type[PolicySettings] | None:
    """Return the struct of the policy `name`, or report that there is none."""
    if not isinstance(name, str):
        report.add(path, f"is {shown(name)}; it can be the name of a policy")
        return None
    try:
        kind = find_settings_class(name)
    except ConfigError as error:
        report.add(path, f"cannot be used: {error}", code=Code.UNKNOWN_NAME)
        return None
    if kind is None:
        allowed = f"a policy can be {listed(sorted(policies()), most=99)}"
        near = did_you_mean(name, policies())
        report.add(path, f"is {shown(name)}; {allowed}", near, code=Code.UNKNOWN_NAME)
    return kind


def _rest(
    kind: type[msgspec.Struct], raw: Values, path: KeyPath, report: Report, good: Values
) -> None:
    """Read the keys of a payload format, which are texts, or report keys that are no setting."""
    rest = rest_of(kind)
    if rest is None:
        for key in raw:
            report.add(
                (*path, key),
                f"is not a setting; {_instead(kind, path)}",
                _hint(kind, key),
                code=Code.UNKNOWN_SETTING,
            )
        return
    taken = good[rest.name] = {}
    for key, value in raw.items():
        if isinstance(value, str):
            taken[key] = value
        else:
            report.add((*path, key), f"is {shown(value)}; it can be {rest.can}")


def _instead(kind: type[msgspec.Struct], path: KeyPath) -> str:
    where = f"of {dotted(path)}" if path else "at the top"
    return f"the settings {where} are {listed(settings_of(kind), most=99)}"


def _hint(kind: type[msgspec.Struct], key: str) -> str:
    for home, where in _HOMES.items():
        if home is not kind and key in settings_of(home):
            return f"{key} belongs {where}"
    return did_you_mean(key, settings_of(kind))
