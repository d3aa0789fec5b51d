"""Problems from recordings: the first days train a field, and later readings are the true values.

Recordings are loaded by adapters, which this package does not import. Therefore these problems are
not in the registry; the command line creates them and passes them to the benchmark.
"""

import numpy as np

from edge_tvbo.policy.base import Policy
from edge_tvbo.research.problems import GridTruth
from edge_tvbo.simulation.backtest import Backtest
from edge_tvbo.simulation.recording import Recording
from edge_tvbo.simulation.row_range import recorded_rows, split


class RecordedField:
    """A problem from a recording; its field is trained on the first three quarters of the rows.

    The values in the other rows are the truth, with gaps filled. Rows in which nothing was recorded
    are left out, but count as elapsed time. All runs have the same values, but different noise. The
    noise has the variance that the field assumes.

    Parameters
    ----------
    recording : Recording
        Readings of the sensors. `observed` must mark the gaps: in the training rows, the gaps are
        filled again, with values that do not depend on the last quarter.

    Raises
    ------
    DataError
        If nothing was recorded in the last quarter, or if a sensor has no reading in the training
        rows.
    """

    def __init__(self, recording: Recording) -> None:
        self._backtest = Backtest(recording, *split(recording))
        self._rows = recorded_rows(recording, self._backtest.test_span)
        self.field = self._backtest.field
        self.horizon = len(self._rows)
        self.noise_variance = self.field.noise_variance

    def truth(self, generator: np.random.Generator) -> GridTruth:
        """Return the recorded values, which are the same in each run."""
        recording = self._backtest.recording
        return GridTruth(np.asarray(recording.values)[self._rows], self.field.objective)

    def make_policy(self, name: str, seed: int) -> Policy:
        """Return a new policy for the recorded field, trained as in the command `compare`."""
        return self._backtest.make_policy(name, {}, seed)

    def start_of(self, t: int) -> float:
        """Return the start of interval `t` of the recorded field, in s since 1970 (UTC)."""
        recording = self._backtest.recording
        return float(recording.start + self._rows[t] * recording.interval)

    def intervals_after(self, t: int) -> int:
        """Return how many intervals pass from interval `t` to the field's next recorded interval.

        The number is more than 1 if rows without readings follow interval `t`, and 1 for the last
        interval.
        """
        return int(self._rows[t + 1] - self._rows[t]) if t + 1 < self.horizon else 1

    def fingerprint(self) -> str:
        """Return 16 hexadecimal digits that identify the recorded field and its training rows."""
        return self._backtest.fingerprint()
