"""Dataset lookup: descriptions of recordings."""

import numpy as np
import pytest
from support.recordings import small_recording

from edge_tvbo.simulation import dataset_lookup


def test_described_range_shows_how_the_readings_differ():
    values = 101_325.0 + 5.0 * np.arange(15.0).reshape(5, 3)
    assert dataset_lookup.describe(small_recording(values=values, unit="Pa"))["range"] == (
        "101325 to 101395 Pa"
    )
    assert dataset_lookup.describe(small_recording(unit=""))["range"] == "9 to 99"


@pytest.mark.parametrize(("missing", "text"), [(0, "100.0%"), (1, "99.99%"), (150, "98.5%")])
def test_a_missing_reading_is_not_rounded_to_100_percent(missing, text):
    values = np.ones((5000, 2))
    observed = np.arange(10_000).reshape(5000, 2) >= missing
    recording = small_recording(sensors=("a", "b"), values=values, observed=observed)
    assert dataset_lookup.describe(recording)["observed"] == text


def test_readings_whose_difference_is_no_float_are_described():
    """The command data info ended with an OverflowError."""
    values = np.where(np.arange(15.0).reshape(5, 3) % 2, 1.5e308, -1.5e308)
    assert dataset_lookup.describe(small_recording(values=values, unit="Pa"))["range"] == (
        "-1.5e+308 to 1.5e+308 Pa"
    )
