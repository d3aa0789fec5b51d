"""Fuzzing of files of positions: any file gives positions, or findings whose lines exist."""

import tempfile
from functools import cache
from math import isfinite
from pathlib import Path

from fuzz.fuzzing import main

from edge_tvbo.config import sensor_positions
from edge_tvbo.config.errors import Report

SENSORS = ("a", "mote-1", "mote-12")


def seeds() -> list[bytes]:
    """Return files as users write them."""
    return [
        b"# id x y\n1 21.5 23\n\nmote-12 1 2\na 9 9\n",
        b"a 0 0\nmote-1 1e3 -1\n12 .5 5.",
        b"a\t1\t2\r\na 1 3\r\n",
    ]


def check(data: bytes) -> None:
    """Read `data` as a file of positions."""
    file = _file()
    file.write_bytes(data)
    report = Report(file.with_name("config.toml"), dict, {})
    found = sensor_positions.of_sensors(file.name, file.parent, SENSORS, ("positions",), report)
    findings = report.findings()
    lines = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").count(b"\n") + 1
    assert set(found) == set(SENSORS) or findings
    assert all(isfinite(x) and isfinite(y) for x, y in found.values())
    for finding in findings:
        assert str(finding).isprintable()
        assert str(finding).encode()
        assert finding.line <= lines, "the line exists"


@cache
def _file() -> Path:
    return Path(tempfile.mkdtemp(prefix="fuzz-positions-")) / "positions.txt"


if __name__ == "__main__":
    main("fuzz_positions")
