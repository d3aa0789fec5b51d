"""Reading recorder: writes the accepted readings to the reading database in batches."""

from collections.abc import Mapping

from edge_tvbo.daemon.batch_recorder import BatchRecorder, BatchWriter
from edge_tvbo.daemon.clock import RELEASED_AT
from edge_tvbo.messages.events import Reading
from edge_tvbo.messages.readings import RecordedReading

DAY = 86_400.0  # s
MAX_PENDING = 4096  # queued readings; see `BatchRecorder`
MAX_DAILY_READINGS = 1_000_000  # of all sensors; a reading takes 24 bytes, so a day takes 24 MB


class ReadingRecorder(BatchRecorder[RecordedReading]):
    """Service that writes the accepted readings to `database` every `period` seconds.

    At most `MAX_DAILY_READINGS` readings are recorded in a day, so that a memory card lasts for
    years. Therefore the time between two recorded readings of a sensor has a minimum: 4 s if there
    are 46 sensors. A reading that follows sooner is not recorded.

    Parameters
    ----------
    database : BatchWriter
        The database to which the readings are written.
    period : float
        Time between two batches, in s.
    sensors : int
        Number of sensors of all fields together.
    units : mapping
        The unit of each field.
    """

    content, entry = "readings", "reading"

    def __init__(
        self,
        database: BatchWriter[RecordedReading],
        period: float,
        sensors: int,
        units: Mapping[str, str],
    ) -> None:
        super().__init__(database, period, MAX_PENDING, 2 * MAX_PENDING)
        self.min_spacing = sensors * DAY / MAX_DAILY_READINGS  # s
        self._units = units
        self._last: dict[tuple[str, str], float] = {}  # time of the last recorded reading

    def add(self, field: str, reading: Reading) -> None:
        """Queue an accepted reading of `field` for the reading database.

        A reading with a time before `RELEASED_AT` is left out, because this time shows that the
        clock was not set.
        """
        sensor, at = reading.sensor, reading.at
        if at < RELEASED_AT:
            return
        key = field, sensor
        since = abs(at - self._last.get(key, 0.0))  # a clock may be set back
        if since < self.min_spacing:
            return
        self._last[key] = at
        entry = RecordedReading(field, sensor, at, reading.value, self._units[field])
        self._queue((field, sensor, at), entry)
