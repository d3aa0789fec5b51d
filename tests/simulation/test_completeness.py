"""Completeness: the texts on a recording, and the rows that are used."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.recordings import small_recording

from edge_tvbo.errors import DataError
from edge_tvbo.simulation.completeness import (
    basis,
    complete_rows,
    few_readings,
    incomplete_text,
    understood,
)
from edge_tvbo.simulation.row_range import RowRange


def recording(observed, **changes):
    """Return a recording of up to five sensors at 10 minutes, with these observed cells."""
    values = np.arange(observed.size, dtype=float).reshape(observed.shape)
    sensors = ("a", "b", "c", "d", "e")[: observed.shape[1]]
    return small_recording(sensors=sensors, values=values, observed=observed, **changes)


def polled_in_turn(rows, sensors=4):
    """Return the cells of a recording in which one sensor after the other was read."""
    return np.arange(rows)[:, None] % sensors == np.arange(sensors)


def test_three_lines_say_what_was_understood():
    observed = np.ones((144, 4), np.bool_)
    observed[10:16, 2] = False
    assert understood(recording(observed)) == [
        "sensors: 4 (a, b, c, d), 0 to 575 °C",
        "intervals: 144 of 10 min, from 2004-03-01T00:00:00Z to 2004-03-01T23:50:00Z",
        "gaps: 1.0 % of the readings are missing; the longest gap is 60 min, in the readings of c",
    ]
    assert understood(recording(np.ones((3, 4), np.bool_)))[2] == "gaps: none"


def test_a_single_missing_reading_is_not_rounded_to_no_reading():
    observed = np.ones((600, 4), np.bool_)
    observed[3, 1] = False
    some = recording(observed)
    assert understood(some)[2].startswith("gaps: 0.04 % of the readings are missing")
    assert "; 0.04 % of the readings in these intervals are missing" in basis(some, 0, 600)


def test_range_of_readings_with_a_large_offset_shows_how_they_differ():
    observed = np.ones((3, 3), np.bool_)
    values = 101_325.0 + 10.0 * np.arange(9.0).reshape(3, 3)
    pressure = small_recording(values=values, observed=observed, unit="Pa")
    assert understood(pressure)[0].endswith("101325 to 101405 Pa")


@pytest.mark.parametrize(
    ("interval", "text"), [(0.1, "0.1 s"), (90.0, "90 s"), (150.0, "2.5 min"), (9000.0, "2.5 h")]
)
def test_the_interval_is_not_rounded_to_whole_units(interval, text):
    some = recording(np.ones((30, 4), np.bool_), interval=interval)
    assert understood(some)[1].startswith(f"intervals: 30 of {text}, from ")
    assert basis(some, 0, 30).endswith(f"(in 30 of 30 intervals of {text})")


def test_complete_recording_is_unchanged():
    whole = recording(np.ones((30, 4), np.bool_))
    assert complete_rows(whole, RowRange(0, 30)) is whole


def test_rows_with_readings_of_fewer_than_half_of_the_sensors_are_not_used():
    observed = np.ones((60, 4), np.bool_)
    observed[20:40] = polled_in_turn(20)
    observed[50, :2] = False
    found = complete_rows(recording(observed, replies=np.ones((60, 4), np.bool_)), RowRange(0, 60))
    assert not found.observed[20:40].any() and not found.replies[20:40].any()
    assert (found.observed[:20] == observed[:20]).all()
    assert (found.observed[40:] == observed[40:]).all() and found.replies[40:].all()
    assert basis(found, 0, 60) == (
        "based on 158 readings of 4 sensors (in 40 of 60 intervals of 10 min); 1.2 % of the "
        "readings in these intervals are missing, and were filled in"
    )


def test_sensors_that_were_never_read_on_the_training_days_do_not_count():
    """Two of five sensors are dead, and another is read in every other row: 2 of 3, or 2 of 5."""
    observed = np.ones((60, 5), np.bool_)
    observed[:40, 3:] = False
    observed[::2, 2] = False
    found = complete_rows(recording(observed), RowRange(0, 40))
    assert found.observed.any(axis=1).all()


def test_all_sensors_count_if_most_of_them_were_never_read_on_the_training_days():
    observed = np.ones((60, 4), np.bool_)
    observed[:30, 1:] = False
    found = complete_rows(recording(observed), RowRange(0, 30))
    assert not found.observed[:30].any() and found.observed[30:].all()


def test_sparse_recording_is_refused_with_the_interval_that_helps():
    with pytest.raises(DataError) as caught:
        complete_rows(recording(polled_in_turn(864)), RowRange(0, 864))
    assert str(caught.value) == (
        "small: too sparse (864 readings): only 0 of 864 intervals of 10 min have readings of at "
        "least half of the 4 sensors. A model needs at least 24 such intervals; in the other "
        "intervals, most values are unknown.\n"
        "With --interval 20min, 432 of 432 intervals have readings of enough sensors."
    )


def test_of_two_sensors_both_must_be_read():
    """A single reading is always the best, so the regret of each policy would be 0."""
    with pytest.raises(DataError) as caught:
        complete_rows(recording(polled_in_turn(864, sensors=2)), RowRange(0, 864))
    assert str(caught.value) == (
        "small: too sparse (864 readings): only 0 of 864 intervals of 10 min have readings of both "
        "sensors. A model needs at least 24 such intervals; in the other intervals, most values "
        "are unknown.\nWith --interval 20min, 432 of 432 intervals have readings of enough sensors."
    )
    some = np.ones((60, 2), np.bool_)
    some[50:, 0] = False
    found = complete_rows(recording(some), RowRange(0, 60))
    assert found.observed[:50].all() and not found.observed[50:].any()
    left_out = incomplete_text(recording(some), found, RowRange(0, 60))
    assert left_out == "10 intervals in which only one of two sensors was read"
    alone = recording(np.ones((60, 1), np.bool_))
    assert complete_rows(alone, RowRange(0, 60)) is alone


@pytest.mark.parametrize("interval", [84.0, 600.0])
def test_a_longer_interval_need_not_be_a_multiple(interval):
    """An irregular file has an interval such as 84 s, of which no usual interval is a multiple."""
    some = recording(polled_in_turn(864), interval=interval)
    with pytest.raises(DataError, match=r"\nWith --interval \d+min, \d+ of \d+ intervals have"):
        complete_rows(some, RowRange(0, 864))


def test_a_longer_interval_is_named_if_most_rows_are_left_out():
    observed = polled_in_turn(864)
    observed[:30] = True
    some = recording(observed)
    left_out = incomplete_text(some, complete_rows(some, RowRange(0, 864)), RowRange(0, 864))
    assert left_out == (
        "834 intervals in which fewer than half of the sensors were read. "
        "With --interval 20min, 432 of 432 intervals have readings of enough sensors."
    )
    whole = recording(np.ones((60, 4), np.bool_))
    assert not incomplete_text(whole, whole, RowRange(0, 60))


def test_recording_of_one_sensor_alone_is_refused_for_good():
    observed = np.zeros((100, 4), np.bool_)
    observed[:, 1] = True
    observed[0] = True
    with pytest.raises(DataError, match="let all sensors report by themselves for some days"):
        complete_rows(recording(observed), RowRange(0, 100))


def test_sensors_with_very_few_readings_are_named():
    observed = np.ones((60, 4), np.bool_)
    observed[1:, 2], observed[24:, 3] = False, False
    assert few_readings(recording(observed), 0, 60).startswith("very few readings of c (1): ")
    assert not few_readings(recording(observed[:, :2]), 0, 60)


def test_few_rows_are_not_few_readings_of_each_sensor():
    assert not few_readings(recording(np.ones((10, 4), np.bool_)), 0, 10)


@given(
    rows=st.integers(1, 60),
    incomplete=st.floats(0.0, 0.19),
    silent=st.integers(0, 60),
)
def test_a_short_recording_with_mostly_complete_rows_is_not_too_sparse(rows, incomplete, silent):
    """Intervals without any reading, such as an outage, do not count."""
    observed = np.ones((rows + silent, 4), np.bool_)
    observed[: int(incomplete * rows), 1:] = False
    observed[rows - 1 : rows - 1 + silent] = False
    found = complete_rows(recording(observed), RowRange(0, len(observed)))
    assert found.observed.any(axis=1).sum() == rows - int(incomplete * rows)


def test_a_short_sparse_recording_is_refused_with_the_number_that_it_needs():
    observed = np.ones((16, 4), np.bool_)
    observed[12:, 1:] = False
    with pytest.raises(
        DataError, match=r"too sparse .*only 12 of 16 .* A model needs at least 13 such"
    ):
        complete_rows(recording(observed), RowRange(0, 16))


def test_few_but_complete_rows_are_used():
    few = recording(np.ones((5, 4), np.bool_))
    assert complete_rows(few, RowRange(0, len(few.values))) is few
