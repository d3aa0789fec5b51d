"""What became of an interval, in words: entries of the history as a person wants to read them."""

from collections.abc import Iterator
from datetime import datetime

from edge_tvbo.messages.commands import Ending, Record
from edge_tvbo.messages.documents import Reason
from edge_tvbo.messages.history import HistoryEntry

REASONS = {
    Reason.WARMUP: "The model was empty, and one sensor as good as another: it was drawn.",
    Reason.EXPLOIT: "It was asked for what was known: none was believed to be ahead of it.",
    Reason.EXPLORE: "It was asked for what was not known: another was believed to be ahead of it,"
    " but none could be further ahead.",
    Reason.SCHEDULED: "It was asked because its turn had come: this policy follows no model.",
    Reason.PROBE: "It was asked to see whether it answers: at the time no sensor did.",
    Reason.ASKED: "It was asked because somebody wanted that, by cmd/activate.",
    Reason.SAVED: "Nobody was asked, to save energy: it was believed to be ahead of the others.",
}


def describe(entry: HistoryEntry, now: float) -> Iterator[str]:
    """Yield the lines of an account of `entry`; `now` (s since 1970) says whether it still runs."""
    decision, model = entry.decision, entry.decision.model
    yield f"{entry.field}, interval {decision.interval}, {decision.at}: {decision.text}"
    yield REASONS[decision.reason]
    yield from (f"  - {factor}" for factor in decision.factors)
    last = f", the last at {model.last_reset}" if model.last_reset else ""
    yield (
        f"{decision.policy} went by {_counted(model.observations, 'reading')}, after "
        f"{_counted(model.resets, 'reset')}{last}."
    )
    yield _ending(entry, now)
    yield from (f"  - {each.at} {each.event}: {each.text}" for each in entry.notices)


def one_line(entry: HistoryEntry) -> str:
    """Give an entry on one line, for a list of many."""
    decision, record = entry.decision, entry.record
    ended = "" if record is None else f"; {record.ending}"
    if record is not None and record.value is not None:
        ended += f" {record.value:.6g}{_unit(entry)}{', reset' if record.reset else ''}"
    events = "".join(f"; {each.event}" for each in entry.notices)
    return f"{decision.interval} {decision.at} {decision.reason} {decision.text}{ended}{events}"


def _ending(entry: HistoryEntry, now: float) -> str:
    decision, record = entry.decision, entry.record
    if record is None:
        if decision.reason is Reason.SAVED:
            return "So there was nothing to wait for."
        if now < datetime.fromisoformat(decision.expires_at).timestamp():
            return f"Its answer is waited for until {decision.expires_at}."
        return "How it ended is not kept yet, or the daemon did not live to see it."
    if record.ending is Ending.MISSED or record.value is None:
        return f"It did not answer by {decision.expires_at}."
    return f"It answered {record.value:.6g}{_unit(entry)}{_judged(record, _unit(entry))}."


def _judged(record: Record, unit: str) -> str:
    """Say how far off the answer was, and what that led to."""
    if record.abs_error is None:
        return ""
    off = f", {record.abs_error:.3g}{unit} from what was expected"
    if record.threshold is None:
        return off
    allowed = f"{off}; {record.threshold:.3g}{unit} was allowed"
    return f"{allowed}, so the model began anew" if record.reset else allowed


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _unit(entry: HistoryEntry) -> str:
    return f" {entry.decision.unit}" if entry.decision.unit else ""
