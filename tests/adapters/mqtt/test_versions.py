"""Versions of MQTT: the properties of messages."""

from math import floor

from edge_tvbo_adapters.mqtt.versions import publish_properties
from hypothesis import given
from hypothesis import strategies as st


@given(sent=st.floats(0.0, 1e4), expires_in=st.floats(-1.0, 1e4))
def test_a_broker_that_counts_full_seconds_deletes_no_message_too_early(sent, expires_in):
    interval = publish_properties("5", expires_in).MessageExpiryInterval

    assert sent + expires_in <= floor(sent) + interval
    assert 1 <= interval <= max(expires_in, 0.0) + 2.0
