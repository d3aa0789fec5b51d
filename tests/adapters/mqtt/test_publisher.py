"""Publisher: which activations are withdrawn when an activation has ended."""

import json
from itertools import count

from edge_tvbo_adapters.mqtt.outbox import Outbox
from edge_tvbo_adapters.mqtt.publisher import Publisher
from hypothesis import given
from hypothesis import strategies as st
from support.settings import field_settings

from edge_tvbo.config.field_settings import ActivateSettings
from edge_tvbo.messages.commands import Activate, Ending, Record

DEVICES, FIELDS = ("eui-1", "eui-2"), ("temperature", "humidity", "pressure")
UP, DOWN = (f"v3/app@ttn/devices/{{sensor}}/{end}" for end in ("up", "down/replace"))
STEPS = st.tuples(st.sampled_from(FIELDS), st.sampled_from(DEVICES), st.booleans())


class Network:
    """A publisher, and the downlink queues of the devices at The Things Stack."""

    def __init__(self):
        activate = ActivateSettings(mode="lorawan", topic=DOWN, payload="")
        field = field_settings(DEVICES, UP, "the-things-stack", activate=activate)
        self.outbox, self._ids = Outbox(), count(1)
        self.outbox.begin()
        self.publisher = Publisher("edge_tvbo/k", dict.fromkeys(FIELDS, field), self.outbox)
        self.waiting = dict.fromkeys(DEVICES, 0)  # number of downlinks

    def send(self, field, command):
        self.publisher.send(field, command)
        for each in self.outbox.pop_ready():
            self.outbox.mark_sent(next(self._ids), each)
            self.waiting[each.topic.split("/")[3]] = len(json.loads(each.payload)["downlinks"])


@given(st.lists(STEPS, max_size=20))
def test_a_downlink_waits_as_long_as_a_field_waits_for_the_device(steps):
    network, awaited = Network(), set()
    for interval, (field, device, begins) in enumerate(steps):
        if begins:
            network.send(field, Activate(device, interval, 0.0, 60.0, replaces=False))
            awaited.add((field, device))
        else:
            network.send(field, record(interval, device))
            awaited.discard((field, device))
        expected = {device for _, device in awaited}
        assert {device for device, number in network.waiting.items() if number} == expected


def test_a_retained_command_is_cleared_although_another_field_awaits_the_sensor():
    """Otherwise the sensor would obey the command again each time it wakes up."""
    modes = {"soil": "sleepy", "air": "live"}
    fields = {
        name: field_settings(
            DEVICES,
            f"{name}/{{sensor}}",
            "number",
            activate=ActivateSettings(mode=mode, topic="todo/{sensor}", payload="1"),
        )
        for name, mode in modes.items()
    }
    outbox, retained = Outbox(), {}
    outbox.begin()
    publisher = Publisher("edge_tvbo/k", fields, outbox)
    commands = [(name, Activate("eui-1", 0, 0.0, 60.0, replaces=False)) for name in modes]
    commands += [(name, record(0, "eui-1")) for name in modes]
    for number, (name, command) in enumerate(commands):
        publisher.send(name, command)
        for each in outbox.pop_ready():
            outbox.mark_sent(number, each)
            outbox.mark_acked(number)
            if each.retained:
                retained[each.topic] = each.payload
    assert retained == {"todo/eui-1": b""}


def test_names_of_removed_fields_that_no_topic_can_contain_are_skipped():
    outbox = Outbox()
    outbox.begin()
    Publisher("edge_tvbo/k", {}, outbox).clear_documents(["#", "light", "x" * 65_530, "\0"])
    assert {each.topic.split("/")[2] for each in outbox.pop_ready()} == {"light"}


def record(interval, device):
    return Record(interval, 0.0, device, Ending.MISSED, None, None, None, False)
