"""Budgets of decoding: an expensive message, or a sensor with many, cannot occupy the daemon."""

import json

import pytest
from edge_tvbo_adapters.mqtt import rate_limits
from edge_tvbo_adapters.mqtt.message_router import MessageRouter
from edge_tvbo_adapters.payloads.formats import make_codec
from support.mqtt_bytes import message
from support.settings import field_settings

from edge_tvbo.errors import PayloadError

WIDE = json.dumps({"a": [[[0] * 10] * 10] * 100}).encode()
FIELD = field_settings(("a", "b"), "lab/{sensor}", "number")


def test_a_message_on_which_an_expression_takes_too_many_steps_is_rejected():
    decode = make_codec("jmespath", {"value": "a[][][].abs(@) | max(@)"})
    with pytest.raises(PayloadError, match="steps") as caught:
        decode(WIDE)
    assert caught.value.reason == "too-costly"
    assert decode(b'{"a": [[[1, 2], [3]]]}')[0] == 3.0


def test_an_expression_on_a_document_of_many_sensors_is_within_the_limit():
    document = {"sensors": [{"id": str(number), "t": number} for number in range(1000)]}
    decode = make_codec("jmespath", {"value": "sensors[?id=='999'].t | [0]"})
    assert decode(json.dumps(document).encode())[0] == 999.0


def test_a_sensor_that_uses_up_its_decoding_time_is_rejected_and_others_are_not(monkeypatch):
    spent = 0.0

    def clock():
        nonlocal spent
        spent += 0.3  # each decoding takes 0.3 s
        return spent

    monkeypatch.setattr(rate_limits, "perf_counter", lambda: clock())
    monkeypatch.setattr(rate_limits, "thread_time", clock)
    receiver = MessageRouter({"lab": FIELD})

    def reason(sensor, now):
        ((_, event),) = receiver.events(message(f"lab/{sensor}", b"20"), 0.0, now)
        return getattr(event, "reason", None)

    # the first slow message shows that the processor time has to be measured
    assert [reason("a", 1.0) for _ in range(7)] == [None] * 5 + ["too-costly"] * 2
    assert reason("b", 1.0) is None
    assert reason("a", 1.0 + 10.0) is None


def test_a_sensor_is_not_rejected_because_other_programs_had_the_processor(monkeypatch):
    elapsed = 0.0

    def wall():
        nonlocal elapsed
        elapsed += 60.0  # the process is stopped for a minute in each decoding
        return elapsed

    monkeypatch.setattr(rate_limits, "perf_counter", wall)
    receiver = MessageRouter({"lab": FIELD})
    for _ in range(20):
        ((_, event),) = receiver.events(message("lab/a", b"20"), 0.0, 1.0)
        assert event.value == 20.0
