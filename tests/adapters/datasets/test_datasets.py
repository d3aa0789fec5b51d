"""Datasets: each gives the documented recording, or an error with file, line and cause."""

import csv
import gzip
import subprocess
import sys
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import msgspec
import numpy as np
import pytest
from edge_tvbo_adapters import datasets
from edge_tvbo_adapters.datasets import csv as table
from edge_tvbo_adapters.datasets import intel_lab, lab_sample, metr_la
from edge_tvbo_adapters.datasets.csv_values import CODES
from edge_tvbo_adapters.datasets.grid import bin_means, fill_gaps
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edge_tvbo.errors import ConfigError, DataError
from edge_tvbo.simulation.recording import Recording


def recording(**changes: object) -> Recording:
    """Return a valid recording of two sensors with some `changes`."""
    valid = {
        "name": "a",
        "unit": "°C",
        "objective": "max",
        "sensors": ("n1", "n2"),
        "start": 0.0,
        "interval": 60.0,
        "values": np.zeros((3, 2)),
        "observed": np.ones((3, 2), dtype=bool),
        "source": "a test",
    }
    return Recording(**(valid | changes))


class TestRecording:
    def test_cannot_be_changed(self):
        with pytest.raises(AttributeError):
            recording().name = "b"

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"objective": "most"}, "objective is 'most'"),
            ({"interval": 0.0}, "interval is 0.0 s"),
            ({"interval": float("nan")}, "interval is nan s"),
            ({"interval": np.float64(60.0)}, r"interval is .*60.0.*; it must be a Python float"),
            ({"start": np.float64(0.0)}, r"start is .*0.0.*; it must be a Python float"),
            ({"start": np.datetime64("2026-03-01")}, "start is .*; it must be a Python float"),
            ({"start": float("nan")}, "start is nan"),
            ({"sensors": (1, 2)}, "sensor 1 is not a text"),
            ({"sensors": tuple(np.array(["n1", "n2"]))}, "sensor .*n1.* is not a text"),
            ({"sensors": ()}, "no sensor has a reading"),
            ({"sensors": ("n1", "n1")}, "several sensors have the name n1"),
            ({"sensors": ("n1", "a/b")}, "sensor 'a/b' does not fit"),
            ({"sensors": ("n1", "n2\n")}, "does not fit"),
            ({"sensors": ("n1",)}, r"shape \(3, 2\); with 1 sensors"),
            ({"values": np.zeros((0, 2))}, "T at least 1"),
            ({"values": np.full((3, 2), np.nan)}, "finite float64"),
            ({"values": np.zeros((3, 2), dtype=np.float32)}, "finite float64"),
            ({"observed": np.ones((3, 1), dtype=bool)}, r"observed is bool of shape \(3, 1\)"),
            ({"observed": np.ones((3, 2))}, "observed is float64"),
            ({"positions": np.zeros((3, 2))}, r"positions have shape \(3, 2\)"),
        ],
    )
    def test_error_names_the_invalid_field(self, changes, words):
        with pytest.raises(DataError, match=words):
            recording(**changes)

    def test_filling_gaps_keeps_observed_values_and_its_input(self):
        values = np.array([[9.0, 1.0], [2.0, 1.0], [9.0, 1.0], [4.0, 1.0], [9.0, 1.0]])
        observed = np.array([[False, True], [True, True]] * 2 + [[False, True]])
        before = values.copy()

        filled = fill_gaps(values, observed)

        assert filled[:, 0].tolist() == [2, 2, 3, 4, 4]
        assert np.array_equal(filled[observed], values[observed])
        assert np.array_equal(values, before)

    @given(st.data())
    def test_binning_equals_averaging_cell_by_cell(self, data):
        T, M = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 4))
        cell = st.tuples(st.integers(0, T - 1), st.integers(0, M - 1), st.integers(-99, 99))
        rows = data.draw(st.lists(cell, max_size=30))
        step, sensor, reading = np.array(rows, dtype=np.intp).reshape(-1, 3).T

        means, observed = bin_means(step, sensor, reading.astype(float), (T, M))

        for t, j in np.ndindex(T, M):
            here = [y for a, b, y in rows if (a, b) == (t, j)]
            assert observed[t, j] == bool(here)
            assert means[t, j] == pytest.approx(np.mean(here) if here else 0.0)


class TestEveryDataset:
    NAMES = ("csv", "intel-lab", "lab-sample", "metr-la")

    @pytest.mark.parametrize("name", NAMES)
    def test_is_found_by_its_name_and_has_a_summary(self, name):
        dataset = datasets.find(name)

        assert dataset.name == name
        assert dataset.summary
        assert "\n" not in dataset.summary
        assert dataset.url is None or dataset.url.startswith("http")

    def test_can_be_listed_without_numpy(self):
        code = (
            "import sys; from edge_tvbo_adapters import datasets;"
            "[datasets.find(name).summary for name in datasets.names()];"
            "sys.exit('numpy' in sys.modules)"
        )
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

    def test_names_are_listed_and_an_unknown_one_is_rejected(self):
        assert set(datasets.names()) >= set(self.NAMES)
        with pytest.raises(ConfigError, match=r"'intel-lap'.*Did you mean 'intel-lab'"):
            datasets.find("intel-lap")

    @pytest.mark.parametrize("name", ["intel-lab", "metr-la", "csv"])
    def test_missing_data_error_names_directory_and_option(self, name, tmp_path):
        with pytest.raises(DataError) as caught:
            datasets.find(name).load([str(tmp_path)])

        assert str(tmp_path) in str(caught.value)
        assert "--data-dir" in str(caught.value)


# -- Intel lab ---------------------------------------------------------------------------------


class TestIntelLab:
    def test_recording_equals_the_arrays_of_the_papers(self, recordings):
        expected = np.load(recordings / "intel_46x1152.npz")
        lab = intel_lab.dataset.load([str(recordings)])

        assert lab.sensors == tuple(f"mote-{mote}" for mote in expected["mote_ids"])
        assert lab.values.shape == (1152, 46)
        assert (lab.observed != expected["observed"]).sum() <= 1
        difference = np.abs(lab.values - expected["temperature_c"])
        assert difference[lab.observed & expected["observed"]].max() < 1e-4
        assert difference.max() < 1e-3
        assert datetime.fromtimestamp(lab.start, UTC).isoformat() == "2004-03-01T00:00:00+00:00"
        assert (lab.interval, lab.unit, lab.objective) == (600.0, "°C", "max")
        assert lab.positions[0].tolist() == [21.5, 23.0]

    def test_unpacked_file_without_locations_is_read(self, recordings, tmp_path):
        packed = recordings / "intel_lab_10min.csv.gz"
        (tmp_path / "intel_lab_10min.csv").write_bytes(gzip.decompress(packed.read_bytes()))

        plain = intel_lab.dataset.load([str(tmp_path)])

        assert np.array_equal(plain.values, intel_lab.dataset.load([str(recordings)]).values)
        assert plain.positions is None

    @pytest.mark.parametrize("name", ["data.txt", "data.txt.gz"])
    def test_raw_text_of_the_publisher_is_cleaned(self, name, tmp_path):
        lines = [
            "2004-03-01 00:15:01.5 4 1 22.0 40 50 2.7",  # unsorted
            "2004-03-01 00:01:01.5 2 1 20.0 40 50 2.7",
            "2004-03-01 00:09:59.999 3 1 21.0 40 50 2.6",
            "2004-03-01 00:05:00 3 1 122.153 -4 50 2.6",  # outside the valid range
            "2004-03-01 00:25:00 3 1 30.0 40 50 2.1",  # an empty battery
            "2004-03-01 00:35:00 3 1 22.0 40",  # truncated
            "2004-03-01 00:35:00 3 1 2x.0 40 50 2.7",
            "2004-03-01 00:35:00 3 1 nan 40 50 2.7",
            "2004-03-01 00:45:00 5 1 25.0 40 50 2.35",  # just above the limit
            "2004-03-01 00:05:00 3 65407 20.0 40 50 2.7",  # no such mote
            "2004-03-01 00:05:00 3 55 20.0 40 50 2.7",
            "2004-03-01 00:05:00 3 0 20.0 40 50 2.7",
            "2004-02-29 23:59:59 3 7 20.0 40 50 2.7",  # the day before
            "2004-03-09 00:00:00 3 7 20.0 40 50 2.7",  # the day after
            "2004-03-08 23:59:59.9 9 54 18.0 40 50 2.7",
            "",
        ]
        text = "\n".join(lines).encode()
        (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)

        lab = intel_lab.dataset.load([str(tmp_path)])

        assert lab.sensors == ("mote-1", "mote-54")
        assert np.flatnonzero(lab.observed[:, 0]).tolist() == [0, 1, 4]
        assert np.flatnonzero(lab.observed[:, 1]).tolist() == [1151]
        assert lab.values[:5, 0].tolist() == [20.5, 22.0, 23.0, 24.0, 25.0]
        assert np.all(lab.values[:, 1] == 18.0)

    def test_raw_text_and_averaged_file_give_the_same_recording(self, recordings, tmp_path):
        with gzip.open(recordings / "intel_lab_10min.csv.gz", "rt") as file:
            rows = list(csv.reader(file))[1:]
        raw = [f"{at.replace('T', ' ')} 0 {m} {y} {h} {lux} {v}" for at, m, y, h, lux, v in rows]
        (tmp_path / "data.txt").write_text("\n".join(reversed(raw)))

        from_text = intel_lab.dataset.load([str(tmp_path)])

        assert np.array_equal(from_text.values, intel_lab.dataset.load([str(recordings)]).values)

    @given(st.lists(st.integers(0, 5), min_size=54, max_size=54).filter(any))
    def test_motes_with_most_readings_are_kept_lower_ids_first(self, counts):
        observed = np.arange(5)[:, None] < np.array(counts)

        _, kept, motes = intel_lab.choose_motes(observed.astype(float), observed)

        by_count = sorted((m for m in range(54) if counts[m]), key=lambda m: (-counts[m], m))
        assert motes == sorted(m + 1 for m in by_count[:46])
        assert kept.sum(axis=0).tolist() == [counts[m - 1] for m in motes]

    @pytest.mark.parametrize(
        ("name", "content", "words"),
        [
            ("data.txt", b"<html>not found</html>", "holds no valid reading"),
            ("data.txt.gz", b"<html>not found</html>", "cannot be read: Not a gzip"),
            (
                "data.txt.gz",
                gzip.compress(b"a" * 99, mtime=0)[:-9],
                "cannot be read: Compressed file ended",
            ),
            ("data.txt", b"\xff\xfe\xff", "not UTF-8"),
            ("intel_lab_10min.csv", b"timestamp,mote_id\n", "no column temperature_c, voltage"),
            (
                "intel_lab_10min.csv",
                b"timestamp,mote_id,temperature_c,voltage\n2004-03-01T00:00:00,1,2\n",
                "line 2: has 3 cells",
            ),
        ],
    )
    def test_other_file_under_this_name_is_a_data_error(self, tmp_path, name, content, words):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match=words):
            intel_lab.dataset.load([str(tmp_path)])

    @pytest.mark.parametrize(
        ("places", "words"),
        [
            ("1 2.0\n", "line 1: found '1 2.0'"),
            ("2 1 1\n", "mote 1;"),
            ("1 0 0\n2 1 1\n1 5 5\n", "lines 1 and 3: mote 1 has two positions;"),
        ],
    )
    def test_invalid_positions_are_a_data_error(self, tmp_path, places, words):
        (tmp_path / "data.txt").write_text("2004-03-01 00:01:01.5 2 1 20.0 40 50 2.7\n")
        (tmp_path / "mote_locs.txt").write_text(places)
        with pytest.raises(DataError, match=words):
            intel_lab.dataset.load([str(tmp_path)])


# -- METR-LA -----------------------------------------------------------------------------------


class TestMetrLa:
    def test_recording_is_a_week_of_207_detectors_with_positions(self, recordings):
        week = metr_la.dataset.load([str(recordings)])

        assert week.values.shape == (7 * 288, 207)
        assert (week.name, week.unit, week.interval) == ("metr-la", "mph", 300.0)
        assert datetime.fromtimestamp(week.start, UTC).isoformat() == "2012-03-01T00:00:00+00:00"
        assert week.sensors[0] == "773869"
        assert np.ptp(week.positions, axis=0).max() < 60_000  # m

    def test_speed_of_zero_is_a_missing_reading(self, tmp_path):
        rows = "timestamp,1,2\n2012-03-01T00:00:00,50,60\n2012-03-01T00:05:00,0,60\n"
        (tmp_path / "metr_la_week_5min.csv").write_text(f"{rows}2012-03-01T00:10:00,40,0\n")

        week = metr_la.dataset.load([str(tmp_path)])

        assert week.observed.tolist() == [[True, True], [False, True], [True, False]]
        assert week.values[:, 0].tolist() == [50, 45, 40]
        assert week.positions is None

    def test_detector_that_reads_only_zero_is_a_data_error(self, tmp_path):
        rows = "timestamp,1,2\n2012-03-01T00:00:00,50,0\n2012-03-01T00:05:00,50,0\n"
        (tmp_path / "metr_la_week_5min.csv").write_text(rows)
        with pytest.raises(DataError, match="detector 2 has only readings of 0"):
            metr_la.dataset.load([str(tmp_path)])

    @pytest.mark.parametrize(
        ("place", "words"), [("1,x,2", "line 2: found '1,x,2'"), ("7,34,-118", "sensor 1;")]
    )
    def test_invalid_positions_are_a_data_error(self, tmp_path, place, words):
        (tmp_path / "metr_la_sensor_locs.csv").write_text(f"sensor_id,latitude,longitude\n{place}")
        with pytest.raises(DataError, match=words):
            metr_la.read_positions([str(tmp_path)], ("1",))


# -- any CSV file ------------------------------------------------------------------------------


def load(path: Path, text: str) -> Recording:
    path.write_text(text, encoding="utf-8")
    return table.dataset.load([str(path)])


@pytest.mark.parametrize("fill", ["9.96921e+36", "1e20", "-3.4028235E38", "1e300"])
def test_fill_values_of_netcdf_files_are_no_readings(tmp_path, fill):
    """With such a reading on a test day, the table of compare had numbers of 40 digits."""
    recording = load(tmp_path / "r.csv", f"time,a,b\n0,20,21\n600,{fill},22\n1200,21,23\n")

    assert not recording.observed[1, 0]
    assert recording.observed.sum() == 5
    assert f"{float(fill):g} means no reading (cells: 1)" in recording.source


def test_large_numbers_that_differ_are_readings(tmp_path):
    """A flux of photons is 0 at night; a fill value is the same number in each gap."""
    recording = load(tmp_path / "r.csv", "time,a,b\n0,0,0\n600,8.1e20,7.9e20\n1200,0,1.2e21\n")

    assert recording.observed.all()
    assert recording.values.max() == 1.2e21


@st.composite
def grids(draw: st.DrawFn) -> np.ndarray:
    """Draw a small grid with gaps (NaN), with a reading of each sensor."""
    T, M = draw(st.integers(2, 8)), draw(st.integers(1, 4))
    reading = st.floats(-1e6, 1e6, allow_nan=False).map(lambda y: round(y, 3))
    reading = reading.filter(lambda y: y not in CODES)
    rows = st.lists(reading | st.just(float("nan")), min_size=M, max_size=M)
    values = np.array(draw(st.lists(rows, min_size=T, max_size=T)))
    values[draw(st.integers(0, T - 1))] = draw(st.lists(reading, min_size=M, max_size=M))
    return values


def iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")


WRITTEN = {
    "iso": iso,
    "naive": lambda at: iso(at).removesuffix("Z"),
    "seconds": repr,
    "milliseconds": lambda at: str(round(at * 1000)),
}


def write_wide(path: Path, times: list[str], values: np.ndarray) -> None:
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["time", *(f"n{j}" for j in range(values.shape[1]))])
        for at, row in zip(times, values, strict=True):
            out.writerow([at, *("" if np.isnan(y) else repr(float(y)) for y in row)])


def write_long(path: Path, times: list[str], values: np.ndarray) -> None:
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["sensor", "humidity", "timestamp", "temperature"])
        for at, row in zip(times, values, strict=True):
            for j, y in enumerate(row):
                out.writerow([f"n{j}", 40, at, "NaN" if np.isnan(y) else repr(float(y))])


class TestCsv:
    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        values=grids(),
        write=st.sampled_from([write_wide, write_long]),
        written=st.sampled_from(sorted(WRITTEN)),
        start=st.integers(1_000_000_000, 2_000_000_000),
        interval=st.sampled_from([0.5, 1, 30, 600, 86400]),
    )
    def test_written_file_is_read_back(self, tmp_path, values, write, written, start, interval):
        times = [WRITTEN[written](start + t * interval) for t in range(len(values))]
        write(tmp_path / "a.csv", times, values)

        grid = table.read(tmp_path / "a.csv")

        observed = ~np.isnan(values)
        assert np.array_equal(grid.observed, observed)
        assert np.array_equal(grid.values[observed], values[observed])
        assert grid.sensors == tuple(f"n{j}" for j in range(values.shape[1]))
        assert (grid.start, grid.interval) == (start, interval)
        assert ("taken as UTC" in grid.source) == (written == "naive")

    def test_missing_row_is_a_gap(self, tmp_path):
        grid = load(tmp_path / "a.csv", "time,n1\n1772438400,1\n1772438460,2\n1772438580,4\n")

        assert grid.observed.ravel().tolist() == [True, True, False, True]
        assert grid.values.ravel().tolist() == [1, 2, 3, 4]

    def test_long_file_may_be_unsorted_and_have_repeated_times(self, tmp_path):
        rows = ["n2,1772438520,6", "n1,1772438400,1", "n1,1772438400,3", "n2,1772438460,5"]
        grid = load(tmp_path / "a.csv", "\n".join(["id,time,value", *rows, "n1,1772438460,4"]))

        assert grid.sensors == ("n2", "n1")
        assert grid.observed.tolist() == [[False, True], [True, True], [True, False]]
        assert grid.values.tolist() == [[5, 2], [5, 4], [6, 4]]

    def test_irregular_readings_are_averaged_into_the_nearest_interval(self, tmp_path):
        rng = np.random.default_rng(0)
        times = 1772438400 + 600 * np.arange(200) + rng.uniform(-40, 40, 200)
        rows = [f"n1,{at:.3f},{t}" for t, at in enumerate(times)]
        grid = load(tmp_path / "a.csv", "\n".join(["sensor,time,value", *rows]))

        assert grid.interval == pytest.approx(600, abs=15)
        assert abs(len(grid.values) - 200) < 6
        assert grid.observed.mean() > 0.9
        assert np.corrcoef(grid.values[:, 0], np.arange(len(grid.values)))[0, 1] > 0.999

    @pytest.mark.parametrize(
        ("name", "interval"), [("a.csv", 60), ("a_10min.csv", 600), ("a-30s.csv", 30)]
    )
    def test_step_count_takes_its_interval_from_the_file_name(self, tmp_path, name, interval):
        grid = load(tmp_path / name, "step,n1\n0,1\n1,2\n2,3\n")

        assert (grid.start, grid.interval) == (0.0, interval)
        assert f"a step count, with {interval} s per step" in grid.source

    def test_sensor_names_are_changed_to_fit_a_topic(self, tmp_path):
        grid = load(tmp_path / "a.csv", "t;north hall;b/1\n0;1;2\n1;1;2\n")
        assert grid.sensors == ("north-hall", "b-1")

    def test_sensor_without_a_reading_is_left_out_and_named(self, tmp_path):
        grid = load(tmp_path / "a.csv", "\ufefft,n1,n2\n0,1,\n1,1,NA\n\n")

        assert grid.sensors == ("n1",)
        assert "Sensors without readings are left out: n2." in grid.source

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("", "line 1: found ''"),
            ("0,20.5,21\n1,20,21\n", "line 1: found '0,20.5,21'"),
            ("2026-03-02,20.5\n", "line 1: found '2026-03-02,20.5'"),
            ("t,n1\n", "no sensor has readings at two different times"),
            ("t,n1\n0,1\n", "no sensor has readings at two different times"),
            ("t,n1,n2\n0,1,2\n\n1,1\n", "line 4: has 2 cells; the header has 3"),
            ("t,n1\n0,1\n1,warm\n", "line 3: n1 has 'warm'"),
            ("t,n1,n2\n0,1,1\n1,1,inf\n", "line 3: n2 has 'inf'"),
            ("t,n1\n2026-03-02,1\nnoon,1\n", "line 3: the time 'noon' cannot be read"),
            ("t,n1\n0,1\nnan,1\n", "line 3: the time 'nan' cannot be read"),
            ("t,n 1,n 1\n0,1,2\n1,1,2\n", "several sensors have the name 'n 1'"),
            ("t,n1,\n0,1,2\n1,1,2\n", "sensor 2 has no name"),
            ("t,n1\n0,\n1,\n", "no sensor has a reading"),
            ("time,sensor,wind,rain\n0,a,1,1\n", "no value column among time, sensor, wind, rain"),
            ("t,n1\n0,1\n1,1\n2,1\n999999999,1\n", "more than 50000000 cells"),
            ('t,n1\n0,"1\n', "line 2: is not CSV"),
        ],
    )
    def test_error_names_the_file_the_line_and_the_text(self, tmp_path, text, words):
        with pytest.raises(DataError, match=words) as caught:
            load(tmp_path / "a.csv", text)
        assert str(tmp_path / "a.csv") in str(caught.value)

    @pytest.mark.parametrize("separator", [",", ";"])
    def test_error_names_a_quote_that_is_not_closed_near_the_top(self, tmp_path, separator):
        """The sample, from which the separator is found, has more than 131072 characters."""
        rows = [[str(1772438400 + 600 * t), *["21.25"] * 46] for t in range(700)]
        rows[2][3] = '"21.25'
        header = ["time", *(f"n{j}" for j in range(46))]
        text = "\n".join(map(separator.join, [header, *rows]))
        with pytest.raises(DataError, match=r"a\.csv, line \d+: is not CSV: .* not closed"):
            load(tmp_path / "a.csv", text)

    def test_point_in_a_word_is_no_decimal_point(self, tmp_path):
        rows = ["2026-03-02 06:00;21,5;20,25;v1.2", "2026-03-02 06:10;21,75;20,5;v1.2"]
        grid = load(tmp_path / "a.csv", "\n".join(["time;hall;attic;firmware", *rows]))
        assert grid.values.tolist() == [[21.5, 20.25], [21.75, 20.5]]

    @pytest.mark.parametrize("thousands", ["1.001,5", "1.001", "-12.001.000,25"])
    def test_points_between_thousands_are_rejected(self, tmp_path, thousands):
        rows = ["2026-03-02 06:00;921,5;20,25", f"2026-03-02 06:10;{thousands};20,5"]
        with pytest.raises(DataError, match=r"write a finite number|line 3 a decimal point"):
            load(tmp_path / "a.csv", "\n".join(["time;hall;attic", *rows]))

    def test_line_of_units_may_contain_digits(self, tmp_path):
        grid = load(tmp_path / "a.csv", "time,a,b\ns,m3,m3\n1772438400,1,2\n1772439000,3,4\n")
        assert grid.values.tolist() == [[1, 2], [3, 4]]

    def test_readings_of_several_numbered_quantities_are_not_averaged(self, tmp_path):
        rows = [
            f"{1772438400 + 600 * t},{sensor},{quantity},{value}"
            for t in range(4)
            for sensor in "ab"
            for quantity, value in ((1, 20 + t), (2, 50 + t))
        ]
        words = r"line 3: has the same time and sensor as line 2; in the column 'quantity', .*"
        with pytest.raises(DataError, match=words + r"'1' and '2'\. .* words or numbers, or"):
            load(tmp_path / "a.csv", "\n".join(["time,sensor,quantity,value", *rows]))

    @pytest.mark.parametrize("rows", [1, 2])
    def test_numbers_that_do_not_split_readings_of_one_time_are_no_quantity(self, tmp_path, rows):
        """As a battery in percent, which may be stated in each row."""
        lines = [
            f"{1772438400 + 600 * t},a,{99 - t // 2},{20 + t}"
            for t in range(4)
            for _ in range(rows)
        ]
        grid = load(tmp_path / "a.csv", "\n".join(["time,sensor,charge,value", *lines]))
        assert grid.values.ravel().tolist() == [20, 21, 22, 23]

    def test_only_csv_file_of_a_directory_is_read(self, tmp_path):
        (tmp_path / "notes.txt").write_text("")
        (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"t,n1\n0,1\n1,2\n"))
        assert table.dataset.load([str(tmp_path / "absent"), str(tmp_path)]).sensors == ("n1",)

    def test_several_csv_files_in_a_directory_are_rejected(self, tmp_path):
        (tmp_path / "a.csv").write_text("")
        (tmp_path / "b.csv").write_text("")
        with pytest.raises(DataError, match=r"several CSV files: a\.csv, b\.csv"):
            table.dataset.load([str(tmp_path)])

    def test_guangzhou_file_is_read(self, recordings):
        grid = table.dataset.load([str(recordings / "guangzhou_speed_10min.csv.gz")])

        assert grid.values.shape == (500, 214)
        assert grid.interval == 600.0
        assert grid.sensors[:2] == ("s1", "s2")

    def test_intel_lab_can_be_read_as_a_long_file(self, recordings):
        grid = table.dataset.load([str(recordings / "intel_lab_30min_50sensors.csv.gz")])

        assert grid.values.shape == (240, 50)
        assert grid.interval == 1800.0


# -- the synthetic laboratory -------------------------------------------------------------------


class TestLabSample:
    lab = lab_sample.dataset.load(["/nowhere"])

    def test_same_seed_gives_the_same_bytes(self):
        again, other = (lab_sample.LabSample(seed).load() for seed in (0, 1))

        assert again.values.tobytes() == self.lab.values.tobytes()
        assert again.positions.tobytes() == self.lab.positions.tobytes()
        assert msgspec.structs.asdict(again).keys() == msgspec.structs.asdict(other).keys()
        assert not np.array_equal(other.values, self.lab.values)

    def test_recording_has_46_sensors_for_8_days_and_is_synthetic(self):
        assert self.lab.values.shape == (1152, 46)
        assert self.lab.sensors[0] == "node-1"
        assert self.lab.positions.min() >= 0
        assert (self.lab.positions.max(axis=0) <= (40, 30)).all()
        assert datetime.fromtimestamp(self.lab.start, UTC).isoformat().startswith("2026-03-02T00")
        assert self.lab.source.startswith("Synthetic")

    @pytest.mark.parametrize("seed", range(3))
    def test_temperatures_and_gaps_are_plausible(self, seed):
        lab = lab_sample.LabSample(seed).load()

        assert 12 < lab.values.min() < 20
        assert 28 < lab.values.max() < 38
        assert 0.005 < 1 - lab.observed.mean() < 0.02

    @pytest.mark.parametrize("seed", range(3))
    def test_hot_spot_moves_from_the_east_windows_to_the_west(self, seed):
        lab = lab_sample.LabSample(seed).load()
        hottest = lab.positions[lab.values.argmax(axis=1)].reshape(8, 144, 2)

        morning, midday, evening = (
            hottest[:, slice(*(6 * h for h in hours))].mean(axis=(0, 1))
            for hours in ((9, 11), (11, 14), (15, 18))
        )

        assert morning[0] > midday[0] > evening[0]
        assert midday[1] < 15

    @pytest.mark.parametrize("seed", range(3))
    def test_random_choice_has_a_regret_of_about_one_sd(self, seed):
        y = lab_sample.LabSample(seed).load().values
        regret = (y.max(axis=1) - y.mean(axis=1)).mean() / y.std()
        assert 0.7 < regret < 1.5

    def test_anomalies_have_momentum(self):
        """Consecutive steps are correlated, unlike in a first-order process."""
        drift = lab_sample.drift(np.random.default_rng(0), self.lab.positions)
        steps = np.diff(drift, axis=0)
        correlations = [np.corrcoef(a, b)[0, 1] for a, b in pairwise(steps)]
        assert np.mean(correlations) > 0.5
