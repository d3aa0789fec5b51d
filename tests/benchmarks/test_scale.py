"""Cost of an interval by the number of sensors, exact and with few components."""

from statistics import median

import numpy as np
import pytest
from benchmarks.rounds import in_turns, ratios, spread
from benchmarks.runners import Fused, Ours, field_of

from edge_tvbo.models.posteriors import select as engines

ALL_SIZES = (10, 20, 46, 100, 200, 500, 1000, 2000)


@pytest.fixture
def exact(monkeypatch):
    """Use the exact engine for every field."""
    monkeypatch.setattr(engines, "MAX_EXACT_SENSORS", max(ALL_SIZES))


def slope(sizes, seconds):
    """Return the exponent p with which seconds grow as sizes^p."""
    return np.polyfit(np.log(sizes), np.log(seconds), 1)[0]


def test_the_exact_engine_costs_as_the_square_of_the_sensors(exact, bench):
    """From 100 on: below, most of an interval is Python's."""
    sizes = [M for M in ALL_SIZES if M >= 100]
    took = in_turns(*(Ours("tv-gp-ucb", field_of(M)) for M in sizes), rounds=7)
    slopes = [slope(sizes, seconds) for seconds in zip(*took, strict=True)]
    each = ", ".join(f"{M}: {spread(t, 1e6)}" for M, t in zip(sizes, took, strict=True))
    bench(
        "exponent of the cost in M, exact, M=100 to 2000",
        "itself (M²; beyond the cache a little more)",
        slopes,
        most=2.4,
        detail=f"{each} µs",
    )


@pytest.mark.parametrize("M", ALL_SIZES)
def test_through_the_api_it_costs_at_most_ten_bare_kernels_at_any_size(M, exact, bench):
    ours, bare = in_turns(Ours("tv-gp-ucb", field_of(M)), Fused(field_of(M)), rounds=9)
    bench(
        f"an interval of tv-gp-ucb, exact, M={M}",
        "a bare fused kernel",
        ratios(ours, bare),
        most=10 if M >= 46 else None,
        detail=f"{spread(ours, 1e6)} µs, it {spread(bare, 1e6)} µs",
    )


@pytest.mark.parametrize(
    ("length_scale", "M"), [(0.1, 1000), (0.1, 2000), (0.2, 501), (0.2, 1000), (0.2, 2000)]
)
def test_beyond_the_crossing_components_cost_less_than_the_exact_engine(
    M, length_scale, monkeypatch, bench
):
    field = field_of(M, length_scale)
    few = Ours("tv-gp-ucb", field)
    said = f"{few.policy.facts()[0].components} components"
    monkeypatch.setattr(engines, "MAX_EXACT_SENSORS", M)
    close, exact = in_turns(few, Ours("tv-gp-ucb", field), rounds=9)
    bench(
        f"an interval of tv-gp-ucb, M={M}, {said} (length scale {length_scale})",
        "the exact engine",
        ratios(close, exact),
        most=1,
        detail=f"{spread(close, 1e6)} µs, it {spread(exact, 1e6)} µs",
    )


@pytest.mark.parametrize("length_scale", [0.1, 0.2])
def test_components_choose_as_the_exact_engine_after_the_same_readings(
    length_scale, monkeypatch, bench
):
    """On fields drawn from the prior that drift; what is compared are choices and beliefs."""
    M, rng = 600, np.random.default_rng(3)
    field = field_of(M, length_scale)
    close = Ours("tv-gp-ucb", field, epsilon=0.01).policy
    monkeypatch.setattr(engines, "MAX_EXACT_SENSORS", M)
    exact = Ours("tv-gp-ucb", field, epsilon=0.01).policy
    draw = np.linalg.cholesky(field.kernel + 1e-8 * np.eye(M))
    truth, regret, apart = draw @ rng.standard_normal(M), [], []
    for _ in range(1000):
        arms = [policy.select().arm for policy in (close, exact)]
        regret.append(truth.max() - truth[arms])
        y = float(truth[arms[1]] + 0.1 * rng.standard_normal())
        for policy in (close, exact):
            policy.observe(arms[1], y)
            policy.advance()
        apart.append(abs(close.posterior()[0] - exact.posterior()[0]).max())
        truth = 0.99**0.5 * truth + 0.1 * draw @ rng.standard_normal(M)
    ours, theirs = np.mean(regret, axis=0)
    same = np.mean([one == other for one, other in regret])
    bench(
        f"regret of tv-gp-ucb on components, M={M}, length scale {length_scale}",
        "the exact engine after the same readings",
        [ours / theirs],
        most=1.05,
        detail=f"{ours:.4f}, it {theirs:.4f} sd an interval; {same:.1%} of the choices the same; "
        f"means at most {max(apart):.2g} apart, half of them {median(apart):.2g} or less",
    )
