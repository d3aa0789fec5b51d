"""Reading recorder: accepted readings are written in batches, at most so many a day."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_tvbo.daemon.batch_recorder import MAX_RETRY_DELAY_S
from edge_tvbo.daemon.reading_recorder import MAX_DAILY_READINGS, MAX_PENDING, ReadingRecorder
from edge_tvbo.messages.events import Reading

EVERY = 900.0
START = 1.8e9
UNITS = {"lab": "°C", "hall": ""}


class Memory:
    """A database without a disk, which may be full."""

    def __init__(self):
        self.readings = []
        self.full = False
        self.written = 0
        self.closed = False

    def store(self, readings):
        if not self.full:
            self.readings += readings
        return not self.full

    def close(self):
        self.closed = True


def reading(sensor, at, value=20.0):
    return Reading(sensor, value, START + at, START + at)


def test_readings_are_written_when_a_batch_is_due_or_the_recorder_is_closed():
    memory = Memory()
    recorder = ReadingRecorder(memory, EVERY, sensors=2, units=UNITS)
    recorder.service(0.0)
    recorder.add("lab", reading("a", 100.0))
    recorder.add("lab", reading("b", 100.0, 21.5))
    recorder.service(EVERY - 1)
    assert not memory.readings
    recorder.service(EVERY)
    assert memory.readings == [
        ("lab", "a", START + 100, 20.0, "°C"),
        ("lab", "b", START + 100, 21.5, "°C"),
    ]
    recorder.add("hall", reading("a", 200.0))
    recorder.close()
    assert memory.readings[2:] == [("hall", "a", START + 200, 20.0, "")] and memory.closed


@pytest.mark.parametrize("sensors", [1, 50, 2000])
def test_no_more_readings_are_recorded_than_a_card_can_take(sensors):
    memory = Memory()
    recorder = ReadingRecorder(memory, EVERY, sensors, UNITS)
    every_100_ms = range(6000)
    for n in every_100_ms:
        recorder.add("lab", reading("a", n / 10))
        recorder.add("hall", reading("a", n / 10))
    recorder.close()
    allowed = 600 / recorder.min_spacing + 1
    kept = [each for each in memory.readings if each.field == "lab"]
    assert 0.5 * min(allowed, 6000) <= len(kept) <= allowed
    assert 86_400 / recorder.min_spacing * sensors == pytest.approx(MAX_DAILY_READINGS)


def test_readings_are_recorded_after_the_clock_was_set_back():
    memory = Memory()
    recorder = ReadingRecorder(memory, EVERY, sensors=2000, units=UNITS)
    for at in (1e8, 0, 1, 1000):
        recorder.add("lab", reading("a", at))
    recorder.close()
    assert [each.at - START for each in memory.readings] == [1e8, 0, 1000]


def test_on_a_full_disk_the_oldest_readings_are_dropped():
    memory = Memory()
    memory.full = True
    recorder = ReadingRecorder(memory, EVERY, sensors=1, units=UNITS)
    recorder.service(0.0)
    for n in range(3 * MAX_PENDING):
        recorder.add("lab", reading("a", 1000.0 * n))
        recorder.service(1.0)
    assert recorder.failing
    memory.full = False
    recorder.service(1.0 + MAX_RETRY_DELAY_S)
    assert not recorder.failing
    assert [each.at - START for each in memory.readings] == [
        1000.0 * n for n in range(MAX_PENDING, 3 * MAX_PENDING)
    ]


def test_readings_that_an_unset_clock_dated_are_not_recorded():
    memory = Memory()
    recorder = ReadingRecorder(memory, EVERY, sensors=2, units=UNITS)
    recorder.add("lab", Reading("a", 20.0, 100.0, 100.0))
    recorder.close()
    assert memory.readings == []


@given(st.lists(st.sampled_from(["add", "fill", "free", "reload", "service"]), max_size=60))
def test_no_reading_is_lost_by_reloads_while_the_disk_is_full(steps):
    memory, now = Memory(), 0.0
    recorder = ReadingRecorder(memory, EVERY, sensors=1, units=UNITS)
    added = []
    for step in [*steps, "reload", "free", "service"]:
        now += 100.0
        if step == "add":
            added.append(START + now)
            recorder.add("lab", reading("a", now))
        elif step == "reload":
            before, recorder = recorder, ReadingRecorder(memory, EVERY, sensors=1, units=UNITS)
            recorder.take_over(before)
            before.close()
        elif step == "service":
            recorder.service(now)
        else:
            memory.full = step == "fill"
    recorder.close()
    assert [each.at for each in memory.readings] == added


def test_a_recorder_that_takes_over_readings_writes_them_immediately():
    memory = Memory()
    before, after = (ReadingRecorder(memory, EVERY, sensors=1, units=UNITS) for _ in range(2))
    before.add("lab", reading("a", 100.0))
    memory.full = True
    after.take_over(before)
    after.service(1000.0)
    assert after.failing and after.wake_at() == 1000.0 + MAX_RETRY_DELAY_S
    memory.full = False
    after.service(1000.0 + MAX_RETRY_DELAY_S)
    assert not after.failing and len(memory.readings) == 1


def test_readings_that_are_lost_when_the_recorder_is_closed_are_counted_in_the_log(caplog):
    memory = Memory()
    memory.full = True
    recorder = ReadingRecorder(memory, EVERY, sensors=2, units=UNITS)
    for sensor in ("a", "b"):
        recorder.add("lab", reading(sensor, 100.0))
    recorder.close()
    assert memory.closed
    assert caplog.messages == ["readings: the last batch cannot be stored; lost: 2 readings"]
