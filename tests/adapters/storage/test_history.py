"""History database: stored entries come back, its size is bounded, disk errors do not stop it."""

import logging
import os
import shutil
import sqlite3
import subprocess
import time
import zlib
from contextlib import closing, suppress
from pathlib import Path
from random import Random

import msgspec
import pytest
from edge_tvbo_adapters.storage import batch_db
from edge_tvbo_adapters.storage.batch_db import MAX_WAL_SIZE
from edge_tvbo_adapters.storage.batch_file import TABLE
from edge_tvbo_adapters.storage.history_db import HISTORY, HistoryDatabase, packed, unpacked
from edge_tvbo_adapters.storage.history_reader import HistoryReader
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from support.databases import is_of_later_version
from support.directories import directory_in_memory
from support.examples import max_examples
from support.history import SENSORS, history_entry

from edge_tvbo.config.mqtt_settings import Mqtt
from edge_tvbo.daemon.history_recorder import HistoryRecorder
from edge_tvbo.errors import DataError
from edge_tvbo.messages.commands import Record
from edge_tvbo.messages.documents import Decision, Ineligibility, Notice, Reason
from edge_tvbo.messages.history import HistoryEntry, PosteriorSnapshot, QuantizedArray

MIB = 2**20
USER_VERSION_AT = 60  # position of the format's number, 4 bytes, in the header of an SQLite file
MAX_SIZE = 16 * MIB
with_directory = max_examples(
    30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def open_database(directory, max_size=MAX_SIZE):
    return closing(HistoryDatabase(str(directory), "k", max_size))


def open_reader(directory):
    return closing(HistoryReader(str(directory), "k"))


def open_file(directory):
    return closing(sqlite3.connect(HISTORY.file(str(directory), "k"), isolation_level=None))


finite = st.floats(allow_nan=False, allow_infinity=False)
decisions = st.builds(
    Decision,
    interval=st.integers(0, 2**53),
    sensor=st.sampled_from(SENSORS),
    mean=finite,
    std=finite,
    ucb=finite,
    factors=st.lists(st.text(max_size=20), max_size=3),
    reason=st.sampled_from(Reason),
    width=finite | st.none(),
    runner_up=st.sampled_from(SENSORS) | st.none(),
    runner_up_ucb=finite | st.none(),
    in_turn=st.booleans(),
    ineligible=st.dictionaries(st.sampled_from(SENSORS), st.sampled_from(Ineligibility)),
)
entries = st.builds(
    HistoryEntry,
    field=st.sampled_from(["lab", "hall", "x-1"]),
    decision=decisions,
    record=st.none()
    | st.builds(
        Record,
        at=finite,
        value=finite | st.none(),
        abs_error=finite | st.none(),
        threshold=finite | st.none(),
    ),
    notices=st.lists(st.builds(Notice), max_size=2).map(tuple),
    posterior=st.none()
    | st.just(
        PosteriorSnapshot(
            ("a", "b"), QuantizedArray(0.0, 1.5, b"\0\xff"), QuantizedArray(1.0, 1.0, b"\0\0")
        )
    ),
)


# --- entries --------------------------------------------------------------------------------------


@with_directory
@given(st.lists(st.lists(entries, min_size=1, max_size=5), max_size=5))
def test_last_version_of_each_entry_is_read(batches):
    with directory_in_memory() as directory, open_database(directory) as history:
        assert all(history.store(batch) for batch in batches)
        expected = {}
        for each in (each for batch in batches for each in batch):
            expected.pop((each.field, each.decision.interval), None)
            expected[each.field, each.decision.interval] = each
        if not expected:
            return
        with open_reader(directory) as reader:
            fields = {field for field, _ in expected}
            assert reader.fields() == sorted(fields)
            for (field, number), each in expected.items():
                assert reader.entry(field, number) == each
            for field in fields:
                of_field = [each for (name, _), each in expected.items() if name == field]
                numbers = [each.decision.interval for each in of_field]
                assert reader.span(field) == (min(numbers), max(numbers))
                assert len(reader.newest(field, 99)) == len(of_field)
                assert history.latest(field) == of_field[-1] == reader.newest(field, 1)[0]


def test_newest_entries_come_first_and_ranges_in_order(tmp_path):
    with open_database(tmp_path) as history:
        for first in range(0, 30, 10):
            assert history.store([history_entry(n) for n in range(first, first + 10)])
        assert history.store([history_entry(29, text="again")])
    with open_reader(tmp_path) as reader:
        newest = reader.newest("lab", 12)
        assert [each.decision.interval for each in newest] == list(range(29, 17, -1))
        assert newest[0].decision.text == "again"
        assert [each.decision.interval for each in reader.between("lab", 8, 12)] == [
            8,
            9,
            10,
            11,
            12,
        ]
        assert reader.entry("lab", 30) is None
        assert reader.span("hall") is None


def test_reader_sees_each_batch_while_the_daemon_writes(tmp_path):
    with open_database(tmp_path) as history:
        assert history.store([history_entry(0)])
        with open_reader(tmp_path) as reader:
            for n in range(1, 50):
                assert history.store([history_entry(n)])
                assert reader.newest("lab", 1) == [history_entry(n)]


def called_in_read_only(directory, action):
    """Call `action` while a directory is read-only: only a mount keeps root from writing to it."""
    mount = ["mount", "--bind", "-o", "ro", str(directory), str(directory)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting needs more rights")
    subprocess.run(["mount", "-o", "remount,ro,bind", str(directory)], check=True)
    try:
        return action()
    finally:
        subprocess.run(["umount", str(directory)], check=True)


def newest_in(directory):
    with open_reader(directory) as reader:
        return reader.newest("lab", 1)


def test_history_is_readable_on_a_read_only_disk(tmp_path):
    with open_database(tmp_path) as history:
        assert history.store([history_entry(0)])
    assert called_in_read_only(tmp_path, lambda: newest_in(tmp_path)) == [history_entry(0)]
    (tmp_path / "k.history.db-wal").touch()  # as a command leaves it after a regular stop
    assert called_in_read_only(tmp_path, lambda: newest_in(tmp_path)) == [history_entry(0)]


def test_a_wal_on_a_read_only_disk_is_an_error_that_says_what_to_do(tmp_path):
    """SQLite cannot read a WAL without the file `-shm`, which a backup may lack."""
    copy = tmp_path / "copy"
    copy.mkdir()
    with open_database(tmp_path) as history:
        assert history.store([history_entry(0)])
        for each in ("k.history.db", "k.history.db-wal"):
            shutil.copy(tmp_path / each, copy)
    with pytest.raises(DataError, match="copy these files to a directory where this user can"):
        called_in_read_only(copy, lambda: newest_in(copy))
    assert newest_in(copy) == [history_entry(0)]


def test_error_without_a_file_names_the_setting(tmp_path):
    with pytest.raises(DataError, match=r'there is no history.*\n.*history = "64MiB"'):
        HistoryReader(str(tmp_path), "k")


# --- size and written bytes -----------------------------------------------------------------------


def size_of(directory):
    return sum(each.stat().st_size for each in directory.iterdir() if "-shm" not in each.name)


@pytest.mark.slow
def test_size_stays_bounded_over_100_000_intervals(tmp_path):
    """As many entries as 36 days of intervals of 31 s, in batches of 15 minutes."""
    pool = [history_entry(n) for n in range(64)]
    max_size, max_duration = 0, 0.0
    with open_database(tmp_path) as history:
        for first in range(0, 100_000, 29):
            batch = [renumbered(pool[n % 64], n) for n in range(first, first + 29)]
            start = time.perf_counter()
            assert history.store(batch)
            max_duration = max(max_duration, time.perf_counter() - start)
            max_size = max(max_size, size_of(tmp_path))
        last = first + 28
    assert max_size <= MAX_SIZE
    with open_reader(tmp_path) as reader:
        lowest, highest = reader.span("lab")
        assert highest == last
        assert 10_000 < last - lowest < 90_000
        assert reader.entry("lab", lowest).decision.interval == lowest
    print(f"{max_size / MIB:.1f} MiB hold {last - lowest} intervals; slowest {max_duration:.3f} s")


def renumbered(entry, number):
    decision = msgspec.structs.replace(entry.decision, interval=number)
    return msgspec.structs.replace(entry, decision=decision)


@pytest.mark.slow
def test_lowered_size_applies_from_the_next_start(tmp_path):
    pool = [history_entry(n) for n in range(2000)]
    with open_database(tmp_path) as history:
        for first in range(0, 48_000, 2000):
            assert history.store([renumbered(each, first + n) for n, each in enumerate(pool)])
    lower = MAX_SIZE // 2 + MIB
    assert size_of(tmp_path) > lower
    with open_database(tmp_path, lower) as history:
        assert history.store([history_entry(48_000)])
    assert size_of(tmp_path) <= lower
    with open_reader(tmp_path) as reader:
        assert reader.newest("lab", 2) == [history_entry(48_000), renumbered(pool[-1], 47_999)]


@pytest.mark.slow
def test_a_much_lower_size_neither_blocks_the_daemon_nor_fills_the_wal(tmp_path, monkeypatch):
    """Each call deletes a part of the batches, in a transaction that writes few pages."""
    monkeypatch.setattr(batch_db, "MAX_REDUCTION_TIME_S", 0.0, raising=False)
    lower, batches = MAX_SIZE // 2 + MIB, 0
    with open_database(tmp_path, 4 * MAX_SIZE) as history:
        while size_of(tmp_path) < 3 * MAX_SIZE:
            blobs = [os.urandom(5000) for _ in range(100)]
            assert history.store_batches([("lab", batches, batches, blob) for blob in blobs])
            batches += 100
    before, largest_part, calls = bytes_written(), 0, 0
    with open_database(tmp_path, lower) as history:
        while size_of(tmp_path) > lower:
            count = count_of(tmp_path)
            assert history.store_batches([("lab", batches, batches, b"x")])
            largest_part = max(largest_part, count - count_of(tmp_path))
            calls += 1
            assert calls < 20
    assert largest_part < batches / 2
    assert bytes_written() - before < 2 * lower
    with open_file(tmp_path) as other:
        assert other.execute("SELECT max(first) FROM batches").fetchone() == (batches,)


@pytest.mark.parametrize("limit", [0, 2**26])
def test_a_large_file_keeps_its_size_because_making_it_smaller_takes_long(
    tmp_path, monkeypatch, caplog, limit
):
    tmp_path = tmp_path / "my state"
    tmp_path.mkdir()
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(batch_db, "MAX_VACUUM_SIZE", limit)
    with open_database(tmp_path) as history:
        for n in range(60):
            assert history.store_batches([("lab", n, n, os.urandom(100_000))])
    before, lower = size_of(tmp_path), 4 * MIB
    with open_database(tmp_path, lower + MAX_WAL_SIZE) as history:
        for n in range(60, 90):
            assert history.store_batches([("lab", n, n, os.urandom(100_000))])
    assert count_of(tmp_path) * 100_000 <= lower
    assert size_of(tmp_path) <= (lower if limit else before)
    keeps = [line for line in caplog.messages if "does not become smaller" in line]
    assert len(keeps) == (0 if limit else 1)
    if keeps:
        command = f"sqlite3 '{tmp_path / 'k.history.db'}' VACUUM"
        assert keeps[0].endswith(f"stop the daemon and run (package sqlite3):  {command}")


def test_two_databases_become_smaller_before_the_broker_ends_the_connection():
    """SQLite writes each byte three times: to a temporary file, to the WAL and to the file."""
    card = 10 * MIB  # bytes/s
    pause = 2 * (batch_db.MAX_REDUCTION_TIME_S + 3 * batch_db.MAX_VACUUM_SIZE / card)
    assert pause < 1.5 * Mqtt().keepalive


def count_of(directory):
    with open_file(directory) as other:
        (number,) = other.execute("SELECT count(*) FROM batches").fetchone()
    return number


@pytest.mark.parametrize(("interval", "max_mib"), [(600, 0.7), (31, 2.2)])
def test_day_of_54_sensors_writes_few_bytes(tmp_path, interval, max_mib):
    """The bytes are those that the kernel counts for this process."""
    batches = [
        [
            history_entry(n, rng=Random(n))
            for n in range(-(-at // interval), -(-(at + 900) // interval))
        ]
        for at in range(0, 86400, 900)
    ]
    before = bytes_written()
    with open_database(tmp_path) as history:
        assert all(history.store(batch) for batch in batches if batch)
    written = bytes_written() - before
    print(f"interval {interval} s: {written / MIB:.2f} MiB, reported {history.written / MIB:.2f}")
    assert written <= max_mib * MIB
    assert written * 0.9 <= history.written <= 2 * written


def bytes_written():
    (line,) = [each for each in Path("/proc/self/io").read_text().splitlines() if "wchar" in each]
    return int(line.split()[1])


@pytest.mark.slow
def test_endless_reader_stops_the_writing_within_the_size(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    batch = list(packed([history_entry(n) for n in range(1000)]))
    with open_database(tmp_path) as history:
        assert history.store([history_entry(0)])
        with open_file(tmp_path) as other:
            other.execute("BEGIN")
            other.execute("SELECT count(*) FROM batches").fetchone()
            stored = [history.store_batches(batch) for _ in range(40)]
            assert True in stored and not any(stored[-3:])
            assert size_of(tmp_path) <= 2 * MAX_WAL_SIZE
            other.execute("COMMIT")
        assert history.store([history_entry(1)])
    (problem, end) = [record.getMessage() for record in caplog.records]
    assert "another program has been reading the file for too long" in problem
    assert end.endswith("again")


# --- versions -------------------------------------------------------------------------------------


def test_newer_format_is_rejected_and_not_changed(tmp_path, caplog):
    with open_database(tmp_path) as history:
        assert history.store([history_entry(0)])
    path = HISTORY.file(str(tmp_path), "k")
    with open_file(tmp_path) as connection:
        connection.execute("PRAGMA user_version = 7")
    before = path.read_bytes()
    with open_database(tmp_path) as history:
        assert not history.store([history_entry(1)]) and not history.store([history_entry(2)])
        assert history.latest("lab") is None
    assert path.read_bytes() == before
    (line,) = [record.getMessage() for record in caplog.records]
    assert "the file has format 7, and this version of edge_tvbo writes 1" in line
    with pytest.raises(DataError, match="format 7, and this version of edge_tvbo reads format 1"):
        HistoryReader(str(tmp_path), "k")


def test_older_format_is_converted(tmp_path, monkeypatch):
    with open_database(tmp_path) as history:
        assert history.store([history_entry(0)])
    step = "ALTER TABLE batches ADD COLUMN comment TEXT"
    later = HISTORY._replace(schemas=(*HISTORY.schemas, step))
    monkeypatch.setattr(HistoryDatabase, "kind", later)
    with pytest.raises(DataError, match="start the daemon once: it converts the history"):
        HistoryReader(str(tmp_path), "k")
    with open_database(tmp_path) as history:
        assert history.store([history_entry(1)])
    with open_reader(tmp_path) as reader:
        assert reader.newest("lab", 9) == [history_entry(1), history_entry(0)]


def test_a_decision_that_an_older_version_stored_has_no_runner_up():
    keys = ("width", "runner_up", "runner_up_ucb")
    entry = history_entry(0)
    document = msgspec.to_builtins(entry)
    for key in keys:
        assert document["decision"].pop(key) is not None

    (found,) = unpacked(zlib.compress(msgspec.json.encode([document])))

    decision = msgspec.structs.replace(entry.decision, **dict.fromkeys(keys))
    assert found == msgspec.structs.replace(entry, decision=decision)


@pytest.mark.parametrize(
    "blob",
    [b"", b"rubbish", zlib.compress(b"[]"), "text"],
    ids=["empty", "not zlib", "no entries", "not bytes"],
)
def test_unreadable_batch_is_skipped_and_logged(tmp_path, caplog, blob):
    with open_database(tmp_path) as history:
        for number in range(5):
            assert history.store([history_entry(number)])
    with open_file(tmp_path) as connection:
        connection.execute("UPDATE batches SET entries = ? WHERE id IN (2, 4)", (blob,))
    with open_reader(tmp_path) as reader:
        assert reader.newest("lab", 9) == [history_entry(4), history_entry(2), history_entry(0)]
        assert reader.between("lab", 0, 2) == [history_entry(0), history_entry(2)]
        assert reader.entry("lab", 3) is None and reader.entry("lab", 0) == history_entry(0)
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith(f"{tmp_path}/k.history.db: batch 4 is skipped: ")


# --- disk errors ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def intact(tmp_path_factory):
    """Return the bytes of a history of several pages."""
    directory = tmp_path_factory.mktemp("intact")
    with open_database(directory) as history:
        for first in range(0, 400, 20):
            assert history.store([history_entry(n) for n in range(first, first + 20)])
    return HISTORY.file(str(directory), "k").read_bytes()


@with_directory
@given(data=st.data())
def test_damaged_file_is_used_or_renamed(intact, data):
    with directory_in_memory() as directory:
        path = HISTORY.file(str(directory), "k")
        path.write_bytes(damage(data, intact))
        with open_database(directory) as history:
            history.latest("lab")
            stored = [history.store([history_entry(n)]) for n in range(500, 503)]
        # A failed store renames the file.
        assert any(stored[-2:]) or is_of_later_version(path, HISTORY)
        renamed = [each for each in directory.iterdir() if "damaged" in each.name]
        assert len(renamed) <= 1
        with suppress(DataError), open_reader(directory) as reader:
            reader.newest("lab", 1000)


def damage(data, intact):
    """Return the bytes of a history with a drawn kind of damage."""
    at = data.draw(st.one_of(st.integers(0, 4096), st.integers(0, len(intact) - 1)))
    match data.draw(st.sampled_from(["empty", "rubbish", "truncated", "flipped", "zeroed"])):
        case "empty":
            return b""
        case "rubbish":
            return b"rubbish" * 1000
        case "truncated":
            return intact[:at]
        case "flipped":
            bit = 1 << data.draw(st.integers(0, 7))
            return intact[:at] + bytes([intact[at] ^ bit]) + intact[at + 1 :]
        case _:
            return intact[:at] + bytes(min(2048, len(intact) - at)) + intact[at + 2048 :]


def test_damaged_file_is_logged_and_renamed(tmp_path, caplog):
    path = HISTORY.file(str(tmp_path), "k")
    path.write_bytes(b"rubbish" * 1000)
    with open_database(tmp_path) as history:
        assert not history.store([history_entry(0)])
        assert history.store([history_entry(0)])
    (line,) = [record.getMessage() for record in caplog.records]
    assert (
        "is damaged: file is not a database; the file was renamed to k.history.db.damaged" in line
    )
    assert (tmp_path / "k.history.db.damaged").read_bytes() == b"rubbish" * 1000


def with_a_changed_byte(content, at, value):
    return content[:at] + bytes([value]) + content[at + 1 :]


def schema_positions(content):
    """Return some positions of the schema's text in a history."""
    start = content.index(b"CREATE TABLE")
    return range(start, start + len(TABLE.strip()), 16)


def test_a_schema_that_is_not_utf_8_counts_as_damage(tmp_path, intact, caplog):
    path = HISTORY.file(str(tmp_path), "k")
    for at in schema_positions(intact):
        path.write_bytes(with_a_changed_byte(intact, at, intact[at] ^ 0x80))
        with suppress(DataError), open_reader(tmp_path) as reader:
            reader.newest("lab", 9)
        with open_database(tmp_path) as history:
            history.latest("lab")
            history.store([history_entry(500)])  # not stored if the damage is found only now
            assert history.store([history_entry(501)]), at
    assert any("is damaged: malformed database schema; " in line for line in caplog.messages)


@pytest.mark.parametrize("format_number", [0x80, 0x01])
def test_a_file_that_cannot_be_read_is_not_kept_open(tmp_path, intact, format_number):
    path = HISTORY.file(str(tmp_path), "k")
    damaged = [
        with_a_changed_byte(intact, at, intact[at] ^ 0x80) for at in schema_positions(intact)
    ]
    for content in [*damaged, with_a_changed_byte(intact, USER_VERSION_AT, format_number)]:
        path.write_bytes(content)
        try:
            HistoryReader(str(tmp_path), "k").close()
        except DataError as error:  # its traceback keeps the local variables alive
            assert str(path) not in open_files(), error


def open_files():
    """Return the paths of the files that this process has open."""
    descriptors = Path("/proc/self/fd").iterdir()
    return {str(each.readlink()) for each in descriptors if each.is_symlink()}


def test_a_negative_format_counts_as_damage(tmp_path, intact, caplog):
    path = HISTORY.file(str(tmp_path), "k")
    path.write_bytes(with_a_changed_byte(intact, USER_VERSION_AT, 0x80))
    with pytest.raises(DataError, match="the file has format -"), open_reader(tmp_path):
        pass
    with open_database(tmp_path) as history:
        assert history.latest("lab") is None
        assert history.store([history_entry(500)])
    (line,) = caplog.messages
    assert "is damaged: the file has format -" in line


@pytest.fixture
def small_disk(tmp_path):
    """Return a directory on a file system of 256 KiB."""
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(tmp_path)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("mounting needs more rights")
    yield tmp_path
    subprocess.run(["umount", str(tmp_path)], check=True)


def test_full_disk_and_its_end_are_logged_once(small_disk, caplog):
    caplog.set_level(logging.INFO)
    with open_database(small_disk) as history:
        assert history.store([history_entry(0)])
        with suppress(OSError), (small_disk / "filler").open("wb", buffering=0) as filler:
            while True:
                filler.write(bytes(1024))
        for _ in range(3):
            assert not history.store([history_entry(n) for n in range(1, 200)])
        (small_disk / "filler").unlink()
        assert history.store([history_entry(1)])
    problem, end = [record.getMessage() for record in caplog.records]
    assert "history: cannot be stored" in problem and "full" in problem
    assert end == f"history: storing in {small_disk}/k.history.db works again"
    with open_reader(small_disk) as reader:
        assert reader.newest("lab", 9) == [history_entry(1), history_entry(0)]


def test_lowered_size_on_a_nearly_full_disk_does_not_stop_the_history(small_disk, caplog):
    """To shrink the file, SQLite needs as much space as the smaller file has."""
    caplog.set_level(logging.INFO)
    mount = ["mount", "-o", "remount,size=20m", str(small_disk)]
    subprocess.run(mount, check=True)
    with open_database(small_disk) as history:
        for n in range(500):
            assert history.store_batches([("lab", n, n, os.urandom(20_000))])
    lower, path = MAX_SIZE // 2 + MIB, HISTORY.file(str(small_disk), "k")
    before = path.stat().st_size
    with (small_disk / "filler").open("wb") as filler:
        filler.write(bytes(shutil.disk_usage(small_disk).free - 3 * MIB))
    with open_database(small_disk, lower) as history:
        stored = [history.store([history_entry(n)]) for n in range(500, 510)]
        assert all(stored[5:])  # after the oldest rows are deleted, a few at a time
        assert path.stat().st_size == before
    assert "history: cannot be made smaller yet: database or disk is full" in caplog.text
    (small_disk / "filler").unlink()
    with open_database(small_disk, lower) as history:
        assert history.store([history_entry(510)])
    assert path.stat().st_size <= lower - MAX_WAL_SIZE
    with open_reader(small_disk) as reader:
        assert reader.newest("lab", 2) == [history_entry(510), history_entry(509)]


@pytest.mark.parametrize("directory", ["/proc/edge_tvbo", "/dev/null/state"])
def test_unwritable_directory_is_logged_once(directory, caplog):
    with open_database(directory) as history:
        assert [history.store([history_entry(n)]) for n in range(3)] == [False] * 3
        assert history.latest("lab") is None
    lines = [record.getMessage() for record in caplog.records]
    assert sum("cannot be stored" in line for line in lines) == 1


@pytest.mark.slow
def test_a_day_of_a_very_large_network_is_stored_in_several_transactions(tmp_path):
    """Random estimates are larger than real ones, because they can hardly be compressed."""
    random = Random(0)
    sensors = tuple(f"0x{random.getrandbits(64):016x}" for _ in range(2000))

    def posterior():
        steps = random.randbytes(2000)
        return PosteriorSnapshot(
            sensors, QuantizedArray(20.0, 30.0, steps), QuantizedArray(0.1, 1.0, steps[::-1])
        )

    with open_database(tmp_path, 64 * MIB) as database:
        recorder = HistoryRecorder(database, 86_400.0)
        for interval in range(255):
            entry = history_entry(interval)
            recorder.add(msgspec.structs.replace(entry, posterior=posterior()))
        assert recorder.save()
    with open_reader(tmp_path) as reader:
        assert len(list(reader.newest("lab", 300))) == 255
