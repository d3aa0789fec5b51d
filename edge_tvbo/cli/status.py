"""Command `status`: the status of a daemon and its fields, from the broker."""

import time
from collections.abc import Mapping
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edge_tvbo.cli.daemon_state import history_reader, retained_state, span_text
from edge_tvbo.cli.options import config_argument, json_option
from edge_tvbo.cli.output import EX_BROKER, print_json, printable
from edge_tvbo.cli.settings import settings_of
from edge_tvbo.config.field_types import duration_text
from edge_tvbo.errors import DataError, LinkError, error_text

if TYPE_CHECKING:
    from edge_tvbo.config.settings import Settings
    from edge_tvbo.messages.documents import Decision, EnergyState, Health, RetainedState

HEALTH_DELAY_S = 1.2  # longest time from a decision until the health document is published
MAX_MISSING_REPORTS = 3  # if more health reports are missing, the daemon is not responding


@click.command()
@config_argument
@json_option
@click.pass_context
def status(ctx: click.Context, config: Path, as_json: bool) -> None:
    """Print the status of a daemon and its fields.

    The status is read from the broker of CONFIG, so the daemon can run on another machine. The exit
    status is 0 if the daemon is online, 1 if the daemon is not online or the broker is unreachable,
    and 2 if CONFIG is invalid.
    """
    settings = settings_of(config)
    try:
        retained = _of_one_moment(settings)
    except LinkError as error:
        if not as_json:
            click.echo(error_text(error), err=True)
        else:
            print_json({"online": False, "reason": str(error), "code": error.code})
        ctx.exit(EX_BROKER)
    problem = _problem(retained, settings)
    spans = _spans(settings)
    if as_json:
        import msgspec

        reason = problem or "online"
        document = {"online": not problem, "reason": reason, "history": spans}
        print_json(document | msgspec.to_builtins(retained))
    else:
        click.echo(printable(f"{settings.instance}: {problem or _online(retained)}"))
        if retained.health and retained.health.problem:
            click.echo(printable(f"problem: {retained.health.problem}"))
        for field in settings.fields:
            names = settings.fields[field].sensor_names
            for line in _field_lines(field, retained, spans.get(field), names):
                click.echo(printable(line))
            if refused := _refused_text(field, retained, settings):
                click.echo(printable(f"  {refused}"))
    ctx.exit(EX_BROKER if problem else 0)


def _spans(settings: "Settings") -> dict[str, tuple[int, int]]:
    """Return the first and last interval of each field in the history, for the command `status`."""
    with suppress(DataError), closing(history_reader(settings)) as history:
        spans = {field: history.span(field) for field in settings.fields}
        return {field: span for field, span in spans.items() if span is not None}
    return {}


def _of_one_moment(settings: "Settings") -> "RetainedState":
    """Return the state that `status` prints, with counters that include the newest decisions.

    The daemon publishes its counters up to a second after a decision. If a decision is newer than
    the counters, the state is read once more, after a second.
    """
    retained = retained_state(settings, list(settings.fields))
    counters = retained.health.fields if retained.health else {}
    if any(
        field in counters and _is_before(counters[field].interval, decision.interval)
        for field, decision in retained.selected.items()
    ):
        time.sleep(HEALTH_DELAY_S)
        return retained_state(settings, list(settings.fields))
    return retained


def _is_before(interval: int | None, other: int) -> bool:
    return interval is None or interval < other


def _problem(retained: "RetainedState", settings: "Settings") -> str:
    """Return, for `status`, why the daemon does not seem to be online; "" if it is online."""
    if retained.status is None and retained.health is None:
        login = _login_text(settings.mqtt.for_readers().username)
        return (
            "unknown, the broker has no message of this daemon. There are three possible reasons. "
            "(1) The daemon is not running. (2) The daemon has not connected since the broker "
            f"started. It tries at least every {duration_text(settings.mqtt.reconnect.max)}, and "
            "its log says why it fails. (3) The broker does not allow "
            f"{login} to read edge_tvbo/{settings.instance}/#"
        )
    last = f", last report at {retained.health.at}" if retained.health else ""
    age = 0.0 if retained.health is None else time.time() - _seconds(retained.health.at)
    is_silent = age > MAX_MISSING_REPORTS * settings.health
    if retained.status == "online":
        return f"not responding{last}" if is_silent else ""
    if is_silent or not settings.mqtt.shares_login:
        return f"offline{last}"
    return (
        f"offline{last}. If the daemon was online until now, this command has ended the daemon's "
        "session, because the broker uses logins as client ids. To avoid this, add a second login "
        "as [mqtt.readonly]"
    )


def _login_text(username: str | None) -> str:
    return f"the login {username}" if username else "clients without a login"


def _online(retained: "RetainedState") -> str:
    from edge_tvbo.messages.formatting import duration, rfc3339

    health = retained.health
    if health is None:
        return "online"
    since = round(_seconds(health.at)) - health.uptime_s
    up = duration(time.time() - since)
    kernels = f", kernels compiled {health.kernels}" if health.kernels else ""
    return f"online since {rfc3339(since)} ({up}), edge-tvbo {health.version}{kernels}"


def _field_lines(
    field: str, retained: "RetainedState", span: tuple[int, int] | None, names: Mapping[str, str]
) -> "list[str]":
    none = "no decision yet" if retained.status == "online" else "no decision on the broker"
    decision = retained.selected.get(field)
    lines = [f"{field}: {_decision_text(decision, names) if decision else none}"]
    if retained.health is not None and field in retained.health.fields:
        lines.append(f"  {_counts(retained.health, field, names)}")
        if alert := retained.health.fields[field].alert:
            lines.append(f"  {alert}")
        if energy := retained.health.fields[field].energy:
            lines.append(f"  energy: {_energy_text(energy, names)}")
        if model := retained.health.fields[field].model:
            lines.append(f"  model: {model}")
    return [*lines, f"  history: {span_text(span)}"] if span else lines


def _decision_text(decision: "Decision", names: Mapping[str, str]) -> str:
    from edge_tvbo.messages.formatting import named

    before = f", after {', '.join(named(decision.earlier, names))}" if decision.earlier else ""
    return f"{decision.text} (interval {decision.interval}{before}, since {decision.at})"


def _counts(health: "Health", field: str, names: Mapping[str, str]) -> str:
    from edge_tvbo.control import history_text
    from edge_tvbo.messages.formatting import counted, listed_sensors

    each = health.fields[field]
    suspects = listed_sensors(each.suspects, names)
    faulty = _with_texts(each.faulty, names)
    ignored = listed_sensors(each.ignored, names)
    implausible = _with_texts(each.implausible, names)
    rejected = ", ".join(f"{count} {reason}" for reason, count in each.refused.items())
    survey = f"; survey: {counted(each.survey, 'interval')} left" if each.survey else ""
    return (
        f"{'paused; ' if each.paused else ''}{history_text.replies(each)}; "
        f"unresponsive: {suspects or 'none'}; faulty: {faulty or 'none'}; "
        f"{f'implausible: {implausible}; ' if implausible else ''}"
        f"{f'ignored: {ignored}; ' if ignored else ''}"
        f"rejected: {rejected or 'none'}{survey}"
    )


def _refused_text(field: str, retained: "RetainedState", settings: "Settings") -> str:
    """Return, for `status`, which activations of `field` the broker refuses; "" if there are none.

    The text names the topics that the ACL of the broker has to allow.
    """
    health = retained.health.fields.get(field) if retained.health else None
    if health is None:
        return ""
    from edge_tvbo_adapters.mqtt.publisher import activations

    topics = {
        sensor: f"topic {activation.topic}"
        for sensor, activation in activations(field, settings.fields[field]).items()
    }
    refused = {each: topics[each] for each in health.refused_activations if each in topics}
    if not refused:
        return ""
    return (
        "the broker refuses the activations of "
        f"{_with_texts(refused, settings.fields[field].sensor_names)}; allow "
        f"{_login_text(settings.mqtt.username)} to write to these topics in the broker's ACL"
    )


def _energy_text(energy: "EnergyState", names: Mapping[str, str]) -> str:
    """Return the energy budget of a field for `status`, with the sensors that cannot be activated.

    Sensors with an empty budget are counted, because the health report does not name them.
    """
    from edge_tvbo.messages.formatting import counted, listed_sensors, significant

    left = f", {significant(energy.left)} {energy.unit} left" if energy.left is not None else ""
    low = listed_sensors(energy.low_battery, names)
    return (
        f"{significant(energy.spent)} {energy.unit} spent in the last period{left}; "
        f"{counted(energy.saved, 'interval')} without an activation, to save energy; "
        f"{f'sensors with an empty budget: {energy.exhausted}; ' if energy.exhausted else ''}"
        f"low battery: {low or 'none'}"
    )


def _with_texts(texts: Mapping[str, str], names: Mapping[str, str]) -> str:
    """Return a list of sensors for `status`: each name, with the sensor's text in parentheses.

    If there are too many sensors, only the first ones are listed, and the others are counted.
    """
    from edge_tvbo.messages.formatting import MAX_NAMED_SENSORS, listed

    every = (f"{names.get(sensor, sensor)} ({text})" for sensor, text in texts.items())
    return listed(every, MAX_NAMED_SENSORS)


def _seconds(at: str) -> float:
    return datetime.fromisoformat(at).timestamp()
