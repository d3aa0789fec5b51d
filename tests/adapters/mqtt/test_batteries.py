"""Battery charges on a topic of their own and in the message of a reading."""

import pytest
from edge_tvbo_adapters.mqtt.message_router import MessageRouter
from msgspec.structs import replace
from support.mqtt_bytes import message
from support.settings import field_settings

from edge_tvbo.config.energy_settings import BatterySettings, EnergySettings
from edge_tvbo.config.field_settings import SourceSettings
from edge_tvbo.messages.events import BatteryReported, Reading, Unreadable

OWN = BatterySettings(topic="home/{sensor}/battery")
SHARED = BatterySettings(topic="home/{sensor}", payload="json", settings={"value": "battery"})


def events_of(batteries, topic, payload, *, retain=False):
    """Return the events of one message."""
    energy = EnergySettings(battery=batteries)
    reading = ("json", {"value": "t"})
    field = field_settings(("a",), "home/{sensor}", reading, scale=2.0, energy=energy)
    router = MessageRouter({"f": field})
    return [event for _, event in router.events(message(topic, payload, retain=retain), 5.0, 5.0)]


def test_one_message_can_be_a_reading_and_a_charge():
    both = events_of(SHARED, "home/a", b'{"t": 10.5, "battery": 80}')
    assert both == [Reading("a", 21.0, 5.0, 5.0, stamped=False), BatteryReported("a", 80.0, 5.0)]


@pytest.mark.parametrize("payload", [b'{"t": 10.5}', b"{", b'{"t": "x", "battery": "y"}'])
def test_a_shared_message_without_a_charge_is_rejected_at_most_once(payload):
    assert len(events_of(SHARED, "home/a", payload)) == 1


def test_a_charge_on_its_own_topic_is_no_reading_and_an_invalid_one_is_reported():
    assert events_of(OWN, "home/a/battery", b"80") == [BatteryReported("a", 80.0, 5.0)]
    (rejected,) = events_of(OWN, "home/a/battery", b"full")
    assert isinstance(rejected, Unreadable)
    assert rejected.reason == "not-a-number"


def test_a_retained_charge_is_ignored():
    assert events_of(OWN, "home/a/battery", b"8", retain=True) == []


def test_one_charge_counts_for_all_sensors_that_are_probes_of_one_device():
    sources = tuple(
        SourceSettings(
            topic="home/{sensor}", payload="json", settings={"value": value}, sensors=(sensor,)
        )
        for value, sensor in (("t1", "a"), ("t2", "a-2"))
    )
    field = field_settings(
        ("a", "a-2"), "home/{sensor}", energy=EnergySettings(battery=SHARED), names={"a-2": "a"}
    )
    router = MessageRouter({"f": replace(field, reading=None, readings=sources)})

    events = router.events(message("home/a", b'{"t1": 1, "t2": 2, "battery": 5}'), 5.0, 5.0)

    assert [event for _, event in events] == [
        Reading("a", 1.0, 5.0, 5.0, stamped=False),
        Reading("a-2", 2.0, 5.0, 5.0, stamped=False),
        BatteryReported("a", 5.0, 5.0),
        BatteryReported("a-2", 5.0, 5.0),
    ]
    unknown = router.events(message("home/b", b'{"t1": 1, "t2": 2, "battery": 5}'), 5.0, 5.0)
    assert not [event for _, event in unknown if isinstance(event, BatteryReported)]
