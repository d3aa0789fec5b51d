"""Restored controller: a controller continues from a snapshot, after a start or a reload.

If the controller cannot restore the whole snapshot, the consequences are logged.
"""

import logging
from collections.abc import Iterable

from edge_tvbo.control.controller import Controller
from edge_tvbo.errors import SnapshotError
from edge_tvbo.messages.formatting import counted

log = logging.getLogger(__name__)


def restore_controller(
    occasion: str, name: str, controller: Controller, snapshot: bytes
) -> SnapshotError | None:
    """Restore `controller` from `snapshot`; return why the snapshot does not fit, None if it does.

    `occasion` is "state" at a start, and "reload" at a reload. If the snapshot does not fit,
    restore the parts that fit; see `Controller.restore_partial`. If these parts do not include the
    model, log why the field starts without readings or from its fitted model. Also log why the
    threshold of an alert, set by a command, is replaced.
    """
    problem = None
    try:
        controller.restore(snapshot)
    except SnapshotError as error:
        problem = _restore_partial(occasion, name, controller, snapshot, error)
    if why := controller.why_threshold_replaced:
        log.warning(
            "%s: the field %s uses the configured threshold of the alert, not the threshold that a "
            "command has set: %s",
            occasion,
            name,
            why,
        )
    return problem


def _restore_partial(
    occasion: str, name: str, controller: Controller, snapshot: bytes, why: SnapshotError
) -> SnapshotError:
    """Restore the parts of the `snapshot` that fit, and log the result; return the problem.

    `why` says why the whole snapshot does not fit the controller; it is returned. If no part can
    be restored, the reason for this is returned instead.
    """
    known = 0
    try:
        known = controller.restore_partial(snapshot)
    except SnapshotError as error:
        why = error
    if known and controller.policy.observations:
        sensors = counted(known, "sensor")
        log.info("%s: the field %s keeps what it learned about %s", occasion, name, sensors)
    else:
        start = _start(controller)
        log.warning("%s: the field %s starts %s: %s", occasion, name, start, why)
    return why


def log_charge(name: str, controller: Controller, unknown: int) -> None:
    """Log that a restored controller charges its energy budgets for `unknown` intervals, if any."""
    settings = controller.settings
    is_limited = settings.energy is not None and settings.energy.limits_activations
    if unknown and controller.charges_unknown and is_limited:
        log.info(
            "state: the daemon did not stop normally, and may have activated sensors of the field "
            "%s after it stored this state: the energy budgets are charged for %s",
            name,
            counted(unknown, "interval"),
        )


def log_removed(occasion: str, fields: Iterable[str]) -> None:
    """Log a warning for each of the removed `fields`: the next checkpoint lacks its state.

    The state of a removed field is deleted although the field may return. If the state were kept,
    each checkpoint would contain it, and would be written less often; see `checkpoints`.
    """
    for name in sorted(fields):
        log.warning(
            "%s: the field %s is not in the configuration, so its state is deleted; if you add the "
            "field again, it starts without readings, and its interval numbers start at 0",
            occasion,
            name,
        )


def _start(controller: Controller) -> str:
    """Return a log text: how the model of a field starts if the stored state does not fit it."""
    structure = controller.policy.field.structure
    if structure is None or not structure.rows:
        return "without readings"
    return "from its fitted model, without the readings after the fit"
