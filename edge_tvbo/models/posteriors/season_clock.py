"""Season clock: the time of a posterior with a season."""

from edge_tvbo.errors import SnapshotError
from edge_tvbo.models.snapshot import State, read_count, read_number
from edge_tvbo.models.structural_model import phase_of

NO_TIME = -1.0  # before the first `set`; other negative numbers are times before 1970
UNSET_TIME = "unset_time"  # key of `unset_time` in snapshots; missing if the time is 0


class SeasonClock:
    """The last known time of a posterior with a season, and how much time has passed since then.

    Parameters
    ----------
    interval : float
        Length of an interval in s; 0 if the intervals differ in length.
    """

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._is_unset = False  # whether the present time is unknown; `at` is the last known time
        self.at = NO_TIME  # last known time, in s since 1970
        self.waited = 0  # intervals that ended since `at`
        self.unset_time = 0.0  # s that have passed since `at` while the time was unknown

    @property
    def has_time(self) -> bool:
        """Whether the present time is known to the season clock."""
        return self.at != NO_TIME and not self._is_unset

    @property
    def elapsed(self) -> float:
        """Seconds that have passed since the last known time of the season clock."""
        return self.waited * self._interval + self.unset_time

    def set(self, at: float | None) -> None:
        """Set the season clock to a time in s since 1970, UTC; None if the time is unknown."""
        self._is_unset = at is None
        if at is not None:
            self.at, self.waited, self.unset_time = at, 0, 0.0

    def phase(self, period: float) -> float:
        """Return the share of a season that has passed; -1 if `period` is 0 or no time is known."""
        return phase_of(self.at + self.elapsed, period) if self.has_time else -1.0

    def counters(self) -> State:
        """Return the time since the season clock's last known time, for a snapshot."""
        unset = {UNSET_TIME: self.unset_time} if self.unset_time else {}
        return {"waited": self.waited, **unset}

    def check(self, state: State) -> None:
        """Raise `SnapshotError` unless `state` has the numbers of a season clock."""
        read_number(state, "at")
        read_count(state, "waited")
        if UNSET_TIME in state and read_number(state, UNSET_TIME) < 0.0:
            raise SnapshotError(f"The snapshot's {UNSET_TIME!r} is out of range.")

    def load(self, state: State) -> None:
        """Load the numbers of a season clock from a checked state."""
        self.at, self.waited = float(state["at"]), state["waited"]
        self.unset_time = float(state.get(UNSET_TIME, 0.0))
