"""Reading database: stored readings come back, and a day of them writes few bytes."""

import logging
import shutil
import tracemalloc
import zlib
from contextlib import closing
from pathlib import Path
from random import Random

import pytest
from edge_tvbo_adapters.storage.reading_db import (
    READINGS,
    ReadingDatabase,
    read_readings,
)
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from support.directories import directory_in_memory
from support.examples import max_examples

from edge_tvbo.errors import DataError
from edge_tvbo.messages.readings import RecordedReading

MIB = 2**20
START = 1_772_438_400.0
readings = st.builds(
    RecordedReading,
    field=st.sampled_from(["lab", "hall"]),
    sensor=st.sampled_from(["a", "b", "mote-7"]),
    at=st.integers(0, 10**7).map(lambda ms: round(START + ms / 1000, 3)),
    value=st.floats(allow_nan=False, allow_infinity=False),
    unit=st.sampled_from(["", "°C", "°F"]),
)
BATCH_WITHOUT_UNIT = bytes.fromhex(  # written before batches had a unit
    "789c15c4b10d00200804c05da83fe64108ee422874ff21d42bae4a"
    "b6408e3434d37c2ee7874a0b368ad0b771044c07bb2f22580b61"
)


def open_database(directory, max_size=16 * MIB):
    return closing(ReadingDatabase(str(directory), "k", max_size))


@max_examples(30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.lists(readings, min_size=1, max_size=20), max_size=4),
    st.integers(-1, 10**4),
    st.integers(-1, 10**4),
)
def test_readings_of_a_field_and_a_time_come_back(batches, first, last):
    with directory_in_memory() as path:
        directory = str(path)
        with open_database(directory) as database:
            assert all(database.store(batch) for batch in batches)
        if not batches:
            return
        every = [each for batch in batches for each in batch]
        for field in ("lab", "hall"):
            found = list(read_readings(directory, "k", field))
            assert sorted(found) == sorted(each for each in every if each.field == field)
            assert [each.at for each in found] == sorted(each.at for each in found)
            some = list(read_readings(directory, "k", field, START + first, START + last))
            assert some == [each for each in found if START + first <= each.at < START + last]


def test_a_day_of_46_sensors_every_10_minutes_writes_little(tmp_path):
    """The bytes are those that the kernel counts for this process."""
    rng = Random(1)
    before = bytes_written()
    with open_database(tmp_path) as database:
        for batch in range(96):
            at = START + 900 * batch
            assert database.store(
                [
                    RecordedReading(
                        "lab", f"mote-{n}", at + rng.random() * 900, rng.gauss(23, 2), "°C"
                    )
                    for n in range(46)
                    for _ in range(2 if batch % 2 else 1)
                ]
            )
    written = bytes_written() - before
    assert written < 1.5 * MIB
    assert len(read_readings(str(tmp_path), "k", "lab")) == 46 * 144


def test_a_million_readings_are_within_the_daily_budget_of_writes(tmp_path):
    """A twelfth of them is written; the budget is 24 MiB a day."""
    rng = Random(1)
    before = bytes_written()
    with open_database(tmp_path) as database:
        for batch in range(8):
            readings = [
                RecordedReading(
                    "lab", f"mote-{n % 46}", START + batch * 900 + n / 11.6, rng.gauss(23, 2), "°C"
                )
                for n in range(1_000_000 // 96)
            ]
            assert database.store(readings)
        reported = database.written
    written = (bytes_written() - before) * 12
    print(f"{written / MIB:.1f} MiB a day")
    assert written < 24 * MIB
    assert reported > 0


def test_readings_are_read_in_little_memory(tmp_path):
    """A reading takes 22 bytes, and not the 170 of a `RecordedReading` with its numbers."""
    rng = Random(1)
    with open_database(tmp_path) as database:
        for batch in range(50):
            at = START + 600 * batch
            assert database.store(
                [RecordedReading("lab", f"n{n % 46}", at + n, rng.random()) for n in range(1000)]
            )
    tracemalloc.start()
    try:
        found = read_readings(str(tmp_path), "k", "lab")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(found) == 50_000
    assert peak < 60 * len(found)


def bytes_written():
    (line,) = [each for each in Path("/proc/self/io").read_text().splitlines() if "wchar" in each]
    return int(line.split()[1])


@pytest.mark.parametrize("suffixes", [("", "-wal", "-shm"), ("",), ("-wal",)])
@pytest.mark.parametrize("replaced", [False, True])
def test_readings_are_stored_in_the_present_file_after_one_was_removed_or_replaced(
    tmp_path, caplog, suffixes, replaced
):
    caplog.set_level(logging.WARNING)
    path, other = tmp_path / "k.readings.db", tmp_path / "other"
    with open_database(other) as database:
        assert database.store([RecordedReading("lab", "a", START, 1.0)])
    with open_database(tmp_path) as database:
        assert database.store([RecordedReading("lab", "a", START + 1, 2.0)])
        for suffix in suffixes:
            path.with_name(path.name + suffix).unlink()
        if replaced and "" in suffixes:
            shutil.move(other / path.name, path)
        for n in (2, 3):
            assert database.store([RecordedReading("lab", "a", START + n, n + 1.0)])
        found = [each.value for each in read_readings(str(tmp_path), "k", "lab")]
    earlier = [1.0] * replaced if "" in suffixes else [2.0]
    assert found == [*earlier, 3.0, 4.0]
    (line,) = [record.getMessage() for record in caplog.records]
    assert line == (
        f"readings: {path} was removed or replaced while the daemon was running; the record "
        "of readings is stored in the present file from now on"
    )


@pytest.mark.parametrize("blob", [b"", b"rubbish", zlib.compress(b"[]"), "text"])
def test_an_unreadable_batch_is_skipped_and_logged(tmp_path, caplog, blob):
    caplog.set_level(logging.WARNING)
    with open_database(tmp_path) as database:
        for n in range(3):
            assert database.store([RecordedReading("lab", "a", START + n, float(n))])
        database._connect().execute("UPDATE batches SET entries = ? WHERE id = 2", (blob,))
    assert [each.value for each in read_readings(str(tmp_path), "k", "lab")] == [0.0, 2.0]
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith(f"{tmp_path}/k.readings.db: batch 2 is skipped: ")


def test_readings_that_an_earlier_version_stored_have_no_unit(tmp_path):
    with open_database(tmp_path) as database:
        row = ("lab", int(START), int(START) + 7, BATCH_WITHOUT_UNIT)
        assert database.store_batches([row])
        assert database.store([RecordedReading("lab", "a", START + 8, 70.0, "°F")])
    assert list(read_readings(str(tmp_path), "k", "lab")) == [
        RecordedReading("lab", "a", START, 20.5, ""),
        RecordedReading("lab", "b", START + 7.25, 21.0, ""),
        RecordedReading("lab", "a", START + 8, 70.0, "°F"),
    ]


def test_without_a_file_the_error_says_when_readings_are_recorded(tmp_path):
    with pytest.raises(DataError, match="no recorded readings yet"):
        read_readings(str(tmp_path), "k", "lab")


@pytest.mark.parametrize("pages", [slice(20, 23), slice(-3, None), slice(3, 20)])
def test_readings_in_intact_parts_of_a_damaged_file_are_read(tmp_path, caplog, pages):
    stored = [
        RecordedReading("lab", f"mote-{n}", START + 600.0 * batch + n, 20.0 + batch, "°C")
        for batch in range(1000)
        for n in range(8)
    ]
    with open_database(tmp_path) as database:
        assert all(database.store(stored[at : at + 8]) for at in range(0, len(stored), 8))
    path = READINGS.file(str(tmp_path), "k")
    content = [path.read_bytes()[at : at + 2048] for at in range(0, path.stat().st_size, 2048)]
    assert len(content) > 40
    content[pages] = [b"\xff" * 2048] * len(content[pages])
    path.write_bytes(b"".join(content))

    found = list(read_readings(str(tmp_path), "k", "lab"))

    assert 0.4 * len(stored) < len(found) < len(stored)
    assert set(found) < set(stored)
    assert caplog.messages == [f"{path} is damaged; the readings in damaged parts are skipped"]


def test_a_damaged_file_is_read_to_its_end_even_if_the_ids_of_its_rows_are_not_in_order(tmp_path):
    stored = [RecordedReading("lab", "a", START + 600.0 * n, 20.0, "°C") for n in range(1000)]
    with open_database(tmp_path) as database:
        assert all(database.store([each]) for each in stored)
    path = READINGS.file(str(tmp_path), "k")
    content = bytearray(path.read_bytes())
    leaves = [at for at in range(0, len(content), 2048) if content[at] == 0x0D]
    leaf, damaged = leaves[10], leaves[11]
    rows = int.from_bytes(content[leaf + 3 : leaf + 5])
    cell = leaf + int.from_bytes(content[leaf + 8 + 2 * (rows - 2) : leaf + 10 + 2 * (rows - 2)])
    assert content[cell] < 0x80 <= content[cell + 1] and content[cell + 2] < 0x80  # size, id
    content[cell + 1 : cell + 3] = b"\x80\x05"  # the id 5
    content[damaged : damaged + 2048] = b"\xff" * 2048
    path.write_bytes(content)

    found = list(read_readings(str(tmp_path), "k", "lab"))

    assert 500 < len(found) == len(set(found)) < 1000


def test_a_damaged_file_is_a_data_error(tmp_path):
    READINGS.file(str(tmp_path), "k").write_bytes(b"rubbish" * 999)
    with pytest.raises(DataError, match="cannot be read: file is not a database"):
        read_readings(str(tmp_path), "k", "lab")
