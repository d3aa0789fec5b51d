"""A small version of the experiment that measures `auto`."""

import numpy as np
import pytest
from support.paths import SHARED

from edge_tvbo.research.experiments.auto import ABRUPT, BEHIND, RATES, RECORDED_RUNS, Automatic
from edge_tvbo.research.experiments.statistics import summarise

needs_data = pytest.mark.skipif(not SHARED.is_dir(), reason="the recordings are not at hand")


def test_on_fields_of_known_laws_every_rival_is_compared_in_the_same_run():
    experiment = Automatic(horizon=30)
    rows = experiment.measure(range(RECORDED_RUNS, RECORDED_RUNS + 2), 0)
    assert rows == experiment.measure(range(RECORDED_RUNS, RECORDED_RUNS + 2), 0)
    assert len({row.case["place"] for row in rows}) == len(RATES) + len(ABRUPT)
    summary = summarise(rows)
    for cell in summary.cells:
        if cell.number != BEHIND:
            continue
        auto = summary.mean("R_T/T", place=cell.case["place"], policy="auto")
        assert cell.mean == pytest.approx(auto - summary.mean("R_T/T", **cell.case))
    assert all(row.numbers["R_T/T"] >= 0 for row in rows)


@needs_data
def test_a_run_plays_rooms_streets_and_a_cold_start_and_states_its_claims():
    rows = Automatic((str(SHARED),), horizon=20).measure(range(1), 0)
    claims = Automatic().claims(summarise(rows))
    assert len(claims) == 3 + 2 + len(RATES) + len(ABRUPT) + 1 + 3
    rooms = [claim for claim in claims if claim.text.startswith("Intel")]
    assert all(claim.holds for claim in rooms)  # nothing in them is left to chance
    covered = [row.numbers["covered"] for row in rows if "covered" in row.numbers]
    assert np.all((np.array(covered) > 0.5) & (np.array(covered) <= 1.0))
