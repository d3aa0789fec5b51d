"""What sensors say of their batteries, on a topic of its own and in the message of a reading."""

import pytest
from edge_tvbo_adapters.mqtt.codec import Message
from edge_tvbo_adapters.mqtt.subscriber import ReceivedMessage, Subscriber
from support.settings import field_settings

from edge_tvbo.config.energy_settings import BatterySettings, EnergySettings
from edge_tvbo.messages.events import BatteryReported, Reading, Unreadable

OWN = BatterySettings(topic="home/{sensor}/battery")
SHARED = BatterySettings(topic="home/{sensor}", payload="json", settings={"value": "battery"})


def came(batteries, topic, payload, *, retain=False):
    """Give the events that a message makes."""
    energy = EnergySettings(battery=batteries)
    reading = ("json", {"value": "t"})
    field = field_settings(("a",), "home/{sensor}", reading, scale=2.0, energy=energy)
    inbox = Subscriber({"f": field}, lambda: 5.0)
    message = Message(topic.encode(), payload, retain=retain)
    return [event for _, event in inbox.events(ReceivedMessage(message, 5.0, 5.0))]


def test_one_message_can_be_a_reading_and_a_charge():
    both = came(SHARED, "home/a", b'{"t": 10.5, "battery": 80}')
    assert both == [Reading("a", 21.0, 5.0, 5.0, stamped=False), BatteryReported("a", 80.0, 5.0)]


@pytest.mark.parametrize("payload", [b'{"t": 10.5}', b"{", b'{"t": "x", "battery": "y"}'])
def test_what_is_no_charge_in_the_message_of_a_reading_is_remarked_on_once_at_most(payload):
    assert len(came(SHARED, "home/a", payload)) == 1


def test_a_charge_on_a_topic_of_its_own_is_no_reading_and_what_it_is_not_is_said():
    assert came(OWN, "home/a/battery", b"80") == [BatteryReported("a", 80.0, 5.0)]
    (refused,) = came(OWN, "home/a/battery", b"full")
    assert isinstance(refused, Unreadable)
    assert refused.reason == "not-a-number"


def test_a_charge_that_the_broker_kept_may_be_of_any_age_and_says_nothing():
    assert came(OWN, "home/a/battery", b"8", retain=True) == []
