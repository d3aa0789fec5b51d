"""Splits for tests: training rows and test rows of a small field."""

import numpy as np

from edge_tvbo.research.experiments.split_experiment import TrainTestSplit


def split_with_gaps():
    """Return days of five sensors; in every third hour, no sensor was read."""
    hours, phases = np.arange(8 * 24), np.arange(5)[:, None]
    values = np.sin(2 * np.pi * (hours / 24 + phases / 5)).T
    values += 0.1 * np.random.default_rng(3).standard_normal(values.shape)
    values[::3] = np.nan
    return TrainTestSplit(values[:-48], values[-48:], 3600.0, 0.0, None)
