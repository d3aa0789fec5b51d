"""Policy snapshots: opened, changed and sealed again, and the check that one is rejected."""

from contextlib import suppress

import msgspec
import numpy as np
import pytest

from edge_tvbo.errors import SnapshotError
from edge_tvbo.models.fingerprint import Fingerprint
from edge_tvbo.models.snapshot import SNAPSHOT_FORMAT, decode_snapshot, encode_snapshot


def assert_rejected(policy, blob, match=None):
    """Check that a snapshot raises `SnapshotError` and leaves the policy as it was."""
    before, posterior = policy.snapshot(), np.array(policy.posterior()).tobytes()
    with pytest.raises(SnapshotError, match=match):
        policy.restore(blob)
    assert policy.snapshot() == before
    assert np.array(policy.posterior()).tobytes() == posterior


def opened(blob):
    """Return the kind, the field's fingerprint and the state of a snapshot."""
    _, kind, exact, _, *rounded = msgspec.msgpack.decode(blob)
    field = Fingerprint(exact, *rounded)
    return kind, field, decode_snapshot(kind, field, blob)


def in_old_format(blob):
    """Return a snapshot as version 0.1.0 writes it: without the rounded digest of the field.

    Inner snapshots are converted, too.
    """
    *envelope, _ = msgspec.msgpack.decode(blob)
    state = envelope[-1]
    for name, value in state.items():
        if isinstance(value, bytes) and _is_snapshot(value):
            state[name] = in_old_format(value)
    return msgspec.msgpack.encode(envelope)


def _is_snapshot(data):
    with suppress(msgspec.DecodeError):
        found = msgspec.msgpack.decode(data)
        return isinstance(found, list) and len(found) == 5 and found[0] == SNAPSHOT_FORMAT
    return False


def resealed(blob, **changes):
    """Return a snapshot with a valid envelope and a changed state."""
    kind, field, state = opened(blob)
    return encode_snapshot(kind, field, {**state, **changes})
