"""Reader of the configuration's tables: converts TOML values to settings, and reports all errors.

An invalid value is reported and left out, so that later checks see only valid values.
"""

import math
from typing import Any

import msgspec

from edge_tvbo.config.controller_settings import SurveySettings
from edge_tvbo.config.energy_settings import BatterySettings, EnergySettings
from edge_tvbo.config.errors import KeyPath, Report, did_you_mean, dot_hint, dotted, listed, shown
from edge_tvbo.config.field_settings import (
    ActivateSettings,
    FieldSettings,
    ReadingSettings,
    SourceSettings,
)
from edge_tvbo.config.field_types import InvalidItems
from edge_tvbo.config.introspection import Setting, extra_keys_of, settings_of
from edge_tvbo.config.kernel_settings import Kernel
from edge_tvbo.config.mqtt_settings import Mqtt, Reconnect, Tls
from edge_tvbo.config.settings import LogLevels, Settings
from edge_tvbo.errors import Code, ConfigError, nearest
from edge_tvbo.messages.declared_types import (
    allowed_values,
    choices,
    convert,
    is_struct,
    split,
)
from edge_tvbo.policy.built_in import BUILT_IN
from edge_tvbo.policy.registry import find_settings_class, policies
from edge_tvbo.policy.settings import PolicySettings

Values = dict[str, Any]
_INVALID: Any = object()
_HOMES: dict[type[msgspec.Struct], str] = {  # the right place of a misplaced setting
    Settings: "at the top, before the first [table]",
    Mqtt: "in [mqtt]",
    Reconnect: "in mqtt.reconnect",
    Tls: "in [mqtt.tls]",
    LogLevels: "in [log]",
    FieldSettings: "in [fields.<name>]",
    PolicySettings: "in policy",
    Kernel: "in kernel",
    ReadingSettings: "in reading",
    SourceSettings: "in [[fields.<name>.readings]]",
    ActivateSettings: "in activate",
    EnergySettings: "in energy",
    SurveySettings: "in survey",
    BatterySettings: "in energy.battery",
    **dict.fromkeys(BUILT_IN, "in policy"),
}


def read_table(kind: type[msgspec.Struct], raw: Values, path: KeyPath, report: Report) -> Values:
    """Return the valid values of a TOML table, with defaults for the settings that it does not set.

    The struct `kind` declares the settings of the table. Invalid values and unknown keys are
    reported.
    """
    known = settings_of(kind)
    good: Values = {}
    others = {key: value for key, value in raw.items() if key not in known}
    for name, setting in known.items():
        if name in raw:
            value = _value(setting, raw[name], (*path, name), report)
        else:
            value = _absent(setting, path, report)
        if value is not _INVALID:
            good[name] = value
    _read_extra_keys(kind, others, path, report, good)
    return good


def build(kind: type[msgspec.Struct], good: Values) -> Any:
    """Return an instance of the struct `kind` with the values `good`, which have been checked."""
    known = settings_of(kind)
    attributes = {each.encode_name: each.name for each in msgspec.structs.fields(kind)}
    return kind(
        **{attributes[name]: _built(known.get(name), value) for name, value in good.items()}
    )


def _built(setting: Setting | None, value: Any) -> Any:
    if setting is not None and is_struct(setting.items):
        return tuple(build(setting.items, each) for each in value)
    if setting is None or not isinstance(value, dict):
        return value
    if setting.named:
        return {name: build(setting.named[1], each) for name, each in value.items()}
    return build(setting.table, value) if setting.table else value


def _absent(setting: Setting, path: KeyPath, report: Report) -> Any:
    if setting.required:
        missing = f"is missing; allowed: {setting.expected}"
        hint = setting.description.rstrip(".")
        report.add((*path, setting.name), missing, hint, code=Code.MISSING)
        return _INVALID
    if setting.derived:
        return _INVALID
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
    if isinstance(value, list) and is_struct(setting.items):
        return _tables(setting, value, path, report)
    if isinstance(value, list) and setting.items:
        return _items(setting, value, path, report)
    try:
        return _plain(setting, value)
    except InvalidItems as error:
        for key, item in error.items.items():
            hint = dot_hint(key, item, str)
            report.add((*path, key), f"is {_shown(item)}; allowed: {error.allowed}", hint)
        return {key: item for key, item in value.items() if key not in error.items}
    except (ValueError, OverflowError) as error:
        hint = "" if isinstance(error, msgspec.ValidationError) else str(error)
        if setting.is_policy and isinstance(value, str):
            name = nearest(value, policies()) or value
            hint = f"write {setting.name} = {{ name = {shown(name)} }}"
        found = "is invalid" if setting.extra.get("secret") else f"is {_shown(value)}"
        near = did_you_mean(value, choices(setting.kind)) if isinstance(value, str) else ""
        report.add(path, f"{found}; allowed: {setting.expected}", hint, near)
        return _INVALID


def accepts(setting: Setting, value: Any) -> bool:
    """Return whether the reader accepts `value` for `setting`; `value` must not be a table."""
    try:
        _plain(setting, value)
    except (ValueError, OverflowError):
        return False
    return True


def is_public(name: str) -> bool:
    """Return whether `name` is the name of a setting whose value is no secret."""
    known = [settings_of(kind)[name] for kind in _HOMES if name in settings_of(kind)]
    return bool(known) and not any(setting.extra.get("secret") for setting in known)


def _shown(value: Any) -> str:
    """Return the text that the reader's error message shows for an invalid TOML value.

    A text that contains @ is not shown, because it may be a URL with a password.
    """
    return "a text that contains @" if isinstance(value, str) and "@" in value else shown(value)


def _plain(setting: Setting, value: Any) -> Any:
    if parse := setting.extra.get("parse"):
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError
        return parse(value)
    if setting.named or setting.items or setting.is_only_table:
        raise ValueError
    return convert(value, setting.declared)


def _named(setting: Setting, raw: Values, path: KeyPath, report: Report) -> Values:
    """Return the valid values that were read from a table of tables, such as `fields`.

    The user chooses the keys of the outer table.
    """
    name_kind, kind = setting.named
    good: Values = {}
    for name, table in raw.items():
        where = (*path, name)
        if not isinstance(table, dict):
            near = f"{name} belongs in [{dotted(path)}.<name>]" if name in settings_of(kind) else ""
            report.add(where, f"is {shown(table)}; allowed: a table [{dotted(where)}]", near)
            continue
        if not _fits(name, name_kind):
            report.add(where, f"is not a valid name; allowed: {allowed_values(name_kind)}")
        good[name] = read_table(kind, table, where, report)
    return good


def _tables(setting: Setting, raw: list[Any], path: KeyPath, report: Report) -> Any:
    """Return the valid values that were read from an array of tables, as a list of tables."""
    wrong = [(index, item) for index, item in enumerate(raw) if not isinstance(item, dict)]
    for index, item in wrong:
        report.add((*path, index), f"is {shown(item)}; allowed: a table [[{dotted(path)}]]")
    if wrong:
        return _INVALID
    return tuple(
        read_table(setting.items, table, (*path, index), report) for index, table in enumerate(raw)
    )


def _items(setting: Setting, raw: list[Any], path: KeyPath, report: Report) -> Any:
    wrong = [(index, item) for index, item in enumerate(raw) if not _fits(item, setting.items)]
    for index, item in wrong:
        allowed = allowed_values(setting.items)
        report.add((*path, index), f"is {_shown(item)}; allowed: {allowed}")
    if setting.extra.get("unique"):
        _report_repeated(raw, path, report)
    if not wrong and _fits(raw, setting.kind):
        return tuple(raw)
    if not wrong:
        report.add(path, f"has {len(raw)} items; allowed: {setting.expected}")
    return _INVALID


def _report_repeated(ids: list[Any], path: KeyPath, report: Report) -> None:
    seen = set[str]()
    for index, each in enumerate(ids):
        if not isinstance(each, str):
            continue
        if each in seen:
            text = f"repeats the id {shown(each)}; each id is allowed once"
            report.add((*path, index), text, code=Code.TWICE)
        seen.add(each)


def _fits(value: Any, kind: Any) -> bool:
    parse = (split(kind)[1].extra or {}).get("parse")
    try:
        parse(value) if parse else msgspec.convert(value, kind, strict=True)
    except (ValueError, OverflowError):
        return False
    return True


def _policy(setting: Setting, raw: Values, path: KeyPath, report: Report) -> Any:
    """Return the policy settings that were read from the table `raw`; report invalid parameters."""
    name = raw.get("name", setting.default.name)
    kind = _policy_struct(name, (*path, "name"), report)
    if kind is None:
        return _INVALID
    known, read = settings_of(kind), {}
    for key, value in raw.items():
        if key not in known:
            parameters = [each for each in known if each != "name"]
            report.add(
                (*path, key),
                f"is not a parameter of {name}; allowed: {listed(parameters, max_words=99)}",
                did_you_mean(key, parameters),
                code=Code.UNKNOWN_NAME,
            )
        elif key != "name":
            read[key] = _value(known[key], value, (*path, key), report)
    return _INVALID if _INVALID in read.values() else build(kind, read)


def _policy_struct(name: Any, path: KeyPath, report: Report) -> type[PolicySettings] | None:
    """Return the settings struct of the policy `name`; report an unknown name and return None."""
    if not isinstance(name, str):
        report.add(path, f"is {shown(name)}; allowed: the name of a policy")
        return None
    try:
        kind = find_settings_class(name)
    except ConfigError as error:
        report.add(path, f"cannot be used: {error}", code=Code.UNKNOWN_NAME)
        return None
    if kind is None:
        allowed = listed(sorted(policies()), max_words=99)
        near = did_you_mean(name, policies())
        report.add(path, f"is {shown(name)}; allowed: {allowed}", near, code=Code.UNKNOWN_NAME)
    return kind


def _read_extra_keys(
    kind: type[msgspec.Struct], raw: Values, path: KeyPath, report: Report, good: Values
) -> None:
    """Read the keys in `raw` for which the struct `kind` of the table has no setting.

    If the table configures a payload format, these keys are options of the format. They are added
    to `good`, the valid values of the table. In any other table, the keys are reported as mistakes.
    """
    setting = extra_keys_of(kind)
    if setting is None:
        for key in raw:
            report.add(
                (*path, key),
                f"is not a setting; {_settings_there(kind, path)}",
                _hint(kind, key),
                code=Code.UNKNOWN_SETTING,
            )
        return
    options = good[setting.name] = {}
    for key, value in raw.items():
        if isinstance(value, str):
            options[key] = value
        elif key != "value" and (near := did_you_mean(key, settings_of(kind))):
            report.add((*path, key), "is not a setting", near, code=Code.UNKNOWN_SETTING)
        else:
            report.add((*path, key), f"is {shown(value)}; allowed: {setting.expected}")


def _settings_there(kind: type[msgspec.Struct], path: KeyPath) -> str:
    where = f"settings of {dotted(path)}" if path else "top-level settings"
    return f"the {where} are {listed(settings_of(kind), max_words=99)}"


def _hint(kind: type[msgspec.Struct], key: str) -> str:
    near = did_you_mean(key, settings_of(kind))
    for home, where in _HOMES.items():
        if home is not kind and key in settings_of(home) and not (near and home in BUILT_IN):
            return f"{key} belongs {where}"
    return near
