"""Comparison: the replays that it stores, and how they are removed."""

import pytest

from edge_tvbo.research.comparison import remove_replays
from edge_tvbo.research.resumable_jobs import MANIFEST, RESULTS_DIRECTORY


def test_a_removal_that_fails_leaves_no_replay_without_its_manifest(tmp_path):
    """A replay without a manifest would count as one of the next backtest."""
    (tmp_path / MANIFEST).write_text("{}")
    (tmp_path / RESULTS_DIRECTORY / "random-000000.json").mkdir(parents=True)  # cannot be unlinked
    with pytest.raises(OSError):
        remove_replays(tmp_path)
    assert (tmp_path / MANIFEST).exists()
