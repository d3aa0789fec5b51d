"""Cross checks of a field's energy budgets and batteries."""

from collections.abc import Collection

from edge_tvbo.config.errors import KeyPath, Report, dotted, listed, shown
from edge_tvbo.config.reader import Values
from edge_tvbo.config.source_checks import PayloadFormats, check_format, sources_of, value_of
from edge_tvbo.config.topic_checks import check_topic_names
from edge_tvbo.errors import Code


def check_energy(
    energy: Values, field: Values, path: KeyPath, payloads: PayloadFormats | None, report: Report
) -> None:
    """Check the budgets, the sensors and the batteries of the table `energy` of a field."""
    if field.get("interval") == "on-reading":
        report.add(
            path,
            'cannot be combined with interval = "on-reading", which activates a sensor in every '
            'interval; set a duration, such as interval = "10min"',
            code=Code.CONTRADICTION,
        )
    for sensor in energy.get("sensors", ()):
        if sensor not in field.get("sensors", (sensor,)):
            where = (*path, "sensors", sensor)
            report.add_unknown_name(where, "is not one of the sensors", sensor, field["sensors"])
    _check_budgets(energy, field.get("sensors", ("any sensor",)), path, report)
    battery = energy.get("battery") or {}
    _check_battery(battery, field, path[:-1], report)
    check_format(battery, (*path, "battery"), payloads, report)


def _check_budgets(energy: Values, sensors: Collection[str], path: KeyPath, report: Report) -> None:
    """Check that each budget covers at least one activation.

    A budget of 0 is allowed for a sensor, which is then never activated. However, it is an error if
    all sensors have a budget of 0. If the field's budget covers an activation of some sensors but
    not of all sensors, a warning is added.
    """
    if not {"cost", "budget", "field_budget", "sensors"} <= set(energy):
        return
    usual, own = float(energy["cost"]), energy["sensors"]
    costs = {each: own.get(each, {}).get("cost") or usual for each in (*sensors, *own)}
    wanted = [each for each in costs if own.get(each, {}).get("budget") != 0]
    if costs and not wanted:
        report.add(
            (*path, "sensors"),
            "does not allow any activation: the budget of every sensor is 0; give at least one "
            f"sensor a budget that covers an activation, such as budget = {min(costs.values()):g}",
            code=Code.CONTRADICTION,
        )
    cheapest = min((costs[sensor] for sensor in wanted), default=0.0)
    budgets: dict[KeyPath, tuple[float | None, float]] = {
        (*path, "field_budget"): (energy["field_budget"], cheapest),
    }
    if set(sensors) - own.keys():
        budgets[*path, "budget"] = energy["budget"], usual
    for sensor, table in own.items():
        budget = table.get("budget")
        key, limit = ("cost", energy["budget"]) if budget is None else ("budget", budget)
        if budget != 0:
            budgets[*path, "sensors", sensor, key] = limit, costs[sensor]
    for setting, (budget, cost) in budgets.items():
        if budget is not None and budget < cost:
            report.add(
                setting,
                f"does not allow any activation: the budget of a period is {budget:g}, and an "
                f"activation costs {cost:g}; raise the budget or lower the cost",
                code=Code.CONTRADICTION,
            )

    _warn_of_unaffordable({sensor: costs[sensor] for sensor in wanted}, energy, path, report)


def _warn_of_unaffordable(
    costs: dict[str, float], energy: Values, path: KeyPath, report: Report
) -> None:
    """Warn of sensors whose activation costs more than the whole budget of the field.

    `costs` maps each sensor to the cost of its activation. There is no warning for sensors with a
    budget of 0, because the user wants them never to be activated.
    """
    budget, key = energy["field_budget"], (*path, "field_budget")
    never = [sensor for sensor, cost in costs.items() if budget is not None and budget < cost]
    if never and len(never) < len(costs):
        report.warn(
            key,
            f"{dotted(key)} is {budget:g}, but an activation of {listed(never)} costs more, so it"
            " is never allowed; raise field_budget, or set the budget of these sensors to 0",
        )


def _check_battery(battery: Values, field: Values, path: KeyPath, report: Report) -> None:
    """Check that the battery charge and the reading are different values of a message."""
    if not battery.get("topic"):
        return
    readings = [reading for _, reading in sources_of(field)]
    if value_of(battery) in map(value_of, readings):
        report.add(
            (*path, "energy", "battery", "topic"),
            f"is {shown(battery['topic'])}, so the battery charge and the reading would be the "
            'same value of a message; set `value`, such as value = "battery"',
            code=Code.TWICE,
        )
    if battery["topic"] not in [each.get("topic") for each in readings]:
        check_topic_names(field.get("sensors", ()), field, path, report)
