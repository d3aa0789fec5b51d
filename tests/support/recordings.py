"""Recordings for tests: all datasets by name, and a small recording made by hand."""

from datetime import UTC, datetime
from functools import cache

import numpy as np
from edge_tvbo_adapters import datasets
from support.paths import SHARED

from edge_tvbo.messages.readings import RecordedReadings
from edge_tvbo.simulation.dataset_lookup import DataSource
from edge_tvbo.simulation.recording import Recording

MIDNIGHT = datetime(2004, 3, 1, tzinfo=UTC).timestamp()


def data_source(*directories):
    """Return the access to all datasets, where `directories` are searched first.

    Each of the real recordings, which are never modified, is read once.
    """
    return DataSource(_ReadOnce, tuple(map(str, directories)))


class _ReadOnce:
    """A dataset whose real recording is read once."""

    def __init__(self, name):
        self._dataset = datasets.find(name)

    def __getattr__(self, name):
        return getattr(self._dataset, name)

    def load(self, directories):
        if directories and directories[0].startswith(str(SHARED)):
            return _load(self._dataset.name, tuple(directories))
        return self._dataset.load(directories)


@cache
def _load(name, directories):
    recording = datasets.find(name).load(directories)
    recording.values.flags.writeable = recording.observed.flags.writeable = False
    return recording


def as_columns(readings):
    """Return a list of `RecordedReading` of one field as `RecordedReadings`."""
    sensors, units = (
        list(dict.fromkeys(getattr(each, name) for each in readings)) for name in ("sensor", "unit")
    )
    return RecordedReadings(
        "lab",
        sensors,
        units,
        np.array([each.at for each in readings]),
        np.array([sensors.index(each.sensor) for each in readings], np.intc),
        np.array([units.index(each.unit) for each in readings], np.short),
        np.array([each.value for each in readings]),
    )


def small_recording(**changes):
    """Return three sensors and five intervals; round-robin reads 10, a gap, 14, 9, 30."""
    values = np.array(
        [
            [10.0, 12.0, 15.0],
            [11.0, 40.0, 13.0],  # 40 is filled in
            [9.0, 16.0, 14.0],
            [9.0, 16.0, 99.0],  # 99 is filled in
            [20.0, 30.0, 25.0],
        ]
    )
    observed = np.ones(values.shape, np.bool_)
    observed[1, 1] = observed[3, 2] = False
    fields = {
        "name": "small",
        "unit": "°C",
        "objective": "max",
        "sensors": ("a", "b", "c"),
        "start": MIDNIGHT,
        "interval": 600.0,
        "values": values,
        "observed": observed,
        "source": "a test",
    }
    return Recording(**(fields | changes))
