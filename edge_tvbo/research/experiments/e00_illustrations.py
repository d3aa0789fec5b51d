"""E0: the illustrations of the papers, and the table of rates of [LB].

Sources: [B16] figure 1, [ET] figure 1, [M24] figures 2.1, 4.1, 4.2 and 9.1, [LB] table 1. The
papers state only some settings of their illustrations. Therefore, an illustration here uses the
model or the formula of the paper; the settings that the paper does not state are our own. Each
illustration has to show a property, which an expectation tests. The experiment has one run.
"""

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from edge_tvbo.models.field import SensorField
from edge_tvbo.models.spatial_kernels import SpatialKernel
from edge_tvbo.numerics.types import Array
from edge_tvbo.policy import make_policy
from edge_tvbo.policy.base import Policy
from edge_tvbo.research import random_fields
from edge_tvbo.research.experiments.base import Experiment
from edge_tvbo.research.experiments.result_table import (
    Drawing,
    Expectation,
    ResultTable,
    Row,
    Table,
)
from edge_tvbo.theory import candidate_count, greedy_gain

PLACES = np.linspace(0.0, 1.0, 101)
NOISE_VARIANCE = 0.02
EPSILON, HORIZON = 0.01, 200  # of [B16] figure 1
DRAW = 6  # a draw in which both maxima of [B16] figure 1 move
SMOOTH, ROUGH = "SE, l = .2", "Matérn 3/2, l = .2"
KERNELS = {SMOOTH: SpatialKernel(math.inf, 0.2), ROUGH: SpatialKernel(1.5, 0.2)}
SHORT, LONG = 0.05, 0.3  # length scales of [M24] figure 2.1
READINGS = 20  # number of readings for the information gain of [M24] figure 2.1
SEEN = (10, 30, 45, 60, 75, 90)  # places of the readings in [ET] figure 1
SIGNS = {"same field": 1.0, "other field": -1.0}  # the trigger is checked with both signs
TAIL = 0.2  # δ of [M24] figure 4.2
STEPS = (10, 100, 1_000, 10_000, 100_000)  # T of [LB] table 1
DIMENSION, GROWTH, NORM_GROWTH = 2, 0.25, 0.25  # d, g(T) = T^.25 and b(T) = T^.25 of [LB] table 1
RATIOS = ("A / LB, unknown θ", "A / LB, unknown θ and B")
SIDE, POINTS = 5.0, 6  # r and τ of [M24] figure 4.1


class Illustrations(Experiment):
    """The experiment E0: pictures without policies, and the numbers behind the pictures."""

    name = "E0"
    title = "illustrations"
    source = "[B16] figure 1; [ET] figure 1; [M24] figures 2.1, 4.1, 4.2, 9.1; [LB] table 1"
    runs = 1
    tables = (Table("", "of", "number", {"of": tuple(f"T = {T}" for T in STEPS)}),)
    notes = """
The papers state only some settings of the pictures in E0. The kernels and ε of [B16] figure 1, the
box and τ of [M24] figure 4.1, and the curve ρ = 1 of [M24] figure 9.1 are those of the papers. All
other settings are our own.

The table repeats table 1 of [LB]. "A" is the bound on the regret of A-GP-UCB, divided by the bound
of an oracle. "LB" is the bound on the regret of LB-GP-UCB, divided by the bound of the same oracle.
A cell is the quotient A / LB. If the quotient is above 1, LB-GP-UCB has the smaller bound. The two
bounds are computed without constants, for the dimension d = 2 and the growth functions g(T) = b(T)
= T^(1/4):

- If only the length scale θ is unknown, A = g(T)^d and LB = d ln g(T).
- If the length scale θ and the norm B are unknown, A = b(T) g(T)^d and LB = d ln g(T) ln b(T),
  where ln b(T) counts as at least 1.
"""

    def expectations(self, results: ResultTable) -> list[Expectation]:
        """Check the property that each illustration has to show."""
        gains = [
            results.mean("information gain", of=f"length scale {theta:g}")
            for theta in (SHORT, LONG)
        ]
        moved = [results.mean("range of the maximum's place", of=kernel) for kernel in KERNELS]
        resets = [results.mean("reset", of=each) for each in ("same field", "other field")]
        nearest = results.mean("largest distance to the grid", of="τ = 6")
        areas = [results.mean("area of the tail", of=each) for each in ("variable", "bound")]
        late, early = f"T = {STEPS[-1]}", f"T = {STEPS[1]}"
        grows = [
            results.mean(number, of=late) > results.mean(number, of=early) for number in RATIOS
        ]
        return [
            Expectation("[B16] figure 1: the place of the maximum moves", min(moved) > 0.3),
            Expectation(
                "[ET] figure 1: a reading of another field fires the trigger; a reading of the "
                "same field does not",
                resets == [0, 1],
            ),
            Expectation(
                "[M24] figure 2.1: the information gain is larger for the shorter length scale",
                gains[0] > gains[1],
            ),
            Expectation(
                "[M24] figure 4.1: each place in a box of side r and dimension d is at most r·d/τ "
                "(ℓ1 norm) from a grid of τ points per dimension",
                nearest <= SIDE * 2 / POINTS,
            ),
            Expectation(
                "[M24] figure 4.2: the area under the tail of a variable is at most the area under "
                "the tail of its bound",
                areas[0] <= areas[1],
            ),
            Expectation("[LB] table 1: the quotient A / LB grows with T", all(grows)),
        ]

    def pictures(self) -> dict[str, Drawing]:
        """Return the functions that draw experiment E0's illustrations; the keys are file names."""
        return {
            "figure": self.draw,
            "trigger": self._draw_trigger,
            "length-scales": self._draw_length_scales,
            "lemmas": self._draw_lemmas,
        }

    def draw(self, figure: Any, results: ResultTable) -> None:
        """Plot experiment E0's two changing fields, and their maxima ([B16] figure 1)."""
        for axes, (label, f) in zip(
            figure.subplots(1, 2, sharey=True), self._fields.items(), strict=True
        ):
            image = axes.pcolormesh(np.arange(1, HORIZON + 1), PLACES, f.T, shading="auto")
            axes.plot(np.arange(1, HORIZON + 1), PLACES[f.argmax(axis=1)], "r.", ms=3)
            axes.set(title=label, xlabel="t", ylabel="x")
            figure.colorbar(image, ax=axes, label="f_t(x)")
        figure.suptitle(f"[B16] figure 1: functions with ε = {EPSILON}; red: the maximum")

    @cached_property
    def _fields(self) -> dict[str, Array]:
        """Values (T, M) of experiment E0's two changing fields, by the label of the kernel."""
        generator = self._generator(0, DRAW)
        return {
            label: random_fields.drifting(
                random_fields.draws(_factor(kernel), HORIZON, generator), EPSILON
            )
            for label, kernel in KERNELS.items()
        }

    def _draw_trigger(self, figure: Any, results: ResultTable) -> None:
        """Draw experiment E0's picture of the event trigger and its bound ([ET] figure 1)."""
        panels = figure.subplots(1, 2, sharey=True)
        for axes, (label, sign) in zip(panels, SIGNS.items(), strict=True):
            policy, f = _policy_before_reading()
            arm, (mean, std) = policy.select().arm, policy.posterior()
            result = policy.observe(arm, float(sign * f[arm]))
            axes.plot(PLACES, sign * f, "k--", label="the field now")
            axes.plot(PLACES, mean, label="mean of the model")
            axes.fill_between(PLACES, mean - 2 * std, mean + 2 * std, alpha=0.3, label="± 2 sd")
            axes.plot(PLACES[list(SEEN)], f[list(SEEN)], "ko", label="earlier readings")
            axes.plot(PLACES[arm], sign * f[arm], "rx", ms=10, mew=2, label="new reading")
            verdict = "reset" if result.reset else "the reading is added"
            axes.set(title=f"{label}: {verdict}", xlabel="x")
        panels[0].legend(loc="best")
        figure.suptitle("[ET] figure 1: the event trigger")

    def _draw_length_scales(self, figure: Any, results: ResultTable) -> None:
        """Draw experiment E0's picture of samples with two length scales ([M24] figure 2.1)."""
        generator = self._generator(0, 1)
        axes = figure.subplots()
        for theta, colour in ((SHORT, "C3"), (LONG, "C0")):
            gain = results.mean("information gain", of=f"length scale {theta:g}")
            factor = _factor(SpatialKernel(math.inf, theta))
            for at, f in enumerate(random_fields.draws(factor, 3, generator)):
                text = f"length scale {theta:g}, γ = {gain:.1f} nats" if not at else None
                axes.plot(PLACES, f, color=colour, label=text)
        axes.set(xlabel="x", ylabel="f(x)", title="[M24] figure 2.1: samples of two length scales")
        axes.legend(loc="best", title=f"information gain of {READINGS} readings")

    def _draw_lemmas(self, figure: Any, results: ResultTable) -> None:
        """Draw a grid, tails and a sigmoid for experiment E0 ([M24] figures 4.1, 4.2 and 9.1)."""
        left, middle, right = figure.subplots(1, 3)
        left.plot(*_grid().T, "o")
        left.set(title="4.1: grid with τ = 6", xlabel="x1", ylabel="x2", aspect="equal")
        p = np.linspace(1e-3, 1.0, 300)
        for label, quantile in (("G_Y, of the variable", 1.0), ("H, of its bound", 1.5)):
            curve = quantile * np.sqrt(-2.0 * np.log(p))
            (line,) = middle.plot(p, curve, label=label)
            middle.fill_between(p, curve, where=p <= TAIL, color=line.get_color(), alpha=0.2)
        middle.set(title="4.2: lemma 4.4", xlabel="probability p", ylim=(0, None))
        middle.legend(loc="best")
        t = np.linspace(0.0, 20.0, 200)
        for rho in (0.5, 1.0, 2.0):
            right.plot(t, _sigmoid(t, 10.0, rho), label=f"ρ = {rho:g}")
        right.set(title="9.1: sigmoid centred at t = 10", xlabel="t", ylabel="s(t)")
        right.legend(loc="best")
        figure.suptitle("[M24] figures 4.1, 4.2 and 9.1")

    def _run(self, run: int, seed: int) -> Iterator[Row]:
        """Yield the numbers behind the illustrations."""
        for theta in (SHORT, LONG):
            gain = float(greedy_gain(_line(SpatialKernel(math.inf, theta)), READINGS)[-1])
            yield _number(run, f"length scale {theta:g}", "information gain", gain)
        for kernel, f in self._fields.items():
            places = PLACES[f.argmax(axis=1)]
            yield _number(run, kernel, "range of the maximum's place", float(np.ptp(places)))
        for label, sign in SIGNS.items():
            policy, f = _policy_before_reading()
            arm = policy.select().arm
            reset = policy.observe(arm, float(sign * f[arm])).reset
            yield _number(run, label, "reset", float(reset))
        drawn = self._generator(seed, 2).uniform(0.0, SIDE, (2_000, 1, 2))
        nearest = float(np.abs(drawn - _grid()).sum(axis=2).min(axis=1).max())
        yield _number(run, f"τ = {POINTS}", "largest distance to the grid", nearest)
        p = np.linspace(1e-6, TAIL, 20_000)
        for label, scale in (("variable", 1.0), ("bound", 1.5)):
            area = float(np.mean(scale * np.sqrt(-2.0 * np.log(p))) * TAIL)
            yield _number(run, label, "area of the tail", area)
        for T in STEPS:
            g, b = T**GROWTH, T**NORM_GROWTH
            scales = candidate_count(g, dimension=DIMENSION)
            known, unknown = g**DIMENSION, b * g**DIMENSION
            ratios = (known / scales, unknown / (scales * max(math.log(b), 1.0)))
            yield Row(run, {"of": f"T = {T}"}, dict(zip(RATIOS, ratios, strict=True)))


def _number(run: int, of: str, number: str, value: float) -> Row:
    return Row(run, {"of": of}, {number: value})


def _line(kernel: SpatialKernel) -> SensorField:
    """Return experiment E0's sensor field on `PLACES`, with covariances from `kernel`."""
    K = kernel(PLACES[:, None], PLACES[:, None])
    return SensorField([str(arm) for arm in range(len(PLACES))], K, NOISE_VARIANCE)


def _factor(kernel: SpatialKernel) -> Array:
    return random_fields.factor(_line(kernel).kernel)


def _policy_before_reading() -> tuple[Policy, Array]:
    """Return the policy ET-GP-UCB of experiment E0, and the true values.

    The policy has readings at the places `SEEN`.
    """
    field = _line(KERNELS[SMOOTH])
    f = random_fields.draws(random_fields.factor(field.kernel), 1, np.random.default_rng(3))[0]
    policy = make_policy("et-gp-ucb", field, delta_b=0.1, seed=0)
    for arm in SEEN:
        policy.observe(arm, float(f[arm]))
        policy.advance()
    return policy, f


def _grid() -> Array:
    """Return the coordinates of experiment E0's `POINTS` x `POINTS` grid, (POINTS², 2)."""
    axis = np.linspace(0.0, SIDE, POINTS)
    return np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)


def _sigmoid(t: Array, tau: float, rho: float) -> Array:
    """Return the share s(t) of the second field in experiment E0's TTV model ([M24] eq. 9.1)."""
    return np.asarray(1.0 / (1.0 + np.exp((tau - t) / rho)))
