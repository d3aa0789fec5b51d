"""Experiment LOSS: the regret of `auto` if replies are lost at random, or if a sensor is dead.

The recordings and their training days are those of the experiment AUTO. The controller of the
daemon runs the policy, so that it backs off sensors that do not reply. The cases are:

- "none": every sensor replies.
- "20 %": each reply is lost with a probability of 20 %.
- "noise": every sensor replies, but its readings have noise of `NOISE` standard deviations. This
  case shows whether the regret depends on a few decisions, which a little noise can change.
- "dead": the sensor with the highest mean on the test days never replies. The regret is the
  difference from the best of the other sensors. If the dead sensor is activated, the interval is
  lost, and its regret is computed from the mean of the other sensors. The column "lost" is the
  share of the lost intervals.
- "absent": the dead sensor is not in the field at all.

The regret per interval, R_T/T, is in standard deviations of the training data.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from edge_tvbo.config.controller_settings import ControllerSettings
from edge_tvbo.control.controller import Controller
from edge_tvbo.messages.commands import Activate
from edge_tvbo.messages.events import DeadlineElapsed, IntervalElapsed, Reading
from edge_tvbo.models.field import SensorField
from edge_tvbo.numerics.types import Array
from edge_tvbo.policy import make_policy
from edge_tvbo.research.experiments.curves import INTERVALS
from edge_tvbo.research.experiments.result_table import Expectation, ResultTable, Row, case_labels
from edge_tvbo.research.experiments.split_experiment import SplitExperiment, TrainTestSplit
from edge_tvbo.simulation.replay import REPLY_SHARE
from edge_tvbo.training.covariance import with_structure

PLACES = (
    "Intel 7-8",
    "METR-LA",
    "humidity",
    "wind 1964",
    "wind 1973",
    "soil",
    "PM10 2004",
    "PM10 2008",
)
LOST = 0.2  # probability that a reply is lost
NOISE = 0.03  # size of the noise, in standard deviations of the training data
MAX_OF_CLEAN = 1.15  # goal: highest ratio of regret with lost replies to regret without them
MAX_OF_ABSENT = 1.2  # goal: highest ratio of regret with a dead sensor to regret without it


class Disturbance(NamedTuple):
    """Disturbance of a run: replies are lost, readings are noisy, or a sensor never replies."""

    lost: float = 0.0  # probability that a reply is lost
    noise: float = 0.0  # standard deviation, in model units
    dead: int = -1  # the arm that never replies; -1 for none


class LostReplies(SplitExperiment):
    """The experiment LOSS: regret of `auto` without a disturbance and with each disturbance."""

    name = "LOSS"
    title = "lost replies and dead sensors"
    runs = 8
    revision = 2

    def expectations(self, results: ResultTable) -> list[Expectation]:
        """Compare the regrets of `auto` in LOSS: with and without a disturbance."""
        return [
            *(_ratio(results, place, "20 %", "none", MAX_OF_CLEAN) for place in PLACES),
            *(_ratio(results, place, "dead", "absent", MAX_OF_ABSENT) for place in PLACES),
        ]

    def draw(self, figure: Any, results: ResultTable) -> None:
        """Draw a bar with the regret of `auto` for each recording and disturbance."""
        axes = figure.subplots()
        at = np.arange(len(PLACES))
        kinds = results.values_of("disturbance")
        for k, kind in enumerate(kinds):
            cells = [results.cell("R_T/T", _case(place, kind)) for place in PLACES]
            axes.bar(
                at + k / (len(kinds) + 1),
                [cell.mean for cell in cells],
                1 / (len(kinds) + 1),
                yerr=[cell.half_width for cell in cells],
                label=kind,
            )
        axes.set_xticks(at, PLACES, rotation=60, fontsize=8)
        axes.set(ylabel="R_T / T")
        axes.legend(loc="best")
        figure.suptitle(f"LOSS: regret of auto without and with lost replies, {INTERVALS}")

    def _run(self, run: int, seed: int) -> Iterator[Row]:
        for place in PLACES:
            generator = np.random.default_rng([seed, 102, run, PLACES.index(place)])
            split = self._split(place, generator)
            yield from _rows(place, split, run, generator)

    def _split(self, place: str, generator: np.random.Generator) -> TrainTestSplit:
        if place in self._rooms:
            return self._rooms[place]
        if place in self._fields:
            return self._fields[place]
        return self._drawn_streets(generator)[place]


def _rows(
    place: str, split: TrainTestSplit, run: int, generator: np.random.Generator
) -> Iterator[Row]:
    split = split.of_varying_sensors()
    means = split.test.mean(axis=0)
    best = int(means.argmax())
    others = split.of_sensors(np.arange(len(means)) != best)
    everywhere, elsewhere = (_field_of(each) for each in (split, others))
    for kind, field, part, disturbance in (
        ("none", everywhere, split, Disturbance()),
        ("20 %", everywhere, split, Disturbance(lost=LOST)),
        ("noise", everywhere, split, Disturbance(noise=NOISE)),
        ("dead", everywhere, split, Disturbance(dead=best)),
        ("absent", elsewhere, others, Disturbance()),
    ):
        regret, lost = run_disturbed(field, part, disturbance, generator)
        mean = float(regret.mean()) * field.scale / everywhere.scale
        yield Row(run, _case(place, kind), {"R_T/T": mean, "lost": lost})


def _field_of(split: TrainTestSplit) -> SensorField:
    """Return LOSS's field of the sensors of `split`, with a structural model."""
    days = split.training, split.interval, split.start
    return with_structure(split.trained_field(), *days, transform="none")


def run_disturbed(
    field: SensorField,
    split: TrainTestSplit,
    disturbance: Disturbance,
    generator: np.random.Generator,
) -> tuple[Array, float]:
    """Return the regrets of `auto` on the test days, (T,), and the share of lost intervals.

    In a lost interval, the dead sensor was activated. The regrets are in model units. `field` and
    `split` have the same sensors.
    """
    interval = split.interval
    settings = ControllerSettings(
        interval=interval,
        reply_timeout=REPLY_SHARE * interval,
        max_age=interval,
        learn_from="activated",
    )
    controller = Controller(make_policy("auto", field, seed=0), settings, with_text=False)
    z = field.to_model(split.test)
    alive = np.arange(z.shape[1]) != disturbance.dead
    gained, died = np.empty(len(z)), 0
    for t, values in enumerate(z):
        at = split.test_start + t * interval
        commands = controller.handle(IntervalElapsed(at))
        activate = next(each for each in commands if isinstance(each, Activate))
        arm = field.sensors.index(activate.sensor)
        died += arm == disturbance.dead
        gained[t] = values[arm] if alive[arm] else values[alive].mean()
        y = values[arm] + disturbance.noise * generator.standard_normal()
        if generator.random() < disturbance.lost or not alive[arm]:
            controller.handle(DeadlineElapsed(activate.interval, activate.expires_at))
        else:
            controller.handle(Reading(activate.sensor, field.to_unit(float(y)), at, at))
    return z[:, alive].max(axis=1) - gained, died / len(z)


def _case(place: str, disturbance: str) -> dict[str, str]:
    return case_labels(place=place, disturbance=disturbance)


def _ratio(
    results: ResultTable, place: str, disturbance: str, without: str, most: float
) -> Expectation:
    ours, clean, noisy = (
        results.cell("R_T/T", _case(place, kind)) for kind in (disturbance, without, "noise")
    )
    ratio = ours.mean / clean.mean
    text = (
        f"{place}, {disturbance}: R_T/T of auto is {ours}, "
        f"{ratio:.2f} times the {clean.mean:.3f} of {without!r}; the goal is at most {most} times"
    )
    if disturbance == "dead":
        lost = results.mean("lost", place=place, disturbance=disturbance)
        text += f"; the dead sensor was activated in {lost:.1%} of the intervals"
        return Expectation(text, ratio <= most)
    return Expectation(f"{text}; R_T/T of 'noise' is {noisy.mean:.3f}", ratio <= most)
