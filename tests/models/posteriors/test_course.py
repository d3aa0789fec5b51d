"""Course posterior: the snapshots that it rejects."""

import numpy as np
import pytest

from edge_tvbo.errors import SnapshotError
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.posteriors.course import SNAPSHOT_KIND, CoursePosterior
from edge_tvbo.models.snapshot import decode_snapshot, encode_snapshot


def test_a_negative_time_since_the_clock_was_set_is_rejected_and_changes_nothing():
    field = SensorField(("a", "b"), np.eye(2), 0.01)
    posterior = CoursePosterior(field)
    posterior.observe(0, 1.0)
    before = posterior.snapshot()
    state = decode_snapshot(SNAPSHOT_KIND, field.fingerprint(), before)
    damaged = encode_snapshot(
        SNAPSHOT_KIND, field.fingerprint(), {**state, "unset_time": -1.0, "waited": 5}
    )
    with pytest.raises(SnapshotError, match="unset_time"):
        posterior.restore(damaged)
    assert posterior.snapshot() == before
