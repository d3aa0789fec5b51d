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
from edge_tvbo.numerics.types import Array
from edge_tvbo.policy.auto import AutoPolicy
from edge_tvbo.policy.base import Policy
from edge_tvbo.research.experiments.base import Experiment
from edge_tvbo.simulation.dataset_lookup import search_directories
from edge_tvbo.simulation.recording import Recording
from edge_tvbo.training.structural_fit import rows_without_nan

STREET_SENSORS = 50  # number of sensors that are drawn from a street network
TRAINING_SHARE = 0.6  # training rows as a share of a street network's rows
ROOMS = {"Intel 7-8": (864, 1152), "Intel 5-6": (576, 864), "Intel 3-4": (288, 576)}  # test rows
STREETS = {"METR-LA": "metr-la", "Guangzhou": "guangzhou_speed_10min.csv.gz"}


class FieldFile(NamedTuple):
    """A CSV file of a recording: its name, first row, first test row, and end (exclusive)."""

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
            place: TrainTestSplit(
                values[:first],
                values[first:last],
                recording.interval,
                recording.start,
                recording.positions,
            )
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
            splits[place] = _split(recording, np.where(is_read, recording.values, np.nan), file)
        return splits

    def _drawn_streets(self, generator: np.random.Generator) -> dict[str, TrainTestSplit]:
        """Return the split of each recording of traffic speeds, by its name in `STREETS`.

        `STREET_SENSORS` sensors of each recording are drawn at random.
        """
        splits = {}
        for place, recording in self._streets.items():
            arms = generator.choice(len(recording.sensors), STREET_SENSORS, replace=False)
            values = np.asarray(recording.values)[:, arms]
            border = int(TRAINING_SHARE * len(values))
            parts = values[:border], values[border:]
            splits[place] = TrainTestSplit(*parts, recording.interval, recording.start, None)
        return splits


def _split(recording: Recording, values: Array, file: FieldFile) -> TrainTestSplit:
    """Return the training rows and the test rows of `values` (T, M)."""
    start = recording.start + file.first * recording.interval
    training, test = values[file.first : file.border], values[file.border : file.last]
    return TrainTestSplit(training, test, recording.interval, start, None)


def regret_and_coverage(
    policy: Policy, readings: Array, start: float, interval: float
) -> tuple[Array, float]:
    """Return a policy's regrets on the test rows of a split, and the coverage of its intervals.

    There is a regret for each row of `readings` (T, M) that is not NaN, in the unit of the
    readings. In a row that is NaN, no sensor is selected. The coverage is the share of the selected
    sensors' readings that are within the predictive intervals. Only `auto` has such intervals; the
    coverage of other policies is 0.
    """
    regret, covered = [], 0.0
    for t, (values, is_read) in enumerate(zip(readings, rows_without_nan(readings), strict=True)):
        policy.set_time(start + t * interval)
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
