"""Fuzzing of the SQLite files: a damaged history or record of readings is read or rejected.

The first byte of the input chooses the kind of the file, and the rest is the file. It is read as
`why` and `export` read it, and then opened and written as the daemon does. A store that finds
damage renames the file, so the next store has to succeed.
"""

import logging
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from random import Random

from edge_tvbo_adapters.storage.history_db import HISTORY, HistoryDatabase
from edge_tvbo_adapters.storage.history_reader import HistoryReader
from edge_tvbo_adapters.storage.reading_db import READINGS, ReadingDatabase, read_readings
from fuzz.fuzzing import main
from support.databases import is_of_later_version
from support.directories import directory_in_memory
from support.history import history_entry

from edge_tvbo.errors import DataError
from edge_tvbo.messages.readings import RecordedReading

INSTANCE, FIELD = "gateway", "lab"
MAX_SIZE = 8 * 2**20
HEADER_SIZE = 100  # bytes, of an SQLite file; its schema is at the end of the first page
FIRST_PAGE_SIZE = 2048


def seeds() -> list[bytes]:
    """Return a history and a record of readings, each of several pages."""
    return [_seed(b"0", HISTORY.file, _store_history), _seed(b"1", READINGS.file, _store_readings)]


def check(data: bytes) -> None:
    """Read `data` as a file of one kind, and go on storing in it."""
    logging.disable()
    if not data:
        return
    is_history = data[0] % 2 == 0
    kind, store = (HISTORY, _store_history) if is_history else (READINGS, _store_readings)
    with directory_in_memory() as directory:
        path = kind.file(str(directory), INSTANCE)
        path.write_bytes(data[1:])
        with suppress(DataError):
            (_read_history if is_history else _read_readings)(directory)
        stored = [store(directory, 500 + number) for number in range(3)]
        assert any(stored[-2:]) or is_of_later_version(path, kind)


def mutate(data: bytes, random: Random) -> bytes:
    """Change some bits, most of them in the header and the schema."""
    changed = bytearray(data)
    parts = [(1, HEADER_SIZE + 1), (HEADER_SIZE + 1, FIRST_PAGE_SIZE + 1), (1, len(data) + 1)]
    for _ in range(random.choice([1, 1, 2, 8])):
        at = random.randrange(*random.choice(parts))
        if at < len(changed):
            changed[at] ^= 1 << random.randrange(8)
    return bytes(changed)


def _seed(
    mark: bytes, file: Callable[[str, str], Path], store: Callable[[Path, int], bool]
) -> bytes:
    with directory_in_memory() as directory:
        for number in range(4):
            assert store(directory, number)
        return mark + file(str(directory), INSTANCE).read_bytes()


def _store_history(directory: Path, number: int) -> bool:
    with closing(HistoryDatabase(str(directory), INSTANCE, MAX_SIZE)) as database:
        database.latest(FIELD)
        return database.store([history_entry(number)])


def _store_readings(directory: Path, number: int) -> bool:
    readings = [
        RecordedReading(FIELD, "hall", 1e9 + 60.0 * number + n, 20.0, "°C") for n in range(9)
    ]
    with closing(ReadingDatabase(str(directory), INSTANCE, MAX_SIZE)) as database:
        return database.store(readings)


def _read_history(directory: Path) -> None:
    with closing(HistoryReader(str(directory), INSTANCE)) as reader:
        for field in reader.fields():
            reader.span(field)
            reader.newest(field, 100)


def _read_readings(directory: Path) -> None:
    read_readings(str(directory), INSTANCE, FIELD)


if __name__ == "__main__":
    main("fuzz_database")
