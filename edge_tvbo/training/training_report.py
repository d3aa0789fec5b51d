"""Training report: the training data, the learned model, and how well it predicts held-out rows."""

from dataclasses import dataclass

import numpy as np

from edge_tvbo.errors import DataError, MissingExtra
from edge_tvbo.messages.formatting import (
    counted,
    duration,
    season_text,
    significant,
    significant_in_spread,
)
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.likelihood import fit_temporal_model
from edge_tvbo.models.momentum import Momentum
from edge_tvbo.models.structural_model import DAY, StructuralModel, part_of, phase_of
from edge_tvbo.models.temporal_models import TimeVarying
from edge_tvbo.numerics.types import Array, Mask
from edge_tvbo.policy import make_policy
from edge_tvbo.policy.auto import AutoPolicy
from edge_tvbo.training.covariance import with_model
from edge_tvbo.training.periods import untried_day_text
from edge_tvbo.training.structural_fit import fit_structure, rows_without_nan

MAX_LAG = 72  # largest lag of the autocorrelation, in intervals
MAX_FIT_INTERVALS = 288  # largest number of intervals to which the rate of change is fitted
TRAINED_SHARE = 0.75  # share of the rows from which the held-out rows are predicted
NO_STRUCTURE = (
    "there is no structural model: it requires at least 8 rows, readings that change, and at most"
    " 2000 sensors"
)
MIN_SILENT = 0.005  # smallest share of silent intervals that the report mentions
COVERAGE = 0.9  # nominal coverage of the predictive intervals


@dataclass(frozen=True)
class TrainingReport:
    """The results of training a field; residuals are the readings minus the course."""

    field: SensorField
    average: float  # mean of all training readings, in the sensors' unit
    std: float  # standard deviation of all training readings, in the sensors' unit
    days: float  # number of training days
    silent: float  # share of the intervals in which too few sensors were read to be used
    explained: float  # share of the variance that the course explains, 0 to 1; 0 without a model
    rates: tuple[TimeVarying, Momentum] | None  # fitted to the residuals; None without scipy
    autocorrelation: Array  # (MAX_LAG,), of the residuals at lags 1, 2, ...; NaN if unknown
    coverage: float | None  # share of the last quarter's readings in their 90 % intervals
    untried: str = ""  # why no season of a day was tried, if this is due to the interval

    def lines(self) -> list[str]:
        """Return the training report as lines of text."""
        field, structure = self.field, self.field.structure
        unit = f" {field.unit}" if field.unit else ""
        lines = [
            f"{counted(len(field), 'sensor')} over {duration(self.days * DAY)}: "
            f"{significant_in_spread(self.average, self.std, 4)}{unit} on average, standard "
            f"deviation {significant(self.std)}{unit}",
            *self._rate_lines(),
        ]
        if self.silent >= MIN_SILENT:
            lines.append(
                f"in {100 * self.silent:.0f} % of the intervals, such as at night, "
                f"{_too_few(len(field))}; from these intervals, the model learned only that "
                "time passed"
            )
        if structure is None:
            return [*lines, NO_STRUCTURE]
        if field.log1p_scale is not None:
            lines.append(
                "the model works on a log scale, log(1 + reading / "
                f"{significant(field.log1p_scale)}{unit}), so estimates are medians"
            )
        lines += [*self._structure_lines(structure, unit)]
        if self.untried:
            lines.append(self.untried)
        if self.coverage is not None:
            lines.append(
                f"the 90 % intervals contained {100 * self.coverage:.0f} % of the readings in a "
                "replay of the last quarter of the rows, with a model fitted to the other rows"
            )
        return lines

    def _rate_lines(self) -> list[str]:
        if self.rates is None:
            missing = MissingExtra("scipy, which fits the rates of change,", "science")
            return ["the report leaves out the rates of change: " + " ".join(str(missing).split())]
        steady, moving = self.rates
        return [
            f"rate of change of the residuals: in each interval, a share of {steady.epsilon:.2g} "
            "of their variance comes from new changes (epsilon of tv-gp-ucb, fitted by marginal "
            "likelihood)",
            f"rate of change with momentum (mtv-gp-ucb): epsilon = {_kept(moving.epsilon)}, "
            f"alpha = {_kept(moving.alpha)}",
        ]

    def _structure_lines(self, structure: StructuralModel, unit: str) -> list[str]:
        components = structure.components
        season = season_text(structure.period)
        spread = significant(self.field.std_to_unit(0.0, float(structure.spread.mean())), 2)
        shorter, longer = sorted((components.fast.time, components.slow.time))
        lines = [
            f"the course of {season} explains {100 * self.explained:.0f} % of the variance"
            if structure.period
            else "there is no season; the mean of each sensor explains "
            f"{100 * self.explained:.0f} % of the variance",
            f"readings differ from the {'course' if structure.period else 'mean'} by "
            f"±{spread}{unit} (one standard deviation); one part of the difference changes "
            f"within {duration(shorter)}, another part within {duration(longer)}",
        ]
        if structure.period:
            quiet, busy = structure.liveliness.min(), structure.liveliness.max()
            lines.append(
                f"the differences from the course are {busy / quiet:.1f} times as large at the "
                f"busiest time of {season_text(structure.season_period)} as at the quietest time"
            )
        return lines


def _kept(share: float) -> str:
    """Return the text of `share`, the share of a quantity that is left after an interval.

    The share that is lost, 1 - `share`, is rounded to two significant digits. Thus the texts of ε
    and α satisfy α <= ε < 1, as `mtv-gp-ucb` requires.
    """
    return f"{1.0 - float(f'{1.0 - share:.2g}'):.12g}"


def _too_few(sensors: int) -> str:
    """Return the part of the report that says how few of the `sensors` were read."""
    if sensors == 1:
        return "the sensor was not read"
    if sensors == 2:
        return "at most one of the two sensors was read"
    return "fewer than half of the sensors were read"


def make_training_report(
    field: SensorField,
    readings: Array,
    interval: float,
    start: float,
    *,
    period: float | None = None,
    observed: Mask | None = None,
) -> TrainingReport:
    """Return the training report of a field and its training readings.

    Parameters
    ----------
    field : SensorField
        The trained field, with a structural model if one could be fitted.
    readings : (T, M) array
        The training readings, in the sensors' unit.
    interval, start, period
        The parameters of `best_fit` with these names.
    observed : (T, M) bool array, optional
        Mask of the readings that were measured; all other readings fill gaps. By default, all
        readings were measured.
    """
    recorded = rows_without_nan(readings)
    modelled = field.to_model(readings)
    coverage = held_out_coverage(field, modelled, interval, start, period=period, observed=observed)
    all_rows = _residuals(field, modelled, interval, start)
    rest = all_rows[recorded]
    total = float(modelled[recorded].var())
    unexplained = 1.0 if field.structure is None else float((rest**2).mean()) / total
    times = np.flatnonzero(recorded)[:MAX_FIT_INTERVALS].astype(np.float64)
    lead = _leading_component(rest)[: len(times)]
    return TrainingReport(
        field,
        float(np.nanmean(readings)),
        float(np.nanstd(readings)),
        len(readings) * interval / DAY,
        1.0 - float(recorded.mean()),
        max(0.0, 1.0 - unexplained),
        _rates(times, lead),
        _autocorrelation(all_rows, recorded),
        coverage,
        untried_day_text(len(readings), interval) if period is None else "",
    )


def held_out_coverage(
    field: SensorField,
    modelled: Array,
    interval: float,
    start: float,
    *,
    period: float | None = None,
    observed: Mask | None = None,
) -> float | None:
    """Return the share of readings that lie within the 90 % predictive intervals of `auto`.

    The structural model is fitted to the first three quarters of the rows. In each row of the last
    quarter, `auto` selects one reading, and only this reading counts. `modelled` holds the training
    readings, (T, M), in model units. If the mask `observed` is given, only the readings that it
    marks can be selected. The result is None if no model can be fitted, or if the last quarter has
    no readings.
    """
    first = int(TRAINED_SHARE * len(modelled))
    try:
        structure = fit_structure(modelled[:first], interval, start, period=period)
    except DataError:  # too few rows for the period
        structure = None
    recorded = np.flatnonzero(rows_without_nan(modelled[first:])) + first
    if structure is None or not len(recorded):
        return None
    policy = make_policy("auto", with_model(field, structure))
    assert isinstance(policy, AutoPolicy)
    covered = 0
    for t in recorded:
        row = modelled[t]
        policy.set_time(start + t * interval)
        arm = policy.select(None if observed is None else observed[t]).arm
        low, high = policy.prediction_interval(arm, COVERAGE)
        covered += low <= row[arm] <= high
        policy.observe(arm, float(row[arm]))
        policy.advance()
    return covered / len(recorded)


def _residuals(field: SensorField, modelled: Array, interval: float, start: float) -> Array:
    """Return the report's residuals: the readings minus the course.

    If the field has no structure, the residuals are the readings minus the means.
    """
    structure = field.structure
    if structure is None:
        return np.asarray(modelled - np.nanmean(modelled, axis=0))
    if not structure.period:
        return np.asarray(modelled - structure.course)
    P = len(structure.course)
    phases = [phase_of(start + t * interval, structure.period) for t in range(len(modelled))]
    return np.asarray(modelled - structure.course[[part_of(phase, P) for phase in phases]])


def _rates(times: Array, lead: Array) -> tuple[TimeVarying, Momentum] | None:
    """Return the TV and the MTV model fitted to `lead`, for the report; None without scipy.

    `lead` is the leading component of the residuals. `times` contains the time of each value of
    `lead`, in intervals.
    """
    data = np.ones((len(times), len(times))), times, lead, 0.01
    rng = np.random.default_rng(0)
    try:
        return (
            fit_temporal_model(TimeVarying(0.03), *data, restarts=2, rng=rng),
            fit_temporal_model(Momentum(0.95, 0.5), *data, restarts=2, rng=rng),
        )
    except MissingExtra:
        return None


def _leading_component(rest: Array) -> Array:
    """Return the leading principal component of the report's residuals, scaled to variance 1."""
    _, vectors = np.linalg.eigh(rest.T @ rest)
    series = rest @ vectors[:, -1]
    return np.asarray(series / max(float(series.std()), 1e-300))


def _autocorrelation(rest: Array, recorded: Mask) -> Array:
    """Return the autocorrelation of the report's residuals at the lags from 1 to `MAX_LAG` rows.

    Only pairs of `recorded` rows count; a lag without such a pair has NaN.
    """
    T = len(rest)
    known = np.where(recorded[:, None], rest, 0.0)
    power = float((known**2).sum()) / max(1, int(recorded.sum())) or 1.0
    found = []
    for k in range(1, min(MAX_LAG, T - 1) + 1):
        pairs = int((recorded[k:] & recorded[:-k]).sum())
        product = float((known[k:] * known[:-k]).sum()) / pairs if pairs else np.nan
        found.append(product / power * (T - k) / T)  # (T - k) / T is the usual bias towards 0
    return np.array(found)
