"""Cross checks of one field: its times, its model, its positions and its policy."""

from math import floor
from pathlib import Path

from edge_tvbo.config import sensor_positions
from edge_tvbo.config.controller_settings import ROUNDING
from edge_tvbo.config.errors import KeyPath, Report
from edge_tvbo.config.field_types import duration_text
from edge_tvbo.config.kernel_settings import WITHOUT_LENGTH_SCALE
from edge_tvbo.config.named_files import is_readable
from edge_tvbo.config.reader import Values
from edge_tvbo.errors import Code
from edge_tvbo.policy.settings import PolicySettings


def check_times(field: Values, path: KeyPath, report: Report) -> None:
    """Check a field's `reply_timeout` and activations per interval; add missing defaults."""
    sensors = _per_interval(field, path, report)
    if "interval" not in field:
        return
    interval = field["interval"]
    on_reading = interval == "on-reading"
    field.setdefault("reply_timeout", 120.0 if on_reading else interval / max(5, sensors))
    field.setdefault("max_age", 600.0 if on_reading else interval)
    if not on_reading and field["reply_timeout"] > interval:
        report.add(
            (*path, "reply_timeout"),
            f"is {duration_text(field['reply_timeout'])}; allowed: at most the interval, "
            f"{duration_text(interval)}",
            code=Code.CONTRADICTION,
        )
    elif not on_reading and field["reply_timeout"] * sensors > interval * (1 + ROUNDING):
        report.add(
            (*path, "reply_timeout"),
            f"is {duration_text(field['reply_timeout'])}, but up to {sensors} sensors are "
            "activated in an interval, one after the other; allowed: at most the interval "
            f"divided by {sensors}, {_limit_text(interval / sensors)}",
            'with next_activation = "at-once", reply_timeout may be as long as the interval',
            code=Code.CONTRADICTION,
        )


def _limit_text(limit: float) -> str:
    """Return the limit of a setting as text, rounded down to ms.

    `limit` is the longest allowed duration, in s.

    >>> _limit_text(600 / 7)
    '85714ms'
    """
    return duration_text(floor(limit * 1000 * (1 + ROUNDING)) / 1000)


def _per_interval(field: Values, path: KeyPath, report: Report) -> int:
    """Check the settings `per_interval` and `survey.per_interval` of a field.

    Return the highest number of sensors that are activated one after the other in an interval.
    """
    survey, each = field.get("survey"), field.get("per_interval", 1)
    planned = {(*path, "per_interval"): each}
    if survey:
        planned[*path, "survey", "per_interval"] = survey.get("per_interval", 2)
    M = len(field.get("sensors", ()))
    for key, number in planned.items():
        if number > 1 and field.get("interval") == "on-reading":
            report.add(
                key,
                f'is {number}, which cannot be combined with interval = "on-reading": each '
                "reply begins the next interval, in which one sensor is activated; set a "
                'duration, such as interval = "10min"',
                code=Code.CONTRADICTION,
            )
    if each > M > 0:
        report.add(
            (*path, "per_interval"),
            f"is {each}; allowed: at most the number of sensors, {M}",
            code=Code.CONTRADICTION,
        )
    if survey and survey.get("per_interval", each + 1) <= each:
        report.add(
            (*path, "survey", "per_interval"),
            f"is {survey['per_interval']}; allowed: more than per_interval, which is {each}",
            code=Code.CONTRADICTION,
        )
    activated = max(planned.values())
    activated = min(activated, M or activated)  # a survey can plan more sensors than there are
    return 1 if field.get("next_activation") == "at-once" else activated


def check_prior(field: Values, path: KeyPath, report: Report) -> None:
    """Check that a field has a model file or a kernel, and that the kernel is complete."""
    model, kernel = field.get("model"), field.get("kernel")
    if model and kernel:
        report.add(
            (*path, "kernel"),
            "is set together with model; remove one of them",
            code=Code.CONTRADICTION,
        )
    if {"model", "kernel"} <= set(field) and not (model or kernel):
        report.add(
            path,
            "has neither model nor kernel; `edge-tvbo fit` writes a model, and"
            ' kernel = { name = "exchangeable", ... } needs no recorded days',
            code=Code.MISSING,
        )
    if kernel:
        _check_kernel(kernel, field.get("positions", {}), (*path, "kernel"), report)
    if model:
        is_readable(model, (*path, "model"), report)


def _check_kernel(kernel: Values, positions: object, path: KeyPath, report: Report) -> None:
    name = kernel.get("name", "exchangeable")
    if name == "exchangeable":
        return
    if kernel.get("length_scale", 1.0) is None and name not in WITHOUT_LENGTH_SCALE:
        report.add(
            (*path, "length_scale"),
            "is missing; allowed: a number, above 0",
            "Distance over which the correlation falls, in m",
            code=Code.MISSING,
        )
    if positions is None:
        report.add(
            path,
            'needs positions = { id = [x, y], ... }; or set name = "exchangeable"',
            code=Code.MISSING,
        )


def check_positions(field: Values, path: KeyPath, base: Path, report: Report) -> None:
    """Read the positions of a field's sensors, and check that each sensor has a position."""
    sensors = tuple(dict.fromkeys(field.get("sensors", ())))
    if field.get("positions") is not None:
        field["positions"] = sensor_positions.of_sensors(
            field["positions"], base, sensors, (*path, "positions"), report
        )


def check_policy(field: Values, path: KeyPath, report: Report) -> None:
    """Check that the policy's parameters agree with each other and with the field."""
    policy: PolicySettings | None = field.get("policy")
    if policy is None:
        return
    found = list(policy.conflicts())
    if field.get("model", "") is None and {"sensors", "positions"} <= set(field):
        found += policy.field_conflicts(field["sensors"], field["positions"] is not None)
    for conflict in found:
        key = (*path, conflict.parameter)
        report.add(key, conflict.problem, code=Code.CONTRADICTION)
