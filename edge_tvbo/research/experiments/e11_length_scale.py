"""E11: policies on static functions of unknown length scale.

Source: [LB] section 5, figures 2-4, with details from the paper's public code
(github.com/JuliuszZiomek/LB-GP-UCB). Readings have no noise, but the model has the noise variance
σ² = 1e-4. Inputs are scaled to the unit box. The kernel is Matérn 5/2, and the candidates for the
length scale in d dimensions are θ0 e^(-i/(d + 2ν)) with ν = 5/2 and i = 0, 1, ... All policies have
β = 1, because the norm bound B is 1, and because the other terms of theorem 2.1 vanish if the noise
R is so small. A run starts with readings at random points: 3 points for Berkenkamp's function and
10 points for other functions. θ0 is the most likely length scale given these readings; the
likelihood is maximised by an ascent from ln 2, the initial length scale of BoTorch.

Readings are standardised again for each fit, which has a decisive effect on Berkenkamp's function.
A policy that stays at the end of the slope, at x = 1, moves the mean of the readings towards the
value at x = 1. After some time, places without readings have higher upper bounds than x = 1.
Policies with short length scales then leave x = 1. Policies with long length scales stay, because
for such length scales every place is near a reading. If readings were standardised only once, with
the mean and the standard deviation of first readings on the slope, LB-GP-UCB and A-GP-UCB would
also stay. MLE-GP-UCB and MCMC-GP-UCB are the best policies in the runs in which the first points
reveal the peak.

There are six differences from the public code:

- The first five candidates are tried one per interval, not in the same interval.
- The suspected regret of a length scale is computed for Matérn kernels, not for squared
  exponentials.
- The rule that eliminates candidates has the term 2Σβσ, as in algorithm 1, not Σβσ.
- Confidence bounds are those of the function, not those of a reading.
- MCMC draws 4 length scales with σ² = 1e-4 and averages the confidence bounds, as in section 5; the
  public code draws 100 length scales with σ² = .05 and averages variances.
- The next point is searched among 128 Sobol points in one dimension, or 256 in five dimensions,
  and by L-BFGS-B from the best of these points.

The materials data of the paper are used if a data directory contains ``crossed_barrel.csv``
(Gongora et al. 2020; 4 inputs; the objective is toughness) or ``agnp.csv`` (Mekki-Berrada et al.
2021; 5 inputs; the objective is a loss). The files need a header, and the objective in the last
column. Both files are available at github.com/PV-Lab/Benchmarking (Liang et al. 2021, Benchmarking
the performance of Bayesian optimization across multiple experimental materials science domains).
"""

import csv
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from math import exp, log
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from edge_tvbo.errors import DataError
from edge_tvbo.models.box import BoxField
from edge_tvbo.models.domain import Arm, Field
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.spatial_kernels import SpatialKernel
from edge_tvbo.numerics.types import Array
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
from edge_tvbo.research.experiments.base import (
    Expectation,
    Experiment,
    Labels,
    ResultTable,
    Row,
    case_labels,
)
from edge_tvbo.research.experiments.benchmark_functions import BERKENKAMP, MICHALEWICZ, Landscape
from edge_tvbo.simulation.dataset_lookup import DataSource

HORIZON = 250
NU = 2.5
NOISE_VARIANCE = 1e-4  # noise variance of the model; readings have no noise
BETA = 1.0
DELTA = 0.1  # δ of LB's elimination; it has no effect without noise
MCMC_SAMPLES = 4
START = log(2.0)  # length scale from which the ascent starts: softplus(0)
STEP = 0.25  # step of the ascent, in ln θ
MIN_GAIN = 1e-3  # smallest gain of a step of the ascent, in nats
MIN_LENGTH_SCALE, MAX_LENGTH_SCALE = 1e-3, 1e2
GROWTH = 0.5
GROWTHS = (0.25, GROWTH, 0.75)
BALANCED, SHRUNK, LIKELIEST, SAMPLED = "lb-gp-ucb", "a-gp-ucb", "mle-gp-ucb", "mcmc-gp-ucb"
POLICIES = (BALANCED, SHRUNK, LIKELIEST, SAMPLED)
REGRET, BEST, SCALE = "R_T", "best regret", "mean length scale"
CURVE_STEP = 5  # number of steps between the points of a curve
EDGES = np.geomspace(1e-3, 10.0, 41)  # edges of the histograms of length scales
TOY, RIDGES = "Berkenkamp", "Michalewicz"
FILES = {"CrossedBarrel": ("crossed_barrel.csv", 1.0), "AGNP": ("agnp.csv", -1.0)}
OPTIMAL = {RIDGES: 0.0354, "CrossedBarrel": 0.1309, "AGNP": 0.1056}  # θ* in the public code


class Objective(NamedTuple):
    """A function of E11 that is to be maximised."""

    name: str
    field: Field  # the unit box, or finitely many arms within it
    value: Callable[[Arm], float]
    initial_points: Callable[[np.random.Generator], list[Arm]]
    maximum: float
    runs: int
    growths: tuple[float, ...]


class Standardised(Readings):
    """Readings that are standardised again for each fit of a length scale."""

    @property
    def spread(self) -> float:
        """Standard deviation of the kept readings, in their unit; 1 if all readings are equal."""
        y = self.y[: self.held]
        return float(y.std(ddof=1)) or 1.0 if len(y) > 1 else 1.0

    def fit(self, length_scale: float) -> Fit:
        """Return the regression on the standardised readings for the given length scale."""
        n = self.held
        if not n:
            return super().fit(length_scale)
        K = self.correlations(self._distances[:n, :n], length_scale)
        y = (self.y[:n] - self.y[:n].mean()) / self.spread
        return Fit(K, np.full(n, self.noise_variance), y)


class ScaledRegretBalancing(RegretBalancing):
    """Regret balancing for unscaled readings; the given β σ is in units of the readings' spread."""

    def __init__(self, readings: Standardised, first: Hypothesis, growth: Growth) -> None:
        d = readings.dimension
        super().__init__(
            first,
            growth,
            0.0,
            dimension=d,
            gain=gain_rate(NU, d),
            extent=readings.extent,
            noise_variance=0.0,  # readings have no noise
            delta=DELTA,
        )
        self._readings = readings

    def update(self, y: float, bonus: float) -> None:
        """Add a reply `y`, and β σ converted to the unit of `y`, to the active hypothesis."""
        super().update(y, bonus * self._readings.spread)


def most_likely_nearby(readings: Readings) -> float:
    """Return a length scale at a local maximum of the likelihood, by an ascent from ln 2."""
    from scipy.optimize import minimize_scalar

    def likelihood(place: float) -> float:
        return readings.fit(exp(place)).log_likelihood()

    at = log(START)
    here = likelihood(at)
    for step in (STEP, -STEP):
        moved = False
        while log(MIN_LENGTH_SCALE) < at + step < log(MAX_LENGTH_SCALE):
            ahead = likelihood(at + step)
            if ahead < here + MIN_GAIN:
                break
            at, here, moved = at + step, ahead, True
        if moved:
            break
    found = minimize_scalar(
        lambda place: -likelihood(place),
        bounds=(at - STEP, at + STEP),
        method="bounded",
        options={"xatol": 0.02, "maxiter": 10},
    )
    return exp(found.x) if -found.fun > here else exp(at)


class LengthScale(Experiment):
    """The experiment E11: R_T, best regret and mean length scale of each policy and function."""

    name = "E11"
    title = "functions of unknown length scale"
    source = "[LB] figures 2-4"
    runs = 20

    def __init__(
        self,
        data: DataSource,
        *,
        horizon: int = HORIZON,
        functions: tuple[str, ...] = (TOY, RIDGES, *FILES),
    ) -> None:
        super().__init__(data)
        self._horizon = horizon
        self._wanted = functions

    @cached_property
    def _objectives(self) -> dict[str, Objective]:
        found = [_landscape(TOY, BERKENKAMP, 3, 20), _landscape(RIDGES, MICHALEWICZ, 10, 10)]
        found += [
            _materials(name, path, sign)
            for name, (file, sign) in FILES.items()
            for path in [Path(each).expanduser() / file for each in self.data.directories]
            if path.is_file()
        ]
        return {each.name: each for each in found if each.name in self._wanted}

    def expectations(self, results: ResultTable) -> list[Expectation]:
        """Compare the order of the policies in E11, and the effect of growth, with the paper."""
        measured = results.values_of("function")
        found = [each for name in measured for each in _lb_is_best(results, name)]
        if TOY in measured:
            found += _escape_from_local_optimum(results)
        if RIDGES in measured:
            found += [_nearest_length_scale(results), *_effect_of_growth(results)]
        return found

    def draw(self, figure: Any, rows: Sequence[Row], results: ResultTable) -> None:
        """Draw cumulative and best regret of E11 (figure 3), and the length scales (figure 2)."""
        measured = results.values_of("function")
        panels = figure.subplots(3, len(measured), squeeze=False)
        for column, name in enumerate(measured):
            cumulative, best, scales = (panels[row][column] for row in range(3))
            for policy in POLICIES:
                curves = [row.curves for row in rows if row.case == _case(name, policy, GROWTH)]
                _plot_with_error(cumulative, [curve["R_t"] for curve in curves], policy)
                _plot_with_error(best, [curve["best"] for curve in curves], policy)
                counts = np.sum([curve["length scales"] for curve in curves], axis=0)
                scales.stairs(counts / counts.sum(), EDGES, label=policy)
            cumulative.set(title=name, ylabel="cumulative regret", ylim=(0, None))
            best.set(xlabel="step", ylabel="best regret", ylim=(0, None))
            scales.set(xlabel="length scale (side of the box = 1)", ylabel="share", xscale="log")
            if name in OPTIMAL:
                scales.axvline(OPTIMAL[name], color="0.5", ls=":")
        panels[0][0].legend(fontsize=7)

    def _run(self, run: int, seed: int) -> Iterator[Row]:
        """Yield the rows of one run of E11; all policies start with the same random points."""
        for objective in self._objectives.values():
            if run < objective.runs:
                yield from self._run_on(objective, run, seed)

    def _run_on(self, objective: Objective, run: int, seed: int) -> Iterator[Row]:
        first = objective.initial_points(self._generator(seed, run))
        window = len(first) + self._horizon
        readings = Standardised("", objective.field, window, NU)
        for arm in first:
            readings.add(arm, objective.value(arm))
        longest = most_likely_nearby(readings)
        for name in POLICIES:
            for growth in objective.growths if name in (BALANCED, SHRUNK) else (GROWTH,):
                policy = _make(name, objective.field, longest, growth, run, window)
                for arm in first:
                    policy.observe(arm, objective.value(arm))
                if name in (LIKELIEST, SAMPLED):
                    policy.selector.advance(0)
                case = _case(objective.name, name, growth)
                yield _row(run, case, objective, policy, first, self._horizon)


def _landscape(name: str, landscape: Landscape, initial: int, runs: int) -> Objective:
    d, sides = len(landscape.lower), landscape.upper - landscape.lower
    candidates = 128 if d == 1 else 256
    return Objective(
        name,
        BoxField([0.0] * d, [1.0] * d, SpatialKernel(NU), NOISE_VARIANCE, candidates=candidates),
        lambda arm: float(landscape.evaluate(landscape.lower + np.array(arm) * sides)),
        lambda generator: [tuple(place) for place in generator.random((initial, d)).tolist()],
        landscape.maximum,
        runs,
        GROWTHS if name == RIDGES else (GROWTH,),
    )


def _materials(name: str, path: Path, sign: float) -> Objective:
    """Return the objective that a file of materials data states in its last column.

    The other columns are the inputs. The last column is multiplied by `sign`. Rows with the same
    inputs are one arm; the value of the arm is the mean of the distinct values in these rows, as in
    the public code of [LB].
    """
    places, values = _table(path)
    values = sign * values
    spans = np.ptp(places, axis=0)
    field = SensorField(
        [f"arm {i}" for i in range(len(places))],
        np.eye(len(places)),  # only the variance is used
        NOISE_VARIANCE,
        positions=(places - places.min(axis=0)) / np.where(spans > 0, spans, 1.0),
    )
    return Objective(
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
            raise DataError(f"{path}: {error}; inputs and objective must be numbers.") from None
    if places.ndim != 2 or len(places) < 10:
        raise DataError(
            f"{path} has {len(places)} different inputs; it needs a header and at least 10 of them."
        )
    return places, np.array([sum(sorted(each)) / len(each) for each in values.values()])


def _make(
    policy: str, field: Field, longest: float, growth: float, seed: int, window: int
) -> LengthScalePolicy:
    readings = Standardised(policy, field, window, NU)
    first, d = Hypothesis(longest, 1.0), readings.dimension
    growing = Growth(1.0 / (d + 2.0 * NU), growth)
    scales: LengthScaleSelector
    if policy == BALANCED:
        scales = ScaledRegretBalancing(readings, first, growing)
    elif policy == SHRUNK:
        scales = ShrinkingSchedule(first, growing, d, 0.0)
    elif policy == LIKELIEST:
        scales = MlSelector(readings, first, 0.0, 0.0, seed)
    else:
        scales = McmcSelector(readings, first, *HYPERPRIOR, MCMC_SAMPLES, seed)
    return LengthScalePolicy(policy, readings, scales, BETA, DELTA, seed)


def _row(
    run: int,
    case: Labels,
    objective: Objective,
    policy: LengthScalePolicy,
    first: Sequence[Arm],
    horizon: int,
) -> Row:
    regret, scales = np.empty(horizon), np.empty(horizon)
    for t in range(horizon):
        scales[t] = policy.length_scale
        arm = policy.select().arm
        value = objective.value(arm)
        policy.observe(arm, value)
        policy.advance()
        regret[t] = objective.maximum - value
    initial = objective.maximum - max(objective.value(arm) for arm in first)
    best = np.minimum(np.minimum.accumulate(regret), initial)
    counts, _ = np.histogram(np.clip(scales, EDGES[0], EDGES[-1]), EDGES)
    numbers = {REGRET: float(regret.sum()), BEST: float(best[-1]), SCALE: float(scales.mean())}
    curves = {
        "R_t": regret.cumsum()[CURVE_STEP - 1 :: CURVE_STEP].round(5).tolist(),
        "best": best[CURVE_STEP - 1 :: CURVE_STEP].round(6).tolist(),
        "length scales": counts.astype(np.float64).tolist(),
    }
    return Row(run, case, numbers, curves)


def _plot_with_error(axes: Any, curves: Sequence[Sequence[float]], label: str) -> None:
    """Plot the mean of `curves`, and a band of one standard error around the mean."""
    t = np.arange(1, len(curves[0]) + 1) * CURVE_STEP
    mean = np.mean(curves, axis=0)
    error = np.std(curves, axis=0, ddof=1) / len(curves) ** 0.5 if len(curves) > 1 else 0.0 * mean
    axes.plot(t, mean, label=label)
    axes.fill_between(t, mean - error, mean + error, alpha=0.2)


def _case(function: str, policy: str, growth: float) -> Labels:
    given = f"{growth:g}" if policy in (BALANCED, SHRUNK) else ""
    return case_labels(function=function, policy=policy, growth=given)


def _means(results: ResultTable, number: str, function: str) -> dict[str, float]:
    """Return the mean of a number for each policy of E11, for the growth exponent `GROWTH`."""
    return {policy: results.mean(number, **_case(function, policy, GROWTH)) for policy in POLICIES}


def _lb_is_best(results: ResultTable, function: str) -> Iterator[Expectation]:
    """Compare LB-GP-UCB with the other policies, by the numbers that the paper compares."""
    for number in (REGRET,) if function == TOY else (REGRET, BEST):
        ours, *others = _means(results, number, function).items()
        for policy, theirs in others:
            text = (
                f"{function}: LB has less {number} than {policy} ({ours[1]:.4g} and {theirs:.4g})"
            )
            yield Expectation(text, ours[1] < theirs)


def _escape_from_local_optimum(results: ResultTable) -> Iterator[Expectation]:
    """Check that MLE and MCMC stay at the local optimum in some runs, and LB and A in no run."""
    regrets = _means(results, BEST, TOY)
    stuck_once = (BERKENKAMP.maximum - 0.6) / 20.0  # best regret if one of 20 runs ends at x = 1
    for policy, regret in regrets.items():
        number = f"(best regret {regret:.3g})"
        if policy in (LIKELIEST, SAMPLED):
            text = f"{TOY}: {policy} stays at the local optimum in some runs {number}"
            yield Expectation(text, regret >= stuck_once)
        else:
            text = f"{TOY}: {policy} stays at the local optimum in no run {number}"
            yield Expectation(text, regret < stuck_once)


def _nearest_length_scale(results: ResultTable) -> Expectation:
    """Check that the mean length scale of LB is nearer to θ* than that of any other policy."""
    scales = _means(results, SCALE, RIDGES)
    distance = {policy: abs(log(scale / OPTIMAL[RIDGES])) for policy, scale in scales.items()}
    means = ", ".join(f"{policy} {scale:.3g}" for policy, scale in scales.items())
    text = f"{RIDGES}: LB's mean length scale is the nearest to θ* = {OPTIMAL[RIDGES]} ({means})"
    return Expectation(text, min(distance, key=distance.__getitem__) == BALANCED)


def _effect_of_growth(results: ResultTable) -> Iterator[Expectation]:
    """Check that the growth exponent has less effect on LB than on A ([LB] figure 4)."""
    for number in (BEST, SCALE):
        ranges = {}
        for policy in (BALANCED, SHRUNK):
            means = [results.mean(number, **_case(RIDGES, policy, growth)) for growth in GROWTHS]
            ranges[policy] = max(means) - min(means)
        ours, theirs = ranges[BALANCED], ranges[SHRUNK]
        text = (
            f"{RIDGES}: growth from t^.25 to t^.75 changes the {number} of LB less than that of A"
        )
        yield Expectation(f"{text} ({ours:.3g} and {theirs:.3g})", ours < theirs)
