"""Fuzzing of the payload formats: any payload gives a finite value or raises `PayloadError`.

Formats and their settings are discovered: settings and payloads come from the doctests of a
format's module, ``codec({...})(b"...")``, further settings from the error for an unknown one.
The input is ``name of the format, newline, payload``.
"""

import ast
import doctest
import json
import re
import sys
from collections.abc import Iterator
from datetime import timedelta
from functools import cache
from itertools import permutations, product
from math import isfinite
from random import Random
from types import ModuleType

from edge_tvbo_adapters.payloads.formats import FORMATS, make_codec
from fuzz.fuzzing import main
from fuzz.trees import changed

from edge_tvbo.errors import ConfigError, PayloadError
from edge_tvbo.messages.payloads import PayloadCodec

VALUES = ("t", "a.b[1].c", "[0]", "0", "1", "2", "UTC", "Europe/Berlin", "value", "temperature")
MAX_SETTINGS = 8  # for each format, beside those of its doctests
PAYLOADS = (
    b"21.3",
    b'{"t": 21.3, "ts": "2004-03-07T08:00:00Z", "value": "1e3"}',
    b'{"a": {"b": [0, {"c": 5}]}}',
    b"[[21.3, 1078646400250], null, true]",
    b"a,b;c d=1.5 1078646400\n",
    b"\x08\xac\x02\x12\x05value\x1d\x00\x00\xac\x41",
    bytes(range(32)),
)


def seeds() -> list[bytes]:
    """Return the payloads of each format's doctests, and some of each common kind."""
    return [
        name.encode() + b"\n" + payload
        for name in FORMATS
        for payload in (*(each for _, each in _examples(name)), *PAYLOADS)
    ]


def check(data: bytes) -> None:
    """Decode `data` with every codec of the format that it names."""
    name, _, payload = data.partition(b"\n")
    for codec in codecs().get(name, ()):
        try:
            value, at = codec(payload)
        except PayloadError as error:
            assert re.fullmatch(r"[a-z0-9-]{1,40}", error.reason), error.reason
            assert str(error).encode(errors="surrogatepass")
            continue
        assert isinstance(value, float)
        assert isfinite(value)
        assert at is None or isinstance(at, timedelta) or (isinstance(at, float) and isfinite(at))


def mutate(data: bytes, random: Random) -> bytes:
    """Return `data` with one value of its JSON payload changed."""
    name, _, payload = data.partition(b"\n")
    try:
        return name + b"\n" + json.dumps(changed(json.loads(payload), random)).encode()
    except (ValueError, TypeError, RecursionError):
        return b""


@cache
def codecs() -> dict[bytes, list[PayloadCodec]]:
    """Return the codecs of every format, for various settings."""
    return {name.encode(): list(_codecs(name)) for name in FORMATS}


def _codecs(name: str) -> Iterator[PayloadCodec]:
    yield from (make_codec(name, settings) for settings, _ in _examples(name))
    candidates = list(_candidates(_settings(name)))
    count = 0
    for settings in ({}, *Random(name).sample(candidates, len(candidates))):
        if count == MAX_SETTINGS:
            return
        try:
            yield make_codec(name, settings)
            count += 1
        except ConfigError:
            continue


def _candidates(known: tuple[str, ...]) -> Iterator[dict[str, str]]:
    for first, second in permutations(known, 2):
        yield from ({first: one, second: other} for one, other in product(VALUES, VALUES))
    for each in known:
        yield from ({each: value} for value in VALUES)


def _settings(name: str) -> tuple[str, ...]:
    """Return the settings of a format, from its error for an unknown setting."""
    try:
        make_codec(name, {"?": ""})
    except ConfigError as error:
        found = re.search(r"it has ([a-z_, ]+)", str(error))
        return tuple(word for word in found[1].split(", ") if word != "none") if found else ()
    raise AssertionError(f"{name} accepts an unknown setting")


def _examples(name: str) -> Iterator[tuple[dict[str, str], bytes]]:
    """Yield settings and payload of each doctest ``codec({...})(b"...")`` of a format."""
    module = sys.modules[FORMATS.load(name).__module__]
    for expression in _calls(module):
        match expression:
            case ast.Call(func=ast.Call(func=ast.Name("codec"), args=[settings]), args=[payload]):
                try:
                    yield ast.literal_eval(settings), ast.literal_eval(payload)
                except ValueError:
                    continue


def _calls(module: ModuleType) -> Iterator[ast.AST]:
    for test in doctest.DocTestFinder().find(module):
        for example in test.examples:
            yield from ast.walk(ast.parse(example.source))


if __name__ == "__main__":
    main("fuzz_codecs")
