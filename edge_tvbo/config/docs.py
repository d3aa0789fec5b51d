"""Documentation of the settings: every setting and every policy in words, from their structs."""

from collections.abc import Iterable, Iterator
from inspect import getdoc
from typing import Any, NamedTuple

import msgspec

from edge_tvbo.config.introspection import Setting, rest_of, settings_of
from edge_tvbo.config.settings import Settings
from edge_tvbo.models.beta import LogBeta
from edge_tvbo.policy.registry import policies, settings_class
from edge_tvbo.policy.settings import BUILT_IN, PolicySettings


class Entry(NamedTuple):
    """One setting in words."""

    key: str  # "mqtt.port"
    can: str  # what would do
    description: str
    default: str = ""  # "" where it is required, or where there is none
    required: bool = False
    is_table: bool = False  # what follows are its settings


class PolicyEntry(NamedTuple):
    """One policy in words."""

    name: str
    description: str  # its papers included
    parameters: list[Entry]  # its own, without those that every policy has


def explain() -> str:
    """Return what every setting is, what it can be and its default, policies at the end."""
    installed = [settings_class(name) for name in policies()]
    parts = [*map(_lines, entries()), *map(_policy_lines, policy_entries(installed))]
    return "\n".join(parts) + "\n"


def policy_entries(kinds: Iterable[type[PolicySettings]] = BUILT_IN) -> Iterator[PolicyEntry]:
    """Yield the policies, each with its own parameters."""
    shared = settings_of(PolicySettings)
    for kind in kinds:
        own = [setting for name, setting in settings_of(kind).items() if name not in shared]
        parameters = [Entry(one.name, one.can, one.description, _default(one)) for one in own]
        description = " ".join((getdoc(kind) or "").split())
        yield PolicyEntry(str(kind.__struct_config__.tag), description, parameters)


def entries() -> Iterator[Entry]:
    """Yield every setting there is, each table before what is in it."""
    return _table(Settings, "")


def _lines(entry: Entry) -> str:
    default = f" Default: {entry.default}." if entry.default else ""
    ending = " Required." if entry.required else default
    return f"{entry.key} = {entry.can}\n    {entry.description}{ending}\n"


def _policy_lines(policy: PolicyEntry) -> str:
    """Return a policy's lines, each parameter beside the policy's name, as `grep` may find it."""
    key = "fields.<name>.policy"
    lines = [f'{key}.name = "{policy.name}"\n    {policy.description}\n']
    for one in policy.parameters:
        description = f"{policy.name}: {one.description}"
        lines.append(_lines(one._replace(key=f"{key}.{one.key}", description=description)))
    return "\n".join(lines)


def _table(kind: type[msgspec.Struct], prefix: str) -> Iterator[Entry]:
    for name, setting in settings_of(kind).items():
        yield from _setting(setting, prefix + name)
    if rest := rest_of(kind):
        yield Entry(f"{prefix}<key>", rest.can, rest.description)


def _setting(setting: Setting, key: str) -> Iterator[Entry]:
    inside = setting.named[1] if setting.named else setting.table
    yield Entry(
        key,
        setting.can,
        setting.description,
        _default(setting),
        required=setting.required,
        is_table=inside is not None,
    )
    if inside is not None:
        yield from _table(inside, f"{key}.<name>." if setting.named else f"{key}.")


def _default(setting: Setting) -> str:
    if setting.derived:
        return str(setting.extra["default"])
    match setting.default:
        case None:
            return ""
        case LogBeta(c1=c1, c2=c2):
            return f"{{ c1 = {c1}, c2 = {c2} }}"
        case msgspec.Struct():
            return ""
    return _written(setting.default, setting)


def _written(value: Any, setting: Setting) -> str:
    text = setting.extra.get("text")
    return str(text(value)) if text else msgspec.json.encode(value).decode()
