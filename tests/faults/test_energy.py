"""Sensors that are off, empty or out of budget: which ones the daemon activates."""

import json
import time
from contextlib import suppress
from datetime import datetime

import pytest
from support.gateway import Gateway

PERIOD, BUDGET, COST = 60.0, 20.0, 0.5  # s, mAh, mAh
ENERGY = """
[fields.lab.energy]
unit = "mAh"
cost = 0.5
field_budget = {budget}
period = "1min"
"""
BATTERY = """
[fields.lab.energy.battery]
topic = "{name}/{{sensor}}/t"
payload = "json"
value = "battery"
least = 20
"""


class Home(Gateway):
    """A gateway whose sensors can be switched off, and what it publishes."""

    def __init__(self, directory, port, peer, name):
        super().__init__(directory, port, peer, name)
        self.off = set()
        self.listener = peer(port, f"edge_tvbo/{name}/#")

    def _answer(self, client, userdata, message):
        sensor = message.topic.split("/")[1]
        if sensor in self.off:
            self.activations.append(json.loads(message.payload))
        else:
            super()._answer(client, userdata, message)

    def on(self, topic):
        return self.listener.documents(f"edge_tvbo/{self.name}/{topic}")

    def decisions(self):
        return self.on("lab/selected")

    def events(self):
        return [(each["event"], each.get("sensor")) for each in self.on("lab/event")]


@pytest.fixture
def home(broker, peer, tmp_path, request):
    """Return a home with a name of its own; its daemon is killed after the test."""
    home = Home(tmp_path, broker.port, peer, f"e{abs(hash(request.node.name)) % 10**8}")
    yield home
    if home.process and home.process.poll() is None:
        home.kill()


@pytest.mark.acceptance(17)
def test_a_sensor_that_is_switched_off_times_out_and_is_backed_off(home):
    home.configure(policy="round-robin")
    home.start()
    home.wait_for_activations(6)
    home.off = {"b"}
    home.wait(lambda: ("sensor-lost", "b") in home.events())
    lost = next(  # the others are lost, too, if the test stands still
        each
        for each in home.on("lab/event")
        if (each["event"], each.get("sensor")) == ("sensor-lost", "b")
    )
    home.wait(lambda: home.decisions()[-1]["at"] > lost["at"])
    activated = [each for each in home.decisions() if each["at"] < lost["at"]][-1]
    assert activated["sensor"] == "b"  # it is lost in the interval in which it did not reply
    assert datetime.fromisoformat(lost["at"]) >= datetime.fromisoformat(activated["expires_at"])
    before = len(home.decisions())
    home.wait(lambda: len(home.decisions()) >= before + 12)
    chosen = [each["sensor"] for each in home.decisions()[before : before + 12]]
    probed_in_turn = ("all-suspect", None) in home.events()  # if the test stood still
    assert probed_in_turn or chosen.count("b") <= 3
    assert home.listener.on(f"edge_tvbo/{home.name}/status")[-1] == b"online"
    home.off = set()
    home.wait(lambda: ("sensor-back", "b") in home.events())


@pytest.mark.acceptance(18)
def test_with_all_sensors_off_each_is_probed_in_turn_until_one_replies(home):
    home.configure()
    home.start()
    home.wait_for_activations(4)
    home.off = {"a", "b", "c"}
    home.wait(lambda: ("all-suspect", None) in home.events())
    before = len(home.decisions())
    home.wait(lambda: len(home.decisions()) >= before + 7)
    probes = [each for each in home.decisions()[before:] if each["reason"] == "probe"]
    names = [each["sensor"] for each in probes]
    assert names[:6] == (names[:3] * 2)
    assert set(names) == {"a", "b", "c"}
    home.off = {"a", "b"}
    home.wait(lambda: ("some-back", None) in home.events())
    home.wait(lambda: len(home.decisions()) > 0 and home.decisions()[-1]["sensor"] == "c")


def test_an_energy_budget_survives_a_kill_and_is_in_the_health_report(home):
    """All that is activated in a period has to fit; the period is usually longer than the test."""
    home.configure(policy="round-robin", extra=ENERGY.format(budget=BUDGET))
    home.config.write_text('health = "1s"\n' + home.config.read_text())
    began = time.monotonic()
    home.start()
    for _ in range(2):
        home.wait_for_activations(1)
        home.wait_for_checkpoint()
        home.kill()
        home.start()
        home.wait_for_log("ready")
    before = len(home.on("health"))
    home.wait(lambda: len(home.on("health")) >= before + 3)
    energy, activations = home.on("health")[-1]["fields"]["lab"]["energy"], len(home.activations)
    over = int((time.monotonic() - began) / PERIOD)  # periods that are over
    assert activations <= (1 + over) * BUDGET / COST
    assert energy["unit"] == "mAh"
    # After a kill, all that may have been spent is charged: it may be more than the budget.
    assert energy["left"] == pytest.approx(max(0.0, BUDGET - energy["spent"]))
    assert energy["spent"] >= COST * (activations - 1) - over * BUDGET
    assert energy["saved"] > 0
    home.stop()


def test_all_intervals_of_a_daemon_on_a_full_disk_are_charged_after_a_kill(home, small_disk):
    """Nothing that this daemon spent is stored, however long it runs."""
    disk = small_disk("mode=700")
    home.configure(policy="round-robin", dir=disk, extra=ENERGY.format(budget=1000))
    home.config.write_text('health = "1s"\n' + home.config.read_text())
    home.state = disk / f"{home.name}.state"
    home.start()
    home.wait_for_checkpoint()
    with suppress(OSError), (disk / "filler").open("wb", buffering=0) as filler:
        while True:
            filler.write(bytes(1024))
    home.wait_for_log("state: cannot be stored")
    home.wait_for_activations(60)
    home.kill()
    home.wait_for_sensors()
    spent, before = len(home.activations) * COST, len(home.on("health"))
    home.start()
    home.wait(lambda: len(home.on("health")) >= before + 3)
    assert home.on("health")[-1]["fields"]["lab"]["energy"]["spent"] >= spent


def test_a_sensor_that_reports_a_low_charge_is_not_activated(home):
    home.configure(
        policy="round-robin", extra=ENERGY.format(budget=1000) + BATTERY.format(name=home.name)
    )
    text = home.config.read_text().replace('/t" }', '/t", payload = "json", value = "t" }')
    home.config.write_text(text)
    home.start()
    home.wait(lambda: home.activations)
    home.listener.publish(f"{home.name}/b/t", b'{"t": 21.0, "battery": 15}')
    home.wait(lambda: ("battery-low", "b") in home.events())
    before = len(home.decisions())
    home.wait(lambda: len(home.decisions()) >= before + 10)
    assert "b" not in [each["sensor"] for each in home.decisions()[before + 2 :]]
    home.listener.publish(f"{home.name}/b/t", b'{"t": 21.0}')
    home.listener.publish(f"{home.name}/b/t", b'{"t": 21.0, "battery": 100}')
    home.wait(lambda: home.decisions()[-1]["sensor"] == "b")
