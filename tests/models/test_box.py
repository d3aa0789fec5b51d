"""The search in a box: its result, and the points at which it evaluates the score."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from edge_tvbo.models.box import BoxField
from edge_tvbo.models.spatial_kernels import SpatialKernel

SHARES = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=4)


@given(SHARES)
def test_local_search_finds_the_peak_of_a_quadratic_and_stays_in_the_box(shares):
    d = len(shares)
    lower, upper = np.arange(d) - 1.0, np.arange(d) + 10.0 ** np.arange(d)
    box = BoxField(lower, upper, SpatialKernel(2.5, 1.0), 0.01, candidates=16)
    peak = lower + shares * (upper - lower)
    weights = 1.0 + np.arange(d)

    def score(points):
        assert box.contains(points)
        return -((weights * ((points - peak) / (upper - lower)) ** 2).sum(axis=1))

    scores = score(box.positions)
    found = box.local_search(score, int(scores.argmax()), scores)

    assert np.abs((found - peak) / (upper - lower)).max() < 1e-3
