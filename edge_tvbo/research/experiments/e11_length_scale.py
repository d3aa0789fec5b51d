"""E11: functions that stand still, and whose length scale nobody knows.

[LB] section 5, figures 2-4, with what its public code adds (github.com/JuliuszZiomek/LB-GP-UCB):
values are read without noise by a model that thinks of σ² = 1e-4; inputs are scaled to the unit
box; the kernel is Matérn 5/2; candidates are θ0 e^(-i/(d + 2ν)); β = 1 for all (B = 1, and so small
an R leaves nothing of the rest of theorem 2.1); 3 random points come first on Berkenkamp's
function, 10 elsewhere; θ0 is their likeliest length scale, found uphill from ln 2, where BoTorch
begins.

Readings are standardised anew for each fit, and that decides the outcome. A policy that sits on
the slope's end at x = 1 pulls the mean of the readings up to what it reads there, until all that is
unseen looks more promising: short length scales leave, long ones, under which nothing is unseen,
stay for ever. Standardised once and for all, by first readings that are all of the slope, LB and A
stay there too. MLE and MCMC are the best of all in the runs whose first points give the peak away.

Otherwise than in the public code: the first five candidates come one an interval, not at once;
what a length scale is suspected to cost goes by Matérn kernels, not by squared exponentials;
elimination allows 2Σβσ, as in algorithm 1, not Σβσ; bounds are of the function, not of a reading;
MCMC draws 4 length scales, not 100, with σ² = 1e-4 and averages bounds as in section 5, where the
code has σ² = .05 and averages variances. The next point is searched among 128 candidates in one
dimension and 256 in five, and from the best of these by L-BFGS-B.

The materials of the paper are played where a directory of data holds ``crossed_barrel.csv``
(Gongora et al. 2020: 4 inputs, toughness) or ``agnp.csv`` (Mekki-Berrada et al. 2021: 5 inputs,
loss), a head above and the objective last. Both are in github.com/PV-Lab/Benchmarking: Liang et al.
2021, Benchmarking the performance of Bayesian optimization across multiple experimental materials
science domains.
"""

import csv
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from math import exp, log
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edge_tvbo.errors import DataError
from edge_tvbo.models.box import BoxField
from edge_tvbo.models.domain import Arm, Field
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.spatial_kernels import SpatialKernel
from edge_tvbo.policy.settings import HYPERPRIOR
from edge_tvbo.policy.unknown_length_scale.candidates import (
    Growth,
    Hypothesis,
    RegretBalancing,
    ShrinkingSchedule,
    gain_rate,
)
from edge_tvbo.policy.unknown_length_scale.fitting import McmcSelector, MlSelector
from edge_tvbo.policy.unknown_length_scale.policies import LengthScalePolicy
from edge_tvbo.policy.unknown_length_scale.posterior import Fit, LengthScaleSelector, Readings
from edge_tvbo.research.experiments.base import Expectation, Labels, PublishedValue, Row, Summary
from edge_tvbo.research.experiments.benchmark_functions import BERKENKAMP, MICHALEWICZ, Landscape
from edge_tvbo.research.experiments.run_policy import rng

Array = NDArray[np.float64]

HORIZON = 250
NU = 2.5
NOISE_VARIANCE = 1e-4  # that the model thinks of; there is none
BETA = 1.0
DELTA = 0.1  # of LB's elimination, which no noise makes idle
SAMPLES = 4
START = log(2.0)  # softplus(0)
STRIDE = 0.25  # in ln θ, of a climb
FLAT = 1e-3  # nats: less is no ascent
SHORTEST, LONGEST = 1e-3, 1e2
GROWTH = 0.5
GROWTHS = (0.25, GROWTH, 0.75)
BALANCED, SHRUNK, LIKELIEST, SAMPLED = "lb-gp-ucb", "a-gp-ucb", "mle-gp-ucb", "mcmc-gp-ucb"
POLICIES = (BALANCED, SHRUNK, LIKELIEST, SAMPLED)
REGRET, BEST, SCALE = "R_T", "best regret", "mean length scale"
EVERY = 5  # steps between the points of a curve
EDGES = np.geomspace(1e-3, 10.0, 41)  # of the histograms of length scales
TOY, RIDGES = "Berkenkamp", "Michalewicz"
FILES = {"CrossedBarrel": ("crossed_barrel.csv", 1.0), "AGNP": ("agnp.csv", -1.0)}
OPTIMAL = {RIDGES: 0.0354, "CrossedBarrel": 0.1309, "AGNP": 0.1056}  # θ* in the public code


class Problem(NamedTuple):
    """What is to be maximised."""

    name: str
    field: Field  # a unit box, or finite arms within it
    value: Callable[[Arm], float]
    begin: Callable[[np.random.Generator], list[Arm]]  # the first points
    maximum: float
    runs: int
    growths: tuple[float, ...]


class Standardised(Readings):
    """Readings that are standardised anew for each fit."""

    @property
    def spread(self) -> float:
        """Standard deviation of the readings held, in their own unit; 1 where they are equal."""
        y = self.y[: self.held]
        return float(y.std(ddof=1)) or 1.0 if len(y) > 1 else 1.0

    def fit(self, length_scale: float) -> Fit:
        """Give the regression on the standardised readings under a length scale."""
        n = self.held
        if not n:
            return super().fit(length_scale)
        K = self.correlations(self._distances[:n, :n], length_scale)
        y = (self.y[:n] - self.y[:n].mean()) / self.spread
        return Fit(K, np.full(n, self.noise_variance), y)


class Balanced(RegretBalancing):
    """Regret balancing where β σ come in spreads of the readings, and readings as they are."""

    def __init__(self, readings: Standardised, first: Hypothesis, growth: Growth) -> None:
        d = readings.dimension
        super().__init__(
            first,
            growth,
            0.0,
            dimension=d,
            gain=gain_rate(NU, d),
            extent=readings.extent,
            noise_variance=0.0,  # in the truth there is none
            delta=DELTA,
        )
        self._readings = readings

    def update(self, y: float, bonus: float) -> None:
        """Credit the hypothesis in play, in the unit of the readings."""
        super().update(y, bonus * self._readings.spread)


def climb(readings: Readings) -> float:
    """Give the length scale that readings make likelier than those near it, uphill from ln 2."""
    from scipy.optimize import minimize_scalar

    def likelihood(place: float) -> float:
        return readings.fit(exp(place)).log_likelihood()

    at = log(START)
    here = likelihood(at)
    for stride in (STRIDE, -STRIDE):
        moved = False
        while log(SHORTEST) < at + stride < log(LONGEST):
            ahead = likelihood(at + stride)
            if ahead < here + FLAT:
                break
            at, here, moved = at + stride, ahead, True
        if moved:
            break
    found = minimize_scalar(
        lambda place: -likelihood(place),
        bounds=(at - STRIDE, at + STRIDE),
        method="bounded",
        options={"xatol": 0.02, "maxiter": 10},
    )
    return exp(found.x) if -found.fun > here else exp(at)


class LengthScale:
    """R_T, best regret and mean length scale of each policy on each function."""

    name = "E11"
    title = "functions of unknown length scale"
    source = "[LB] figures 2-4"
    runs = 20
    block = 1

    def __init__(
        self,
        data_dirs: tuple[str, ...] = (),
        *,
        horizon: int = HORIZON,
        problems: tuple[str, ...] = (TOY, RIDGES, *FILES),
    ) -> None:
        self._data_dirs = data_dirs
        self._horizon = horizon
        self._wanted = problems

    @cached_property
    def _problems(self) -> dict[str, Problem]:
        found = [_landscape(TOY, BERKENKAMP, 3, 20), _landscape(RIDGES, MICHALEWICZ, 10, 10)]
        found += [
            _materials(name, path, sign)
            for name, (file, sign) in FILES.items()
            for path in [Path(each).expanduser() / file for each in self._data_dirs]
            if path.is_file()
        ]
        return {problem.name: problem for problem in found if problem.name in self._wanted}

    def measure(self, runs: range, seed: int) -> list[Row]:
        """Carry out some runs; in each the policies begin with the same random points."""
        return [
            row
            for run in runs
            for problem in self._problems.values()
            if run < problem.runs
            for row in self._run(run, problem, seed)
        ]

    def printed(self) -> list[PublishedValue]:
        """Give nothing: the paper has figures, no numbers."""
        return []

    def claims(self, summary: Summary) -> list[Expectation]:
        """Look for the paper's order, function by function, and for what growth does."""
        seen = _seen(summary)
        found = [claim for name in seen for claim in _ahead(summary, name)]
        if TOY in seen:
            found += _stuck(summary)
        if RIDGES in seen:
            found += [*_near(summary), *_steady(summary)]
        return found

    def draw(self, figure: Any, rows: Sequence[Row], summary: Summary) -> None:
        """Draw both regrets over steps (figure 3) and the length scales (figure 2)."""
        seen = _seen(summary)
        panels = figure.subplots(3, len(seen), squeeze=False)
        for column, name in enumerate(seen):
            cumulative, best, scales = (panels[row][column] for row in range(3))
            for policy in POLICIES:
                curves = [row.curves for row in rows if row.case == _case(name, policy, GROWTH)]
                _band(cumulative, [curve["R_t"] for curve in curves], policy)
                _band(best, [curve["best"] for curve in curves], policy)
                counts = np.sum([curve["length scales"] for curve in curves], axis=0)
                scales.stairs(counts / counts.sum(), EDGES, label=policy)
            cumulative.set(title=name, ylabel="cumulative regret", ylim=(0, None))
            best.set(xlabel="step", ylabel="best regret", ylim=(0, None))
            scales.set(xlabel="length scale, of the unit box", ylabel="share", xscale="log")
            if name in OPTIMAL:
                scales.axvline(OPTIMAL[name], color="0.5", ls=":")
        panels[0][0].legend(fontsize=7)

    def _run(self, run: int, problem: Problem, seed: int) -> Iterator[Row]:
        first = problem.begin(rng(self.name, seed, run))
        window = len(first) + self._horizon
        longest = climb(_read(Standardised("", problem.field, window, NU), problem, first))
        for policy in POLICIES:
            for growth in problem.growths if policy in (BALANCED, SHRUNK) else (GROWTH,):
                made = _make(policy, problem.field, longest, growth, run, window)
                for arm in first:
                    made.observe(arm, problem.value(arm))
                if policy in (LIKELIEST, SAMPLED):
                    made.selector.advance(0)
                case = _case(problem.name, policy, growth)
                yield _play(run, case, problem, made, first, self._horizon)


def _landscape(name: str, landscape: Landscape, initial: int, runs: int) -> Problem:
    d, sides = len(landscape.lower), landscape.upper - landscape.lower
    candidates = 128 if d == 1 else 256
    return Problem(
        name,
        BoxField([0.0] * d, [1.0] * d, SpatialKernel(NU), NOISE_VARIANCE, candidates=candidates),
        lambda arm: float(landscape.evaluate(landscape.lower + np.array(arm) * sides)),
        lambda generator: [tuple(place) for place in generator.random((initial, d)).tolist()],
        landscape.maximum,
        runs,
        GROWTHS if name == RIDGES else (GROWTH,),
    )


def _materials(name: str, path: Path, sign: float) -> Problem:
    """Give the problem of a table: inputs and, last, what is to be maximised times `sign`.

    Rows of the same inputs are one arm, of the mean of their different values, as in the public
    code.
    """
    places, values = _table(path)
    values = sign * values
    spans = np.ptp(places, axis=0)
    field = SensorField(
        [f"arm {i}" for i in range(len(places))],
        np.eye(len(places)),  # for its variance alone
        NOISE_VARIANCE,
        positions=(places - places.min(axis=0)) / np.where(spans > 0, spans, 1.0),
    )
    return Problem(
        name,
        field,
        lambda arm: float(values[arm]),
        lambda generator: generator.choice(len(places), 10, replace=False).tolist(),
        float(values.max()),
        20 if name == "AGNP" else 10,
        (GROWTH,),
    )


def _table(path: Path) -> tuple[Array, Array]:
    values: dict[tuple[float, ...], set[float]] = {}
    with path.open(encoding="utf-8", newline="") as file:
        try:
            for line in list(csv.reader(file))[1:]:
                *inputs, value = map(float, line)
                values.setdefault(tuple(inputs), set()).add(value)
            places = np.array(list(values))
        except ValueError as error:
            raise DataError(f"{path}: {error}; inputs and the objective must be numbers.") from None
    if places.ndim != 2 or len(places) < 10:
        raise DataError(
            f"{path} has {len(places)} different inputs; it takes a head and 10 or more."
        )
    return places, np.array([sum(sorted(each)) / len(each) for each in values.values()])


def _read(readings: Standardised, problem: Problem, arms: Sequence[Arm]) -> Standardised:
    for arm in arms:
        readings.add(arm, problem.value(arm))
    return readings


def _make(
    policy: str, field: Field, longest: float, growth: float, seed: int, window: int
) -> LengthScalePolicy:
    readings = Standardised(policy, field, window, NU)
    first, d = Hypothesis(longest, 1.0), readings.dimension
    growing = Growth(1.0 / (d + 2.0 * NU), growth)
    scales: LengthScaleSelector
    if policy == BALANCED:
        scales = Balanced(readings, first, growing)
    elif policy == SHRUNK:
        scales = ShrinkingSchedule(first, growing, d, 0.0)
    elif policy == LIKELIEST:
        scales = MlSelector(readings, first, 0.0, 0.0, seed)
    else:
        scales = McmcSelector(readings, first, *HYPERPRIOR, SAMPLES, seed)
    return LengthScalePolicy(policy, readings, scales, BETA, DELTA, seed)


def _play(
    run: int,
    case: Labels,
    problem: Problem,
    policy: LengthScalePolicy,
    first: Sequence[Arm],
    horizon: int,
) -> Row:
    regret, scales = np.empty(horizon), np.empty(horizon)
    for t in range(horizon):
        scales[t] = policy.length_scale
        arm = policy.select().arm
        value = problem.value(arm)
        policy.observe(arm, value)
        policy.advance()
        regret[t] = problem.maximum - value
    begun = problem.maximum - max(problem.value(arm) for arm in first)
    best = np.minimum(np.minimum.accumulate(regret), begun)
    counts, _ = np.histogram(np.clip(scales, EDGES[0], EDGES[-1]), EDGES)
    numbers = {REGRET: float(regret.sum()), BEST: float(best[-1]), SCALE: float(scales.mean())}
    curves = {
        "R_t": regret.cumsum()[EVERY - 1 :: EVERY].round(5).tolist(),
        "best": best[EVERY - 1 :: EVERY].round(6).tolist(),
        "length scales": counts.astype(np.float64).tolist(),
    }
    return Row(run, case, numbers, curves)


def _band(axes: Any, curves: Sequence[Sequence[float]], label: str) -> None:
    """Draw the mean with its standard error."""
    t = np.arange(1, len(curves[0]) + 1) * EVERY
    mean = np.mean(curves, axis=0)
    error = np.std(curves, axis=0, ddof=1) / len(curves) ** 0.5 if len(curves) > 1 else 0.0 * mean
    axes.plot(t, mean, label=label)
    axes.fill_between(t, mean - error, mean + error, alpha=0.2)


def _case(problem: str, policy: str, growth: float) -> Labels:
    told = f"{growth:g}" if policy in (BALANCED, SHRUNK) else ""
    return {"function": problem, "policy": policy, "growth": told}


def _seen(summary: Summary) -> list[str]:
    return list(dict.fromkeys(cell.case["function"] for cell in summary.cells))


def _means(summary: Summary, number: str, problem: str) -> dict[str, float]:
    """Give the mean of each policy, with the growth of [LB]'s main experiments."""
    return {policy: summary.mean(number, **_case(problem, policy, GROWTH)) for policy in POLICIES}


def _ahead(summary: Summary, problem: str) -> Iterator[Expectation]:
    """Say whether LB comes before each other policy, in R_T and where the paper says so best."""
    for number in (REGRET,) if problem == TOY else (REGRET, BEST):
        ours, *others = _means(summary, number, problem).items()
        for policy, theirs in others:
            text = f"{problem}: LB is below {policy} in {number} ({ours[1]:.4g} and {theirs:.4g})"
            yield Expectation(text, ours[1] < theirs)


def _stuck(summary: Summary) -> Iterator[Expectation]:
    """Say whether MLE and MCMC are caught by the local optimum, and LB and A are not."""
    missed = _means(summary, BEST, TOY)
    caught = (BERKENKAMP.maximum - 0.6) / 20.0  # one run of twenty that ends at x = 1
    for policy in POLICIES:
        if policy in (LIKELIEST, SAMPLED):
            text = f"{TOY}: {policy} gets stuck in runs (best regret {missed[policy]:.3g})"
            yield Expectation(text, missed[policy] >= caught)
        else:
            text = f"{TOY}: {policy} never does (best regret {missed[policy]:.3g})"
            yield Expectation(text, missed[policy] < caught)


def _near(summary: Summary) -> Iterator[Expectation]:
    """Say whether LB's length scales are the nearest to θ*."""
    scales = _means(summary, SCALE, RIDGES)
    off = {policy: abs(log(scale / OPTIMAL[RIDGES])) for policy, scale in scales.items()}
    said = ", ".join(f"{policy} {scale:.3g}" for policy, scale in scales.items())
    text = f"{RIDGES}: LB's mean length scale is the nearest to θ* = {OPTIMAL[RIDGES]} ({said})"
    yield Expectation(text, min(off, key=off.__getitem__) == BALANCED)


def _steady(summary: Summary) -> Iterator[Expectation]:
    """Say whether growth matters less to LB than to A (figure 4)."""
    for number in (BEST, SCALE):
        ranges = {}
        for policy in (BALANCED, SHRUNK):
            means = [summary.mean(number, **_case(RIDGES, policy, growth)) for growth in GROWTHS]
            ranges[policy] = max(means) - min(means)
        ours, theirs = ranges[BALANCED], ranges[SHRUNK]
        text = f"{RIDGES}: growth t^.25 to t^.75 moves LB's {number} less ({ours:.3g}) than A's"
        yield Expectation(f"{text} ({theirs:.3g})", ours < theirs)
