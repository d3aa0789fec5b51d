"""Commands `status` and `why`: the status of a running daemon, and reasons for its decisions."""

import time
from collections.abc import Mapping
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edge_tvbo.cli.options import settings_of
from edge_tvbo.cli.output import print_json, printable
from edge_tvbo.errors import ConfigError, DataError, LinkError, error_text

if TYPE_CHECKING:
    from edge_tvbo_adapters.storage.history_reader import HistoryReader

    from edge_tvbo.config.settings import Settings
    from edge_tvbo.messages.documents import Decision, Health, RetainedState
    from edge_tvbo.messages.history import HistoryEntry

RETAINED_TIMEOUT_S = 3.0
HEALTH_DELAY_S = 1.2  # the health is published at most so long after a decision
EX_OFFLINE = 1
MAX_MISSING_REPORTS = 3  # health reports; if more are missing, the daemon is not responding


@click.command(context_settings={"ignore_unknown_options": True})  # such as -2
@click.argument("config", type=click.Path(path_type=Path))
@click.argument("interval", type=click.IntRange(-(2**53), 2**53), required=False)
@click.option("--field", help="Name of a field; by default all.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def why(config: Path, interval: int | None, field: str | None, as_json: bool) -> None:
    """Explain the decision of an interval.

    Without INTERVAL, the command explains the newest decision of the daemon, which is read from the
    broker of CONFIG. Older decisions are read from the decision history, which the setting
    state.history enables. A negative INTERVAL counts back from the end of the history: -1 is the
    last interval in the history. The setting state.checkpoint says how often the daemon writes the
    history; on SIGUSR1 the daemon writes it immediately.
    """
    from edge_tvbo.control import history_text

    settings = settings_of(config)
    fields = _fields(settings, field)
    if interval is not None and len(fields) > 1:
        raise ConfigError(
            f"Name the field of INTERVAL, which is one of {', '.join(fields)}:  --field {fields[0]}"
        )
    entries = [_entry(settings, each, interval) for each in fields]
    if as_json:
        print_json([_document(each) for each in entries])
        return
    for each in entries:
        names = settings.fields[each.field].sensor_names
        click.echo("\n".join(map(printable, history_text.describe(each, time.time(), names))))


@click.command()
@click.argument("config", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
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
            print_json({"online": False, "reason": str(error)})
        ctx.exit(EX_OFFLINE)
    problem = _problem(retained, settings)
    spans = _spans(settings)
    if as_json:
        reason = problem or "online"
        document = {"online": not problem, "reason": reason, "history": spans}
        print_json(document | _to_builtins(retained))
    else:
        click.echo(printable(f"{settings.instance}: {problem or _online(retained)}"))
        for field in settings.fields:
            names = settings.fields[field].sensor_names
            for line in _field_lines(field, retained, spans.get(field), names):
                click.echo(printable(line))
    ctx.exit(EX_OFFLINE if problem else 0)


# --- one decision -----------------------------------------------------------------------------


def _fields(settings: "Settings", field: str | None) -> list[str]:
    if field is None:
        return list(settings.fields)
    if field not in settings.fields:
        raise ConfigError(f"There is no field {field!r}; allowed: {', '.join(settings.fields)}.")
    return [field]


def _entry(settings: "Settings", field: str, interval: int | None) -> "HistoryEntry":
    """Return the decision of one interval, from the decision history or from the broker.

    If `interval` is None, return the newest decision. Raises `DataError` if the decision is not
    found.
    """
    try:
        with closing(_history(settings)) as history:
            stored = _stored(history, field, interval)
            span = history.span(field)
    except DataError as error:
        stored, span, missing = None, None, str(error)
    else:
        missing = (
            f"The history contains {_range(span)} of {field}.\n"
            "Newer decisions are not in the history yet. The setting state.checkpoint says how"
            " often the daemon writes them; on SIGUSR1 the daemon writes them immediately."
        )
    if stored is not None and interval is not None:
        return stored
    running = _running(settings, field)
    if interval is None:
        newest = _newest(stored, running)
        if newest is None:
            raise DataError(f"The broker has no decision of {field} yet. {missing}")
        return newest
    if running is not None and running.decision.interval == interval:
        return running
    now = f"; the newest is {running.decision.interval}" if running else ""
    raise DataError(f"{field}: interval {interval} was not found{now}. {missing}")


def _stored(history: "HistoryReader", field: str, interval: int | None) -> "HistoryEntry | None":
    if interval is not None and interval >= 0:
        return history.entry(field, interval)
    back = 1 if interval is None else -interval
    entries = history.newest(field, back)
    return entries[-1] if len(entries) == back else None


def _running(settings: "Settings", field: str) -> "HistoryEntry | None":
    """Return the decision that the broker retains, for `why`; None if none can be read."""
    from edge_tvbo.messages.history import HistoryEntry

    with suppress(LinkError):
        decision = _retained(settings, [field]).selected.get(field)
        return None if decision is None else HistoryEntry(field, decision)
    return None


def _newest(stored: "HistoryEntry | None", running: "HistoryEntry | None") -> "HistoryEntry | None":
    """Return the later of two decisions.

    If both are the decision of the same interval, return `stored`, which contains more facts.
    """
    if stored is None or running is None:
        return stored or running
    return running if running.decision.at > stored.decision.at else stored


def _document(entry: "HistoryEntry") -> dict[str, Any]:
    import msgspec

    document: dict[str, Any] = msgspec.to_builtins(entry)
    if entry.posterior is not None:
        mean, std = entry.posterior.mean.values(), entry.posterior.std.values()
        columns = zip(entry.posterior.sensors, mean, std, strict=True)
        document["beliefs"] = {
            sensor: {"mean": round(each, 6), "std": round(spread, 6)}
            for sensor, each, spread in columns
        }
    return document


def _history(settings: "Settings") -> "HistoryReader":
    if settings.state.history is None:
        raise DataError('There is no history. Set history = "64MiB" in [state].')
    from edge_tvbo_adapters.storage.history_reader import HistoryReader

    return HistoryReader(settings.state.dir, settings.instance)


def _spans(settings: "Settings") -> dict[str, tuple[int, int]]:
    """Return the first and the last interval of each field in the decision history."""
    with suppress(DataError), closing(_history(settings)) as history:
        spans = {field: history.span(field) for field in settings.fields}
        return {field: span for field, span in spans.items() if span is not None}
    return {}


def _range(span: tuple[int, int] | None) -> str:
    return "no interval" if span is None else f"intervals {span[0]} to {span[1]}"


# --- status -----------------------------------------------------------------------------------


def _retained(settings: "Settings", fields: list[str]) -> "RetainedState":
    from edge_tvbo_adapters.mqtt.read_retained import read_retained

    return read_retained(settings.mqtt.for_readers(), settings.instance, fields, RETAINED_TIMEOUT_S)


def _of_one_moment(settings: "Settings") -> "RetainedState":
    """Return the retained state of a daemon, with counters no older than the decisions.

    The daemon publishes the counters up to a second after a decision.
    """
    retained = _retained(settings, list(settings.fields))
    counters = retained.health.fields if retained.health else {}
    if any(
        field in counters and counters[field].interval < decision.interval
        for field, decision in retained.selected.items()
    ):
        time.sleep(HEALTH_DELAY_S)
        return _retained(settings, list(settings.fields))
    return retained


def _problem(retained: "RetainedState", settings: "Settings") -> str:
    """Return why `status` does not report the daemon as online; "" if it is online."""
    if retained.status is None and retained.health is None:
        return (
            "unknown to the broker: this daemon has never connected to it, or this login has no "
            "permission to read "
            f"edge_tvbo/{settings.instance}/#"
        )
    last = f", last report at {retained.health.at}" if retained.health else ""
    if retained.status != "online":
        return f"offline{last}"
    age = 0.0 if retained.health is None else time.time() - _seconds(retained.health.at)
    return f"not responding{last}" if age > MAX_MISSING_REPORTS * settings.health else ""


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
    lines = [f"{field}: {_decision_text(retained.selected.get(field), names)}"]
    if retained.health is not None and field in retained.health.fields:
        lines.append(f"  {_counts(retained.health, field, names)}")
        if alert := retained.health.fields[field].alert:
            lines.append(f"  {alert}")
        if model := retained.health.fields[field].model:
            lines.append(f"  model: {model}")
    return [*lines, f"  history: {_range(span)}"] if span else lines


def _decision_text(decision: "Decision | None", names: Mapping[str, str]) -> str:
    from edge_tvbo.messages.formatting import named

    if decision is None:
        return "no decision yet"
    before = f", after {', '.join(named(decision.earlier, names))}" if decision.earlier else ""
    return f"{decision.text} (interval {decision.interval}{before}, since {decision.at})"


def _counts(health: "Health", field: str, names: Mapping[str, str]) -> str:
    from edge_tvbo.control import history_text
    from edge_tvbo.messages.formatting import named

    each = health.fields[field]
    suspects = ", ".join(named(each.suspects, names))
    faulty = _with_texts(each.faulty, names)
    ignored = ", ".join(named(each.ignored, names))
    implausible = _with_texts(each.implausible, names)
    rejected = ", ".join(f"{count} {reason}" for reason, count in each.refused.items())
    survey = f"; survey: {each.survey} intervals left" if each.survey else ""
    return (
        f"{'paused; ' if each.paused else ''}{history_text.replies(each)}; "
        f"unresponsive: {suspects or 'none'}; faulty: {faulty or 'none'}; "
        f"{f'implausible: {implausible}; ' if implausible else ''}"
        f"{f'ignored: {ignored}; ' if ignored else ''}"
        f"rejected: {rejected or 'none'}{survey}"
    )


def _with_texts(texts: Mapping[str, str], names: Mapping[str, str]) -> str:
    """Return the part of a status line that names sensors, each with a text in parentheses."""
    return ", ".join(f"{names.get(sensor, sensor)} ({text})" for sensor, text in texts.items())


def _to_builtins(retained: "RetainedState") -> dict[str, Any]:
    import msgspec

    document: dict[str, Any] = msgspec.to_builtins(retained)
    return document


def _seconds(at: str) -> float:
    return datetime.fromisoformat(at).timestamp()
