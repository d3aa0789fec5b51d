"""Any payload is a finite reading, or refused by `PayloadError`, for every codec registered.

Codecs and their settings are found, not listed. Settings and payloads come from the doctests of
a codec's module, ``make({...})(b"...")``, and further settings from what a codec says it has.
The input is ``name of the codec, newline, payload``.
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

from edge_tvbo_adapters.payloads import FORMATS, make_codec
from fuzz.fuzzing import main
from fuzz.trees import changed

from edge_tvbo.errors import ConfigError, PayloadError
from edge_tvbo.messages.payloads import PayloadCodec

VALUES = ("t", "a.b[1].c", "[0]", "0", "1", "2", "UTC", "Europe/Berlin", "value", "temperature")
MOST = 8  # ways of setting a codec, beside those of its doctests
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
    """Give each codec the payloads of its doctests, and one of each common kind."""
    return [
        name.encode() + b"\n" + payload
        for name in FORMATS
        for payload in (*(each for _, each in _examples(name)), *PAYLOADS)
    ]


def check(data: bytes) -> None:
    """Decode `data` by the codec it names, however that is set."""
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
    """Change one value of a payload in JSON."""
    name, _, payload = data.partition(b"\n")
    try:
        return name + b"\n" + json.dumps(changed(json.loads(payload), random)).encode()
    except (ValueError, TypeError, RecursionError):
        return b""


@cache
def codecs() -> dict[bytes, list[PayloadCodec]]:
    """Make every codec in some of the ways it can be made."""
    return {name.encode(): list(_made(name)) for name in FORMATS}


def _made(name: str) -> Iterator[PayloadCodec]:
    make = FORMATS.load(name)
    yield from (make(settings) for settings, _ in _examples(name))
    conceivable = list(_conceivable(_settings(name)))
    made = 0
    for settings in ({}, *Random(name).sample(conceivable, len(conceivable))):
        if made == MOST:
            return
        try:
            yield make(settings)
            made += 1
        except ConfigError:
            continue


def _conceivable(known: tuple[str, ...]) -> Iterator[dict[str, str]]:
    for first, second in permutations(known, 2):
        yield from ({first: one, second: other} for one, other in product(VALUES, VALUES))
    for each in known:
        yield from ({each: value} for value in VALUES)


def _settings(name: str) -> tuple[str, ...]:
    """Ask a codec which settings it has, by one that no codec has."""
    try:
        make_codec(name, {"?": ""})
    except ConfigError as error:
        found = re.search(r"it has ([a-z_, ]+)", str(error))
        return tuple(word for word in found[1].split(", ") if word != "none") if found else ()
    raise AssertionError(f"{name} takes any setting")


def _examples(name: str) -> Iterator[tuple[dict[str, str], bytes]]:
    """Give settings and payload of each doctest ``make({...})(b"...")`` of a codec."""
    module = sys.modules[FORMATS.load(name).__module__]
    for expression in _calls(module):
        match expression:
            case ast.Call(func=ast.Call(func=ast.Name("make"), args=[settings]), args=[payload]):
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
