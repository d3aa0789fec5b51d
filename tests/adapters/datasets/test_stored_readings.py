"""Own readings on a grid, and their exports, which can be read back."""

import errno
import tracemalloc
from pathlib import Path
from random import Random

import numpy as np
import pytest
from edge_tvbo_adapters.datasets import csv, exports
from edge_tvbo_adapters.datasets.csv_columns import (
    ALL_SENSORS,
    NO_SENSORS,
    OF_EXPORTS,
    SENSORS,
    TIMES,
)
from edge_tvbo_adapters.datasets.csv_columns import READINGS as READING_NAMES
from edge_tvbo_adapters.datasets.csv_labels import UNITS
from edge_tvbo_adapters.datasets.csv_values import CODES
from edge_tvbo_adapters.datasets.grid import grid_start, spacing
from edge_tvbo_adapters.datasets.stored_readings import own_recording, without_rounding_error
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support.recordings import as_columns, small_recording

from edge_tvbo.errors import DataError, MissingExtra
from edge_tvbo.messages.readings import RecordedReading
from edge_tvbo.messages.sensor_ids import is_id

START = 1_772_438_400.0
READING = st.floats(-1e6, 1e6).filter(lambda value: value not in CODES)


def reading(sensor, at, value=20.0):
    return RecordedReading("lab", sensor, at, value)


def recording_of(readings, sensors=("a", "b"), interval=600.0):
    columns = as_columns(readings)
    return own_recording("k.lab", columns, sensors, interval, unit="°C", objective="min")


def test_readings_are_averaged_on_the_grid_and_gaps_are_not_observed():
    own = recording_of(
        [
            reading("a", START, 20.0),
            reading("a", START + 10, 22.0),
            reading("b", START + 3, 30.0),
            reading("removed", START + 5, 99.0),
            reading("a", START + 1203, 25.0),
        ]
    )
    assert (own.unit, own.objective, own.interval) == ("°C", "min", 600.0)
    assert own.observed.tolist() == [[True, True], [False, False], [True, False]]
    assert own.values.tolist() == [[21.0, 30.0], [23.0, 30.0], [25.0, 30.0]]
    assert own.source == (
        "4 recorded readings of k.lab. Readings of sensors that `sensors` does not list are left "
        "out: removed."
    )


class Earliest(Random):
    """A generator that draws the lower limit."""

    def uniform(self, lowest, highest):
        return lowest


@given(st.integers(0, 599), st.integers(2, 40), st.randoms(use_true_random=False))
@example(0, 2, Earliest())
def test_early_and_late_readings_stay_in_their_interval(phase, rows, rng):
    """Whatever the phase, and however early the first reading is."""
    readings = [
        reading(sensor, START + phase + 600 * row + rng.uniform(-120, 120))
        for row in range(rows)
        for sensor in "ab"
    ]
    readings[0] = readings[0]._replace(at=START + phase - 150)  # the first is early
    own = recording_of(sorted(readings, key=lambda each: each.at))
    assert own.observed.shape == (rows, 2) and own.observed.all()
    assert -151 <= own.start - START - phase <= 121  # with few rows, the early one counts


@pytest.mark.parametrize("interval", [0.05, 0.1, 0.3])
def test_a_reading_half_an_interval_before_the_first_grid_point_is_in_the_first_row(interval):
    """Which it can miss by a rounding error."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        times = np.sort(np.round(START + 20 * rng.random(40), 3))
        own = recording_of([reading("a", at) for at in times], ("a",), interval)
        assert own.observed[0].any()


def test_sensors_without_a_reading_are_left_out_and_named():
    own = recording_of([reading("a", START), reading("a", START + 600)])
    assert own.sensors == ("a",)
    assert own.source.endswith("Sensors without readings are left out: b.")
    with pytest.raises(DataError, match=r"k\.lab: no reading of the sensors c is recorded"):
        recording_of([reading("a", START)], sensors=("c",))


def test_one_clock_error_does_not_make_a_huge_grid():
    with pytest.raises(DataError, match="more than 50000000 cells"):
        recording_of([reading("a", START), reading("b", START + 1e9)], interval=1.0)


def test_grid_of_readings_at_exact_times_begins_with_the_first():
    assert grid_start(START + 300.0 + 600.0 * np.arange(9), 600.0) == START + 300.0
    assert grid_start(START + 0.25 * np.arange(9), 0.25) == START


@given(st.integers(1, 12), st.sampled_from([60.0, 300.0, 600.0, 1200.0, 1800.0]))
def test_grid_of_several_readings_in_each_interval_begins_at_a_whole_interval(first, between):
    times = START + 7.0 + between * np.arange(first, 2000)
    start = grid_start(times, 3600.0)
    assert start % 3600.0 == 0.0
    assert abs(times[0] - start) <= 1800.0


# --- the interval of sparse long files ------------------------------------------------------------


@given(st.integers(3, 11), st.integers(0, 2**32))
def test_one_asked_sensor_an_interval_has_the_interval_of_all_sensors(sensors, seed):
    """As after six days of polled readings, whose interval was taken to be 3.5 hours."""
    rng = np.random.default_rng(seed)
    times = START + 600 * np.arange(864) + rng.uniform(0.1, 4.0, 864)
    arms = rng.integers(sensors, size=864)
    assert spacing("a.csv", times, arms) == pytest.approx(600, abs=2)


@pytest.mark.parametrize("resolution", [1.0, 60.0])
def test_sensors_that_report_out_of_step_have_the_interval_of_each(resolution):
    rng = np.random.default_rng(0)
    phases = rng.uniform(0, 600, 11)
    times = START + np.add.outer(600 * np.arange(144), phases) + rng.uniform(-3, 3, (144, 11))
    arms = np.tile(np.arange(11), 144)
    rounded = np.floor(times.ravel() / resolution) * resolution
    assert spacing("a.csv", rounded, arms) == pytest.approx(600, abs=1)


@pytest.mark.parametrize("unit", [1.0, 1e-3])
def test_irregular_readings_have_a_usual_interval(unit):
    rng = np.random.default_rng(0)
    times = START + rng.normal(305, 60, 500).cumsum()
    assert spacing("a.csv", times / unit, np.zeros(500, np.intp), unit) * unit == 300.0


# --- exports --------------------------------------------------------------------------------------


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.lists(st.none() | READING, min_size=3, max_size=3) | st.just([None] * 3), max_size=6
    ),
    st.sampled_from([0.5, 60.0, 600.0]),
)
def test_exported_csv_is_read_back_as_the_same_recording(tmp_path, rows, interval):
    rows = [[1.0, 2.0, 3.0], *rows, [4.0, 5.0, 6.0]]
    readings = [
        reading(f"n{arm}", START + interval * row, value)
        for row, values in enumerate(rows)
        for arm, value in enumerate(values)
        if value is not None
    ]
    own = recording_of(readings, ("n0", "n1", "n2"), interval)
    path = tmp_path / "own.csv"
    exports.write_lines(path, exports.csv_lines(own))

    again = csv.read(path)

    assert again.sensors == own.sensors
    assert abs(again.start - own.start) <= again.interval / 2
    if again.interval == own.interval:  # unless every other row is empty
        assert again.start == own.start
        assert np.array_equal(again.values, own.values)
        assert np.array_equal(again.observed, own.observed)


RESERVED = {*TIMES, *SENSORS, *READING_NAMES, *NO_SENSORS, *UNITS}.union(*OF_EXPORTS.values())
IDS = st.from_regex(r"\A[A-Za-z0-9_.-]{1,64}\Z") | st.sampled_from(
    [each for name in sorted(RESERVED) for each in (name, name.title()) if is_id(each)]
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(IDS, min_size=1, max_size=5, unique=True), st.sampled_from([1.0, 1.5]))
@example(["battery", "hall"], 1.0)
@example(["date", "time"], 1.0)
@example(["station", "value"], 1.5)
def test_exported_csv_is_read_back_with_the_sensors_of_any_ids(tmp_path, sensors, step):
    """Columns with names such as battery were left out, and station made the file a long one."""
    readings = [
        reading(sensor, START + 600.0 * row, step * (row + arm))
        for row in range(4)
        for arm, sensor in enumerate(sensors)
    ]
    own = recording_of(readings, sensors)
    path = tmp_path / "own.csv"
    exports.write_lines(path, exports.csv_lines(own))

    again = csv.read(path)

    assert (again.sensors, again.names) == (own.sensors, {})
    assert np.array_equal(again.values, own.values)
    assert again.observed.all()


@pytest.mark.parametrize(("sensor", "is_marked"), [("hall", False), ("battery", True)])
def test_only_an_export_with_a_misleading_id_says_that_its_columns_are_sensors(sensor, is_marked):
    own = recording_of([reading(sensor, START), reading(sensor, START + 600.0)], (sensor,))
    lines = list(exports.csv_lines(own))
    assert (lines[0] == f"{ALL_SENSORS}\n") is is_marked
    assert lines[is_marked] == f"time,{sensor}\n"


def test_several_exports_in_one_file_are_read(tmp_path):
    path, days = tmp_path / "own.csv", (START, START + 86400.0)
    exported = [
        recording_of([reading("battery", day + at, 20.0 + at) for at in (0.0, 600.0)], ("battery",))
        for day in days
    ]
    path.write_text("".join(line for each in exported for line in exports.csv_lines(each)))
    again = csv.read(path)
    assert again.sensors == ("battery",)
    assert again.values[again.observed].tolist() == [20.0, 620.0, 20.0, 620.0]


def test_an_export_needs_little_memory_and_has_all_rows():
    values = np.arange(60_000.0).reshape(-1, 3)
    recording = small_recording(
        sensors=("a", "b", "c"), values=values, observed=np.ones(values.shape, np.bool_)
    )
    tracemalloc.start()
    try:
        lines = exports.csv_lines(recording)
        assert next(lines) == "time,a,b,c\n"
        next(lines)
        assert tracemalloc.get_traced_memory()[1] < values.nbytes
    finally:
        tracemalloc.stop()
    rest = list(lines)
    assert len(rest) == 19_999 and rest[-1].endswith(",59997.0,59998.0,59999.0\n")


def test_line_protocol_escapes_and_has_nanoseconds():
    lines = exports.influxdb_lines([reading("a b,c=d", START + 0.125, 21.0)])
    assert next(lines) == "lab,sensor=a\\ b\\,c\\=d value=21.0 1772438400125000000\n"


def test_parquet_has_every_reading(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    exports.check_parquet()
    both = as_columns([reading("a", START, 1.5), reading("b", START + 0.25)])
    exports.write_parquet(tmp_path / "a", both)
    rows = parquet.read_table(tmp_path / "a").to_pylist()
    assert [(each["sensor"], each["value"]) for each in rows] == [("a", 1.5), ("b", 20.0)]
    assert [each["time"].timestamp() for each in rows] == [START, START + 0.25]


def test_without_pyarrow_the_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    with pytest.raises(MissingExtra, match=r"pip install 'edge-tvbo\[parquet\]'"):
        exports.check_parquet()


def full_disk():
    return OSError(errno.ENOSPC, "No space left on device")


def test_a_failed_export_leaves_the_former_file_and_names_it(tmp_path):
    path = tmp_path / "own.csv"
    path.write_text("before")

    def lines():
        yield "a\n"
        raise full_disk()

    with pytest.raises(OSError, match="No space left") as failed:
        exports.write_lines(path, lines())
    assert failed.value.filename == str(path)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_export_to_parquet_leaves_the_former_file(tmp_path, monkeypatch):
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "own.parquet"
    path.write_text("before")

    def write_table(table, file):
        Path(file).write_text("begun")
        raise full_disk()

    monkeypatch.setattr(parquet, "write_table", write_table)
    with pytest.raises(OSError, match="No space left"):
        exports.write_parquet(path, as_columns([reading("a", START)]))
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


@given(st.floats(-1e45, 1e45))
@example(1.602e-19)
@example(1e-24)
def test_a_mean_keeps_its_digits_whatever_its_size(mean):
    """A charge in C, 1.6e-19, kept four digits, and a mean below 5e-23 became 0."""
    found = without_rounding_error(np.array([mean]))
    assert found == pytest.approx(mean, rel=1e-11, abs=0.0)
