"""Topics that several fields subscribe to: which fields get a message."""

from edge_tvbo_adapters.mqtt.message_router import MessageRouter
from msgspec.structs import replace
from support.mqtt_bytes import message
from support.settings import field_settings

from edge_tvbo.config.field_settings import SourceSettings
from edge_tvbo.messages.events import Reading, Unreadable

TEMPERATURE, HUMIDITY = (("json", {"value": key}) for key in ("t", "rh"))


def router(**fields):
    """Return a router for fields of the topic home/{sensor}: name -> (sensors, payload)."""
    return MessageRouter(
        {
            name: field_settings(sensors, "home/{sensor}", payload)
            for name, (sensors, payload) in fields.items()
        }
    )


def events_of(receiver, sensor):
    payload = b'{"t": 21.5, "rh": 48.0}'
    return dict(receiver.events(message(f"home/{sensor}", payload), 5.0, 5.0))


def test_a_sensor_of_another_field_with_the_same_value_is_not_unknown():
    floors = router(up=(("attic",), TEMPERATURE), down=(("hall",), TEMPERATURE))
    attic = Reading("attic", 21.5, 5.0, 5.0, stamped=False)
    assert events_of(floors, "attic") == {"up": attic}
    assert list(events_of(floors, "cellar")) == ["up", "down"]


def test_fields_that_name_the_same_value_differently_read_the_same_value():
    named = "tasmota", {"value": "Temperature", "timezone": "Europe/Berlin"}
    floors = router(up=(("attic",), named), down=(("hall",), ("tasmota", {})))
    read = message("home/attic", b'{"AM2301": {"Temperature": 21.5}, "TempUnit": "C"}')
    assert [name for name, _ in floors.events(read, 5.0, 5.0)] == ["up"]


def test_fields_that_differ_in_the_unit_of_their_records_read_different_values():
    rooms = router(
        heat=(("hall",), ("senml", {"unit": "Cel"})), damp=(("hal",), ("senml", {"unit": "%RH"}))
    )
    read = message("home/hal", b'[{"u": "Cel", "v": 21.5}, {"u": "%RH", "v": 48.0}]')
    assert [name for name, _ in rooms.events(read, 5.0, 5.0)] == ["heat", "damp"]


def test_a_sensor_that_only_the_other_quantity_lists_is_named():
    rooms = router(heat=(("hall",), TEMPERATURE), damp=(("hal",), HUMIDITY))
    assert {name: each.value for name, each in events_of(rooms, "hall").items()} == {
        "heat": 21.5,
        "damp": 48.0,
    }


def test_a_message_of_another_device_is_not_blamed_on_the_format():
    heat = router(heat=(("hall",), TEMPERATURE))
    topics = "home/hall", "home/plug"
    events = [
        event for topic in topics for _, event in heat.events(message(topic, b"{}"), 5.0, 5.0)
    ]
    missing = "'t' is missing"
    assert events == [
        Unreadable("missing-value", "home/hall", missing),
        Unreadable("unknown-sensor", "home/plug", missing),
    ]


def test_a_message_under_the_id_of_a_renamed_sensor_names_its_topic():
    """The former topic often keeps a retained message, whose sensor looks configured."""
    names = {"bed": "Schlafzimmer"}
    rooms = MessageRouter({"heat": field_settings(["bed"], "home/{sensor}", "number", names=names)})
    why = "the sensor with the id bed has the name 'Schlafzimmer'"
    assert list(rooms.events(message("home/bed", b"21.5"), 5.0, 5.0)) == [
        ("heat", Unreadable("unknown-sensor", "home/bed", why))
    ]


def test_a_message_under_the_id_of_a_sensor_of_another_source_names_its_topic():
    sources = (
        SourceSettings(topic="zigbee/{sensor}", payload="number", sensors=("bed",)),
        SourceSettings(topic="tele/{sensor}", payload="number", sensors=("hall",)),
    )
    field = field_settings(["bed", "hall"], "x/{sensor}", "number")
    rooms = MessageRouter({"heat": replace(field, reading=None, readings=sources)})
    why = "the sensor bed belongs to another source of the field"
    assert list(rooms.events(message("tele/bed", b"21.5"), 5.0, 5.0)) == [
        ("heat", Unreadable("unknown-sensor", "tele/bed", why))
    ]


def test_a_message_whose_topic_contains_no_name_names_its_topic():
    rooms = router(heat=(("hall",), TEMPERATURE))
    assert events_of(rooms, "") == {
        "heat": Unreadable("unknown-sensor", "home/", "the name of the sensor is empty")
    }
