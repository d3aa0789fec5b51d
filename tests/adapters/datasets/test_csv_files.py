"""CSV files as people have them: each is understood, or the mistake is named with cause and fix."""

import random
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


def written(path, header, rows):
    """Write a CSV file with this header and these rows of cells; return its path."""
    lines = [header, *(",".join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


T0 = 1_772_409_600  # 2026-03-02T00:00:00Z


@pytest.mark.parametrize("interval", [None, 600.0])
def test_quantities_that_arrive_one_after_another_are_not_averaged(tmp_path, interval):
    """Each quantity of a message has its own time, as in a database that dates each row."""
    rng = random.Random(0)
    rows = [
        (T0 + 600 * k + 0.04 * n + rng.randrange(30) / 1000, device, quantity, 20 + n + k % 7)
        for k in range(200)
        for device in ("hall", "attic")
        for n, quantity in enumerate(("temperature", "humidity", "battery"))
    ]
    path = written(tmp_path / "a.csv", "time,device,quantity,value", rows)
    with pytest.raises(DataError) as caught:
        read(path, interval)
    assert str(caught.value).startswith(
        f"{path}, line 3: has nearly the same time and sensor as line 2; in the column 'quantity', "
        "the two lines have 'temperature' and 'humidity'. Keep only the rows with"
    )


@pytest.mark.parametrize(("step", "every"), [(300, 600), (150, 600), (1_200_000, 3_600_000)])
@pytest.mark.parametrize("lost", [0.0, 0.04])
def test_quantities_that_alternate_are_not_read_as_one(tmp_path, step, every, lost):
    """The times of the last case are in ms; a few rows may be lost, or have no number."""
    rng = random.Random(0)
    factor = 1000 if every > 10_000 else 1
    rows = [
        (T0 * factor + every * k + step * n + rng.randrange(3), device, quantity, value)
        for k in range(200)
        for device in ("hall", "attic")
        for n, (quantity, value) in enumerate((("temperature", 20 + k % 7), ("humidity", 50)))
        if rng.random() >= lost
    ]
    rows += [(T0 * factor + every * 200, "cellar", "temperature", -999)]
    rows += [(T0 * factor + every * k, "loft", "temperature", 20) for k in range(500)]
    path = written(tmp_path / "a.csv", "time,device,quantity,value", rows)
    with pytest.raises(DataError) as caught:
        read(path)
    assert str(caught.value) == (
        f"{path}, line 3: in the column 'quantity', the line has 'humidity', and the previous "
        "reading of the sensor, in line 2, has 'temperature'. The readings of each sensor "
        "alternate in this way, and their values alternate, too. So the readings seem to be of "
        "different quantities. Keep only the rows with one of these words or numbers, or remove "
        "the column to use all readings."
    )


@pytest.mark.parametrize(
    ("every", "words", "spread"),
    [
        (600, ("gw1", "gw2"), 0),  # equal values over two gateways in turn
        (600, ("0", "10", "20", "30", "40", "50"), 0),  # the minute
        (43_200, ("morning", "evening"), 9),
        (43_199.6, ("morning", "evening"), 9),  # by a clock that is fast
        (7200, tuple(map(str, range(0, 24, 2))), 9),  # the hour
        (86_400, ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"), 9),
    ],
)
def test_labels_that_alternate_without_the_values_or_with_the_date_are_read(
    tmp_path, every, words, spread
):
    rng = random.Random(0)
    rows = [
        (T0 + every * k + 3 * rng.random(), device, words[label], spread * label + rng.random())
        for k in range(200)
        for label in (k % len(words),)
        for device in ("hall", "attic")
    ]
    path = written(tmp_path / "a.csv", "time,device,label,value", rows)
    assert read(path).sensors == ("hall", "attic")


def test_labels_of_a_step_count_may_follow_from_the_date(tmp_path):
    """The length of a step is unknown, so it may be a day."""
    days = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
    rows = [
        (k, device, days[k % 7], 9 * (k % 7) + k % 2)
        for k in range(200)
        for device in ("hall", "attic")
    ]
    path = written(tmp_path / "a.csv", "step,device,weekday,value", rows)
    assert read(path).sensors == ("hall", "attic")


@pytest.mark.parametrize("interval", [None, 1200.0])
@pytest.mark.parametrize("gateways", [2, 3, 5])
def test_readings_over_several_gateways_are_averaged(tmp_path, interval, gateways):
    """Words that differ from reading to reading are no quantities."""
    rng = random.Random(0)
    rows = [
        (T0 + 600 * k + rng.random(), device, f"gw{rng.randrange(gateways)}", 20 + k % 7)
        for k in range(200)
        for device in ("hall", "attic")
    ]
    path = written(tmp_path / "a.csv", "time,device,gateway,value", rows)
    assert read(path, interval).sensors == ("hall", "attic")


def test_numbered_quantities_are_found_in_a_file_that_is_sorted_by_them(tmp_path):
    """The first 500 rows, which show what a column holds, have the first quantity only."""
    rows = [(T0 + 600 * k, "hall", q, 20 * q + k % 7) for q in (1, 2) for k in range(600)]
    path = written(tmp_path / "a.csv", "time,sensor,quantity,value", rows)
    with pytest.raises(DataError, match=r"line 602: .* 'quantity', the two lines have '1' and '2'"):
        read(path)


@pytest.mark.parametrize("text", ["{:.5E}", "{:.0e}"])
def test_times_that_a_spreadsheet_has_rounded_are_rejected(tmp_path, text):
    rows = [(text.format((T0 + 600 * k) * 1000), k % 7) for k in range(3000)]
    path = written(tmp_path / "a.csv", "time,hall", rows)
    with pytest.raises(DataError) as caught:
        read(path)
    first = text.format(T0 * 1000)
    assert str(caught.value) == (
        f"{path}, line 2: the time is {first!r}, so a spreadsheet has rounded it; use the original "
        "file, or format the column as a number without decimals, and save it again."
    )


def shortest(at):
    """Return a time as Java, Spark and Julia write it."""
    mantissa, exponent = f"{at:.18e}".split("e+")
    return f"{mantissa.rstrip('0')}E{int(exponent)}"


@pytest.mark.parametrize("write", ["{:.18e}".format, shortest])
def test_times_with_an_exponent_and_all_digits_are_read(tmp_path, write):
    """As `numpy.savetxt` writes them, and others."""
    rows = [(write(T0 + 600 * k), f"{k % 7:.18e}") for k in range(50)]
    recording = read(written(tmp_path / "a.csv", "time,hall", rows))
    assert (recording.start, recording.interval, len(recording.values)) == (T0, 600.0, 50)


@pytest.mark.parametrize(
    ("header", "row", "left_out"),
    [
        (
            "result,table,_start,_time,hall",
            ("_result", 0, T0, "{at}", "{x}"),
            "result, table, _start",
        ),
        (
            "created_at,hall,latitude,elevation",
            ("{at}", "{x}", 48.1, 523),
            "latitude, elevation",
        ),
        ("datetime,timestamp,hall", ("2026-03-02", "{at}", "{x}"), "datetime"),
        ("time,step,hall,TS", ("{at}", "{k}", "{x}", "{at}"), "step, TS"),
    ],
)
def test_columns_that_are_no_sensors_are_left_out(tmp_path, header, row, left_out):
    rows = [
        [str(cell).format(at=T0 + 600 * k, k=k, x=20 + k % 7) for cell in row] for k in range(50)
    ]
    recording = read(written(tmp_path / "a.csv", header, rows))
    assert recording.sensors == ("hall",)
    assert recording.source.endswith(f"These are not sensors, and are left out: {left_out}.")


@pytest.mark.parametrize("name", ["station", "location", "raum", "device"])
@pytest.mark.parametrize("others", [["hall"], ["hall", "attic"]])
def test_a_sensor_that_is_called_like_the_sensors_is_a_sensor(tmp_path, name, others):
    rows = [(T0 + 600 * k, *(20.5 + k % 7 for _ in (name, *others))) for k in range(50)]
    rows.insert(0, ("", *("°C" for _ in (name, *others))))
    recording = read(written(tmp_path / "a.csv", ",".join(["time", name, *others]), rows))
    assert recording.sensors == (name, *others)
    assert len(recording.values) == 50


def test_a_sensor_on_a_table_is_a_sensor(tmp_path):
    rows = [(T0 + 600 * k, 20.5 + k % 7, 21.5 + k % 5) for k in range(50)]
    recording = read(written(tmp_path / "a.csv", "time,table,elevation", rows))
    assert recording.sensors == ("table", "elevation")


def test_a_day_is_that_of_its_time_in_summer_and_winter(tmp_path):
    """Days of a place whose midnight is at 00:00 UTC in winter, and at 23:00 in summer."""
    days = [T0 + 86_400 * k - 3600 * (k > 80) for k in range(300)]
    path = written(tmp_path / "a.csv", "time,hall", [(at, k % 7) for k, at in enumerate(days)])
    assert read(path).start == T0


@pytest.mark.parametrize("first", [-300.0, -290.0, 250.0])
def test_a_first_reading_out_of_step_does_not_shift_the_grid(tmp_path, first):
    """As after a start of the logger; the other readings are up to 2 s early or late."""
    rng = random.Random(0)
    rows = [
        (T0 + 600 * k + (first if k == 0 else rng.uniform(-2, 2)), 20 + k % 7) for k in range(200)
    ]
    recording = read(written(tmp_path / "a.csv", "time,hall", rows))
    assert abs(recording.start % 600.0 - 300.0) > 295.0
    assert recording.observed.sum() >= 199


def test_several_units_in_a_wide_file_are_noticed(tmp_path):
    rows = [(T0 + 600 * k, 20 + k % 7, "°C" if k < 30 else "°F") for k in range(50)]
    path = written(tmp_path / "a.csv", "time,hall,unit", rows)
    with pytest.raises(DataError) as caught:
        read(path)
    assert str(caught.value) == (
        f"{path}, line 32: the unit is '°F', and in line 2 it is '°C'; convert all readings to one "
        "unit, or keep the rows of one unit."
    )
    assert read(written(path, "time,hall,unit", rows[:30])).sensors == ("hall",)


def test_a_column_of_many_numbers_is_no_label(tmp_path):
    """Such as a counter that stands still at first."""
    rows = [(T0 + 600 * (k // 2), "hall", max(0, k - 600), k % 7) for k in range(900)]
    path = written(tmp_path / "a.csv", "time,sensor,counter,value", rows)
    assert len(read(path).values) == 450
