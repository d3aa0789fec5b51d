"""E12: change detection on top of a stationary bandit, on two piecewise-stationary problems.

Source: Besson, Kaufmann, Maillard & Seznec 2022, problems 1 and 2 and the table of regrets, as
printed in chapter 6 of L. Besson's PhD thesis (T = 5000, 1000 runs). Three arms give rewards of 0
or 1; their probabilities change every 1000 intervals. GLR-klUCB restarts all arms; its tuning is
δ = 1/√(K Υ T) and ω = .05 √(K Υ ln T / T) for K = 3 arms and Υ = 4 changes.

`glr-gp-ucb` has the tests and the tuning of GLR-klUCB. All policies of edge_tvbo in E12 have the
same model and the same schedule β_t = 2 ln t. In the model, the arms are independent, and the prior
variance is 1. The noise variance is 1/4, the largest variance of a reward in [0, 1]. With an
infinite prior variance, the bound after n readings of an arm would be mean + √(ln t / (2n)).
"""

from collections.abc import Iterator, Mapping
from math import log, sqrt
from typing import Any

import numpy as np

from edge_tvbo.models.beta import LogBeta
from edge_tvbo.models.field import SensorField
from edge_tvbo.numerics.types import Array, Int64Array
from edge_tvbo.policy import make_policy
from edge_tvbo.research.experiments.base import Experiment
from edge_tvbo.research.experiments.curves import BAND, plot_mean_curves
from edge_tvbo.research.experiments.result_table import (
    Expectation,
    PublishedValue,
    ResultTable,
    Row,
    Table,
    case_labels,
)
from edge_tvbo.research.experiments.run_policy import regrets, run_policy
from edge_tvbo.research.experiments.statistics import expect_less_regret

HORIZON = 5000
K = 3
CHANGES = 4  # Υ
PROBLEMS = {  # probabilities of a reward of 1, in each fifth of the horizon
    "1": ((0.3, 0.5, 0.9), (0.3, 0.2, 0.9), (0.3, 0.2, 0.1), (0.7, 0.2, 0.1), (0.7, 0.5, 0.1)),
    "2": ((0.4, 0.5, 0.9), (0.5, 0.4, 0.7), (0.6, 0.3, 0.5), (0.7, 0.2, 0.3), (0.8, 0.1, 0.1)),
}
DELTA = 1.0 / sqrt(K * CHANGES * HORIZON)
EXPLORATION = 0.05 * sqrt(K * CHANGES * log(HORIZON) / HORIZON)
TEST_STEP = 10  # the paper tests after every 10th reading, and tries every 10th change point
KL_UCB: dict[str, tuple[float, float, float]] = {  # exploration; weights of ln t and ln ln t
    "glr-klucb": (EXPLORATION, 1.0, 3.0),
    "glr-klucb-3ln": (EXPLORATION, 3.0, 0.0),
    "klucb": (0.0, 1.0, 0.0),
}
POLICIES: dict[str, Mapping[str, Any]] = {
    "glr-gp-ucb": {"delta": DELTA, "exploration": EXPLORATION, "test_window": 4096},
    "gp-ucb": {},
    "sw-gp-ucb": {"window": round(2.0 * sqrt(HORIZON * log(HORIZON) / CHANGES))},
    "et-gp-ucb": {"delta_b": DELTA},
    "master-gp-ucb": {"horizon": HORIZON},
}
PUBLISHED = {  # mean and standard deviation of R_T over the runs, for problems 1 and 2
    "glr-klucb": ((97.0, 32.0), (134.0, 33.0)),
    "glr-klucb-3ln": ((97.0, 32.0), (134.0, 33.0)),
    "klucb": ((270.0, 76.0), (162.0, 59.0)),
}
CURVE_STEP = 50  # intervals between two points of a curve


class ChangeDetection(Experiment):
    """The experiment E12: regret R_T and resets of each policy on both problems."""

    name = "E12"
    title = "change detection over a stationary bandit"
    source = "Besson et al. 2022, problems 1 and 2"
    revision = 2
    runs = 1000
    block = 10
    tables = (Table("R_T", "policy", "problem"), Table("resets", "policy", "problem"))
    notes = """
The program of the paper is SMPyBandits. The rows of the tables are:

- `klucb` and `glr-klucb` are the algorithms in the text of the paper.
- `glr-klucb-3ln` is `glr-klucb` with the exploration function of SMPyBandits.
- All other rows of the table are policies of edge_tvbo. `sw-gp-ucb` has the same window as SW-klUCB
  in the paper. The parameter δ_B of `et-gp-ucb` is equal to the δ of the change tests.

Comparison with the paper:

- The regret of `klucb` agrees with the paper.
- The text and the program of the paper differ: the exploration function is ln t + 3 ln ln t in the
  text, and 3 ln t in the program (`klUCB_forGLR.py`). With the function of the text, `glr-klucb`
  has less regret than the paper publishes. With the function of the program, the regret of
  `glr-klucb-3ln` agrees with the paper. So the algorithm in the text is better than the published
  regret suggests.
- Three other details of SMPyBandits matter less. First, δ (of the change tests) and ω (the share of
  forced exploration) do not depend on the number of arms K. Second, SMPyBandits tests only the
  splits after 1, 11, 21, ... readings. Third, forced exploration restarts at each reset. With these
  three details, R_T is 96.9 ± 0.4 on problem 1 and 134.6 ± 0.5 on problem 2 (1000 runs of a script
  that is not in the package).
- At a reset, SMPyBandits can also keep the readings since the estimated change. This lowers R_T of
  problem 2 by 9.
- SMPyBandits computes regret from the rewards, which are random. So the published standard
  deviations of GLR-klUCB, 32 and 33, contain the noise of the rewards. If we add this noise, our
  standard deviations are 31 and 34. The R_T in the table is computed without this noise, from the
  probabilities of a reward.
- The policy `master-gp-ucb` never detects a change. It discards its readings only when a block
  ends. Gerogiannis, Huang & Veeravalli (AISTATS 2025) report that MASTER over UCB1 needs at least
  1.24e9 intervals to detect a change.
- The policy DAL (Gerogiannis et al., arXiv 2501.19401) also adds a change detector and forced
  exploration to a stationary bandit. We could read only the beginning of the paper on DAL, so E12
  does not repeat its tuning and its experiments.
"""

    def published(self) -> list[PublishedValue]:
        """Return the published regrets of GLR-klUCB (with global restarts) and kl-UCB.

        Experiment E12 compares its results with these regrets.
        """
        return [
            PublishedValue(case_labels(problem=problem, policy=policy), "R_T", mean, sd, 1000)
            for policy, cells in PUBLISHED.items()
            for problem, (mean, sd) in zip(PROBLEMS, cells, strict=True)
        ]

    def expectations(self, results: ResultTable) -> list[Expectation]:
        """Test whether change detection lowers the regret of the bandits in experiment E12."""
        pairs = [
            ("glr-klucb", "klucb"),
            ("glr-gp-ucb", "gp-ucb"),
            ("glr-gp-ucb", "sw-gp-ucb"),
            ("glr-gp-ucb", "et-gp-ucb"),
            ("glr-gp-ucb", "master-gp-ucb"),
        ]
        return [
            expect_less_regret(results, "R_T", f"problem {problem}", ours, theirs, problem=problem)
            for problem in PROBLEMS
            for ours, theirs in pairs
        ]

    def draw(self, figure: Any, results: ResultTable) -> None:
        """Draw the mean regret R_t of each policy, for both problems of experiment E12."""
        for axes, problem in zip(figure.subplots(1, 2), PROBLEMS, strict=True):
            cases = {
                policy: case_labels(problem=problem, policy=policy)
                for policy in (*KL_UCB, *POLICIES)
            }
            plot_mean_curves(axes, results, "R_t", cases, CURVE_STEP)
            axes.set(title=f"problem {problem}", xlabel="t", ylabel="R_t")
        axes.legend(loc="best")
        figure.suptitle(f"E12: regret on piecewise-stationary problems; {BAND}", fontsize=10)

    def _run(self, run: int, seed: int) -> Iterator[Row]:
        generator = self._generator(seed, run)
        for problem, means in PROBLEMS.items():
            truth = np.repeat(np.array(means), HORIZON // len(means), axis=0)
            rewards = (generator.random(truth.shape) < truth).astype(np.float64)
            for policy, tuning in KL_UCB.items():
                picks, resets = _play_kl_ucb(rewards, *tuning)
                yield _row(run, problem, policy, truth, picks, resets)
            for policy in POLICIES:
                picks, resets = _play(policy, rewards, run)
                yield _row(run, problem, policy, truth, picks, resets)


def _play_kl_ucb(rewards: Array, exploration: float, a: float, c: float) -> tuple[Int64Array, int]:
    """Return the arms that GLR-klUCB selects in experiment E12, and the number of its restarts.

    If `exploration` is 0, the policy is kl-UCB, which never restarts.
    """
    # imports numba, which `edge-tvbo experiment list` does not need
    from edge_tvbo.research.experiments.glr_kl_ucb import run_glr_kl_ucb

    T, arms = rewards.shape
    every = int(arms / exploration) if exploration else 0
    sums, counts, picks = np.empty((arms, T + 1)), np.empty(arms, np.int64), np.empty(T, np.int64)
    resets = run_glr_kl_ucb(rewards, every, DELTA, a, c, TEST_STEP, sums, counts, picks)
    return picks, resets


def _play(name: str, rewards: Array, seed: int) -> tuple[Int64Array, int]:
    """Run a policy of edge_tvbo in experiment E12.

    Return the selected arms and the number of resets.
    """
    names = tuple(str(arm) for arm in range(rewards.shape[1]))
    field = SensorField(names, np.eye(len(names)), 0.25, center=0.5)
    policy = make_policy(name, field, beta=LogBeta(2.0, 1.0), seed=seed, **POLICIES[name])
    result = run_policy(policy, rewards - field.center, np.zeros(len(rewards)))
    return result.picks, result.resets


def _row(run: int, problem: str, policy: str, truth: Array, picks: Int64Array, resets: int) -> Row:
    regret = regrets(truth, picks).cumsum()
    numbers = {"R_T": float(regret[-1]), "resets": float(resets)}
    curve = regret[CURVE_STEP - 1 :: CURVE_STEP].round(2).tolist()
    return Row(run, case_labels(problem=problem, policy=policy), numbers, {"R_t": curve})
