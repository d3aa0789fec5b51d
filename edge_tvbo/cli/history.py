"""What the daemon does, and why it did what it did."""

import time
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edge_tvbo.cli.options import settings_of
from edge_tvbo.cli.output import print_json, printable
from edge_tvbo.errors import ConfigError, DataError, LinkError

if TYPE_CHECKING:
    from edge_tvbo_adapters.storage.history_reader import HistoryReader

    from edge_tvbo.config.settings import Settings
    from edge_tvbo.messages.documents import Decision, Health, RetainedState
    from edge_tvbo.messages.history import HistoryEntry

PATIENCE = 3.0  # s for a broker to say what it has
OFFLINE = 1  # exit status
OVERDUE = 3  # health reports that may be missing before the daemon is taken for silent


@click.command(context_settings={"ignore_unknown_options": True})  # -2 is no option
@click.argument("config", type=click.Path(path_type=Path))
@click.argument("interval", type=click.IntRange(-(2**53), 2**53), required=False)
@click.option("--field", help="One of the fields; all of them by default.")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def why(config: Path, interval: int | None, field: str | None, as_json: bool) -> None:
    """Explain the newest decision of the daemon of CONFIG, or that of INTERVAL.

    The newest is the one that the broker has. Others are in the history, which [state] history has
    kept; a negative INTERVAL counts back in it from the last, which is -1. What has not been
    written yet, for state.checkpoint at the most, SIGUSR1 has the daemon write at once.
    """
    from edge_tvbo.control import history_text

    settings = settings_of(config)
    fields = _fields(settings, field)
    if interval is not None and len(fields) > 1:
        raise ConfigError(f"Which field, {', '.join(fields)}? Name it:  --field {fields[0]}")
    entries = [_entry(settings, each, interval) for each in fields]
    if as_json:
        print_json([_document(each) for each in entries])
        return
    for each in entries:
        click.echo("\n".join(map(printable, history_text.describe(each, time.time()))))


@click.command()
@click.argument("config", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
@click.pass_context
def status(ctx: click.Context, config: Path, as_json: bool) -> None:
    """Say how the daemon of CONFIG does, by what its broker has of it.

    The exit status is 0 where it is online, 1 where it is not or the broker is out of reach, and 2
    where CONFIG has to be mended first.
    """
    settings = settings_of(config)
    try:
        heard = _heard(settings, list(settings.fields))
    except LinkError as error:
        if not as_json:
            click.echo(error.told(), err=True)
        else:
            print_json({"online": False, "reason": str(error)})
        ctx.exit(OFFLINE)
    trouble = _trouble(heard, settings)
    spans = _spans(settings)
    if as_json:
        reason = trouble or "online"
        print_json({"online": not trouble, "reason": reason, "history": spans, **_plain(heard)})
    else:
        click.echo(printable(f"{settings.instance}: {trouble or _online(heard)}"))
        for field in settings.fields:
            for line in _field_lines(field, heard, spans.get(field)):
                click.echo(printable(line))
    ctx.exit(OFFLINE if trouble else 0)


# --- one decision -----------------------------------------------------------------------------


def _fields(settings: "Settings", field: str | None) -> list[str]:
    if field is None:
        return list(settings.fields)
    if field not in settings.fields:
        raise ConfigError(f"There is no field {field!r}; it can be {', '.join(settings.fields)}.")
    return [field]


def _entry(settings: "Settings", field: str, interval: int | None) -> "HistoryEntry":
    """Give what is known of one decision, from the history or the broker; raises `DataError`."""
    try:
        with closing(_past(settings)) as past:
            kept = _kept(past, field, interval)
            span = past.span(field)
    except DataError as error:
        kept, span, missing = None, None, str(error)
    else:
        missing = f"The history holds {_range(span)} of {field}."
    if kept is not None and interval is not None:
        return kept
    running = _running(settings, field)
    if interval is None:
        newest = _newest(kept, running)
        if newest is None:
            raise DataError(f"{missing}\nThe broker has no decision of {field} either.")
        return newest
    if running is not None and running.decision.interval == interval:
        return running
    now = f"; {running.decision.interval} is the newest" if running else ""
    raise DataError(
        f"{field}: interval {interval} is not known{now}. {missing}\n"
        "What is newer is written within state.checkpoint, or at once on SIGUSR1."
    )


def _kept(past: "HistoryReader", field: str, interval: int | None) -> "HistoryEntry | None":
    if interval is not None and interval >= 0:
        return past.entry(field, interval)
    back = 1 if interval is None else -interval
    entries = past.newest(field, back)
    return entries[-1] if len(entries) == back else None


def _running(settings: "Settings", field: str) -> "HistoryEntry | None":
    """Give the decision that the broker has, if there is one."""
    from edge_tvbo.messages.history import HistoryEntry

    with suppress(LinkError):
        decision = _heard(settings, [field]).selected.get(field)
        return None if decision is None else HistoryEntry(field, decision)
    return None


def _newest(kept: "HistoryEntry | None", running: "HistoryEntry | None") -> "HistoryEntry | None":
    """Give the later of two; the history knows more of the same one."""
    if kept is None or running is None:
        return kept or running
    return running if running.decision.at > kept.decision.at else kept


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


def _past(settings: "Settings") -> "HistoryReader":
    if settings.state.history is None:
        raise DataError('No history is kept; in [state], history = "64MiB" keeps one.')
    from edge_tvbo_adapters.storage.history_reader import HistoryReader

    return HistoryReader(settings.state.dir, settings.instance)


def _spans(settings: "Settings") -> dict[str, tuple[int, int]]:
    """Give the intervals that the history holds, by field."""
    with suppress(DataError), closing(_past(settings)) as past:
        spans = {field: past.span(field) for field in settings.fields}
        return {field: span for field, span in spans.items() if span is not None}
    return {}


def _range(span: tuple[int, int] | None) -> str:
    return "nothing" if span is None else f"intervals {span[0]} to {span[1]}"


# --- how it does ------------------------------------------------------------------------------


def _heard(settings: "Settings", fields: list[str]) -> "RetainedState":
    from edge_tvbo_adapters.mqtt.read_retained import ask

    return ask(settings.mqtt.for_readers(), settings.instance, fields, PATIENCE)


def _trouble(heard: "RetainedState", settings: "Settings") -> str:
    """Say why the daemon is not online; empty where it is."""
    if heard.status is None and heard.health is None:
        return (
            "the broker has nothing of it: it never ran there, or this login may not read "
            f"edge_tvbo/{settings.instance}/#"
        )
    last = f", last heard of at {heard.health.at}" if heard.health else ""
    if heard.status != "online":
        return f"offline{last}"
    silent = 0.0 if heard.health is None else time.time() - _seconds(heard.health.at)
    return f"silent{last}" if silent > OVERDUE * settings.health else ""


def _online(heard: "RetainedState") -> str:
    if heard.health is None:
        return "online"
    from edge_tvbo.messages.formatting import duration, rfc3339

    since = round(_seconds(heard.health.at)) - heard.health.uptime_s
    up = duration(time.time() - since)
    how = f", kernels compiled {heard.health.kernels}" if heard.health.kernels else ""
    return f"online since {rfc3339(since)} ({up}), edge-tvbo {heard.health.version}{how}"


def _field_lines(field: str, heard: "RetainedState", span: tuple[int, int] | None) -> "list[str]":
    decision = heard.selected.get(field)
    lines = [f"{field}: {_decided(decision)}"]
    if heard.health is not None and field in heard.health.fields:
        lines.append(f"  {_counts(heard.health, field)}")
    return [*lines, f"  history: {_range(span)}"] if span else lines


def _decided(decision: "Decision | None") -> str:
    if decision is None:
        return "nothing is decided yet"
    return f"{decision.text} (interval {decision.interval}, since {decision.at})"


def _counts(health: "Health", field: str) -> str:
    each = health.fields[field]
    refused = ", ".join(f"{count} {reason}" for reason, count in each.refused.items())
    return (
        f"{'paused; ' if each.paused else ''}{each.answered} answered, {each.missed} missed; "
        f"suspects: {', '.join(each.suspects) or 'none'}; refused: {refused or 'none'}"
    )


def _plain(heard: "RetainedState") -> dict[str, Any]:
    import msgspec

    document: dict[str, Any] = msgspec.to_builtins(heard)
    return document


def _seconds(at: str) -> float:
    return datetime.fromisoformat(at).timestamp()
