"""What training days taught, in numbers and in words."""

from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edge_tvbo.models.daily_profile import DAY
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.likelihood import fit
from edge_tvbo.models.temporal_models import MomentumKernel, TimeVaryingKernel
from edge_tvbo.training.daily_profile_fit import Progress, held_out_coverage, untold

Array = NDArray[np.float64]
LAGS = 72  # intervals of the autocorrelation
LONGEST = 288  # intervals that the rate of change is fitted to


@dataclass(frozen=True)
class TrainingReport:
    """What is known of a field after its training days."""

    field: SensorField
    days: float
    explained: float  # share of the variance that goes by the time of day, 0 without a rhythm
    epsilon: float  # [B16]'s rate of change of what is left
    momentum: tuple[float, float]  # [M24]'s ε and α of what is left
    autocorrelation: Array  # (LAGS,), of what is left, at lags 1, 2, ...
    coverage: tuple[float, ...]  # of the 90 % intervals, each training day held out

    def lines(self) -> list[str]:
        """Give the lessons in words."""
        field, rhythm = self.field, self.field.rhythm
        unit = f" {field.unit}" if field.unit else ""
        lines = [
            f"{len(field)} sensors over {self.days:.1f} days: {field.center:.4g}{unit} on average, "
            f"standard deviation {field.scale:.3g}{unit}",
            f"what is left changes by {self.epsilon:.2g} of itself an interval (ε of TV-GP-UCB, by "
            "marginal likelihood)",
            "with momentum it keeps {:.3g} of itself and {:.2g} of its momentum".format(
                *self.momentum
            ),
        ]
        if rhythm is None:
            return [*lines, "no daily rhythm: that takes two whole days of regular intervals"]
        quiet, busy = rhythm.scale.min() * field.scale, rhythm.scale.max() * field.scale
        lines += [
            f"the time of day explains {self.explained:.0%} of the variance; it is ±{quiet:.2g}"
            f"{unit} about that at the quietest hour, ±{busy:.2g}{unit} at the liveliest",
            f"a reading is off by ±{rhythm.noise_variance**0.5 * field.scale:.2g}{unit}",
            f"exploration: c1 = {rhythm.exploration:g}",
        ]
        if self.coverage:
            each = ", ".join(f"{share:.0%}" for share in self.coverage)
            lines.append(f"90 % intervals held, each day foretold by the others: {each}")
        return lines


def lessons(
    field: SensorField,
    readings: Array,
    interval: float,
    start: float,
    progress: Progress = untold,
    executor: Executor | None = None,
) -> TrainingReport:
    """Say what `readings` (T, M), in their unit, taught the field that was learned from them."""
    modelled = np.vectorize(field.to_model)(readings)
    rest = _rest(field, modelled, interval, start)
    total = float(((modelled - modelled.mean(axis=0)) ** 2).mean())
    explained = 0.0 if field.rhythm is None else 1.0 - float((rest**2).mean()) / total
    times = np.arange(min(len(rest), LONGEST), dtype=np.float64)
    lead = _leading(rest)[: len(times)]
    everywhere = np.ones((len(times), len(times)))
    noise = 0.01
    rng = np.random.default_rng(0)
    steady = fit(TimeVaryingKernel(0.03), everywhere, times, lead, noise, restarts=2, rng=rng)
    moving = fit(MomentumKernel(0.95, 0.5), everywhere, times, lead, noise, restarts=2, rng=rng)
    return TrainingReport(
        field,
        len(readings) * interval / DAY,
        explained,
        steady.epsilon,
        (moving.epsilon, moving.alpha),
        _autocorrelation(rest),
        held_out_coverage(field, modelled, interval, start, progress=progress, executor=executor),
    )


def _rest(field: SensorField, modelled: Array, interval: float, start: float) -> Array:
    """Give what the time of day leaves, scaled; without a rhythm what the means leave."""
    rhythm = field.rhythm
    if rhythm is None:
        return np.asarray(modelled - modelled.mean(axis=0))
    phases = [rhythm.phase(start + t * interval) for t in range(len(modelled))]
    return np.asarray(modelled - rhythm.mean[phases])


def _leading(rest: Array) -> Array:
    """Give the leading principal component, of variance 1."""
    _, vectors = np.linalg.eigh(rest.T @ rest)
    series = rest @ vectors[:, -1]
    return np.asarray(series / max(float(series.std()), 1e-300))


def _autocorrelation(rest: Array) -> Array:
    power = float((rest**2).sum()) or 1.0
    longest = min(LAGS, len(rest) - 1)
    return np.array([float((rest[k:] * rest[:-k]).sum()) / power for k in range(1, longest + 1)])
