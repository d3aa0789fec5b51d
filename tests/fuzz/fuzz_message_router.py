"""Fuzz target: any message becomes a reading or a reason, and the controller continues after it.

The input is ``flags, topic, newline, payload``: the first bit of the flags is `retain`.
"""

import logging
from functools import cache
from math import isfinite

from edge_tvbo_adapters.mqtt.message_router import MAX_DETAIL, MessageRouter
from fuzz.fuzzing import main
from support.controllers import controller_settings
from support.mqtt_bytes import message
from support.settings import field_settings

from edge_tvbo.config.field_settings import FieldSettings
from edge_tvbo.control.controller import Controller
from edge_tvbo.messages.events import IntervalElapsed, Reading, Unreadable
from edge_tvbo.models.field import SensorField
from edge_tvbo.policy import make_policy

SENSORS = ("a", "b")
NOW = 1.8e9
FIELDS = {
    "heat": ("lab/{sensor}/t", "number", {}),
    "load": ("lab/{sensor}/t", "json", {"value": "v.w[0]", "time": "ts"}),
    "damp": ("{sensor}", "json", {"value": "h"}),
}


def seeds() -> list[bytes]:
    """Return messages of each kind."""
    return [
        b"\0lab/a/t\n21.3",
        b'\0lab/b/t\n{"v": {"w": [21.3]}, "ts": 1800000000}',
        b'\0a\n{"h": "40"}',
        b"\1lab/a/t\n20",
        b"\0lab/x/t\n20",
        b"\0lab/a/u\n20",
        b"\0lab/\xff/t\n",
    ]


def check(data: bytes) -> None:
    """Decode `data` as a message, and pass the events to the controller."""
    logging.disable()
    flags, (topic, _, payload) = data[:1], data[1:].partition(b"\n")
    received = message(topic, payload, retain=bool(flags and flags[0] & 1))
    for field, event in MessageRouter(_fields()).events(received, NOW, 0.0):
        assert field in FIELDS
        assert isinstance(event, Reading | Unreadable)
        if isinstance(event, Reading):
            assert isinstance(event.value, float)
            assert isfinite(event.value)
            assert isfinite(event.at)
        else:
            assert max(len(event.topic), len(event.detail)) <= MAX_DETAIL
            assert event.reason != "codec-failed", event.detail
        controller = _controller()
        controller.restore(_begun())
        controller.handle(event)
        controller.handle(IntervalElapsed(NOW + 100.0))


@cache
def _fields() -> dict[str, FieldSettings]:
    return {
        name: field_settings(SENSORS, topic, (payload, settings), max_payload=4096)
        for name, (topic, payload, settings) in FIELDS.items()
    }


@cache
def _controller() -> Controller:
    field = SensorField(SENSORS, [[1.0, 0.5], [0.5, 1.0]], 0.01, center=20.0, scale=2.0)
    return Controller(
        make_policy("et-gp-ucb", field), controller_settings(reply_timeout=20.0, max_age=150.0)
    )


@cache
def _begun() -> bytes:
    _controller().handle(IntervalElapsed(NOW - 1.0))
    return _controller().snapshot()


if __name__ == "__main__":
    main("fuzz_message_router")
