"""Fuzzing of CSV files: any file is a recording, or is rejected with a `DataError`."""

import warnings
from contextlib import contextmanager
from functools import cache
from math import isfinite
from pathlib import Path
from random import Random
from tempfile import mkdtemp

import numpy as np
from edge_tvbo_adapters.datasets import csv
from fuzz.fuzzing import main

from edge_tvbo.errors import DataError

WIDE = (
    "time,hall,attic\n2024-03-01 00:00,20.1,22.5\n2024-03-01 00:10,20.2,\n2024-03-01 00:20,20,23\n"
)
LONG = "time,sensor,value\n2024-03-01T00:00Z,hall,20\n2024-03-01T00:10Z,hall,21\n"
SEEDS = (
    WIDE,
    LONG,
    WIDE.replace(",", ";").replace(".", ","),
    LONG.replace("T", " ").replace("Z", "+02:00").replace(",", "\t"),
    "# a comment\nsep=;\ndate;time;t1 (°C)\n01.03.2024;00:00;20,1\n01.03.2024;01:00;NaN\n",
    "time,t\ns,°C\n0,20\n600,21\n1200,-9999\n1800,-9999\n",
    "timestamp,entity_id,state,unit\n1709251200,sensor.a,20,°C\n1709251800,sensor.a,unavailable,°C\n",
    "year,month,day,hour,a\n2024,3,1,0,1\n2024,3,1,1,2\n",
)
WORDS = (
    "\n",
    ",",
    ";",
    '"',
    "nan",
    "-",
    "1e308",
    "0",
    "2024-02-30",
    "24:00",
    "\ufeff",
    "\x00",
    "é",
)


def seeds() -> list[bytes]:
    """Return wide and long files with several separators, times and codes of missing values."""
    return [text.encode() for text in SEEDS]


def check(data: bytes) -> None:
    """Read `data` as a CSV file."""
    path = _path()
    path.write_bytes(data)
    with _warnings_raise():
        try:
            recording = csv.read(path)
        except DataError as error:
            assert path.name in str(error)
            return
    assert recording.values.shape[1] == len(recording.sensors) > 0
    assert not np.isinf(recording.values).any()
    assert isfinite(recording.start)
    assert 0 < recording.interval < float("inf")


def mutate(data: bytes, random: Random) -> bytes:
    """Repeat, remove or replace cells and lines, or insert a word."""
    separator = random.choice(["\n", ",", ";", "\t", " "])
    parts = data.decode(errors="replace").split(separator)
    at, other = random.randrange(len(parts)), random.randrange(len(parts))
    match random.randrange(4):
        case 0:
            parts[at] = parts[other]
        case 1:
            parts.insert(at, parts[other])
        case 2 if len(parts) > 1:
            del parts[at]
        case _:
            cut = random.randrange(len(parts[at]) + 1)
            parts[at] = parts[at][:cut] + random.choice(WORDS) + parts[at][cut:]
    return separator.join(parts).encode()


@cache
def _path() -> Path:
    return Path(mkdtemp()) / "readings.csv"


@contextmanager
def _warnings_raise():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


if __name__ == "__main__":
    main("fuzz_csv")
