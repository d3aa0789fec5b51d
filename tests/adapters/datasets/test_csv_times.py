"""Local times in CSV files: an hour that daylight saving time repeats or skips."""

import random
import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from edge_tvbo_adapters.datasets.csv import read
from edge_tvbo_adapters.datasets.csv_times import MONTH_FIRST, moment_of
from hypothesis import given
from hypothesis import strategies as st

SENSORS = ("hall", "attic")
ENDS = {  # the end of daylight saving time in UTC
    "Europe/Berlin": datetime(2026, 10, 25, 1, tzinfo=UTC),
    "America/New_York": datetime(2026, 11, 1, 6, tzinfo=UTC),
    "Australia/Sydney": datetime(2026, 4, 4, 16, tzinfo=UTC),
}
BEGINNINGS = {  # the beginning of daylight saving time in UTC
    "Europe/Berlin": datetime(2026, 3, 29, 1, tzinfo=UTC),
    "Europe/London": datetime(2026, 3, 29, 1, tzinfo=UTC),
    "America/New_York": datetime(2026, 3, 8, 7, tzinfo=UTC),
    "Australia/Sydney": datetime(2026, 10, 3, 16, tzinfo=UTC),
}


def moments(end, minutes):
    """Return regular times in UTC, from six hours before the `end` until six hours after it."""
    start, step = end - timedelta(hours=6), timedelta(minutes=minutes)
    return [start + number * step for number in range(12 * 60 // minutes)]


def written(path, times, form, *, is_long):
    """Write a CSV file; return the line of the first row of each time, by the row's number."""
    if is_long:
        rows = [
            f"{at:{form}},{name},2{index % 9}" for index, at in enumerate(times) for name in SENSORS
        ]
    else:
        rows = [f"{at:{form}},2{index % 9},1{index % 7}" for index, at in enumerate(times)]
    header = "time,sensor,value" if is_long else f"time,{','.join(SENSORS)}"
    path.write_text("\n".join([header, *rows, ""]))
    return [2 + index * (len(SENSORS) if is_long else 1) for index in range(len(times))]


def repeated(recording):
    found = re.search(r"repeat an hour from line ([0-9]+), as", recording.source)
    return None if found is None else int(found[1])


@given(st.sampled_from(sorted(ENDS)), st.sampled_from([1, 5, 10, 15, 30, 60]), st.booleans())
def test_line_of_the_repeated_hour_is_named(tmp_path_factory, zone, minutes, is_long):
    path = tmp_path_factory.getbasetemp() / "local.csv"
    times = moments(ENDS[zone], minutes)
    local = [at.astimezone(ZoneInfo(zone)) for at in times]

    lines = written(path, local, "%Y-%m-%d %H:%M", is_long=is_long)

    assert repeated(read(path)) == lines[times.index(ENDS[zone])]
    for form, zoned in (("%Y-%m-%d %H:%M%z", local), ("%Y-%m-%d %H:%M", times)):
        written(path, zoned, form, is_long=is_long)
        assert repeated(read(path)) is None


def skipped(recording):
    found = re.search(r"skip an hour before line ([0-9]+), as", recording.source)
    return None if found is None else int(found[1])


@given(st.sampled_from(sorted(BEGINNINGS)), st.sampled_from([1, 5, 10, 15, 30, 60]), st.booleans())
def test_line_after_the_skipped_hour_is_named(tmp_path_factory, zone, minutes, is_long):
    path = tmp_path_factory.getbasetemp() / "local.csv"
    times = moments(BEGINNINGS[zone], minutes)
    local = [at.astimezone(ZoneInfo(zone)) for at in times]

    lines = written(path, local, "%Y-%m-%d %H:%M", is_long=is_long)

    assert skipped(read(path)) == lines[times.index(BEGINNINGS[zone])]
    assert repeated(read(path)) is None
    for form, zoned in (("%Y-%m-%d %H:%M%z", local), ("%Y-%m-%d %H:%M", times)):
        written(path, zoned, form, is_long=is_long)
        assert skipped(read(path)) is None


@pytest.mark.parametrize(("first", "last"), [(40, 100), (60, 130), (60, 190)])
def test_no_skipped_hour_is_named_at_another_gap(tmp_path, first, last):
    """The gaps, in minutes after 1 h on a Sunday, are in no whole hour, or too long."""
    path = tmp_path / "local.csv"
    start = datetime(2026, 3, 29, 1)
    times = [start + timedelta(minutes=each) for each in range(0, 400, 10)]
    written(
        path,
        [at for at in times if not first <= (at - start).total_seconds() / 60 < last],
        "%Y-%m-%d %H:%M",
        is_long=False,
    )

    assert skipped(read(path)) is None


def test_repeated_hour_is_found_in_a_file_whose_newest_reading_comes_first(tmp_path):
    path = tmp_path / "local.csv"
    local = [at.astimezone(ZoneInfo("Europe/Berlin")) for at in moments(ENDS["Europe/Berlin"], 30)]

    written(path, local[::-1], "%d.%m.%Y %H:%M", is_long=False)

    line = repeated(read(path))
    assert path.read_text().splitlines()[line - 1].startswith("25.10.2026 02:00")


@pytest.mark.parametrize("is_long", [True, False])
def test_no_repeated_hour_is_named_in_a_file_that_is_not_ordered_by_time(tmp_path, is_long):
    path = tmp_path / "local.csv"
    times = moments(ENDS["Europe/Berlin"], 30)
    random.Random(1).shuffle(times)

    written(path, times, "%Y-%m-%d %H:%M", is_long=is_long)

    assert repeated(read(path)) is None


@pytest.mark.parametrize("first", [599, 601])
@pytest.mark.parametrize("is_long", [True, False])
def test_times_that_alternate_around_a_usual_interval_have_this_interval(tmp_path, first, is_long):
    path = tmp_path / "jitter.csv"
    start = datetime(2026, 3, 2, tzinfo=UTC)
    offsets = [600 * number + (number % 2) * (first - 600) for number in range(100)]
    times = [start + timedelta(seconds=each) for each in offsets]

    written(path, times, "%Y-%m-%dT%H:%M:%SZ", is_long=is_long)

    assert read(path).interval == 600.0


def test_fractions_of_a_second_are_read():
    moment = moment_of("03/22/2026 06:00:00.250", MONTH_FIRST)
    assert moment.isoformat() == "2026-03-22T06:00:00.250000"
