"""Documents of tables, arrays and values, with one of them changed."""

import struct
from random import Random
from typing import Any

NUMBERS = (
    *(0, 1, -1, 2, 3, 64, 2**31, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), 2**64 - 1),
    *(0.0, -0.0, 0.5, 1e-320, 1e-12, 1e10, -1e10, 1e99, 1e154, -1e200, 1.7e308),
    *(float("nan"), float("inf"), float("-inf")),
)
OTHERS = (None, True, "", "a", "\0", "é" * 70, b"", b"\x93", [], [0], {}, {"a": 0})


def changed(tree: Any, random: Random) -> Any:
    """Return `tree` with one to three changes, each at a random place."""
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        tree = _changed(tree, random)
    return tree


def _changed(tree: Any, random: Random) -> Any:
    match tree:
        case dict() if tree and random.random() < 0.95:
            (key,) = random.choices(list(tree), [_size(each) for each in tree.values()])
            return {**tree, key: _changed(tree[key], random)}
        case list() if tree and random.random() < 0.95:
            (at,) = random.choices(range(len(tree)), [_size(each) for each in tree])
            return [*tree[:at], _changed(tree[at], random), *tree[at + 1 :]]
        case dict() | list():
            return _reshaped(tree, random)
        case bytes() if len(tree) >= 8 and random.random() < 0.9:
            return _patched(tree, random)
        case int() | float() if random.random() < 0.5:
            return tree + random.choice((-1, 1)) if random.random() < 0.5 else -tree * 1e3
        case _:
            return random.choice(NUMBERS if random.random() < 0.8 else OTHERS)


def _size(tree: Any) -> int:
    """Return the number of possible changes, so that all of them are about equally likely."""
    match tree:
        case dict():
            return 1 + sum(map(_size, tree.values()))
        case list():
            return 1 + sum(map(_size, tree))
        case bytes():
            return 1 + min(len(tree) // 8, 16)
        case _:
            return 1


def _reshaped(tree: Any, random: Random) -> Any:
    if not tree or random.random() < 0.2:
        return random.choice((*OTHERS, *NUMBERS))
    if isinstance(tree, list):
        at = random.randrange(len(tree))
        without = [*tree[:at], *tree[at + 1 :]]
        return random.choice((without, tree[:at], tree[::-1], [*tree, tree[at]]))
    key = random.choice(list(tree))
    rest = {name: each for name, each in tree.items() if name != key}
    return random.choice((rest, {**rest, key + "'": tree[key]}))


def _patched(data: bytes, random: Random) -> bytes:
    """Put another number into the bytes of an array, or cut it."""
    at = 8 * random.randrange(len(data) // 8)
    number = random.choice(NUMBERS)
    if random.random() < 0.1:
        return data[:at]
    if isinstance(number, int):
        return data[:at] + (number % 2**64).to_bytes(8, "little") + data[at + 8 :]
    return data[:at] + struct.pack("<d", number) + data[at + 8 :]
