"""Recordings: moved in time, and with the gaps of the papers."""

from datetime import UTC, datetime

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support.recordings import data_source, small_recording

from edge_tvbo.simulation.recording import shift_to_today

DAY = 86_400.0


LAB = data_source().load("lab-sample")


@given(st.floats(0, 4e9))
def test_shifted_recording_ends_today_and_keeps_its_time_of_day(now):
    moved = shift_to_today(LAB, now)
    end = moved.start + len(moved.values) * moved.interval

    assert end - DAY <= now < end
    assert (moved.start - LAB.start) % DAY == 0
    assert moved.sensors == LAB.sensors


def test_recording_that_ends_at_noon_is_moved_to_the_present_day():
    values = np.zeros((12, 3))
    morning = small_recording(start=0.0, interval=3600.0, values=values, observed=values == 0.0)
    now = datetime(2026, 11, 21, 20, tzinfo=UTC).timestamp()

    assert shift_to_today(morning, now).start == now - 20 * 3600


def test_gaps_of_the_papers_count_as_observed():
    recording = data_source().load("lab-sample", "paper")

    assert recording.observed.all() and recording.replies is None


def test_sensors_reply_in_filled_gaps_without_being_observed():
    recording = data_source().load("lab-sample", "filled")

    assert recording.replies.all() and LAB.replies is None
    assert (recording.observed == LAB.observed).all() and not LAB.observed.all()
    assert recording.values is not None and (recording.values == LAB.values).all()
