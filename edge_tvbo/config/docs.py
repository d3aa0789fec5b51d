"""Documentation of the settings and policies, made from the structs that declare them."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from edge_tvbo.config.introspection import (
    Setting,
    description_of,
    extra_keys_of,
    settings_of,
)
from edge_tvbo.config.settings import Settings
from edge_tvbo.messages.declared_types import is_struct
from edge_tvbo.models.beta import LogBeta
from edge_tvbo.policy.built_in import BUILT_IN
from edge_tvbo.policy.registry import loadable_settings
from edge_tvbo.policy.settings import PolicySettings


class SettingEntry(NamedTuple):
    """Documentation of one setting for users: key, allowed values, description and default."""

    key: str  # "mqtt.port"
    expected: str  # the allowed values
    description: str
    default: str = ""  # "" if the setting is required or has no default
    required: bool = False
    is_table: bool = False  # the following entries are the settings of this table
    is_array: bool = False  # the table can occur several times, as [[key]]


class PolicyEntry(NamedTuple):
    """Documentation of one policy: name, description and parameters."""

    name: str
    description: str  # includes the policy's papers
    parameters: list[SettingEntry]  # without the parameters that all policies share


def explain() -> str:
    """Return the documentation of every setting, and then of every policy, as one text."""
    installed = policy_entries(loadable_settings())
    parts = [*map(_lines, entries()), *map(_policy_lines, installed)]
    return "\n".join(parts) + "\n"


def policy_entries(kinds: Iterable[type[PolicySettings]] = BUILT_IN) -> Iterator[PolicyEntry]:
    """Yield the documentation of each policy, without the parameters that all policies share."""
    shared = settings_of(PolicySettings)
    for kind in kinds:
        own = [setting for name, setting in settings_of(kind).items() if name not in shared]
        parameters = [
            SettingEntry(one.name, one.expected, one.description, _default(one)) for one in own
        ]
        yield PolicyEntry(str(kind.__struct_config__.tag), description_of(kind), parameters)


def entries() -> Iterator[SettingEntry]:
    """Yield the documentation of every setting; a table comes before its settings."""
    return _table(Settings, "")


def _lines(entry: SettingEntry) -> str:
    default = f" Default: {entry.default}." if entry.default else ""
    ending = " Required." if entry.required else default
    return f"{entry.key} = {entry.expected}\n    {entry.description}{ending}\n"


def _policy_lines(policy: PolicyEntry) -> str:
    """Return the documentation of a policy's settings as text.

    The text of each parameter contains the name of the policy, so that `grep` can search for the
    parameters of one policy.
    """
    key = "fields.<name>.policy"
    lines = [f'{key}.name = "{policy.name}"\n    {policy.description}\n']
    for one in policy.parameters:
        description = f"{policy.name}: {one.description}"
        lines.append(_lines(one._replace(key=f"{key}.{one.key}", description=description)))
    return "\n".join(lines)


def _table(kind: type[msgspec.Struct], prefix: str) -> Iterator[SettingEntry]:
    for name, setting in settings_of(kind).items():
        yield from _setting(setting, prefix + name)
    if extra_keys := extra_keys_of(kind):
        yield SettingEntry(f"{prefix}<key>", extra_keys.expected, extra_keys.description)


def _setting(setting: Setting, key: str) -> Iterator[SettingEntry]:
    is_array = is_struct(setting.items)
    inside = setting.named[1] if setting.named else setting.items if is_array else setting.table
    yield SettingEntry(
        key,
        setting.expected,
        setting.description,
        _default(setting),
        required=setting.required,
        is_table=inside is not None,
        is_array=is_array,
    )
    if inside is not None:
        yield from _table(inside, f"{key}.<name>." if setting.named else f"{key}.")


def _default(setting: Setting) -> str:
    if setting.derived:
        return str(setting.extra["default"])
    match setting.default:
        case None | ():
            return ""
        case LogBeta(c1=c1, c2=c2):
            return f"{{ c1 = {c1}, c2 = {c2} }}"
        case msgspec.Struct():
            return ""
    if to_text := setting.extra.get("to_text"):
        return str(to_text(setting.default))
    return msgspec.json.encode(setting.default).decode()
