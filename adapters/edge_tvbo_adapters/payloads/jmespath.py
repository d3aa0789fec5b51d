"""Payload format `jmespath`: JSON documents of any form, read by JMESPath expressions.

https://jmespath.org/specification.html
"""

from collections.abc import Mapping
from typing import Any

from edge_tvbo.config.time_zones import load_timezone
from edge_tvbo.errors import ConfigError, PayloadError
from edge_tvbo.messages.payloads import PayloadCodec
from edge_tvbo_adapters.payloads.decode import check_settings
from edge_tvbo_adapters.payloads.json import parse_json, to_number, to_seconds

MAX_STEPS = 10_000  # steps of one expression on one document; 10,000 steps take about 10 ms
MAX_DETAIL_LENGTH = 200  # characters of an error text of the library


def codec(settings: Mapping[str, str]) -> PayloadCodec:
    """Return the JMESPath codec for the expressions ``value`` and, optionally, ``time``.

    >>> codec({"value": "sensors[?type=='temp'].reading | [0]", "time": "at"})(
    ...     b'{"at": 1078646400, "sensors": [{"type": "rh", "reading": 40},'
    ...     b' {"type": "temp", "reading": 21.3}]}'
    ... )
    (21.3, 1078646400.0)
    """
    check_settings(settings, ("value", "time", "timezone"), "jmespath")
    value_of = Expression(settings.get("value", "@"), "missing-value")
    time_of = Expression(settings["time"], "missing-time") if "time" in settings else None
    zone = load_timezone(settings["timezone"]) if "timezone" in settings else None

    def decode(payload: bytes) -> tuple[float, float | None]:
        document = parse_json(payload)
        value = to_number(value_of(document))
        return value, to_seconds(time_of(document), zone) if time_of else None

    return decode


class Expression:
    """A compiled JMESPath expression.

    The library is imported only when an expression is made, because the import takes 16 ms and few
    configurations need it.

    Parameters
    ----------
    text : str
        The expression; an invalid expression raises `ConfigError`.
    reason : str
        The reason in the `PayloadError` if the expression finds nothing or fails.
    """

    def __init__(self, text: str, reason: str) -> None:
        from jmespath import compile
        from jmespath.exceptions import JMESPathError
        from jmespath.visitor import TreeInterpreter

        class Interpreter(TreeInterpreter):  # type: ignore[misc]  # jmespath has no types
            """Interpreter of a JMESPath expression; it stops after `MAX_STEPS` steps."""

            steps = 0

            def visit(self, node: Any, *args: Any, **kwargs: Any) -> Any:
                self.steps += 1
                if self.steps > MAX_STEPS:
                    text = f"the expression takes more than {MAX_STEPS} steps on this document"
                    raise PayloadError("too-costly", text)
                return super().visit(node, *args, **kwargs)

        self._reason = reason
        self._interpreter = Interpreter
        self._failures = (JMESPathError, ValueError, TypeError, RecursionError, OverflowError)
        try:
            self._parsed = compile(text).parsed
        except (JMESPathError, RecursionError) as error:
            why = (
                str(error).splitlines()[0] if str(error) else "the expression is nested too deeply"
            )
            raise ConfigError(f"{text!r} is not a JMESPath expression: {why}") from None

    def __call__(self, document: Any) -> Any:
        """Return the part of a JSON document that the JMESPath expression finds.

        Raises `PayloadError` if the expression finds nothing, fails, or takes too many steps.
        """
        try:
            found = self._interpreter().visit(self._parsed, document)
        except self._failures as error:
            detail = f"the expression fails: {error}"[:MAX_DETAIL_LENGTH]
            raise PayloadError(self._reason, detail) from None
        if found is None:
            raise PayloadError(self._reason, "the expression finds nothing")
        return found
