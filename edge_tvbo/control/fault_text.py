"""Fault text: faults of sensors in words."""

from edge_tvbo.control.facts import Fault
from edge_tvbo.control.fault_detection import MIN_SENSORS, FaultDetector
from edge_tvbo.control.notice_text import notice_text
from edge_tvbo.control.quantities import Quantities


def fault_text(fault: Fault, quantities: Quantities) -> str:
    """Return a fault in words; `quantities` formats the values."""
    value, expected = (
        quantities.text(round(each, quantities.digits)) for each in (fault.value, fault.expected)
    )
    match fault.kind:
        case "stuck":
            return (
                f"it has reported {value} {fault.count} times in a row, while the readings of other"
                " sensors have changed"
            )
        case "drift":
            return (
                f"{fault.count} readings in a row drift away from the estimate (last reading"
                f" {value}, estimate {expected}); no other sensor drifts"
            )
        case "spikes":
            return (
                f"{fault.count} readings are far from the estimate (last reading {value},"
                f" estimate {expected})"
            )
        case "unit":
            return (
                f"it reports {value}, but {expected} is expected; {fault.count} readings agree"
                f" with the estimate if their unit is {fault.unit}"
            )


def fault_notice(name: str, arm: int, faults: FaultDetector, quantities: Quantities) -> str:
    """Return the text of a notice that the sensor `arm` is faulty, or is no longer faulty.

    `name` is the display name of the sensor.
    """
    fault = faults.fault(arm)
    if fault is None:
        return notice_text("sensor-agrees", name)
    text = f"{name} seems to be faulty: {fault_text(fault, quantities)}; {_measure(arm, faults)}"
    return "; ".join(filter(None, [text, fault_limit_text(faults)]))


def fault_limit_text(faults: FaultDetector) -> str:
    """Return why no further fault is reported, in words; "" if faults are reported."""
    if not faults.limit_reached:
        return ""
    return (
        "while at least a third of the sensors seem to be faulty, faults of other sensors are not"
        " reported; if the sensors are not faulty, reset the model"
    )


def _measure(arm: int, faults: FaultDetector) -> str:
    """Return, for a notice, whether the readings of the faulty sensor `arm` are used, and why."""
    excluded = faults.excluded
    if excluded[arm]:
        retry = faults.retry_interval(arm)
        return f"its readings are not used, and it is tried again from interval {retry} on"
    if len(excluded) < MIN_SENSORS:
        why = f"the field has fewer than {MIN_SENSORS} sensors"
    else:
        why = 'the setting is faults = "report"'
    return f"its readings are still used, because {why}"
