"""History text: the decision of an interval, and how the interval ended, in words."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import cache
from math import floor, log10

from edge_tvbo.errors import ConfigError
from edge_tvbo.messages.commands import Ending, Record, Unused
from edge_tvbo.messages.documents import Decision, FieldHealth, Reason
from edge_tvbo.messages.formatting import counted, named, significant
from edge_tvbo.messages.history import HistoryEntry
from edge_tvbo.policy.registry import find_settings_class

NO_NAMES: Mapping[str, str] = {}
REPLY_DIGITS = 7  # significant digits of a reply that is shown in full
MAX_DIGITS = 12  # significant digits that `significant` shows at most
WITHOUT_MODEL = "selected without a model"  # used if the policy has no model
REASONS = {  # {activated} is "activated" or "recommended"
    Reason.WARMUP: "There was no reading since the start or a reset of the model; the sensor was"
    " drawn from the sensors with the highest bound.",
    Reason.EXPLOIT: "Exploitation: of all sensors that could be {activated}, this sensor had the"
    " best estimate.",
    Reason.EXPLORE: "Exploration: another sensor had a better estimate, but the estimate of this"
    " sensor was so uncertain that the value of this sensor could be even better.",
    Reason.SCHEDULED: "The policy uses no model.",
    Reason.PROBE: "No sensor responded, so all sensors were {activated} in turn.",
    Reason.ASKED: "The command cmd/activate requested this sensor.",
    Reason.SAVED: "To save energy, no sensor was {activated}; this sensor had the best estimate.",
}
TURN = "The sensors were {activated} in turn, so their bounds were not compared."

UNUSED: Mapping[Unused | None, str] = {
    None: "",
    "doubtful": "; not used, because the sensor may be faulty",
    "faulty": "; not used, because the sensor is faulty",
}


def describe(
    entry: HistoryEntry, now: float, names: Mapping[str, str] = NO_NAMES, interval_s: float = 0.0
) -> Iterator[str]:
    """Yield the lines that describe a history entry in full.

    `now` is the present time, in s since 1970. `names` maps the ids of sensors to their display
    names, if these differ from the ids. `interval_s` is the length of an interval; 0 if the
    interval ends with the reply. The text of a running interval says that it is still running.
    """
    decision = entry.decision
    yield f"{entry.field}, interval {decision.interval}, {decision.at}: {decision.text}"
    activated = "recommended" if decision.recommended else "activated"
    yield _reason_text(decision).format(activated=activated)
    yield from (f"  - {factor}" for factor in decision.factors)
    if _has_model(decision):
        yield _model_text(decision)
    if decision.earlier or entry.earlier:
        yield f"{activated.capitalize()} earlier in the same interval:"
        yield from (f"  - {each}" for each in _earlier(entry, names))
    yield _ending(entry, now, interval_s)
    yield from (f"  - {each.at} {each.event}: {each.text}" for each in entry.notices)


def one_line(entry: HistoryEntry) -> str:
    """Return one line of text on a history entry: the decision, and how the interval ended."""
    decision, record = entry.decision, entry.record
    ended = "" if record is None else f"; {_short_ending(decision, record, _unit(entry))}"
    ended += "".join(f"; before: {each}" for each in _earlier(entry))
    events = "".join(f"; {each.event}" for each in entry.notices)
    return f"{decision.interval} {decision.at} {decision.reason} {decision.text}{ended}{events}"


def replies(health: FieldHealth) -> str:
    """Return a history text: how many selected sensors replied and how many timed out.

    If activations were not delivered, for example while the broker was down, they are counted, too.
    """
    if health.recommends:
        whose = "its" if health.answered == 1 else "their"
        return f"{counted(health.answered, 'selected sensor')} reported in {whose} interval"
    replied = f"{health.answered} {'reply' if health.answered == 1 else 'replies'}"
    undelivered = f", {health.undelivered} not delivered" if health.undelivered else ""
    return f"{replied}, {health.missed} timed out{undelivered}"


def _reason_text(decision: Decision) -> str:
    """Return the history text of a decision's reason, with {activated} as a placeholder."""
    if decision.in_turn:
        return TURN
    without_model = decision.text.endswith(WITHOUT_MODEL)
    return REASONS[Reason.SCHEDULED if without_model else decision.reason]


def _has_model(decision: Decision) -> bool:
    """Return whether a decision in the history was made with estimates of a model."""
    return not decision.text.endswith(WITHOUT_MODEL) and _policy_has_model(decision.policy)


@cache
def _policy_has_model(policy: str) -> bool:
    """Return, for texts of the history, whether a policy has a model.

    A policy whose package is no longer installed, or cannot be loaded, counts as one with a model.
    """
    try:
        kind = find_settings_class(policy)
    except ConfigError:
        return True
    return kind is None or kind.has_model


def _model_text(decision: Decision) -> str:
    """Return a history text: how many readings the model had, and how often it was reset."""
    model = decision.model
    last = f", the last reset at {model.last_reset}" if model.last_reset else ""
    resets = f", after {counted(model.resets, 'reset')}{last}" if model.resets else ""
    return f"The model of {decision.policy} had {counted(model.observations, 'reading')}{resets}."


def _earlier(entry: HistoryEntry, names: Mapping[str, str] = NO_NAMES) -> Iterator[str]:
    """Yield a history text for each earlier activation of the interval: sensor and reply.

    If the history does not contain an activation, its text is only the name of the sensor.
    """
    stored = {each.decision.sensor for each in entry.earlier}
    unknown = [sensor for sensor in entry.decision.earlier if sensor not in stored]
    yield from named(unknown, names)
    for each in entry.earlier:
        decision, record = each.decision, each.record
        ended = "" if record is None else f"; {_short_ending(decision, record, _unit(entry))}"
        yield f"{decision.text}{ended}"


def _short_ending(decision: Decision, record: Record, unit: str) -> str:
    if record.ending is Ending.UNDELIVERED:
        return "its activation was not delivered"
    if record.ending is Ending.MISSED or record.value is None:
        return "timed out"
    replied = "reported" if decision.recommended else "replied"
    value = _reply_value(record.value, decision)
    unused = ", not used" if record.unused else ""
    return f"{replied} {value}{unit}{unused}{', reset' if record.reset else ''}"


def _ending(entry: HistoryEntry, now: float, interval_s: float) -> str:
    decision, record, unit = entry.decision, entry.record, _unit(entry)
    if record is None:
        if decision.reason is Reason.SAVED:
            return "Without an activation, no reply was expected."
        began, deadline = map(datetime.fromisoformat, (decision.at, decision.expires_at))
        may_reply = now < deadline.timestamp()
        if may_reply or now < began.timestamp() + interval_s:
            text = "The interval is still running; its end is not in the history yet."
            counts = f" A reply counts until {decision.expires_at}."
            return text + counts if may_reply and not decision.recommended else text
        if decision.recommended:
            return "The sensor was recommended; no reading of the sensor in this interval is known."
        return (
            "It is unknown how the interval ended, for one of these reasons: its end is not in the"
            " history yet; no history is stored (the setting state.history); or the daemon was"
            " killed before the interval ended."
        )
    if record.ending is Ending.UNDELIVERED:
        return (
            "The activation was not delivered: the broker refused it or did not confirm it"
            f" by {decision.expires_at}, or a restart withdrew it. This does not count as a"
            " time-out of the sensor."
        )
    if record.ending is Ending.MISSED or record.value is None:
        return f"The sensor timed out: there was no reply by {decision.expires_at}."
    replied = "reported" if decision.recommended else "replied"
    value = _reply_value(record.value, decision)
    comparison = _comparison(record, decision, unit)
    return f"The sensor {replied} {value}{unit}{comparison}{UNUSED[record.unused]}."


def _comparison(record: Record, decision: Decision, unit: str) -> str:
    """Return a history text that compares the reply with the estimate and the threshold."""
    if record.abs_error is None or not _has_model(decision):
        return ""
    error = (
        f", {_rounded(record.abs_error, decision)}{unit} from the estimate just before the reply"
    )
    if record.threshold is None:
        return error
    threshold = f"{_rounded(record.threshold, decision)}{unit}"
    if not record.reset:
        return f"{error}; the event trigger's threshold was {threshold}"
    if record.abs_error > record.threshold:
        return (
            f"{error}: more than the event trigger's threshold of {threshold}, so the model was "
            "reset"
        )
    return (
        f"{error}: not more than the event trigger's threshold of {threshold}, but the model had "
        "reached its largest number of replies (n_upper) and was reset"
    )


def _reply_value(value: float, decision: Decision) -> str:
    """Return the value of a reply as history text, as precise as the estimate before the reply.

    The value has as many decimals as are needed to show two digits of the estimate's standard
    deviation. If the decision was made without a model, the value has `REPLY_DIGITS` significant
    digits.
    """
    if decision.std <= 0.0 or not _has_model(decision):
        return significant(value, REPLY_DIGITS)
    rounded = round(value, _decimals(decision.std))
    return significant(rounded, MAX_DIGITS)  # no more decimals than the sensor sent


def _rounded(value: float, decision: Decision) -> str:
    """Return `value` as history text, with as many decimals as the rounded `std` of a decision."""
    if decision.std <= 0.0:
        return significant(value)
    return f"{value:.{_decimals(decision.std)}f}"


def _decimals(std: float) -> int:
    """Return the number of decimals, for history texts, that show two digits of `std`."""
    return max(0, 1 - floor(log10(std)))


def _unit(entry: HistoryEntry) -> str:
    return f" {entry.decision.unit}" if entry.decision.unit else ""
