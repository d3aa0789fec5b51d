"""How sensors are asked, over a real mosquitto: nodes that sleep, and those behind LoRaWAN."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.link import cut, link_to
from support.settings import NO_ACTIVATION, field_settings

from edge_tvbo.config.field_settings import ActivateSettings
from edge_tvbo.messages.commands import Activate, Ending, Record
from edge_tvbo.messages.events import Reading

ASKED = '{"seq": {interval}, "expires_at": {expires_at}}'


def beds(prefix, sensors=("a", "b"), payload=("json", {"value": "t"}), **changes):
    """Return the settings of a field of two sensors that sleep."""
    changes = {"activate": activation(prefix, "sleepy", ASKED)} | changes
    return field_settings(sensors, f"{prefix}/{{sensor}}/t", payload, **changes)


def activation(prefix, mode, payload):
    return ActivateSettings(mode=mode, topic=f"{prefix}/{{sensor}}/todo", payload=payload)


def over(interval, sensor, ending=Ending.ANSWERED):
    """Give what the controller says of an interval that has ended."""
    return Record(interval, 0.0, sensor, ending, None, None, None, False)


def catch_up(driver, link):
    """Let everything leave, and be acknowledged."""
    driver.until(lambda: link._outbox.empty)


def woken(peer, port, prefix):
    """Give what nodes find who wake up now: (topic, command) each."""
    node = peer(port, f"{prefix}/+/todo", "sentinel")
    node.publish("sentinel", b"1")
    node.wait(lambda: node.on("sentinel"))
    node.close()
    return [(topic, json.loads(body)) for topic, body, _ in node.heard if topic != "sentinel"]


def test_a_node_that_wakes_finds_the_one_command_that_is_current(broker, drive, peer):
    link = link_to(broker.port, field=beds("one"))
    driver = drive(link)
    driver.online()
    link.send("lab", Activate("a", 1, 0.0, 60.0))
    link.send("lab", over(1, "a", Ending.MISSED))
    link.send("lab", Activate("a", 2, 600.0, 660.0))
    catch_up(driver, link)
    assert woken(peer, broker.port, "one") == [("one/a/todo", {"seq": 2, "expires_at": 660})]


@pytest.mark.parametrize("ending", Ending)
def test_a_command_is_gone_when_it_is_answered_or_too_late(broker, drive, peer, ending):
    link = link_to(broker.port, field=beds("gone"))
    driver = drive(link)
    driver.online()
    link.send("lab", Activate("a", 1, 0.0, 60.0))
    catch_up(driver, link)
    assert woken(peer, broker.port, "gone") == [("gone/a/todo", {"seq": 1, "expires_at": 60})]
    link.send("lab", over(1, "a", ending))
    catch_up(driver, link)
    assert woken(peer, broker.port, "gone") == []


intervals = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(Ending)), max_size=8)


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(intervals, st.booleans(), st.none() | st.integers(0, 15))
def test_whatever_came_before_a_node_finds_the_current_command_or_none(
    broker, drive, peer, intervals, waiting, cut_at
):
    """The commands as a controller gives them, the connection cut once, anywhere or nowhere."""
    link = link_to(broker.port, field=beds("rest"))
    driver = drive(link)
    driver.online()
    steps = []
    for interval, (sensor, ending) in enumerate(intervals):
        steps += [Activate(sensor, interval, 0.0, 1e9), over(interval, sensor, ending)]
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
    assert woken(peer, broker.port, "rest") == expected
    link.close()


def test_what_an_earlier_life_left_is_cleared_and_nothing_is_left_behind(broker, drive, peer):
    left = peer(broker.port)
    for sensor in "ab":
        left.publish(f"life/{sensor}/todo", '{"seq": 7, "expires_at": 60}', retain=True)
    link = link_to(broker.port, field=beds("life"))
    driver = drive(link)
    driver.online()
    catch_up(driver, link)
    assert woken(peer, broker.port, "life") == []
    link.send("lab", Activate("b", 8, 600.0, 660.0))
    catch_up(driver, link)
    link.close()
    assert woken(peer, broker.port, "life") == []


def test_a_node_that_is_ours_no_more_finds_nothing_and_is_left_to_whoever_has_it_now(
    broker, drive, peer
):
    other = peer(broker.port)
    other.publish("ours/c/todo", '{"seq": 7, "expires_at": 60}', retain=True)
    link = link_to(
        broker.port, field=beds("ours"), former={"lab": beds("ours", sensors=tuple("bc"))}
    )
    driver = drive(link)
    driver.online()
    catch_up(driver, link)
    assert woken(peer, broker.port, "ours") == []

    other.publish("ours/c/todo", '{"seq": 1, "expires_at": 99}', retain=True)
    cut(link)
    driver.until(lambda: not link.online)
    driver.online()
    catch_up(driver, link)
    assert woken(peer, broker.port, "ours") == [("ours/c/todo", {"seq": 1, "expires_at": 99})]


def test_a_command_that_grows_old_while_the_broker_is_away_is_never_told(broker, drive, peer):
    link = link_to(broker.port, field=beds("away"))
    driver = drive(link)
    driver.online()
    catch_up(driver, link)
    node = peer(broker.port, "away/+/todo")
    cut(link)
    driver.until(lambda: not link.online)
    link.send("lab", Activate("a", 1, 0.0, 60.0))
    link.send("lab", over(1, "a", Ending.MISSED))
    link.send("lab", Activate("b", 2, 600.0, 660.0))
    driver.online()
    catch_up(driver, link)
    node.wait(lambda: node.on("away/b/todo")[-1:] == [b'{"seq": 2, "expires_at": 660}'])
    assert set(node.on("away/a/todo")) <= {b""}


def test_what_a_broker_remembers_that_it_should_not_is_cleared_when_the_link_returns(
    broker, drive, peer
):
    link = link_to(broker.port, field=beds("back"))
    driver = drive(link)
    driver.online()
    cut(link)
    driver.until(lambda: not link.online)
    peer(broker.port).publish("back/a/todo", '{"seq": 1, "expires_at": 60}', retain=True)
    driver.online()
    catch_up(driver, link)
    assert woken(peer, broker.port, "back") == []


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


def test_a_downlink_replaces_the_queue_and_is_taken_back_when_it_is_too_late(broker, drive, peer):
    server = peer(broker.port, "v3/+/devices/+/down/replace")
    came = []
    server.client.on_message = lambda client, userdata, message: came.append(message)
    link = link_to(broker.port, field=NETWORK)
    driver = drive(link)
    driver.online()
    link.send("lab", Activate("eui-1", 1, 0.0, 60.0))
    driver.until(lambda: came)
    link.send("lab", over(1, "eui-1", Ending.MISSED))
    driver.until(lambda: len(came) == 2)
    assert {each.topic for each in came} == {"v3/app@ttn/devices/eui-1/down/replace"}
    assert [(each.qos, each.retain) for each in came] == [(0, False)] * 2
    first, second = (json.loads(each.payload)["downlinks"] for each in came)
    assert first == [{"f_port": 1, "frm_payload": "AQ==", "priority": "NORMAL"}]
    assert second == []
    catch_up(driver, link)  # nobody acknowledges what has QoS 0, and nothing waits for that


def test_a_downlink_that_nobody_can_be_sent_is_not_sent_later(broker, drive, peer):
    server = peer(broker.port, "v3/+/devices/+/down/replace")
    link = link_to(broker.port, field=NETWORK)
    link.send("lab", Activate("eui-1", 1, 0.0, 60.0))
    driver = drive(link)
    driver.online()
    link.send("lab", Activate("eui-2", 2, 0.0, 60.0))
    driver.until(lambda: server.heard)
    assert [topic for topic, *_ in server.heard] == ["v3/app@ttn/devices/eui-2/down/replace"]


def test_an_uplink_comes_in_as_the_reading_of_its_device(broker, drive, peer):
    driver = drive(link_to(broker.port, field=NETWORK))
    driver.online()
    peer(broker.port).publish(UP.replace("{sensor}", "eui-2"), UPLINK)
    driver.until(lambda: driver.events)
    ((_, reading),) = driver.events
    assert isinstance(reading, Reading)
    assert (reading.sensor, reading.value) == ("eui-2", 23.2)


# --- names and units ----------------------------------------------------------------------------


def test_a_sensor_goes_by_its_id_inside_and_by_its_name_outside(broker, drive, peer):
    field = beds(
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
    assert [event.sensor for _, event in driver.events] == ["a", "b", ""]
    link.send("lab", Activate("a", 1, 0.0, 60.0))
    driver.until(lambda: node.heard)
    assert node.heard[0][:2] == ("named/Living room/todo", b'{"id": "Living room"}')


def test_a_value_is_scaled_as_the_field_says_and_refused_where_that_goes_too_far(
    broker, drive, peer
):
    field = beds("warm", scale=10.0, offset=-273.15, activate=NO_ACTIVATION)
    driver = drive(link_to(broker.port, field=field))
    driver.online()
    sender = peer(broker.port)
    for text in ("29.515", "1e308"):
        sender.publish("warm/a/t", f'{{"t": {text}}}')
    driver.until(lambda: len(driver.events) == 2)
    first, second = (event for _, event in driver.events)
    assert first.value == pytest.approx(22.0)
    assert second.reason == "non-finite"


def test_a_time_from_now_is_taken_from_the_moment_of_arrival(broker, drive, peer):
    field = beds("ago", payload="senml", activate=NO_ACTIVATION)
    driver = drive(link_to(broker.port, field=field))
    driver.online()
    peer(broker.port).publish("ago/a/t", '[{"u": "Cel", "v": 23.1, "t": -60}]')
    driver.until(lambda: driver.events)
    ((_, reading),) = driver.events
    assert (reading.value, reading.received - reading.at) == (23.1, pytest.approx(60.0))
    assert not reading.stamped
