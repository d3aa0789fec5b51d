"""Policy snapshots: opened, changed and sealed again, and the check that one is rejected."""

import msgspec
import numpy as np
import pytest

from edge_tvbo.errors import SnapshotError
from edge_tvbo.models.snapshot import decode_snapshot, encode_snapshot


def assert_rejected(policy, blob, match=None):
    """Check that a snapshot raises `SnapshotError` and leaves the policy as it was."""
    before, posterior = policy.snapshot(), np.array(policy.posterior()).tobytes()
    with pytest.raises(SnapshotError, match=match):
        policy.restore(blob)
    assert policy.snapshot() == before
    assert np.array(policy.posterior()).tobytes() == posterior


def opened(blob):
    """Return the kind, the field and the state of a snapshot."""
    _, kind, field, _ = msgspec.msgpack.decode(blob)
    return kind, field, decode_snapshot(kind, field, blob)


def resealed(blob, **changes):
    """Return a snapshot with a valid envelope and a changed state."""
    kind, field, state = opened(blob)
    return encode_snapshot(kind, field, {**state, **changes})
