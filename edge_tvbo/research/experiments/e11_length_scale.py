"""E11: policies on static functions of unknown length scale.

Source: [LB] section 5, figures 2-4, with details from the paper's public code
(github.com/JuliuszZiomek/LB-GP-UCB). Readings have no noise, but the model has the noise variance
σ² = 1e-4. Inputs are scaled to the unit box. The kernel is Matérn 5/2. In d dimensions, the
candidates for the length scale are θ0 e^(-i/(d + 2ν)) with ν = 5/2 and i = 0, 1, ... All policies
have β = 1: the norm bound B is 1, and the other terms of theorem 2.1 vanish if the noise R is
nearly 0. A run starts with readings at random points: 3 points for Berkenkamp's function and 10
points for other functions. θ0 is the most likely length scale given these readings; the likelihood
is maximised by an ascent from ln 2, the initial length scale of BoTorch.

The readings are standardised for each fit, with the mean and the standard deviation of all readings
so far. The results on Berkenkamp's function depend on this repeated standardisation. The function
is a slope that ends at x = 1, with a narrow, higher peak on the left.

- A policy that stays at the end of the slope moves the mean of the readings towards the value at
  x = 1. After some time, places without readings have higher upper bounds than x = 1. Policies with
  short length scales then leave x = 1. Policies with long length scales stay, because for such
  length scales every place is near a reading.
- LB-GP-UCB and A-GP-UCB leave x = 1. They would stay there under two conditions: all first readings
  are on the slope, and the mean and the standard deviation of the first readings standardise all
  readings.
- MLE-GP-UCB and MCMC-GP-UCB are the best policies in the runs in which the first points reveal the
  peak.

The `notes` of `UnknownLengthScale` list the differences from the public code.

LNB-GP-UCB ([LB] algorithm 3) is added; the paper has no experiment with it. Its candidates for the
norm are B0 e^j up to B0 √t with B0 = 1, and its β is the norm of the active candidate.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from edge_tvbo.models.arm_space import Arm
from edge_tvbo.policy.unknown_length_scale.policies import LengthScalePolicy
from edge_tvbo.research.experiments.base import Experiment
from edge_tvbo.research.experiments.benchmark_functions import BERKENKAMP, MICHALEWICZ
from edge_tvbo.research.experiments.e11_objectives import (
    FILES,
    NU,
    SOURCE,
    ObjectiveFunction,
    landscape_objective,
    materials_objective,
)
from edge_tvbo.research.experiments.e11_pictures import (
    draw_growths,
    draw_regrets_and_length_scales,
    draw_two_fits,
)
from edge_tvbo.research.experiments.e11_policies import (
    BALANCED,
    CURVE_STEP,
    EDGES,
    GROWTH,
    GROWTHS,
    LIKELIEST,
    OPTIMAL,
    POLICIES,
    RIDGES,
    RIVALS,
    SAMPLED,
    SHRUNK,
    TOY,
    WITH_GROWTH,
    Standardised,
    case,
    make_e11_policy,
    most_likely_nearby,
)
from edge_tvbo.research.experiments.result_table import (
    Drawing,
    Expectation,
    Labels,
    ResultTable,
    Row,
    Table,
)
from edge_tvbo.research.experiments.statistics import expect_all_less, expect_less
from edge_tvbo.simulation.dataset_lookup import DataSource

HORIZON = 250
NUMBERS = REGRET, BEST, SCALE = "R_T", "best regret", "mean length scale"
STUCK = 0.1  # a run with a higher best regret has missed the peak of Berkenkamp's function


class UnknownLengthScale(Experiment):
    """The experiment E11: regrets and mean length scale of each policy for each function."""

    name = "E11"
    title = "functions of unknown length scale"
    source = "[LB] figures 1-4; CrossedBarrel and AGNP only with the files of PV-Lab/Benchmarking"
    runs = 20
    revision = 2
    tables = tuple(
        Table(number, "policy", "function", {"growth": ("", "0.5")}) for number in NUMBERS
    )
    notes = """
As in the public code of the paper, β (the width of the confidence bound) is 1, readings have no
noise, and all readings are standardised again at every step. If readings are standardised only
once, all policies stay at a local optimum of Berkenkamp's function. The growth function is g(t) =
t^.5. The row `lnb-gp-ucb` is added: the paper has no experiment with LNB-GP-UCB.

The data of CrossedBarrel and AGNP are not part of edge-tvbo. Get `Crossed barrel_dataset.csv` and
`AgNP_dataset.csv` from the directory `datasets` of
[PV-Lab/Benchmarking](https://github.com/PV-Lab/Benchmarking), and name the directory of these two
files with `--data-dir`.

Differences from the public code:

- In E11, LB may use one candidate for the length scale in interval 1, two in interval 2, and so on
  up to five in interval 5. In the public code, LB may use all five from the first interval on.
- In E11, t0 in g(t) = max(t0, t^.5) is e^(4/(d + 5)) in d dimensions. In the public code, t0 is
  e^(5/(d + 5)). So the first length scale of A-GP-UCB, θ0/t0, is 1.1 to 1.2 times as long in E11.
- In E11, the suspected regret of a length scale θ is computed for Matérn kernels, not for squared
  exponential kernels. The norm bound for θ is (θ0/θ)^(d/2), as in the paper. In the public code,
  the norm bound is 1 for all length scales.
- In E11, the rule that eliminates candidates has the term 2Σβσ, as in algorithm 1 of the paper. The
  public code has Σβσ.
- In E11, confidence bounds are bounds of the function. In the public code, they are bounds of a
  reading.
- In E11, MCMC draws 4 length scales with σ² = 1e-4 and averages the confidence bounds, as in
  section 5 of the paper. The public code draws 100 length scales with σ² = .05 and averages
  variances. MCMC has 250 intervals in E11, like the other policies, and 50 in the public code.
- In E11, the first points on a box are drawn independently. In the public code, they are scrambled
  Sobol points.
- In E11, a policy looks for the next point among 128 Sobol points in one dimension, or 256 in five
  dimensions. L-BFGS-B then searches from the best of these points.
"""

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

    def data_fingerprints(self) -> dict[str, str]:
        """Return fingerprints of the materials files in E11, the experiment on length scales."""
        return {
            name: sha256(path.read_bytes()).hexdigest()[:16] for name, path in self._files.items()
        }

    @cached_property
    def _files(self) -> dict[str, Path]:
        found = {name: file.find(self.data.directories) for name, file in FILES.items()}
        return {name: path for name, path in found.items() if path is not None}

    @cached_property
    def _objectives(self) -> dict[str, ObjectiveFunction]:
        found = [
            landscape_objective(TOY, BERKENKAMP, 3, 20, (GROWTH,)),
            landscape_objective(RIDGES, MICHALEWICZ, 10, 10, GROWTHS),
            *(
                materials_objective(name, path, FILES[name].sign, FILES[name].runs, (GROWTH,))
                for name, path in self._files.items()
            ),
        ]
        return {each.name: each for each in found if each.name in self._wanted}

    def expectations(self, results: ResultTable) -> list[Expectation]:
        """Test the claims of E11: the order of the policies, and the effect of the growth function.

        E11 is the experiment on unknown length scales.
        """
        measured = results.values_of("function")
        found = [each for name in measured for each in _lb_is_best(results, name)]
        if TOY in measured:
            found += _escape_from_local_optimum(results)
        if RIDGES in measured:
            found += [_nearest_length_scale(results), *_effect_of_growth(results)]
        return found + [
            Expectation(
                f"{name}: LB has a lower {REGRET} than every other policy",
                None,
                1,
                f"not run: set --data-dir to a directory with {FILES[name].names[0]!r} of {SOURCE}",
            )
            for name in FILES
            if name in self._wanted and name not in measured
        ]

    def pictures(self) -> dict[str, Drawing]:
        """Return the functions that draw the figures of E11, the experiment on length scales."""
        return {
            "figure": draw_regrets_and_length_scales,
            "figure-4": draw_growths,
            "figure-1": draw_two_fits,
        }

    def draw(self, figure: Any, results: ResultTable) -> None:
        """Draw regrets (figure 3) and the chosen length scales (figure 2) of experiment E11."""
        draw_regrets_and_length_scales(figure, results)

    def _run(self, run: int, seed: int) -> Iterator[Row]:
        """Yield the rows of one run of experiment E11 (length scales).

        All policies start with the same random points.
        """
        for objective in self._objectives.values():
            if run < objective.runs:
                yield from self._run_on(objective, run, seed)

    def _run_on(self, objective: ObjectiveFunction, run: int, seed: int) -> Iterator[Row]:
        first = objective.initial_points(self._generator(seed, run))
        window = len(first) + self._horizon
        readings = Standardised("", objective.field, window, NU)
        for arm in first:
            readings.add(arm, objective.value(arm))
        longest = most_likely_nearby(readings)
        for name in POLICIES:
            for growth in objective.growths if name in WITH_GROWTH else (GROWTH,):
                policy = make_e11_policy(name, objective.field, longest, growth, run, window)
                for arm in first:
                    policy.observe(arm, objective.value(arm))
                if name in (LIKELIEST, SAMPLED):
                    policy.selector.advance(0)
                labels = case(objective.name, name, growth)
                yield _row(run, labels, objective, policy, first, self._horizon)


def _row(
    run: int,
    case: Labels,
    objective: ObjectiveFunction,
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


def _lb_is_best(results: ResultTable, function: str) -> Iterator[Expectation]:
    """Test whether LB-GP-UCB has lower regrets in experiment E11 than its rivals."""
    for number in (REGRET,) if function == TOY else (REGRET, BEST):
        for other in RIVALS:
            cases = [case(function, policy, GROWTH) for policy in (BALANCED, other)]
            ours, theirs = (results.cell(number, case).mean for case in cases)
            yield expect_less(
                f"{function}: LB has a lower {number} ({ours:.4g}) than {other} ({theirs:.4g})",
                results.differences(number, *cases),
            )


def _escape_from_local_optimum(results: ResultTable) -> Iterator[Expectation]:
    """Test which policies of experiment E11 stay at the local optimum in some runs.

    The policies MLE and MCMC are expected to stay there in some runs, and LB and A in no run.
    """
    for policy in (BALANCED, *RIVALS):
        best = results.values(BEST, case(TOY, policy, GROWTH))
        stuck = int((best > STUCK).sum())
        some = policy in (LIKELIEST, SAMPLED)
        text = f"{TOY}: {policy} stays at the local optimum in {'some runs' if some else 'no run'}"
        yield Expectation(text, (stuck > 0) == some, test=f"{stuck} of {len(best)} runs")


def _nearest_length_scale(results: ResultTable) -> Expectation:
    """Test whether LB-GP-UCB's mean length scale is nearest to the optimum θ* (experiment E11)."""
    scales = {each: results.values(SCALE, case(RIDGES, each, GROWTH)) for each in POLICIES}
    distance = {each: np.abs(np.log(values / OPTIMAL[RIDGES])) for each, values in scales.items()}
    means = ", ".join(f"{each} {scales[each].mean():.3g}" for each in (BALANCED, *RIVALS))
    return expect_all_less(
        f"{RIDGES}: the mean length scale nearest to θ* = {OPTIMAL[RIDGES]} is that of LB "
        f"({means})",
        {each: distance[BALANCED] - distance[each] for each in RIVALS},
    )


def _effect_of_growth(results: ResultTable) -> Iterator[Expectation]:
    """Test whether LB-GP-UCB depends less on the growth function than A-GP-UCB (experiment E11).

    The test belongs to [LB] figure 4.
    """
    for number in (BEST, SCALE):
        changes = [
            np.ptp(
                [results.values(number, case(RIDGES, policy, growth)) for growth in GROWTHS],
                axis=0,
            )
            for policy in (BALANCED, SHRUNK)
        ]
        yield expect_less(
            f"{RIDGES}: with growth functions from t^.25 to t^.75, the {number} of a run changes "
            f"less for LB (range {changes[0].mean():.3g}) than for A "
            f"(range {changes[1].mean():.3g})",
            changes[0] - changes[1],
        )
