"""Declared types: checks of values against msgspec annotations, and allowed values in words."""

import math
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
from msgspec import Meta

_NOUNS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}
_META_KEYS = [key for key in dir(Meta()) if not key.startswith("_")]


def split(declared: Any) -> tuple[Any, Meta]:
    """Return the type inside nested `Annotated`, and one `Meta` with the limits of all levels.

    >>> split(Annotated[Annotated[int, Meta(ge=1)], Meta(description="How many.")])
    (<class 'int'>, msgspec.Meta(ge=1, description='How many.'))
    """
    if get_origin(declared) is not Annotated:
        return declared, Meta()
    bare, *annotations = get_args(declared)
    metas = [each for each in annotations if isinstance(each, Meta)]
    if len(metas) == 1:
        return bare, metas[0]
    merged = {key: found for meta in metas for key, found in _given(meta).items()}
    return bare, Meta(**merged)


def members(bare: Any) -> list[Any]:
    """Return the types in a declared union, except None; if `bare` is no union, return [bare]."""
    if get_origin(bare) in (Union, UnionType):
        return [each for each in get_args(bare) if each is not NoneType]
    return [bare]


def without_none(declared: Any) -> Any:
    """Return a declared type without None, but with the same limits.

    TOML has no None, and msgspec accepts no limits on a type that allows None.
    """
    bare, meta = split(declared)
    return Annotated[Union[tuple(members(bare))], meta]  # noqa: UP007 - the tuple is computed


def choices(declared: Any) -> tuple[str, ...]:
    """Return the strings that the `Literal` in a declared type allows; () without `Literal`.

    >>> choices(float | Literal["fitted"])
    ('fitted',)
    """
    bare, _ = split(declared)
    return tuple(
        word for each in members(bare) if get_origin(each) is Literal for word in get_args(each)
    )


def is_struct(kind: Any) -> bool:
    """Return whether a declared type is a msgspec struct."""
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def convert(value: Any, declared: Any) -> Any:
    """Return `value` converted to the declared type; None stays None if the type allows it.

    Raises
    ------
    ValueError
        If the value has another type, is outside the limits, is a whole number of more than 64
        bits, or is infinite or NaN. Infinity and NaN are allowed if the type has
        ``Meta(extra={"infinity": True})``.
    """
    bare, meta = split(declared)
    infinity_allowed = (meta.extra or {}).get("infinity", False)
    if isinstance(value, float) and not (math.isfinite(value) or infinity_allowed):
        raise ValueError
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError
    if value is None and NoneType in get_args(bare):
        return None
    return msgspec.convert(value, without_none(declared), strict=True)


def allowed_values(declared: Any) -> str:
    """Return the values that a declared type allows, in words.

    >>> allowed_values(Annotated[int, Meta(ge=1, le=9)])
    'a whole number, 1 to 9'
    >>> allowed_values(Annotated[float, Meta(gt=0, le=1)] | Literal["fitted"] | None)
    'a number, above 0, at most 1, or "fitted"'
    """
    bare, meta = split(declared)
    if "expected" in (meta.extra or {}):
        return str((meta.extra or {})["expected"])
    several = members(bare)
    if len(several) > 1:
        return ", or ".join(_in_words(*split(each), among_others=True) for each in several)
    inner, limits = split(Annotated[several[0], meta])
    return _in_words(inner, limits)


def _in_words(bare: Any, meta: Meta, *, among_others: bool = False) -> str:
    if get_origin(bare) is Literal:
        *words, last = (f'"{word}"' for word in get_args(bare))
        return f"{', '.join(words)} or {last}" if words else last
    if is_struct(bare) and among_others:
        keys = ", ".join(f"{one.name} = ..." for one in msgspec.structs.fields(bare))
        return f"a table {{ {keys} }}"
    if is_struct(bare) or get_origin(bare) is dict:
        return "a table"
    if get_origin(bare) is tuple:
        return f"an array of {len(get_args(bare))}, each {allowed_values(get_args(bare)[0])}"
    return ", ".join([_NOUNS[bare], *_limits(meta)])


def _limits(meta: Meta) -> list[str]:
    if meta.max_length is not None:
        return [f"{meta.min_length or 0} to {meta.max_length} characters"]
    if meta.ge is not None and meta.le is not None:
        return [f"{meta.ge} to {meta.le}"]
    limits = (
        ("at least", meta.ge),
        ("above", meta.gt),
        ("below", meta.lt),
        ("at most", meta.le),
    )
    return [f"{word} {limit}" for word, limit in limits if limit is not None]


def _given(meta: Meta) -> dict[str, Any]:
    found = {key: getattr(meta, key) for key in _META_KEYS}
    return {key: value for key, value in found.items() if value is not None}
