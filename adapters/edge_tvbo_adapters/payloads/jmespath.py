"""Any JSON, by expressions in JMESPath: for what is written as no other payload knows.

https://jmespath.org/specification.html
"""

from collections.abc import Mapping
from typing import Any

from edge_tvbo.errors import ConfigError, PayloadError
from edge_tvbo.messages.payloads import PayloadCodec
from edge_tvbo_adapters.payloads.decode import known_settings
from edge_tvbo_adapters.payloads.json import moment, number, parsed, timezone


def codec(settings: Mapping[str, str]) -> PayloadCodec:
    """Give the codec for the expressions ``value`` and, optionally, ``time``.

    >>> codec({"value": "sensors[?type=='temp'].reading | [0]", "time": "at"})(
    ...     b'{"at": 1078646400, "sensors": [{"type": "rh", "reading": 40},'
    ...     b' {"type": "temp", "reading": 21.3}]}'
    ... )
    (21.3, 1078646400.0)
    """
    known_settings(settings, ("value", "time", "timezone"), "jmespath")
    value_in = Expression(settings.get("value", "@"), "missing-value")
    time_in = Expression(settings["time"], "missing-time") if "time" in settings else None
    zone = timezone(settings["timezone"]) if "timezone" in settings else None

    def decode(payload: bytes) -> tuple[float, float | None]:
        document = parsed(payload)
        value = number(value_in(document))
        return value, moment(time_in(document), zone) if time_in else None

    return decode


class Expression:
    """An expression, compiled; `reason` is what its not being met by a document counts as.

    jmespath is imported here, in 29 ms, by those alone who use it.
    """

    def __init__(self, text: str, reason: str) -> None:
        from jmespath import compile as compiled
        from jmespath.exceptions import JMESPathError

        self._reason = reason
        self._failures = (JMESPathError, ValueError, TypeError, RecursionError, OverflowError)
        try:
            self._expression = compiled(text)
        except (JMESPathError, RecursionError) as error:
            why = str(error).splitlines()[0] if str(error) else "nested too deeply"
            raise ConfigError(f"{text!r} is no JMESPath: {why}") from None

    def __call__(self, document: Any) -> Any:
        """Give what the expression finds; raises `PayloadError`."""
        try:
            found = self._expression.search(document)
        except self._failures as error:
            raise PayloadError(self._reason, f"the expression fails: {error}"[:200]) from None
        if found is None:
            raise PayloadError(self._reason, "the expression finds nothing")
        return found
