"""Base class of the experiments on recordings that are split into training rows and test rows.

There are three kinds of recordings:

- Temperatures of the Intel lab: three pairs of test days. All days before a pair are used for
  training.
- Traffic speeds of METR-LA and of Guangzhou: 50 sensors are drawn for each run. The first 60 % of
  the recording are used for training.
- The other fields of `FIELDS`: humidity, daily wind, particulates, share prices, soil moisture and
  weekly cases of chickenpox.

Rows in which no sensor was read, such as days without trade, are NaN.
"""

from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from edge_tvbo.errors import DataError
from edge_tvbo.models.field import SensorField
from edge_tvbo.numerics.types import Array, Mask
from edge_tvbo.policy.auto import AutoPolicy
from edge_tvbo.policy.base import Policy
from edge_tvbo.research.experiments.base import Experiment
from edge_tvbo.simulation.dataset_lookup import search_directories
from edge_tvbo.simulation.recording import Recording
from edge_tvbo.training.covariance import train
from edge_tvbo.training.structural_fit import rows_without_nan

STREET_SENSORS = 50  # number of sensors that are drawn from a street network
TRAINING_SHARE = 0.6  # training rows as a share of a street network's rows
ROOMS = {"Intel 7-8": (864, 1152), "Intel 5-6": (576, 864), "Intel 3-4": (288, 576)}  # test rows
STREETS = {"METR-LA": "metr-la", "Guangzhou": "guangzhou_speed_10min.csv.gz"}


class FieldFile(NamedTuple):
    """A CSV file with a recording: name, first row, first test row, and last row (exclusive)."""

    name: str
    first: int
    border: int
    last: int


FIELDS = {
    "humidity": FieldFile("intel_humidity_10min.csv.gz", 0, 864, 1152),
    "wind 1964": FieldFile("irish_wind_daily.csv.gz", 0, 1095, 1461),
    "wind 1973": FieldFile("irish_wind_daily.csv.gz", 3287, 4383, 4748),
    "PM10 2004": FieldFile("german_pm10_2002_2004.csv.gz", 0, 730, 1096),
    "PM10 2008": FieldFile("german_pm10_2006_2008.csv.gz", 0, 730, 1096),
    "shares": FieldFile("djia29_daily.csv.gz", 0, 895, 1193),
    "relative shares": FieldFile("djia29_daily_relative.csv.gz", 0, 895, 1193),
    "soil": FieldFile("cookfarm_soil_moisture_daily.csv.gz", 0, 165, 317),
    "chickenpox": FieldFile("hungary_chickenpox_weekly.csv.gz", 0, 261, 522),
}
PLACES = (*ROOMS, *STREETS, *FIELDS)
COVERAGE = 0.9  # nominal coverage of the predictive intervals


class TrainTestSplit(NamedTuple):
    """Training readings and test readings of the same sensors, with times and positions.

    A row in which no sensor was read is NaN.
    """

    training: Array  # (T0, M)
    test: Array  # (T, M)
    interval: float  # s
    start: float  # s since 1970, of the first training row
    positions: Array | None

    @property
    def values(self) -> Array:
        """The training readings and then the test readings of the split, (T0 + T, M)."""
        return np.concatenate((self.training, self.test))

    @property
    def test_start(self) -> float:
        """The time of the first test row of the split, in s since 1970."""
        return self.start + len(self.training) * self.interval

    def of_sensors(self, chosen: Mask) -> "TrainTestSplit":
        """Return the split with only the sensors for which the mask `chosen` (M,) is true."""
        positions = None if self.positions is None else self.positions[chosen]
        return self._replace(
            training=self.training[:, chosen], test=self.test[:, chosen], positions=positions
        )

    def of_varying_sensors(self) -> "TrainTestSplit":
        """Return the split without the sensors whose training readings are all equal."""
        return self.of_sensors(np.nanstd(self.training, axis=0) > 0)

    def trained_field(self) -> SensorField:
        """Return the field of the split's sensors, trained on the training readings."""
        names = tuple(f"s{arm}" for arm in range(self.training.shape[1]))
        return train(self.training, names, positions=self.positions)


class SplitExperiment(Experiment):
    """An experiment on the recordings `PLACES`, each with training rows and test rows."""

    source = "no paper"

    def data_fingerprints(self) -> dict[str, str]:
        """Return the fingerprint of each recording that is split."""
        files = {file.name for file in FIELDS.values()}
        return {
            source: self._recording(source).fingerprint()
            for source in sorted({"intel-lab", *STREETS.values(), *files})
        }

    @cached_property
    def _rooms(self) -> dict[str, TrainTestSplit]:
        recording = self._recording("intel-lab")
        values = np.asarray(recording.values)
        return {
            place: _split(recording, values, 0, first, last, recording.positions)
            for place, (first, last) in ROOMS.items()
        }

    @cached_property
    def _streets(self) -> dict[str, Recording]:
        return {place: self._recording(source) for place, source in STREETS.items()}

    def _recording(self, source: str) -> Recording:
        """Return the recording to be split; `source` names a dataset, or a CSV file to look up."""
        if not source.endswith(".csv.gz"):
            return self.data.load(source, "paper")
        directories = (*self.data.directories, *search_directories())
        for directory in directories:
            if (path := Path(directory) / source).is_file():
                return self.data._replace(directories=(str(path),)).load("csv", "paper")
        searched = "".join(f"\n  {directory}" for directory in directories)
        raise DataError(f"{source} is not in:{searched}\nName its directory with --data-dir.")

    @cached_property
    def _fields(self) -> dict[str, TrainTestSplit]:
        """The split of each recording in `FIELDS`; rows in which no sensor was read are NaN."""
        splits = {}
        for place, file in FIELDS.items():
            recording = self._recording(file.name)
            is_read = np.asarray(recording.observed).any(axis=1, keepdims=True)
            values = np.where(is_read, recording.values, np.nan)
            splits[place] = _split(recording, values, file.first, file.border, file.last)
        return splits

    def _drawn_streets(self, generator: np.random.Generator) -> dict[str, TrainTestSplit]:
        """Return the splits of the traffic speeds; the keys are the names in `STREETS`.

        `STREET_SENSORS` sensors of each recording are drawn at random.
        """
        splits = {}
        for place, recording in self._streets.items():
            arms = generator.choice(len(recording.sensors), STREET_SENSORS, replace=False)
            values = np.asarray(recording.values)[:, arms]
            border = int(TRAINING_SHARE * len(values))
            splits[place] = _split(recording, values, 0, border, len(values))
        return splits


def _split(
    recording: Recording,
    values: Array,
    first: int,
    border: int,
    last: int,
    positions: Array | None = None,
) -> TrainTestSplit:
    """Return the split of `values` (T, M), with the test rows `border` to `last` - 1."""
    start = recording.start + first * recording.interval
    parts = values[first:border], values[border:last]
    return TrainTestSplit(*parts, recording.interval, start, positions)


def regret_and_coverage(policy: Policy, split: TrainTestSplit) -> tuple[Array, float]:
    """Return a policy's regrets on the test rows of a split, and the coverage of its intervals.

    There is a regret for each test row that is not NaN, in the unit of the readings. In a row that
    is NaN, no sensor is selected. The coverage is the share of readings of selected sensors that
    are within the predictive intervals. Only `auto` has such intervals; the coverage of other
    policies is 0.
    """
    regret, covered = [], 0.0
    pairs = zip(split.test, rows_without_nan(split.test), strict=True)
    for t, (values, is_read) in enumerate(pairs):
        policy.set_time(split.test_start + t * split.interval)
        if is_read:
            arm = policy.select().arm
            y = policy.field.to_model(float(values[arm]))
            if isinstance(policy, AutoPolicy):
                low, high = policy.prediction_interval(arm, COVERAGE)
                covered += low <= y <= high
            policy.observe(arm, y)
            regret.append(float(values.max() - values[arm]))
        policy.advance()
    return np.array(regret), covered / len(regret)
