"""Experiments on policies of other papers (E12, E13), small, and their reference algorithm."""

import math
import sys

import numpy as np
import pytest

from edge_tvbo.errors import MissingExtra
from edge_tvbo.research.experiments import e12_change_detection, e13_optimal_designs
from edge_tvbo.research.experiments.glr_kl_ucb import run_glr_kl_ucb
from edge_tvbo.research.experiments.statistics import summarise

EXPERIMENTS = {  # class, horizon, rows per run
    "E12": (e12_change_detection.ChangeDetection, 100, 16),
    "E13": (e13_optimal_designs.OptimalDesigns, 200, 15),
}


@pytest.fixture(scope="module", params=EXPERIMENTS)
def small(request):
    experiment_class, horizon, _ = EXPERIMENTS[request.param]
    with pytest.MonkeyPatch.context() as patch:
        for module in (e12_change_detection, e13_optimal_designs):
            patch.setattr(module, "HORIZON", horizon)
        experiment = experiment_class()
        yield experiment, experiment.measure(range(1), 0)


def test_run_has_a_row_for_each_case_and_is_reproducible(small):
    experiment, rows = small
    cases = [tuple(row.case.items()) for row in rows]
    assert len(rows) == len(set(cases)) == EXPERIMENTS[experiment.name][2]
    assert all(row.numbers["R_T"] >= 0 for row in rows)
    assert experiment.measure(range(1), 0) == rows
    results = summarise(rows)
    assert all(results.cell(each.number, each.case) for each in experiment.published())
    assert len(experiment.expectations(results)) >= 9


def test_figure_is_drawn(small):
    figures = pytest.importorskip("matplotlib.figure")
    experiment, rows = small
    figure = figures.Figure()
    experiment.draw(figure, summarise(rows))
    assert all(axes.has_data() for axes in figure.axes)


def test_without_scipy_e13_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.special", None)
    with pytest.raises(MissingExtra, match=r"edge-tvbo\[science\]"):
        e13_optimal_designs.OptimalDesigns().measure(range(1), 0)


def test_fields_of_e13_switch_and_their_readings_stay_in_range(monkeypatch):
    monkeypatch.setattr(e13_optimal_designs, "HORIZON", 10_000)
    generator = np.random.default_rng(0)
    places = generator.standard_normal((100, 10))
    truth = e13_optimal_designs._truth("two switches", places, np.eye(100), generator)
    signs = np.sign(truth[:, 0]) * np.sign(truth[0, 0])
    assert (
        (signs[:1500] == 1).all() and (signs[1500:5000] == -1).all() and (signs[5000:] == 1).all()
    )
    readings = truth + e13_optimal_designs._noise(truth, generator.random(len(truth)))
    assert abs(readings).max() <= 1.0
    assert abs(truth).max() == pytest.approx(0.8)
    assert (readings - truth).std() == pytest.approx(0.1, rel=0.05)


# --- GLR-klUCB ----------------------------------------------------------------------------------


def kl(p, q):
    terms = [(p, q), (1 - p, 1 - q)]
    return sum(a * math.log(a / b) if a else 0.0 for a, b in terms)


def upper_bound(values, level):
    """Return the largest q with n kl(mean, q) <= level, by halving; 1 without a reading."""
    if not values:
        return 1.0
    low, high = np.mean(values), 1.0
    for _ in range(30):
        q = (low + high) / 2
        low, high = (
            (q, high) if q < 1 and len(values) * kl(np.mean(values), q) <= level else (low, q)
        )
    return low


def naive_glr_kl_ucb(rewards, every, delta, weight, c, step):
    """Yield (arm, restarted) by Besson et al. 2022, algorithm 1, from the whole history."""
    seen, since = [[] for _ in rewards[0]], 0
    for t, row in enumerate(rewards):
        age = max(t - since, 3)
        level = weight * math.log(age) + c * math.log(math.log(age))
        index = [upper_bound(values, level) for values in seen]
        arm = t % every if every and t % every < len(seen) else int(np.argmax(index))
        seen[arm].append(row[arm])
        n, restarted = len(seen[arm]), False
        for s in range(step, n, step) if every and n % step == 0 else ():
            a, b, m = (np.mean(part) for part in (seen[arm][:s], seen[arm][s:], seen[arm]))
            ratio = s * (kl(a, m) if a != m else 0) + (n - s) * (kl(b, m) if b != m else 0)
            restarted |= ratio >= math.log(3 * n**1.5 / delta)
        if restarted:
            seen, since = [[] for _ in seen], t + 1
        yield arm, restarted


@pytest.mark.parametrize(("every", "a", "c"), [(9, 1.0, 3.0), (9, 3.0, 0.0), (0, 1.0, 0.0)])
def test_compiled_glr_kl_ucb_agrees_with_its_twin(every, a, c):
    generator = np.random.default_rng(4)
    truth = np.repeat([[0.9, 0.2, 0.5], [0.1, 0.3, 0.7]], 120, axis=0)
    rewards = (generator.random(truth.shape) < truth).astype(float)
    T, K = rewards.shape
    picks = np.empty(T, np.int64)
    restarts = run_glr_kl_ucb(
        rewards, every, 0.1, a, c, 5, np.empty((K, T + 1)), np.empty(K, np.int64), picks
    )
    expected = list(naive_glr_kl_ucb(rewards.tolist(), every, 0.1, a, c, 5))
    assert picks.tolist() == [arm for arm, _ in expected]
    assert restarts == sum(restarted for _, restarted in expected)
    assert (restarts > 0) == (every > 0)
