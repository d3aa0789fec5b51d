"""Rejection log: logs why messages are rejected, once for each field and reason."""

import logging
from collections.abc import Mapping

from edge_tvbo.messages.commands import Command, Reject

log = logging.getLogger(__name__)

WARN_HINTS = {
    "ambiguous": "several values in the message match; set `reading.value` to the full name or path"
    " of one value",
    "bad-time": "the time in the message cannot be read; check `reading.time`",
    "bad-topic": "the topic is not UTF-8; change the topic in the settings of the sensor",
    "codec-failed": "the code of the payload format has an error; please report it",
    "doubtful": "the sensor may be faulty; until this is decided, its readings are not used;"
    " if the sensor is faulty, a notice says so",
    "empty": "the payload is empty; check what the sensor sends",
    "faulty": "the sensor is faulty; see its notice, and check the sensor",
    "flooding": "the sensor sends more messages than max_rate allows; let the sensor send fewer"
    " messages, or raise max_rate",
    "future-dated": "the reading's time is ahead of this machine's clock; check both clocks, or"
    " raise max_future",
    "implausible": "the value is outside the plausible range; check the sensor, its unit and the"
    " model, or set `plausible` for the readings. The charge of a battery must be 0 to 100 %",
    "late": "the reading is older than max_age, or older than the previous reading; check the"
    ' clocks, or raise max_age. With learn_from = "activated", a reading that an activated sensor'
    " sends after its reply or time-out is also late; such a reading needs no action",
    "missing-time": "the message contains no time; check `reading.time`",
    "missing-value": "the message contains no value; check `reading.value`",
    "naive-time": "the reading's time has no time zone; set `reading.timezone`, or let the sensor"
    " send the UTC offset",
    "no-energy": "the energy budget of the sensor or of the field, or the sensor's battery, does"
    " not allow the activation; raise the budget, or wait",
    "non-finite": "the value is NaN or infinite; check the sensor",
    "not-a-number": "the value is not a number. If it is null, unavailable or unknown, the device"
    " has no value at present; otherwise check `reading.value` and `reading.payload`",
    "not-senml": "the payload is not SenML; check `reading.payload`",
    "not-json": "the payload is not JSON; check `reading.payload`",
    "not-understood": "the SenML document uses a version or an extension of SenML that is not"
    " supported; check what the sensor sends",
    "not-utf8": "the payload is not text in UTF-8; check `reading.payload`",
    "several-devices": "the message contains the readings of several devices; let the gateway"
    " publish a message for each device",
    "too-costly": "it takes too long to decode this message, or all messages of this sensor"
    " together; use a simpler `reading.value`, or let the sensor send fewer messages",
    "too-deep": "the payload is nested too deeply; check what the sensor sends",
    "too-large": "the payload is longer than max_payload; check the sensor, or raise max_payload",
    "unknown-sensor": "the sensor is not listed in `sensors`. If it belongs to the field, add it;"
    " otherwise no action is needed. `edge-tvbo check --connect --listen 60s CONFIG` names all"
    " such sensors that send a reading",
    "wrong-unit": "the value is in another unit; check `reading.unit`, or change the unit"
    " that the sensor sends",
}
INFO_HINTS = {
    "availability": "the message says whether the sensor is available, and contains no reading",
    "duplicate": "the message repeats the sensor's last reading. Either it was delivered twice,"
    " which QoS 1 allows, or the sensor sent the same value again within 2 s",
    "ignored": "the command cmd/ignore has taken the sensor out of use",
    "other-event": "the message reports an event such as a network join, and contains no reading",
    "retained": "the broker stored the message before the daemon subscribed, so its age is unknown",
    "unsolicited": 'the sensor was not activated in this interval, and learn_from is "activated"',
}


class RejectionLog:
    """Logger of the first message rejected since the last reload, for each field and reason.

    The controllers count all rejected messages.
    """

    def __init__(self) -> None:
        self.names: Mapping[str, Mapping[str, str]] = {}  # names of the sensors, by field and id
        self._logged: set[tuple[str, str]] = set()

    def __call__(self, field: str, command: Command) -> None:
        """Log `command` if it is a `Reject` whose reason was not logged for `field` before."""
        if not isinstance(command, Reject) or (field, command.reason) in self._logged:
            return
        self._logged.add((field, command.reason))
        hint = WARN_HINTS.get(command.reason) or INFO_HINTS.get(command.reason)
        log.log(
            logging.INFO if command.reason in INFO_HINTS else logging.WARNING,
            "%s: a message from %r is rejected as %s%s: %s; "
            "further messages of this kind are only counted",
            field,
            self.names.get(field, {}).get(command.source, command.source),
            command.reason,
            f" ({command.detail})" if command.detail else "",
            hint or "the field's health contains the number of such messages",
        )

    def reset(self) -> None:
        """Reset the log after a reload: the next rejection of each field and reason is logged."""
        self._logged.clear()
