"""Declared types: one value checked against an annotation, and what it allows in words."""

import math
from typing import Annotated, Literal

import msgspec
import pytest
from msgspec import Meta

from edge_tvbo.messages.declared_types import allowed_values, convert


class Table(msgspec.Struct, frozen=True):
    low: float
    high: float = 1.0


Share = Annotated[float, Meta(gt=0, le=1)]


def test_convert_returns_the_value_of_the_declared_type():
    assert convert(1, Share) == 1.0
    assert convert(None, Share | None) is None
    assert convert({"low": 0}, Share | Table) == Table(0.0)
    assert convert([1, 2], tuple[float, float]) == (1.0, 2.0)
    assert convert(math.inf, Annotated[float, Meta(extra={"infinity": True})]) == math.inf


@pytest.mark.parametrize(
    ("value", "declared"),
    [
        (0, Share),
        (True, Share),
        ("1", Share),
        (None, Share),
        (math.nan, float),
        (math.inf, float),
        (math.nan, Annotated[float, Meta(gt=0, extra={"infinity": True})]),
        (10**400, Share),
        (2**63, Annotated[int, Meta(ge=0)]),
        ("fit", Share | Literal["fitted"]),
        ([1, 2, 3], tuple[float, float]),
        ({}, Share | Table),
    ],
    ids=str,
)
def test_convert_rejects_another_type_and_values_beyond_the_limits(value, declared):
    with pytest.raises(ValueError):
        convert(value, declared)


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        (Annotated[int, Meta(ge=1)], "a whole number, at least 1"),
        (Annotated[float, Meta(gt=0, lt=1)], "a number, above 0, below 1"),
        (Share | None, "a number, above 0, at most 1"),
        (Annotated[Share | None, Meta(description="x")], "a number, above 0, at most 1"),
        (Annotated[Share, Meta(description="x")], "a number, above 0, at most 1"),
        (Annotated[str, Meta(max_length=9)], "a text, 0 to 9 characters"),
        (Literal["a", "b", "c"], '"a", "b" or "c"'),
        (Share | Literal["fitted"], 'a number, above 0, at most 1, or "fitted"'),
        (float | Table, "a number, or a table { low = ..., high = ... }"),
        (Table, "a table"),
        (tuple[Share, Share], "an array of 2, each a number, above 0, at most 1"),
        (Annotated[float, Meta(extra={"expected": "a duration"})], "a duration"),
    ],
    ids=str,
)
def test_allowed_values_are_said_in_words(declared, words):
    assert allowed_values(declared) == words
