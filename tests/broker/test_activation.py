"""Activations over a real mosquitto: of sleepy sensors and of LoRaWAN devices; names, units."""

import json

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from support.examples import max_examples
from support.link import cut, link_to
from support.settings import NO_ACTIVATION, field_settings

from edge_tvbo.config.field_settings import ActivateSettings
from edge_tvbo.messages.commands import Activate, Ending, Record
from edge_tvbo.messages.events import Reading

COMMAND = '{"seq": {interval}, "expires_at": {expires_at}}'


def sleepy_field(prefix, sensors=("a", "b"), payload=("json", {"value": "t"}), **changes):
    """Return the settings of a field of two sleepy sensors."""
    changes = {"activate": activation(prefix, "sleepy", COMMAND)} | changes
    return field_settings(sensors, f"{prefix}/{{sensor}}/t", payload, **changes)


def activation(prefix, mode, payload):
    return ActivateSettings(mode=mode, topic=f"{prefix}/{{sensor}}/todo", payload=payload)


def record(interval, sensor, ending=Ending.ANSWERED):
    """Return the controller's command about an interval that has ended."""
    return Record(interval, 0.0, sensor, ending, None, None, None, False)


def empty_outbox(driver, link):
    """Service the link until the broker has acknowledged all of its messages."""
    driver.until(lambda: link._outbox.empty)


def retained_commands(peer, port, prefix):
    """Return the commands that a waking sensor finds, as (topic, command)."""
    node = peer(port, f"{prefix}/+/todo", "sentinel")
    node.publish("sentinel", b"1")
    node.wait(lambda: node.on("sentinel"))
    node.close()
    return [(topic, json.loads(body)) for topic, body, _ in node.received if topic != "sentinel"]


def test_a_waking_sensor_finds_only_the_current_command(broker, drive, peer):
    link = link_to(broker.port, field=sleepy_field("one"))
    driver = drive(link)
    driver.online()
    link.send("lab", Activate("a", 1, 0.0, 60.0))
    link.send("lab", record(1, "a", Ending.MISSED))
    link.send("lab", Activate("a", 2, 600.0, 660.0))
    empty_outbox(driver, link)
    assert retained_commands(peer, broker.port, "one") == [
        ("one/a/todo", {"seq": 2, "expires_at": 660})
    ]


@pytest.mark.parametrize("ending", Ending)
def test_the_retained_command_is_cleared_when_its_interval_has_ended(broker, drive, peer, ending):
    link = link_to(broker.port, field=sleepy_field("gone"))
    driver = drive(link)
    driver.online()
    link.send("lab", Activate("a", 1, 0.0, 60.0))
    empty_outbox(driver, link)
    assert retained_commands(peer, broker.port, "gone") == [
        ("gone/a/todo", {"seq": 1, "expires_at": 60})
    ]
    link.send("lab", record(1, "a", ending))
    empty_outbox(driver, link)
    assert retained_commands(peer, broker.port, "gone") == []


def test_sensors_activated_at_once_find_their_commands_until_each_has_replied(broker, drive, peer):
    link = link_to(broker.port, field=sleepy_field("both"))
    driver = drive(link)
    driver.online()
    both = [("both/a/todo", 3), ("both/b/todo", 3)]
    link.send("lab", Activate("a", 3, 0.0, 60.0))
    link.send("lab", Activate("b", 3, 0.0, 60.0, replaces=False))
    for ended in ("a", "b"):
        empty_outbox(driver, link)
        found = retained_commands(peer, broker.port, "both")
        assert sorted((topic, command["seq"]) for topic, command in found) == both
        link.send("lab", record(3, ended))
        both.remove((f"both/{ended}/todo", 3))
    empty_outbox(driver, link)
    assert retained_commands(peer, broker.port, "both") == []
    link.send("lab", Activate("a", 4, 600.0, 660.0))
    link.send("lab", Activate("b", 4, 600.0, 660.0, replaces=False))
    link.send("lab", Activate("a", 4, 601.0, 661.0))  # requested by a user
    empty_outbox(driver, link)
    assert [topic for topic, _ in retained_commands(peer, broker.port, "both")] == ["both/a/todo"]


intervals = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(Ending)), max_size=8)


@max_examples(20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(intervals, st.booleans(), st.none() | st.integers(0, 15))
def test_a_waking_sensor_finds_the_current_command_or_none_after_any_commands(
    broker, drive, peer, intervals, waiting, cut_at
):
    """The commands are those of a controller; the connection breaks at `cut_at`, or never."""
    link = link_to(broker.port, field=sleepy_field("rest"))
    driver = drive(link)
    driver.online()
    steps = []
    for interval, (sensor, ending) in enumerate(intervals):
        steps += [Activate(sensor, interval, 0.0, 1e9), record(interval, sensor, ending)]
    steps = steps[:-1] if waiting else steps
    for i, step in enumerate(steps):
        if i == cut_at:
            cut(link)
        link.send("lab", step)
        driver.turn(0.0)
    driver.until(lambda: link.online and link._outbox.empty)
    expected = []
    if waiting and steps:
        last = steps[-1]
        expected = [(f"rest/{last.sensor}/todo", {"seq": last.interval, "expires_at": 10**9})]
    assert retained_commands(peer, broker.port, "rest") == expected
    link.close()


def test_retained_commands_are_cleared_at_the_start_and_at_the_end(broker, drive, peer):
    left = peer(broker.port)
    for sensor in "ab":
        left.publish(f"life/{sensor}/todo", '{"seq": 7, "expires_at": 60}', retain=True)
    link = link_to(broker.port, field=sleepy_field("life"))
    driver = drive(link)
    driver.online()
    empty_outbox(driver, link)
    assert retained_commands(peer, broker.port, "life") == []
    link.send("lab", Activate("b", 8, 600.0, 660.0))
    empty_outbox(driver, link)
    link.close()
    assert retained_commands(peer, broker.port, "life") == []


@pytest.mark.parametrize("kept", [{"posterior", "hotspot"}, {"posterior"}, set()])
def test_documents_that_a_field_no_longer_publishes_are_cleared(broker, drive, peer, kept):
    instance = f"stale-{len(kept)}"
    topics = [
        f"edge_tvbo/{instance}/lab/{each}" for each in ("alert", "posterior", "hotspot", "selected")
    ]
    other = peer(broker.port, *topics)
    for topic in topics:
        other.publish(topic, "{}", retain=True)
    other.wait(lambda: len(other.received) == len(topics))
    field = sleepy_field("still", publish_posterior=2 if kept else 1)
    without_model = () if "hotspot" in kept else ("lab",)
    link = link_to(broker.port, field=field, instance=instance, without_model=without_model)
    driver = drive(link)
    driver.online()
    empty_outbox(driver, link)
    late = peer(broker.port, *topics)
    late.wait(lambda: late.on(topics[-1]))
    assert {topic.rpartition("/")[2] for topic, *_ in late.received} == {"selected", *kept}
    link.close()


def test_the_retained_command_of_a_removed_sensor_is_cleared_only_once(broker, drive, peer):
    other = peer(broker.port)
    other.publish("ours/c/todo", '{"seq": 7, "expires_at": 60}', retain=True)
    link = link_to(
        broker.port,
        field=sleepy_field("ours"),
        former={"lab": {"ours/b/todo", "ours/c/todo"}},
    )
    driver = drive(link)
    driver.online()
    empty_outbox(driver, link)
    assert retained_commands(peer, broker.port, "ours") == []

    other.publish("ours/c/todo", '{"seq": 1, "expires_at": 99}', retain=True)
    cut(link)
    driver.until(lambda: not link.online)
    driver.online()
    empty_outbox(driver, link)
    assert retained_commands(peer, broker.port, "ours") == [
        ("ours/c/todo", {"seq": 1, "expires_at": 99})
    ]


@pytest.mark.parametrize(
    "changed",
    [
        sleepy_field("twice"),
        sleepy_field("moved", sensors=tuple("bc")),
        sleepy_field("twice", sensors=tuple("bc"), activate=activation("twice", "live", COMMAND)),
    ],
    ids=["sensor", "topic", "mode"],
)
def test_a_stale_retained_command_is_cleared_after_reloads_without_a_connection(
    broker, drive, peer, changed
):
    peer(broker.port).publish("twice/c/todo", '{"seq": 7, "expires_at": 60}', retain=True)
    former = link_to(broker.port, field=sleepy_field("twice", sensors=tuple("bc"))).former
    for _ in range(2):  # links that never connect
        former = link_to(broker.port, field=changed, former=former).former
    link = link_to(broker.port, field=changed, former=former)
    driver = drive(link)
    driver.online()
    empty_outbox(driver, link)
    assert retained_commands(peer, broker.port, "twice") == []


def test_a_command_that_expires_while_the_broker_is_away_is_never_published(broker, drive, peer):
    link = link_to(broker.port, field=sleepy_field("away"))
    driver = drive(link)
    driver.online()
    empty_outbox(driver, link)
    node = peer(broker.port, "away/+/todo")
    cut(link)
    driver.until(lambda: not link.online)
    link.send("lab", Activate("a", 1, 0.0, 60.0))
    link.send("lab", record(1, "a", Ending.MISSED))
    link.send("lab", Activate("b", 2, 600.0, 660.0))
    driver.online()
    empty_outbox(driver, link)
    node.wait(lambda: node.on("away/b/todo")[-1:] == [b'{"seq": 2, "expires_at": 660}'])
    assert set(node.on("away/a/todo")) <= {b""}


def test_a_stale_retained_command_is_cleared_after_a_reconnect(broker, drive, peer):
    link = link_to(broker.port, field=sleepy_field("back"))
    driver = drive(link)
    driver.online()
    cut(link)
    driver.until(lambda: not link.online)
    peer(broker.port).publish("back/a/todo", '{"seq": 1, "expires_at": 60}', retain=True)
    driver.online()
    empty_outbox(driver, link)
    assert retained_commands(peer, broker.port, "back") == []


# --- LoRaWAN ------------------------------------------------------------------------------------

UP = "v3/app@ttn/devices/{sensor}/up"
DOWN = UP.replace("up", "down/replace")
UPLINK = b'{"uplink_message": {"decoded_payload": {"temperature": 23.2}}}'
NETWORK = field_settings(
    ("eui-1", "eui-2"),
    UP,
    "the-things-stack",
    activate=ActivateSettings(mode="lorawan", topic=DOWN, payload=""),
)


def test_a_downlink_replaces_the_queue_and_is_withdrawn_after_a_time_out(broker, drive, peer):
    server = peer(broker.port, "v3/+/devices/+/down/replace")
    came = []
    server.client.on_message = lambda client, userdata, message: came.append(message)
    link = link_to(broker.port, field=NETWORK)
    driver = drive(link)
    driver.online()
    link.send("lab", Activate("eui-1", 1, 0.0, 60.0))
    driver.until(lambda: came)
    link.send("lab", record(1, "eui-1", Ending.MISSED))
    driver.until(lambda: len(came) == 2)
    assert {each.topic for each in came} == {"v3/app@ttn/devices/eui-1/down/replace"}
    assert [(each.qos, each.retain) for each in came] == [(0, False)] * 2
    first, second = (json.loads(each.payload)["downlinks"] for each in came)
    assert first == [{"f_port": 1, "frm_payload": "AQ==", "priority": "NORMAL"}]
    assert second == []
    empty_outbox(driver, link)  # messages of QoS 0 are not acknowledged, and do not block the end


def test_a_downlink_keeps_waiting_when_the_daemon_stops(broker, drive, peer):
    """After a reload or restart, its reply is still awaited."""
    link = link_to(broker.port, field=NETWORK, instance="stops")
    server = peer(broker.port, "v3/+/devices/+/down/replace", "edge_tvbo/stops/status")
    driver = drive(link)
    driver.online()
    link.send("lab", Activate("eui-1", 1, 0.0, 60.0))
    empty_outbox(driver, link)
    link.close()
    server.wait(lambda: b"offline" in server.on("edge_tvbo/stops/status"))
    (downlink,) = server.on("v3/app@ttn/devices/eui-1/down/replace")
    assert json.loads(downlink)["downlinks"]


def test_a_downlink_without_a_connection_is_not_sent_later(broker, drive, peer):
    server = peer(broker.port, "v3/+/devices/+/down/replace")
    link = link_to(broker.port, field=NETWORK)
    link.send("lab", Activate("eui-1", 1, 0.0, 60.0))
    driver = drive(link)
    driver.online()
    link.send("lab", Activate("eui-2", 2, 0.0, 60.0))
    driver.until(lambda: server.received)
    assert [topic for topic, *_ in server.received] == ["v3/app@ttn/devices/eui-2/down/replace"]


def test_an_uplink_becomes_a_reading_of_its_device(broker, drive, peer):
    driver = drive(link_to(broker.port, field=NETWORK))
    driver.online()
    peer(broker.port).publish(UP.replace("{sensor}", "eui-2"), UPLINK)
    driver.until(lambda: driver.events)
    ((_, reading),) = driver.events
    assert isinstance(reading, Reading)
    assert (reading.sensor, reading.value) == ("eui-2", 23.2)


# --- names and units ----------------------------------------------------------------------------


def test_a_sensor_has_its_id_in_events_and_its_name_in_topics(broker, drive, peer):
    field = sleepy_field(
        "named",
        activate=activation("named", "live", '{"id": "{sensor}"}'),
        names={"a": "Living room"},
    )
    node = peer(broker.port, "named/+/todo")
    link = link_to(broker.port, field=field)
    driver = drive(link)
    driver.online()
    for name in ("Living room", "b", "a"):
        node.publish(f"named/{name}/t", '{"t": 5}')
    driver.until(lambda: len(driver.events) == 3)
    (_, named), (_, nameless), (_, unknown) = driver.events
    assert (named.sensor, nameless.sensor) == ("a", "b")
    assert (unknown.reason, unknown.topic) == ("unknown-sensor", "named/a/t")
    link.send("lab", Activate("a", 1, 0.0, 60.0))
    driver.until(lambda: node.received)
    assert node.received[0][:2] == ("named/Living room/todo", b'{"id": "Living room"}')


def test_a_value_is_scaled_and_rejected_if_the_result_is_infinite(broker, drive, peer):
    field = sleepy_field("warm", scale=10.0, offset=-273.15, activate=NO_ACTIVATION)
    driver = drive(link_to(broker.port, field=field))
    driver.online()
    sender = peer(broker.port)
    for text in ("29.515", "1e308"):
        sender.publish("warm/a/t", f'{{"t": {text}}}')
    driver.until(lambda: len(driver.events) == 2)
    first, second = (event for _, event in driver.events)
    assert first.value == pytest.approx(22.0)
    assert second.reason == "non-finite"


def test_a_relative_time_is_relative_to_the_arrival(broker, drive, peer):
    field = sleepy_field("ago", payload="senml", activate=NO_ACTIVATION)
    driver = drive(link_to(broker.port, field=field))
    driver.online()
    peer(broker.port).publish("ago/a/t", '[{"u": "Cel", "v": 23.1, "t": -60}]')
    driver.until(lambda: driver.events)
    ((_, reading),) = driver.events
    assert (reading.value, reading.received - reading.at) == (23.1, pytest.approx(60.0))
    assert not reading.stamped
