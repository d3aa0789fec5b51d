"""Training report: the training data, rate of change and coverage of predictive intervals."""

from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np

from edge_tvbo.models.daily_profile import DAY
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.likelihood import fit_temporal_model
from edge_tvbo.models.temporal_models import Momentum, TimeVarying
from edge_tvbo.numerics.types import Array
from edge_tvbo.training.daily_profile_fit import Progress, held_out_coverage, no_progress

MAX_LAG = 72  # largest lag of the autocorrelation, in intervals
MAX_FIT_INTERVALS = 288  # largest number of intervals to which the rate of change is fitted


@dataclass(frozen=True)
class TrainingReport:
    """The results of training a field; residuals are the readings minus the daily profile."""

    field: SensorField
    days: float  # number of training days
    explained: float  # share of the variance that the daily profile explains, or 0
    epsilon: float  # rate of change of the residuals, ε of [B16]
    momentum: tuple[float, float]  # ε and α of the residuals in the MTV model of [M24]
    autocorrelation: Array  # (MAX_LAG,), autocorrelation of the residuals at lags 1, 2, ...
    coverage: tuple[float, ...]  # coverage of the 90 % intervals on each held-out day

    def lines(self) -> list[str]:
        """Return the training report as lines of text."""
        field, profile = self.field, self.field.daily_profile
        unit = f" {field.unit}" if field.unit else ""
        lines = [
            f"{len(field)} sensors over {self.days:.1f} days: {field.center:.4g}{unit} on average, "
            f"standard deviation {field.scale:.3g}{unit}",
            f"rate of change of the residuals: {self.epsilon:.2g} of their variance is new each "
            "interval (epsilon of tv-gp-ucb, by marginal likelihood)",
            "rate of change with momentum (mtv-gp-ucb): epsilon = {:.3g}, alpha = {:.2g}".format(
                *self.momentum
            ),
        ]
        if profile is None:
            return [
                *lines,
                "there is no daily profile: it requires two whole days of regular intervals",
            ]
        quiet, busy = profile.scale.min() * field.scale, profile.scale.max() * field.scale
        lines += [
            f"the daily profile explains {100 * self.explained:.0f} % of the variance; readings "
            f"differ from it by ±{quiet:.2g}{unit} at the quietest time of day and "
            f"±{busy:.2g}{unit} at the busiest",
            f"noise of a reading: ±{profile.noise_variance**0.5 * field.scale:.2g}{unit}",
            f"exploration: c1 = {profile.exploration:g}",
        ]
        if self.coverage:
            days = ", ".join(f"{100 * share:.0f} %" for share in self.coverage)
            lines.append(
                f"share of readings inside the 90 % intervals on each held-out day: {days}"
            )
        return lines


def make_training_report(
    field: SensorField,
    readings: Array,
    interval: float,
    start: float,
    progress: Progress = no_progress,
    executor: Executor | None = None,
) -> TrainingReport:
    """Return the training report of a field and its training readings.

    Parameters
    ----------
    field : SensorField
        The trained field, with a daily profile if one could be fitted.
    readings : (T, M) array
        The training readings, in the sensors' unit.
    interval, start, progress, executor
        As for `fit_daily_profile`.
    """
    modelled = np.vectorize(field.to_model)(readings)
    rest = _residuals(field, modelled, interval, start)
    total = float(((modelled - modelled.mean(axis=0)) ** 2).mean())
    explained = 0.0 if field.daily_profile is None else 1.0 - float((rest**2).mean()) / total
    times = np.arange(min(len(rest), MAX_FIT_INTERVALS), dtype=np.float64)
    lead = _leading_component(rest)[: len(times)]
    data = np.ones((len(times), len(times))), times, lead, 0.01
    rng = np.random.default_rng(0)
    steady = fit_temporal_model(TimeVarying(0.03), *data, restarts=2, rng=rng)
    moving = fit_temporal_model(Momentum(0.95, 0.5), *data, restarts=2, rng=rng)
    return TrainingReport(
        field,
        len(readings) * interval / DAY,
        explained,
        steady.epsilon,
        (moving.epsilon, moving.alpha),
        _autocorrelation(rest),
        held_out_coverage(field, modelled, interval, start, progress=progress, executor=executor),
    )


def _residuals(field: SensorField, modelled: Array, interval: float, start: float) -> Array:
    """Return readings minus the daily profile; if there is no profile, minus the sensors' means."""
    profile = field.daily_profile
    if profile is None:
        return np.asarray(modelled - modelled.mean(axis=0))
    phases = [profile.phase(start + t * interval) for t in range(len(modelled))]
    return np.asarray(modelled - profile.mean[phases])


def _leading_component(rest: Array) -> Array:
    """Return the leading principal component of the residuals, scaled to variance 1."""
    _, vectors = np.linalg.eigh(rest.T @ rest)
    series = rest @ vectors[:, -1]
    return np.asarray(series / max(float(series.std()), 1e-300))


def _autocorrelation(rest: Array) -> Array:
    power = float((rest**2).sum()) or 1.0
    longest = min(MAX_LAG, len(rest) - 1)
    return np.array([float((rest[k:] * rest[:-k]).sum()) / power for k in range(1, longest + 1)])
