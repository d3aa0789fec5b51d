"""Introspection of the settings: names, types, descriptions and defaults, read from the structs."""

from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec
from msgspec import Meta

from edge_tvbo.errors import ConfigError
from edge_tvbo.messages.declared_types import (
    allowed_values,
    is_struct,
    members,
    split,
    without_none,
)
from edge_tvbo.policy.built_in import BUILT_IN, DEFAULT_POLICY
from edge_tvbo.policy.registry import find_settings_class, parameters_of
from edge_tvbo.policy.settings import PolicySettings


class Setting(msgspec.Struct, frozen=True):
    """Facts about one setting of the configuration, read from the struct that declares it."""

    name: str
    declared: Any  # its type annotation
    description: str
    extra: dict[str, Any]
    required: bool
    default: Any  # None if the setting is required, or if the default depends on other settings
    table: type[msgspec.Struct] | None = None  # the struct that a table is read into
    items: Any = None  # the type of an array's items
    named: Any = None  # for a table of tables: (type of the names, struct)

    @property
    def kind(self) -> Any:
        """The declared type of the setting, without None, for `msgspec.convert`."""
        return without_none(self.declared)

    @property
    def expected(self) -> str:
        """The allowed values of the setting in words, as its struct declares them."""
        return allowed_values(self.declared)

    @property
    def derived(self) -> bool:
        """Whether the declared default of the setting depends on other settings."""
        return "default" in self.extra

    @property
    def is_only_table(self) -> bool:
        """Whether the declared type of the setting is a table, so that no other value is valid."""
        return all(map(is_struct, members(split(self.declared)[0])))

    @property
    def is_policy(self) -> bool:
        """Whether the setting is a policy's table, in which the key `name` selects the struct."""
        return self.table is PolicySettings


def settings_of(kind: type[msgspec.Struct]) -> dict[str, Setting]:
    """Return a dict that maps names to the settings that a struct of the configuration declares."""
    return _introspect(kind)[0]


def extra_keys_of(kind: type[msgspec.Struct]) -> Setting | None:
    """Return the declared setting that collects the unknown keys of a struct's table, or None."""
    return _introspect(kind)[1]


def setting_of(kind: type[msgspec.Struct], name: str) -> Setting | None:
    """Return the setting `name` in the table of a struct, or None if there is none.

    In the table of a payload format, an unknown name is an option of the format. The value of an
    option is a text.
    """
    if name in settings_of(kind):
        return settings_of(kind)[name]
    options = extra_keys_of(kind)
    return msgspec.structs.replace(options, name=name, declared=str) if options else None


def struct_of(setting: Setting, table: Mapping[str, Any]) -> type[msgspec.Struct]:
    """Return the struct into which the table of `setting` is read.

    For the table of a policy, the key `name` in `table` selects the struct. If the policy is
    unknown, or if its package cannot be loaded, the struct is `PolicySettings`.
    """
    assert setting.table is not None
    if not setting.is_policy:
        return setting.table
    name = table.get("name", setting.default.name)
    found = None
    with suppress(ConfigError):
        found = find_settings_class(name) if isinstance(name, str) else None
    return found or PolicySettings


def description_of(kind: type[msgspec.Struct]) -> str:
    """Return the docstring of a struct on one line; "" if only its base class has a docstring."""
    return " ".join((kind.__doc__ or "").split())


def policy_parameters() -> dict[str, Setting]:
    """Return a dict that maps names to the declared parameters of all built-in policies."""
    structs: tuple[type[PolicySettings], ...] = (*BUILT_IN, PolicySettings)
    return {name: one for kind in structs for name, one in settings_of(kind).items()}


@cache
def _introspect(kind: type[msgspec.Struct]) -> tuple[dict[str, Setting], Setting | None]:
    """Return the settings of a struct, and the setting that collects unknown keys, or None.

    The settings are in a dict, which maps names to settings. The result is cached because structs
    never change.
    """
    if issubclass(kind, PolicySettings):
        every = [_policy_name(kind), *map(_setting, parameters_of(kind))]
    else:
        every = [_setting(one) for one in msgspec.structs.fields(kind)]
    extra_keys = next((each for each in every if "extra_keys" in each.extra), None)
    return {each.name: each for each in every if each is not extra_keys}, extra_keys


def _policy_name(kind: type[PolicySettings]) -> Setting:
    """Return the setting `name` in a policy's table; `kind` is the struct of the table.

    If `kind` is the base struct `PolicySettings`, the setting allows any name. Otherwise, it allows
    only the name of the policy whose struct is `kind`.
    """
    any_name = Annotated[str, Meta(extra={"expected": "the name of a policy"})]
    tag = kind.__struct_config__.tag
    return Setting(
        name="name",
        declared=any_name if kind is PolicySettings else Literal[tag],
        description="The registered name of the policy.",
        extra={},
        required=False,
        default=DEFAULT_POLICY.name if kind is PolicySettings else tag,
    )


def _setting(one: msgspec.structs.FieldInfo) -> Setting:
    bare, meta = split(one.type)
    extra = meta.extra or {}
    default = one.default_factory() if callable(one.default_factory) else one.default
    return Setting(
        name=one.encode_name,
        declared=one.type,
        description=meta.description or "",
        extra=extra,
        required=one.required and "default" not in extra,
        default=None if default is msgspec.NODEFAULT else default,
        table=next((each for each in members(bare) if is_struct(each)), None),
        items=_item_type(bare),
        named=_named(bare),
    )


def _item_type(bare: Any) -> Any:
    """Return the declared type T if the type `bare` is ``tuple[T, ...]``; otherwise None."""
    arguments = get_args(bare)
    return arguments[0] if get_origin(bare) is tuple and arguments[-1] is ... else None


def _named(bare: Any) -> Any:
    if get_origin(bare) is dict and is_struct(get_args(bare)[1]):
        return get_args(bare)
    return None
