"""Recordings, found and moved."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from edge_tvbo import datafiles

DAY = 86_400.0


LAB = datafiles.recording("lab-sample")


@given(st.floats(0, 4e9))
def test_a_recording_brought_up_ends_today_and_keeps_its_time_of_day(now):
    moved = datafiles.brought_up(LAB, now)
    end = moved.start + len(moved.values) * moved.interval

    assert end - DAY <= now < end
    assert (moved.start - LAB.start) % DAY == 0
    assert moved.sensors == LAB.sensors


def test_a_recording_that_ends_at_noon_is_of_the_present_day():
    class Morning:
        start, interval, values = 0.0, 3600.0, range(12)

    now = datetime(2026, 11, 21, 20, tzinfo=UTC).timestamp()

    assert datafiles.brought_up(Morning(), now).start == now - 20 * 3600
