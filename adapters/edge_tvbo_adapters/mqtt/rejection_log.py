"""Why readings are not used, said once for each field and reason; counting is others' work."""

import logging
from collections.abc import Mapping

_WARN_HINTS = {
    "bad-time": "the time in it cannot be read; check `time` under reading",
    "bad-topic": "its topic is not UTF-8; whoever sends it must change that",
    "codec-failed": "the payload format has an error; please report it",
    "empty": "the payload is empty; check what the sensor sends",
    "flooding": "the sensor sends more than max_rate allows; slow it down, or allow more",
    "future-dated": "it is stamped ahead of our clock; check both clocks, or raise max_future",
    "implausible": "the value is out of all proportion; check the sensor, its unit and the model",
    "late": "it is older than max_age, or than one before it; check the clocks, or raise max_age",
    "missing-time": "there is no time in it; check `time` under reading",
    "missing-value": "there is no value in it; check `value` under reading",
    "naive-time": "its time has no zone; set `timezone` under reading, or have it sent",
    "non-finite": "the value is no finite number; check the sensor",
    "not-a-number": "the value is no number; check `value` and `payload` under reading",
    "not-json": "the payload is not JSON; check `payload` under reading",
    "not-utf8": "the payload is not text; check `payload` under reading",
    "too-deep": "the payload is nested too deeply; check what the sensor sends",
    "too-large": "the payload is longer than max_payload; check the sensor, or allow more",
    "unknown-sensor": "it is not among `sensors`; add it, or use a narrower topic",
}
_INFO_HINTS = {
    "duplicate": "it came twice, which QoS 1 allows",
    "retained": "the broker had kept it from before, so it is not news",
    "unsolicited": "nobody asked for it, and learn_from is activated",
}


class Refusals:
    """Logs the first reading that a field refuses for each reason."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._said: set[tuple[str, str]] = set()

    def note(self, field: str, reason: str, topic: str, detail: str = "") -> None:
        """Say that a message on `topic` was refused, if it is the first for that reason."""
        if self._is_news(field, reason):
            found = f" ({detail})" if detail else ""
            self._say(field, reason, f"the message on {topic!r} is refused{found}")

    def counted(self, field: str, refused: Mapping[str, int]) -> None:
        """Say what was counted and not said yet: what only the controller can tell."""
        for reason, times in refused.items():
            if self._is_news(field, reason):
                readings = "a reading was" if times == 1 else f"{times} readings were"
                self._say(field, reason, f"{readings} refused")

    def _is_news(self, field: str, reason: str) -> bool:
        news = (field, reason) not in self._said
        self._said.add((field, reason))
        return news

    def _say(self, field: str, reason: str, what: str) -> None:
        level = logging.INFO if reason in _INFO_HINTS else logging.WARNING
        advice = _WARN_HINTS.get(reason) or _INFO_HINTS.get(reason) or "see the field's health"
        self._log.log(
            level, "%s: %s as %s: %s; further ones are only counted", field, what, reason, advice
        )
