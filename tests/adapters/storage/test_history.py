"""What is kept comes back, the file stays within its bound, and no disk stops the daemon."""

import logging
import os
import sqlite3
import subprocess
import time
import zlib
from contextlib import closing, suppress
from pathlib import Path
from random import Random

import pytest
from edge_tvbo_adapters.storage import history_db as format_of
from edge_tvbo_adapters.storage.history_db import MOST_WAL, HistoryDatabase, history_file
from edge_tvbo_adapters.storage.history_reader import HistoryReader
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edge_tvbo.errors import DataError
from edge_tvbo.messages.commands import Ending, Record
from edge_tvbo.messages.documents import Decision, Model, Notice, Reason
from edge_tvbo.messages.history import HistoryEntry, PosteriorSnapshot, QuantizedArray

MIB = 2**20
BOUND = 16 * MIB
SENSORS = tuple(f"mote-{n}" for n in range(1, 55))
in_a_directory = settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def entry(number, field="lab", *, ended=True, chance=None, text="mote-7: its turn"):
    """Give an entry of ordinary size, whose numbers no compression foresees."""
    chance = chance or Random(number)
    at = f"2026-11-21T{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}Z"
    sensor = chance.choice(SENSORS)
    value, off = chance.gauss(23.0, 2.0), chance.random()
    factors = [
        f"its bound is {value + 1:.2f} °C",
        f"next is {chance.choice(SENSORS)} with {value + off:.2f} °C",
        f"{chance.choice(SENSORS)} is believed at {value:.2f} °C",
        f"{off:.2f} of the field is new each interval",
    ]
    model = Model(number % 50, number // 50, at)
    decision = Decision(
        number,
        at,
        at,
        sensor,
        "auto",
        round(value, 2),
        round(off, 2),
        round(value + 1, 2),
        "°C",
        Reason.EXPLORE,
        factors,
        text,
        model,
    )
    record = Record(number, 31.0 * number, sensor, Ending.ANSWERED, value, off, 1.0, False)
    mean = QuantizedArray(20.0, 25.0, chance.randbytes(len(SENSORS)))
    std = QuantizedArray(0.1, 0.5, chance.randbytes(len(SENSORS)))
    beliefs = PosteriorSnapshot(SENSORS, mean, std)
    return HistoryEntry(field, decision, record if ended else None, posterior=beliefs)


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
        surprise=finite | st.none(),
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


# --- what is kept ---------------------------------------------------------------------------------


@in_a_directory
@given(st.lists(st.lists(entries, min_size=1, max_size=5), max_size=5))
def test_what_is_kept_comes_back_as_it_was_kept_last(tmp_path_factory, batches):
    directory = str(tmp_path_factory.mktemp("history"))
    with closing(HistoryDatabase(directory, "k", BOUND)) as history:
        assert all(history.store(batch) for batch in batches)
        expected = {}
        for each in (each for batch in batches for each in batch):
            expected.pop((each.field, each.decision.interval), None)
            expected[each.field, each.decision.interval] = each
        if not expected:
            return
        with closing(HistoryReader(directory, "k")) as past:
            fields = {field for field, _ in expected}
            assert past.fields() == sorted(fields)
            for (field, number), each in expected.items():
                assert past.entry(field, number) == each
            for field in fields:
                ours = [each for (name, _), each in expected.items() if name == field]
                numbers = [each.decision.interval for each in ours]
                assert past.span(field) == (min(numbers), max(numbers))
                assert len(past.newest(field, 99)) == len(ours)
                assert history.latest(field) == ours[-1] == past.newest(field, 1)[0]


def test_the_newest_come_first_and_a_stretch_comes_in_order(tmp_path):
    with closing(HistoryDatabase(str(tmp_path), "k", BOUND)) as history:
        for first in range(0, 30, 10):
            assert history.store([entry(n) for n in range(first, first + 10)])
        assert history.store([entry(29, text="again")])
    with closing(HistoryReader(str(tmp_path), "k")) as past:
        newest = past.newest("lab", 12)
        assert [each.decision.interval for each in newest] == list(range(29, 17, -1))
        assert newest[0].decision.text == "again"
        assert [each.decision.interval for each in past.between("lab", 8, 12)] == [8, 9, 10, 11, 12]
        assert past.entry("lab", 30) is None
        assert past.span("hall") is None


def test_another_process_reads_what_was_kept_while_the_daemon_writes(tmp_path):
    with (
        closing(HistoryDatabase(str(tmp_path), "k", BOUND)) as history,
        closing(open_past_of(history, tmp_path)) as past,
    ):
        for n in range(1, 50):
            assert history.store([entry(n)])
            assert past.newest("lab", 1) == [entry(n)]


def open_past_of(history, directory):
    assert history.store([entry(0)])
    return HistoryReader(str(directory), "k")


def test_reading_writes_nothing_even_where_nothing_may_be_written(tmp_path):
    """A directory that root may not write to either is one on a disk mounted read-only."""
    with closing(HistoryDatabase(str(tmp_path), "k", BOUND)) as history:
        assert history.store([entry(0)])
    mounting = ["mount", "--bind", "-o", "ro", str(tmp_path), str(tmp_path)]
    if os.geteuid() != 0 or subprocess.run(mounting, capture_output=True).returncode:
        pytest.skip("mounting wants more rights")
    subprocess.run(["mount", "-o", "remount,ro,bind", str(tmp_path)], check=True)
    try:
        with closing(HistoryReader(str(tmp_path), "k")) as past:
            assert past.newest("lab", 1) == [entry(0)]
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_without_a_file_it_is_said_how_to_have_one(tmp_path):
    with pytest.raises(DataError, match=r'there is no history.*\n.*history = "64MiB"'):
        HistoryReader(str(tmp_path), "k")


# --- size and wear --------------------------------------------------------------------------------


def size_of(directory):
    return sum(each.stat().st_size for each in directory.iterdir() if "-shm" not in each.name)


def test_over_100_000_intervals_the_files_stay_within_their_bound(tmp_path):
    """As many entries as 36 days of 31 s, in batches of 15 minutes; a few dozen, over and over."""
    pool = [entry(n) for n in range(64)]
    largest, slowest = 0, 0.0
    with closing(HistoryDatabase(str(tmp_path), "k", BOUND)) as history:
        for first in range(0, 100_000, 29):
            batch = [renumbered(pool[n % 64], n) for n in range(first, first + 29)]
            before = time.perf_counter()
            assert history.store(batch)
            slowest = max(slowest, time.perf_counter() - before)
            largest = max(largest, size_of(tmp_path))
        last = first + 28
    assert largest <= BOUND
    with closing(HistoryReader(str(tmp_path), "k")) as past:
        lowest, highest = past.span("lab")
        assert highest == last
        assert 10_000 < last - lowest < 90_000
        assert past.entry("lab", lowest).decision.interval == lowest
    print(f"{largest / MIB:.1f} MiB hold {last - lowest} intervals; slowest batch {slowest:.3f} s")


def renumbered(each, number):
    decision = each.decision
    numbered = Decision(number, *(getattr(decision, name) for name in DECISION[1:]))
    return HistoryEntry(each.field, numbered, each.record, each.notices, each.posterior)


DECISION = Decision.__struct_fields__


def test_a_bound_that_is_lowered_holds_from_the_next_start_on(tmp_path):
    with closing(HistoryDatabase(str(tmp_path), "k", BOUND)) as history:
        for first in range(0, 48_000, 2000):
            assert history.store([entry(n) for n in range(first, first + 2000)])
    lower = BOUND // 2 + MIB
    assert size_of(tmp_path) > lower
    with closing(HistoryDatabase(str(tmp_path), "k", lower)) as history:
        assert history.store([entry(48_000)])
    assert size_of(tmp_path) <= lower
    with closing(HistoryReader(str(tmp_path), "k")) as past:
        assert past.newest("lab", 2) == [entry(48_000), entry(47_999)]


@pytest.mark.parametrize(("every", "most"), [(600, 0.7), (31, 2.2)])
def test_a_day_of_54_sensors_writes_little(tmp_path, every, most):
    """What the system was asked to write, as the kernel counts it."""
    batches = [
        [entry(n, chance=Random(n)) for n in range(-(-at // every), -(-(at + 900) // every))]
        for at in range(0, 86400, 900)
    ]
    before = asked_to_write()
    with closing(HistoryDatabase(str(tmp_path), "k", BOUND)) as history:
        assert all(history.store(batch) for batch in batches if batch)
    written = asked_to_write() - before
    print(f"an interval of {every} s: {written / MIB:.2f} MiB, said {history.written / MIB:.2f}")
    assert written <= most * MIB
    assert written * 0.9 <= history.written <= 2 * written


def asked_to_write():
    (line,) = [each for each in Path("/proc/self/io").read_text().splitlines() if "wchar" in each]
    return int(line.split()[1])


def test_a_reader_that_never_ends_stops_the_writing_and_not_the_bound(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    batch = [entry(n) for n in range(1000)]
    with closing(HistoryDatabase(str(tmp_path), "k", BOUND)) as history:
        assert history.store([entry(0)])
        with closing(
            sqlite3.connect(history_file(str(tmp_path), "k"), isolation_level=None)
        ) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM batches").fetchone()
            kept = [history.store(batch) for _ in range(40)]
            assert True in kept and not any(kept[-3:])
            assert size_of(tmp_path) <= 2 * MOST_WAL
            reader.execute("COMMIT")
        assert history.store([entry(1)])
    (trouble, over) = [record.getMessage() for record in caplog.records]
    assert "somebody has been reading it for too long" in trouble
    assert over.endswith("again")


# --- versions -------------------------------------------------------------------------------------


def test_a_newer_format_is_refused_with_the_reason_and_left_alone(tmp_path, caplog):
    with closing(HistoryDatabase(str(tmp_path), "k", BOUND)) as history:
        assert history.store([entry(0)])
    path = history_file(str(tmp_path), "k")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA user_version = 7")
    before = path.read_bytes()
    with closing(HistoryDatabase(str(tmp_path), "k", BOUND)) as history:
        assert not history.store([entry(1)]) and not history.store([entry(2)])
        assert history.latest("lab") is None
    assert path.read_bytes() == before
    (said,) = [record.getMessage() for record in caplog.records]
    assert "it has format 7, and this version of edge_tvbo writes 1" in said
    with pytest.raises(DataError, match="has format 7, and this edge_tvbo reads 1"):
        HistoryReader(str(tmp_path), "k")


def test_an_older_format_is_led_to_the_present_one(tmp_path, monkeypatch):
    with closing(HistoryDatabase(str(tmp_path), "k", BOUND)) as history:
        assert history.store([entry(0)])
    step = "ALTER TABLE batches ADD COLUMN mood TEXT"
    monkeypatch.setattr(format_of, "SCHEMAS", (*format_of.SCHEMAS, step))
    monkeypatch.setattr(format_of, "VERSION", 2)
    with pytest.raises(DataError, match="the daemon, which leads it on, has to be run"):
        monkeypatch.setattr("edge_tvbo_adapters.storage.history_reader.VERSION", 2)
        HistoryReader(str(tmp_path), "k")
    with closing(HistoryDatabase(str(tmp_path), "k", BOUND)) as history:
        assert history.store([entry(1)])
    with closing(HistoryReader(str(tmp_path), "k")) as past:
        assert past.newest("lab", 9) == [entry(1), entry(0)]


@pytest.mark.parametrize(
    "rubbish",
    [b"", b"rubbish", zlib.compress(b"[]"), "text"],
    ids=["empty", "no zlib", "no entries", "no bytes"],
)
def test_a_batch_that_does_not_decode_hides_no_other(tmp_path, caplog, rubbish):
    with closing(HistoryDatabase(str(tmp_path), "k", BOUND)) as history:
        for number in range(5):
            assert history.store([entry(number)])
    with closing(sqlite3.connect(history_file(str(tmp_path), "k"))) as connection, connection:
        connection.execute("UPDATE batches SET entries = ? WHERE id IN (2, 4)", (rubbish,))
    with closing(HistoryReader(str(tmp_path), "k")) as past:
        assert past.newest("lab", 9) == [entry(4), entry(2), entry(0)]
        assert past.between("lab", 0, 2) == [entry(0), entry(2)]
        assert past.entry("lab", 3) is None and past.entry("lab", 0) == entry(0)
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.startswith(f"{tmp_path}/k.history.db: batch 4 is left out: ")


# --- what disks do --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """Give the bytes of a history of some pages."""
    directory = str(tmp_path_factory.mktemp("sound"))
    with closing(HistoryDatabase(directory, "k", BOUND)) as history:
        for first in range(0, 400, 20):
            assert history.store([entry(n) for n in range(first, first + 20)])
    return history_file(directory, "k").read_bytes()


@in_a_directory
@given(data=st.data())
def test_a_damaged_file_is_written_on_or_set_aside(tmp_path_factory, sound, data):
    directory = tmp_path_factory.mktemp("history")
    path = history_file(str(directory), "k")
    path.write_bytes(damaged(data, sound))
    with closing(HistoryDatabase(str(directory), "k", BOUND)) as history:
        history.latest("lab")
        done = [history.store([entry(n)]) for n in range(500, 503)]
    assert done[-1] or "user_version" in newer(path)
    aside = [each for each in directory.iterdir() if "damaged" in each.name]
    assert len(aside) <= 1
    with suppress(DataError), closing(HistoryReader(str(directory), "k")) as past:
        past.newest("lab", 1000)


def damaged(data, sound):
    where = data.draw(st.one_of(st.integers(0, 4096), st.integers(0, len(sound) - 1)))
    match data.draw(st.sampled_from(["empty", "rubbish", "truncated", "flipped", "zeroed"])):
        case "empty":
            return b""
        case "rubbish":
            return b"rubbish" * 1000
        case "truncated":
            return sound[:where]
        case "flipped":
            bit = 1 << data.draw(st.integers(0, 7))
            return sound[:where] + bytes([sound[where] ^ bit]) + sound[where + 1 :]
        case _:
            return sound[:where] + bytes(min(2048, len(sound) - where)) + sound[where + 2048 :]


def newer(path):
    """Say whether the damage made it look like the file of a later version."""
    with closing(sqlite3.connect(path)) as connection, suppress(sqlite3.Error):
        if connection.execute("PRAGMA user_version").fetchone()[0] > format_of.VERSION:
            return "user_version"
    return ""


def test_damage_is_said_and_the_file_kept_for_whoever_wants_to_know(tmp_path, caplog):
    path = history_file(str(tmp_path), "k")
    path.write_bytes(b"rubbish" * 1000)
    with closing(HistoryDatabase(str(tmp_path), "k", BOUND)) as history:
        assert not history.store([entry(0)])
        assert history.store([entry(0)])
    (said,) = [record.getMessage() for record in caplog.records]
    assert "is damaged: file is not a database; it is kept as k.history.db.damaged" in said
    assert (tmp_path / "k.history.db.damaged").read_bytes() == b"rubbish" * 1000


@pytest.fixture
def small_disk(tmp_path):
    """Give a file system of 256 KiB."""
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(tmp_path)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("mounting wants more rights")
    yield tmp_path
    subprocess.run(["umount", str(tmp_path)], check=True)


def test_a_full_disk_is_said_once_and_so_is_its_end(small_disk, caplog):
    caplog.set_level(logging.INFO)
    with closing(HistoryDatabase(str(small_disk), "k", BOUND)) as history:
        assert history.store([entry(0)])
        with suppress(OSError), (small_disk / "filler").open("wb", buffering=0) as filler:
            while True:
                filler.write(bytes(1024))
        for _ in range(3):
            assert not history.store([entry(n) for n in range(1, 200)])
        (small_disk / "filler").unlink()
        assert history.store([entry(1)])
    full, over = [record.getMessage() for record in caplog.records]
    assert "nothing can be kept" in full and "full" in full
    assert over == f"history: it is kept in {small_disk}/k.history.db again"
    with closing(HistoryReader(str(small_disk), "k")) as past:
        assert past.newest("lab", 9) == [entry(1), entry(0)]


@pytest.mark.parametrize("directory", ["/proc/edge_tvbo", "/dev/null/state"])
def test_a_place_where_nothing_can_be_written_is_said_once(directory, caplog):
    with closing(HistoryDatabase(directory, "k", BOUND)) as history:
        assert [history.store([entry(n)]) for n in range(3)] == [False] * 3
        assert history.latest("lab") is None
    assert sum("nothing can be kept" in record.getMessage() for record in caplog.records) == 1
