"""Comparison on moving functions: each search runs; a search that is not installed is skipped."""

import numpy as np
import pytest
from benchmarks import moving_functions
from benchmarks.moving_functions import PROBLEMS, SEARCHES, play, table

from edge_tvbo.research.experiments.statistics import summarise

PEERS = {"wdbo-algo": "wdbo_algo", "BoTorch": "botorch"}


@pytest.mark.filterwarnings("ignore")  # what the peers say of themselves is no error here
@pytest.mark.parametrize("search", [each for each in SEARCHES if each != "random"])
def test_each_search_plays_on_both_functions(search, monkeypatch):
    pytest.importorskip(PEERS.get(search.split(",")[0], "edge_tvbo"), exc_type=ImportError)
    monkeypatch.setattr(moving_functions, "T", 17)
    names = (search, "random")
    rows = [play((problem, name, run)) for problem in PROBLEMS for name in names for run in (0, 1)]

    assert all(0.0 <= row.numbers["regret"] < 9.0 for row in rows)
    assert np.isfinite([value for row in rows for value in row.numbers.values()]).all()
    lines = table(summarise(rows)).splitlines()[2:]
    assert len(lines) == 4
    assert sum(f"| {search} |" in line for line in lines) == 2
