"""Reading recorder: writes the accepted readings to the reading database in batches."""

from edge_tvbo.daemon.batch_recorder import BatchRecorder, BatchWriter
from edge_tvbo.daemon.clock import RELEASED
from edge_tvbo.messages.events import Reading
from edge_tvbo.messages.readings import RecordedReading

DAY = 86_400.0  # s
MAX_PENDING = 4096  # readings; this many are written at once, and above twice this many are dropped
MAX_DAILY_READINGS = 1_000_000  # of all sensors; with 24 bytes for each, 24 MB are written in a day


class ReadingRecorder(BatchRecorder[RecordedReading]):
    """Service of the loop that writes accepted readings every `period` seconds.

    A memory card must last for years. Therefore at most `MAX_DAILY_READINGS` are recorded in a day:
    a reading is left out if it follows the last recorded reading of the same sensor too soon. With
    46 sensors, this means within 4 s.

    Parameters
    ----------
    database : BatchWriter
        The database to which the readings are written.
    period : float
        Time between two batches, in s.
    sensors : int
        Number of the sensors of all fields.
    """

    def __init__(self, database: BatchWriter[RecordedReading], period: float, sensors: int) -> None:
        super().__init__(database, period, MAX_PENDING)
        self.min_spacing = sensors * DAY / MAX_DAILY_READINGS  # s
        self._last: dict[tuple[str, str], float] = {}  # time of the last recorded reading

    def add(self, field: str, reading: Reading) -> None:
        """Queue an accepted reading of `field` for writing.

        A reading from before `RELEASED` is left out, because the clock that dated it was not set.
        """
        key = field, reading.sensor
        if reading.at < RELEASED:
            return
        since = abs(reading.at - self._last.get(key, 0.0))  # a clock may be set back
        if since < self.min_spacing:
            return
        self._last[key] = reading.at
        entry = RecordedReading(field, reading.sensor, reading.at, reading.value)
        self._queue((*key, reading.at), entry)
