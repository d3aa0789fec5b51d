"""Bands and half-widths of experiments: 95 % intervals with few runs, too."""

import numpy as np
import pytest

from edge_tvbo.research.experiments.curves import plot_with_band
from edge_tvbo.research.experiments.result_table import Cell


class Axes:
    """The two methods of matplotlib's axes that draw a curve with a band."""

    def plot(self, x, mean, **style):
        return [self]

    def get_color(self):
        return "k"

    def fill_between(self, x, low, high, **style):
        self.low, self.high = low, high


@pytest.mark.parametrize("runs", [2, 3, 5, 10, 40])
def test_bands_contain_the_mean_in_19_of_20_cases(runs):
    axes = Axes()
    curves = np.random.default_rng(0).normal(3.0, 2.0, (runs, 20_000))
    plot_with_band(axes, np.arange(20_000), curves)
    assert ((axes.low <= 3.0) & (axes.high >= 3.0)).mean() == pytest.approx(0.95, abs=0.01)
    sd = curves.std(axis=0, ddof=1)
    halves = [Cell({}, "R_T/T", 0.0, each, runs).half_width for each in sd[:50].tolist()]
    np.testing.assert_allclose(halves, (axes.high - axes.low)[:50] / 2)


def test_one_run_has_no_half_width():
    assert Cell({}, "R_T/T", 1.0, 0.0, 1).half_width == 0.0
