"""The settings' structs, taken apart: what `load` walks along and `explain` prints."""

from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
from msgspec import Meta

_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}


class Setting(msgspec.Struct, frozen=True):
    """One setting, as its struct declares it."""

    name: str
    declared: Any  # its annotation
    description: str
    extra: dict[str, Any]
    required: bool
    default: Any  # None where it is required, or derived from other settings
    table: type[msgspec.Struct] | None = None  # the struct that a table is read into
    items: Any = None  # the type of an array's items
    named: Any = None  # (type of the names, struct) of a table of tables

    @property
    def kind(self) -> Any:
        """The annotated type, for `msgspec.convert`."""
        return _given(*_parts(self.declared))

    @property
    def can(self) -> str:
        """What would do, in words."""
        return what_would_do(self.declared)

    @property
    def derived(self) -> bool:
        """Whether the default depends on other settings."""
        return "default" in self.extra


def settings_of(kind: type[msgspec.Struct]) -> dict[str, Setting]:
    """Take a struct apart, field by field."""
    return _taken_apart(kind)[0]


def rest_of(kind: type[msgspec.Struct]) -> Setting | None:
    """Find the field of a struct that takes the keys no other field has."""
    return _taken_apart(kind)[1]


@cache
def _taken_apart(kind: type[msgspec.Struct]) -> tuple[dict[str, Setting], Setting | None]:
    """Give the settings and the rest of a struct; cached, for the structs never change."""
    every = [_setting(one) for one in msgspec.structs.fields(kind)]
    rest = next((each for each in every if "rest" in each.extra), None)
    return {each.name: each for each in every if each is not rest}, rest


def _setting(one: msgspec.structs.FieldInfo) -> Setting:
    bare, meta = _parts(one.type)
    default = one.default_factory() if callable(one.default_factory) else one.default
    return Setting(
        name=one.name,
        declared=one.type,
        description=meta.description or "",
        extra=_extra(one.type),
        required=one.required and "default" not in _extra(one.type),
        default=None if default is msgspec.NODEFAULT else default,
        table=next((each for each in _members(bare) if _is_struct(each)), None),
        items=get_args(bare)[0] if get_origin(bare) is tuple else None,
        named=_named(bare),
    )


def what_would_do(kind: Any) -> str:
    """Say in words which values a type takes.

    >>> what_would_do(Annotated[int, Meta(ge=1, le=9)])
    'a whole number, 1 to 9'
    """
    bare, meta = _parts(kind)
    if "can" in (meta.extra or {}):
        return str((meta.extra or {})["can"])
    first = _members(bare)[0]
    if get_origin(first) is Literal:
        *words, last = (f'"{word}"' for word in get_args(first))
        return f"{', '.join(words)} or {last}"
    if _is_struct(first) or get_origin(first) is dict:
        return "a table"
    return ", ".join([_WORDS[first], *_limits(meta)])


def choices(kind: Any) -> tuple[str, ...]:
    """Give the words a type is limited to, if it is."""
    bare, _ = _parts(kind)
    return get_args(bare) if get_origin(bare) is Literal else ()


def _limits(meta: Meta) -> list[str]:
    if meta.max_length is not None:
        return [f"{meta.min_length or 0} to {meta.max_length} characters"]
    if meta.ge is not None and meta.le is not None:
        return [f"{meta.ge} to {meta.le}"]
    limits = [("at least", meta.ge), ("above", meta.gt), ("below", meta.lt)]
    return [f"{word} {limit}" for word, limit in limits if limit is not None]


def _parts(kind: Any) -> tuple[Any, Meta]:
    if get_origin(kind) is Annotated:
        bare, meta, *_ = get_args(kind)
        return bare, meta
    return kind, Meta()


def _given(bare: Any, meta: Meta) -> Any:
    """Leave out None, which TOML lacks; msgspec takes no limits on a type that may be None."""
    return Annotated[Union[tuple(_members(bare))], meta]  # noqa: UP007 - of a computed tuple


def _extra(kind: Any) -> dict[str, Any]:
    return _parts(kind)[1].extra or {}


def _members(bare: Any) -> list[Any]:
    if get_origin(bare) in (Union, UnionType):
        return [each for each in get_args(bare) if each is not NoneType]
    return [bare]


def _named(bare: Any) -> Any:
    if get_origin(bare) is dict and _is_struct(get_args(bare)[1]):
        return get_args(bare)
    return None


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)
