"""CSV files as people have them: each is understood, or the mistake is named with cause and fix."""

import subprocess
import tomllib

import pytest
from edge_tvbo_adapters.datasets.csv import read
from support.paths import ROOT

from edge_tvbo.errors import DataError

FILES = ROOT / "tests" / "data" / "csv"
EXPECTED = tomllib.loads((FILES / "expected.toml").read_text(encoding="utf-8"))
GOOD = sorted(name for name, expected in EXPECTED.items() if "error" not in expected)
BAD = sorted(set(EXPECTED) - set(GOOD))


def test_every_file_has_an_expectation_and_there_are_at_least_forty():
    assert {path.stem for path in FILES.glob("*.csv")} == set(EXPECTED)
    assert len(EXPECTED) >= 40


@pytest.mark.parametrize("name", GOOD)
def test_file_is_understood(name):
    expected = EXPECTED[name]

    recording = read(FILES / f"{name}.csv")

    assert list(recording.sensors) == expected["sensors"]
    assert recording.values.shape == (expected["rows"], len(expected["sensors"]))
    assert (recording.interval, recording.start) == (expected["interval"], expected["start"])
    assert recording.observed.sum() == expected["observed"]
    assert recording.values[0].round(3).tolist() == expected["first"]
    assert recording.source.endswith(expected["source"])


@pytest.mark.parametrize("name", BAD)
def test_mistake_is_named_with_file_cause_and_fix(name):
    path = FILES / f"{name}.csv"

    with pytest.raises(DataError) as caught:
        read(path)

    assert str(caught.value).startswith(str(path))
    expected = EXPECTED[name]["error"].format(path=path, directory=path.parent)
    assert str(caught.value).endswith(expected)


def test_command_of_the_error_converts_a_file_of_a_german_spreadsheet(tmp_path):
    path = tmp_path / "Küche und Bad.csv"
    path.write_bytes((FILES / "bad_latin_1.csv").read_bytes())
    with pytest.raises(DataError) as caught:
        read(path)

    subprocess.run(["sh", "-c", str(caught.value).splitlines()[-1]], check=True)

    converted = read(tmp_path / "utf8-Küche und Bad.csv")
    assert converted.named_sensors[:2] == ["Küche", "Dachgeschoß"]
    assert converted.values[0].tolist() == [20.1, 21.2, 22.3, 23.4]
