"""Several activations in an interval, by a real daemon at a real mosquitto, over kills."""

import json
from collections import Counter
from contextlib import closing

import pytest
from edge_tvbo_adapters.storage.history_reader import HistoryReader
from support.gateway import Gateway, program

from edge_tvbo.messages.commands import Ending


class TwoAtATime(Gateway):
    """A gateway that activates two of its three sensors in each interval; c never replies."""

    order = "after-reply"

    def configure(self, **changes):
        super().configure(**{"interval": "500ms", **changes})
        text = self.config.read_text()
        text = text.replace('checkpoint = "1s"', 'checkpoint = "1s"\nhistory = "16MiB"')
        several = f'per_interval = 2\nnext_activation = "{self.order}"\nreply_timeout'
        self.config.write_text(text.replace("reply_timeout", several))

    def _answer(self, client, userdata, message):
        sensor = message.topic.split("/")[1]
        number, at = json.loads(message.payload)
        self.activations.append((number, sensor, at))
        if sensor != "c":
            value = 20 + len(self.activations) % 7
            client.publish(message.topic.replace("/go", "/t"), str(value))


class TwoAtOnce(TwoAtATime):
    order = "at-once"


@pytest.fixture(params=[TwoAtATime, TwoAtOnce])
def gateway(request, tmp_path, mosquitto, peer):
    broker = mosquitto()
    broker.start()
    gateway = request.param(tmp_path, broker.port, peer)
    yield gateway
    gateway.close()


def test_daemon_activates_two_sensors_in_each_interval_and_no_number_twice_over_kills(gateway):
    for leave in (gateway.kill, gateway.stop, gateway.kill, gateway.stop):
        gateway.start()
        gateway.wait_for_activations(9)
        leave()
    activated = [(number, sensor) for number, sensor, _ in gateway.activations]
    assert len(set(activated)) == len(activated)
    numbers = [number for number, _ in activated]
    assert numbers == sorted(numbers)
    counts = Counter(numbers)
    assert max(counts.values()) == 2
    assert list(counts.values()).count(2) >= 8  # of about 20; a kill may come between the two

    with closing(HistoryReader(str(gateway.state.parent), gateway.name)) as history:
        entries = history.newest("lab", 100)
    both = [each for each in entries if each.record and each.earlier and each.earlier[0].record]
    endings = Counter()
    for entry in both:
        (before,) = entry.earlier
        assert entry.decision.earlier == [before.decision.sensor]
        ends = {before.record.sensor: before.record, entry.record.sensor: entry.record}
        assert set(ends) == {before.decision.sensor, entry.decision.sensor}
        endings.update((sensor == "c", record.ending) for sensor, record in ends.items())
    assert endings[False, Ending.ANSWERED] > 0
    assert endings[True, Ending.MISSED] > 0
    assert endings[True, Ending.ANSWERED] == 0
    why = program("why", str(gateway.config), str(both[0].decision.interval)).stdout
    assert "Activated earlier in the same interval:" in why
    assert f"  - {both[0].earlier[0].decision.sensor}: " in why


def test_last_published_decision_of_an_interval_names_both_sensors(gateway, peer):
    base = f"edge_tvbo/{gateway.name}"
    watcher = peer(gateway.port, f"{base}/lab/selected", f"{base}/health")
    gateway.start()
    gateway.wait_for_activations(8)
    gateway.stop()
    selected = [json.loads(payload) for payload in watcher.on(f"{base}/lab/selected")]
    last = {each["interval"]: each for each in selected}
    activated = {}
    for number, sensor, _ in gateway.activations:
        activated.setdefault(number, set()).add(sensor)
    both = [number for number, sensors in activated.items() if len(sensors) == 2][:-1]
    assert len(both) >= 2
    for number in both:
        assert {last[number]["sensor"], *last[number]["earlier"]} == activated[number]
