"""Command `why`: the reasons for a decision, from the decision history or from the broker."""

import time
from collections.abc import Callable
from contextlib import closing
from functools import cache, partial
from math import ceil, inf
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from edge_tvbo.cli.daemon_state import history_reader, retained_state, span_text
from edge_tvbo.cli.options import CONFIG_FILE, WholeNumberRange, json_option
from edge_tvbo.cli.output import print_json, printable
from edge_tvbo.cli.settings import settings_of
from edge_tvbo.errors import ConfigError, DataError, LinkError

if TYPE_CHECKING:
    from edge_tvbo_adapters.storage.history_reader import HistoryReader

    from edge_tvbo.config.settings import Settings
    from edge_tvbo.messages.documents import RetainedState
    from edge_tvbo.messages.history import HistoryEntry

    Retained = Callable[[], tuple[RetainedState, LinkError | None]]


def _check_no_option(argument: str, context: click.Context | None) -> None:
    """Fail if an argument of the command `why` is an unknown option.

    The command takes unknown options as arguments, so that -2 can be an INTERVAL.
    """
    if argument.startswith("--"):
        raise click.NoSuchOption(argument, ctx=context)


def _file(context: click.Context, argument: click.Parameter, config: Path) -> Path:
    """Return the argument CONFIG of the command `why`; fail if CONFIG is an unknown option."""
    _check_no_option(str(config), context)
    return config


class _Interval(WholeNumberRange):
    """Type of the argument INTERVAL of the command `why`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return INTERVAL as a number; fail if INTERVAL is an unknown option or not a number."""
        _check_no_option(str(value), ctx)
        try:
            int(value)
        except ValueError:
            self.fail(
                f"{value!r} is not the number of an interval, such as 12 or -1. If it is the name "
                f"of a field, write  --field {quote(str(value))}",
                param,
                ctx,
            )
        return int(super().convert(value, param, ctx))


@click.command(context_settings={"ignore_unknown_options": True})  # such as -2
@click.argument("config", type=CONFIG_FILE, callback=_file)
@click.argument("interval", type=_Interval(-(2**53), 2**53, example=-1), required=False)
@click.option(
    "--field",
    help="Name of a field; by default all. Needed with INTERVAL if there are several fields.",
)
@json_option
def why(config: Path, interval: int | None, field: str | None, as_json: bool) -> None:
    """Explain the decision of an interval.

    Without INTERVAL, the command explains the newest decision of the daemon, which is read from the
    broker of CONFIG. Older decisions are read from the decision history, which the setting
    state.history enables. A negative INTERVAL counts back from the end of the history: -1 is the
    last interval in the history. The setting state.checkpoint says how often the daemon writes the
    history; on SIGUSR1 the daemon writes it immediately.
    """
    from edge_tvbo.control import history_text
    from edge_tvbo.messages.documents import RetainedState

    now = time.time()  # before the newest decision is read, so that its interval is still running
    settings = settings_of(config)
    fields = _fields(settings, field)
    if interval is not None and len(fields) > 1:
        raise ConfigError(
            f"There are several fields: {', '.join(fields)}. Add the field of INTERVAL:  "
            f"--field {fields[0]}"
        )
    retained = cache(partial(_retained, settings, fields))  # read once, and only if needed
    entries = _entries(settings, fields, interval, retained)
    if as_json:
        print_json([_document(each) for each in entries])
        return
    state, problem = retained() if interval is None else (RetainedState(None, None, {}), None)
    if problem:
        click.echo(problem.with_code(), err=True)
        click.echo("The broker cannot be read; the newest stored decision is:")
    if state.status == "offline":
        now = inf  # no interval is running
    for each in entries:
        if interval is None and not problem and each.field not in state.selected:
            click.echo(
                f"The broker has no decision of {each.field}; the newest stored decision is:"
            )
        own = settings.fields[each.field]
        names, interval_s = own.sensor_names, own.interval_s or 0.0
        for line in history_text.describe(each, now, names, interval_s):
            click.echo(printable(line))
        if _is_paused(state, each.field):
            topic = f"edge_tvbo/{settings.instance}/cmd/resume"
            click.echo(f"The field {each.field} is paused; a message on {topic} resumes it.")


def _fields(settings: "Settings", field: str | None) -> list[str]:
    if field is None:
        return list(settings.fields)
    if field not in settings.fields:
        raise ConfigError(f"There is no field {field!r}; allowed: {', '.join(settings.fields)}.")
    return [field]


def _entries(
    settings: "Settings", fields: list[str], interval: int | None, retained: "Retained"
) -> "list[HistoryEntry]":
    """Return the decision of each field; for a field without a decision, print the reason.

    If no field has a decision, raise the first field's error (see `_entry`).
    """
    entries, errors = [], []
    for field in fields:
        try:
            entries.append(_entry(settings, field, interval, retained))
        except (DataError, LinkError) as error:
            errors.append(error)
    if not entries:
        raise errors[0]
    for each in errors:
        click.echo(f"{each}\n", err=True)
    return entries


def _entry(
    settings: "Settings", field: str, interval: int | None, retained: "Retained"
) -> "HistoryEntry":
    """Return the decision of one interval, from the decision history or from the broker.

    If `interval` is None, return the newest decision. Raises `DataError` if the decision is not
    found, and `LinkError` if the newest decision is not found because the broker cannot be read.
    """
    from edge_tvbo.messages.history import HistoryEntry

    try:
        with closing(history_reader(settings)) as history:
            stored = _stored(history, field, interval)
            span = history.span(field)
    except DataError as error:
        stored, span, missing = None, None, str(error)
    else:
        missing = _missing_text(field, interval, span)
    if stored is not None and interval is not None:
        return stored
    state, problem = retained()
    decision = state.selected.get(field)
    running = None if decision is None else HistoryEntry(field, decision)
    if interval is None:
        newest = _newest(stored, running)
        if newest is None:
            if problem:
                raise LinkError(f"{problem}\n{missing}", problem.code)
            raise DataError(f"The broker has no decision of {field} yet. {missing}")
        return newest
    if running is not None and running.decision.interval == interval:
        return running
    now = f"; the newest is {running.decision.interval}" if running else ""
    raise DataError(f"{field}: interval {interval} was not found{now}. {missing}")


def _missing_text(field: str, interval: int | None, span: tuple[int, int] | None) -> str:
    """Return, for `why`, what the history contains, and why it has no decision of `interval`."""
    contains = f"The history contains {span_text(span)} of {field}"
    if span is not None and interval is not None and span[0] < interval < span[1]:
        return (
            f"{contains}, but not this one: the field was paused, the daemon was not running, or "
            "it was killed before it wrote the decision."
        )
    return (
        f"{contains}.\n"
        "Newer decisions are not in the history yet. The setting state.checkpoint says how"
        " often the daemon writes them; on SIGUSR1 the daemon writes them immediately."
    )


def _stored(history: "HistoryReader", field: str, interval: int | None) -> "HistoryEntry | None":
    if interval is not None and interval >= 0:
        return history.entry(field, interval)
    back = 1 if interval is None else -interval
    entries = history.newest(field, back)
    return entries[-1] if len(entries) == back else None


def _retained(settings: "Settings", fields: list[str]) -> "tuple[RetainedState, LinkError | None]":
    """Return the retained documents that `why` explains, and the error if reading them failed."""
    from edge_tvbo.messages.documents import RetainedState

    try:
        return retained_state(settings, fields), None
    except LinkError as error:
        return RetainedState(None, None, {}), error


def _is_paused(retained: "RetainedState", field: str) -> bool:
    """Return, for `why`, whether the daemon's last health report says that `field` is paused."""
    counters = retained.health.fields if retained.health else {}
    return field in counters and counters[field].paused


def _newest(stored: "HistoryEntry | None", running: "HistoryEntry | None") -> "HistoryEntry | None":
    """Return the later of the two decisions `stored` and `running`.

    `stored` is from the decision history, and `running` is from the broker. If both are the same
    decision, return `stored`, which contains more facts. The times of the decisions are compared,
    not the numbers of their intervals, because the numbers start at 0 again if the daemon loses its
    state. A decision whose time is in the future counts as the earlier one, because it was made
    before the clock was set back.
    """
    from edge_tvbo.messages.formatting import rfc3339

    if stored is None or running is None:
        return stored or running
    now = rfc3339(ceil(time.time()))  # texts of whole seconds can be compared

    def recency(entry: "HistoryEntry") -> tuple[bool, str, int]:
        decision = entry.decision
        return decision.at <= now, decision.at, len(decision.earlier)

    return max(stored, running, key=recency)


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
