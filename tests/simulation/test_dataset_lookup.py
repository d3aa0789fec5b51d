"""Dataset lookup: recordings moved in time."""

from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.recordings import data_source, small_recording

from edge_tvbo.simulation import dataset_lookup

DAY = 86_400.0


LAB = data_source().load("lab-sample")


@given(st.floats(0, 4e9))
def test_shifted_recording_ends_today_and_keeps_its_time_of_day(now):
    moved = dataset_lookup.shift_to_today(LAB, now)
    end = moved.start + len(moved.values) * moved.interval

    assert end - DAY <= now < end
    assert (moved.start - LAB.start) % DAY == 0
    assert moved.sensors == LAB.sensors


def test_recording_that_ends_at_noon_is_moved_to_the_present_day():
    values = np.zeros((12, 3))
    morning = small_recording(start=0.0, interval=3600.0, values=values, observed=values == 0.0)
    now = datetime(2026, 11, 21, 20, tzinfo=UTC).timestamp()

    assert dataset_lookup.shift_to_today(morning, now).start == now - 20 * 3600


def test_gaps_of_the_papers_count_as_observed():
    recording = data_source().load("lab-sample", "paper")

    assert recording.observed.all() and recording.replies is None


def test_sensors_reply_in_filled_gaps_without_being_observed():
    recording = data_source().load("lab-sample", "filled")

    assert recording.replies.all() and LAB.replies is None
    assert (recording.observed == LAB.observed).all() and not LAB.observed.all()
    assert recording.values is not None and (recording.values == LAB.values).all()


def test_described_range_shows_how_the_readings_differ():
    values = 101_325.0 + 5.0 * np.arange(15.0).reshape(5, 3)
    assert dataset_lookup.describe(small_recording(values=values, unit="Pa"))["range"] == (
        "101325 to 101395 Pa"
    )
    assert dataset_lookup.describe(small_recording(unit=""))["range"] == "9 to 99"


@pytest.mark.parametrize(("missing", "text"), [(0, "100.0%"), (1, "99.99%"), (150, "98.5%")])
def test_a_missing_reading_is_not_rounded_to_100_percent(missing, text):
    values = np.ones((5000, 2))
    observed = np.arange(10_000).reshape(5000, 2) >= missing
    recording = small_recording(sensors=("a", "b"), values=values, observed=observed)
    assert dataset_lookup.describe(recording)["observed"] == text


def test_readings_whose_difference_is_no_float_are_described():
    """The command data info ended with an OverflowError."""
    values = np.where(np.arange(15.0).reshape(5, 3) % 2, 1.5e308, -1.5e308)
    assert dataset_lookup.describe(small_recording(values=values, unit="Pa"))["range"] == (
        "-1.5e+308 to 1.5e+308 Pa"
    )
