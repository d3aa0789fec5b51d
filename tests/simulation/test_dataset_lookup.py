"""Recordings, found and moved."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from edge_tvbo.simulation import dataset_lookup

DAY = 86_400.0


LAB = dataset_lookup.recording("lab-sample")


@given(st.floats(0, 4e9))
def test_a_recording_brought_up_ends_today_and_keeps_its_time_of_day(now):
    moved = dataset_lookup.shift_to_today(LAB, now)
    end = moved.start + len(moved.values) * moved.interval

    assert end - DAY <= now < end
    assert (moved.start - LAB.start) % DAY == 0
    assert moved.sensors == LAB.sensors


def test_a_recording_that_ends_at_noon_is_of_the_present_day():
    class Morning:
        start, interval, values = 0.0, 3600.0, range(12)

    now = datetime(2026, 11, 21, 20, tzinfo=UTC).timestamp()

    assert dataset_lookup.shift_to_today(Morning(), now).start == now - 20 * 3600
