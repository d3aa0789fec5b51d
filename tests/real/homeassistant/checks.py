"""A real Home Assistant beside a real broker and a real daemon: what its users see, and its log.

    checks.py CHROOT VERSION

`run.sh` starts this program in a network namespace of its own, in which all ports are free.
"""

import json
import re
import signal
import sys
import time
import traceback
from pathlib import Path

from client import Availability, HomeAssistant
from expected import PREFIX, entity_id, expected_states, same
from lab import BASE, KERNEL, LIVE, Client, Lab, wait_for

DISCOVERY = "homeassistant/device/edge_tvbo_lab/config"
EXPECTED_CHECKS = 48
DECISIONS = 50  # that are compared
MAX_UNAVAILABLE_S = 2.0
NAMES = {"mote-1": "Attic", "mote-2": "Cold cellar"}
MOTES = ("mote-1", "mote-2", "mote-3")
LOGINS = (*MOTES, "mote-4", "mote-5", *NAMES.values(), "Loft")  # a name is in the topics, too
# Lines of Home Assistant about its connection to the broker that we end are not about us.
ABOUT_THE_BROKER = re.compile(
    "Disconnected from MQTT|Failed to connect|connection was lost|refused"
)


class Test:
    """The checks, and what they share."""

    def __init__(self, chroot, version):
        self.version, self.results = version, []
        self.lab = Lab(Path(chroot).parent / "run", chroot, LOGINS)
        self.home = HomeAssistant()
        self.names, self.decisions, self.mismatches = {}, 0, []
        self.message = Client("homeassistant", "homeassistant/#")

    def check(self, name, good, evidence=""):
        self.results.append(bool(good))
        details = "" if good else f" | {str(evidence)[:600]}"
        print(f"{'PASS' if good else 'FAIL'} {self.version}: {name}{details}", flush=True)

    # --- configurations -----------------------------------------------------------------------

    def configure(self, sensors=MOTES, *, interval="1s", names=None, humidity=True, **options):
        """Write a configuration of two fields."""
        names = NAMES if names is None else names
        names = {sensor: name for sensor, name in names.items() if sensor in sensors}
        temperature = [
            options.pop("policy", KERNEL),
            f"names = {{ {', '.join(f'{n} = {json.dumps(v)}' for n, v in names.items())} }}",
            options.pop("activate", LIVE % "temperature"),
            options.pop("alert", "alert = { threshold = 22.5 }"),
            'energy = { field_budget = 20000, battery = { topic = "lab/{sensor}/battery" } }',
        ]
        fields = {"temperature": (list(sensors), "°C", interval, "\n".join(temperature))}
        if humidity:
            rest = "\n".join([KERNEL, 'objective = "min"', LIVE % "humidity"])
            fields["humidity"] = (list(sensors), "%", interval, rest)
        old = 'oldest_version = "2025.10"\n' if self.version < "2025.11" else ""
        links = 'dashboard_url = "http://gateway:8080/"\nsupport_url = "http://wiki/"\n'
        self.names = {
            "temperature": {sensor: names.get(sensor, sensor) for sensor in sensors},
            "humidity": {sensor: sensor for sensor in sensors},
        }
        self.lab.configure(fields, homeassistant=old + links, **options)

    def components(self):
        """Return the components of the discovery message, without the removed ones."""
        message = json.loads(self.message.retained[DISCOVERY])
        return {key: each for key, each in message["components"].items() if len(each) > 1}

    def reload(self):
        """Let the daemon read the configuration again, and wait until it has done so."""
        retained = self.lab.watcher.retained
        before = retained.get(f"{BASE}/event")
        self.lab.reload_daemon()
        wait_for(lambda: retained.get(f"{BASE}/event") != before, 10.0)

    # --- comparisons ----------------------------------------------------------------------------

    def enabled(self, field):
        """Return the enabled entities of a field."""
        entities = self.home.entities().items()
        return [each for each, entry in entities if field in each and not entry["disabled_by"]]

    def differences(self):
        """Return the entities whose state is not that of the retained topic."""
        states = self.home.states()
        wanted = expected_states(self.components(), dict(self.lab.watcher.retained), self.names)
        return {
            entity: (states.get(entity, {}).get("state"), state)
            for entity, state in wanted.items()
            if (entity in states or entity not in self.disabled())
            and not same(states.get(entity, {}).get("state"), state)
        }

    def disabled(self):
        """Return the entities that are disabled at first."""
        return {
            entity_id(each)
            for each in self.components().values()
            if not each.get("enabled_by_default", True)
        }

    def agrees(self, timeout=20.0):
        """Return whether every entity has the state of its topic, within `timeout` seconds."""
        return wait_for(lambda: not self.differences(), timeout)

    def follow(self, decisions):
        """Compare every entity with its topic after each of the next decisions."""
        for _ in range(decisions):
            before = self.interval()
            is_new = wait_for(lambda: self.interval() != before, 20.0, 0.02)  # noqa: B023 - at once
            self.decisions += is_new
            if not self.agrees(2.0):
                self.mismatches.append((self.interval(), self.differences()))

    def interval(self):
        document = self.lab.watcher.document("temperature/selected")
        return document and document["interval"]

    def state(self, entity):
        return self.home.states().get(entity, {}).get("state")

    def becomes(self, entity, *states, timeout=20.0):
        return wait_for(lambda: self.state(entity) in states, timeout)

    # --- the checks, in order -------------------------------------------------------------------

    def run(self):
        """Run all checks."""
        self.configure()
        self.lab.start_daemon()
        self.lab.configure_hass()
        self.lab.start_hass()
        self.home.onboard()
        self.entry = self.home.add_mqtt(1883, "homeassistant", "homeassistant")
        for part in (
            *(self.entities, self.fifty_decisions, self.changes, self.commands, self.problems),
            *(self.without, self.blueprint, self.log, self.removal),
        ):
            part()

    def entities(self):
        """Check the device and its entities, those that are disabled at first too."""
        come = self.becomes(f"binary_sensor.{PREFIX}_problem", "on", "off", timeout=30.0)
        self.check("entities come, by the rules of deploy/acl", come, self.home.states())
        device = self.home.device("edge_tvbo_lab")
        link = device.get("configuration_url")
        self.check("the device links to the dashboard", link == "http://gateway:8080/", device)
        wanted = {entity_id(each) for each in self.components().values()}
        shown = wait_for(lambda: wanted == set(self.home.entities()))
        self.check(
            "each component is an entity of that id", shown, wanted ^ {*self.home.entities()}
        )
        disabled = self.home.enable_all()
        self.check("estimates and ignored sensors are disabled at first", len(disabled) == 12)
        follower = Availability(self.home)
        self.home.request("POST", f"/api/config/config_entries/entry/{self.entry}/reload")
        time.sleep(3.0)
        agrees = self.agrees(10.0)
        self.check("states are those of the topics after a reload", agrees, self.differences())
        seconds, entity = follower.longest()
        self.check("... after at most 2 s", seconds <= MAX_UNAVAILABLE_S, (seconds, entity))
        shown = self.home.states()[f"sensor.{PREFIX}_temperature_hotspot_sd"]["attributes"]
        delta = None if self.version < "2025.11" else "temperature_delta"
        self.check("device class of an uncertainty", shown.get("device_class") == delta, shown)
        coldest = self.home.states()[f"sensor.{PREFIX}_humidity_hotspot"]["attributes"]
        named = coldest["friendly_name"].endswith("Humidity coldest spot")
        kind = coldest["device_class"] == "humidity"
        self.check("names and device classes of the field with objective min", named and kind)

    def fifty_decisions(self):
        """Compare all states after each of fifty decisions, through restarts."""
        self.follow(20)
        self.lab.processes.stop("daemon", signal.SIGKILL)
        gone = self.becomes(f"sensor.{PREFIX}_temperature_hotspot", "unavailable")
        self.check("kill -9: unavailable", gone)
        self.lab.start_daemon()
        self.check("... and back again", self.agrees(), self.differences())
        self.follow(10)
        self.lab.processes.stop("broker")
        gone = self.becomes(f"sensor.{PREFIX}_temperature_hotspot", "unavailable")
        self.lab.start_broker()
        self.check("states come back after a restart of the broker", gone and self.agrees(60.0))
        self.follow(10)
        self.lab.processes.stop("hass")
        self.lab.start_hass()
        self.home.log_in_again()
        self.check("Home Assistant restarts", self.agrees(90.0), self.differences())
        self.follow(10)
        name = f"every state is that of its topic, {DECISIONS} decisions"
        self.check(name, not self.mismatches and self.decisions == DECISIONS, self.mismatches)

    def changed(self, name, **configuration):
        """Reload the daemon with another configuration, and check the states after it."""
        before = set(self.home.states())
        follower = Availability(self.home)
        self.configure(interval="10s", **configuration)
        self.reload()
        time.sleep(1.5)
        agrees = self.agrees(4.0)
        self.check(f"{name}: states are those of the topics", agrees, self.differences())
        time.sleep(1.0)
        seconds, entity = follower.longest()
        kept = entity is None or entity in before
        self.check(f"... after at most 2 s: {seconds:.1f}", seconds <= 2.0 or not kept, entity)

    def changes(self):
        """Change sensors and fields while the next decision is far away."""
        more, less = (*MOTES, "mote-4"), MOTES[:-1]
        self.changed("longer intervals")
        self.changed("a sensor is added", sensors=more)
        self.follow(1)
        self.home.call("select.select_option", **self.poll("mote-4"))
        self.check("the new sensor can be polled", self.becomes(self.selected, "mote-4"))
        self.changed("the selected sensor is removed")
        self.changed("a sensor gets another name", names=NAMES | {"mote-1": "Loft"})
        self.changed("a sensor gets another id", sensors=(*less, "mote-5"))
        before = [each for each in self.lab.watcher.retained if "/humidity/" in each]
        self.changed("a field is removed", humidity=False)
        # Version 2025.10 keeps entities that are disabled, until the user deletes them.
        left = wait_for(lambda: not self.enabled("humidity")) or self.enabled("humidity")
        self.check("... with its entities", left is True, left)
        late = Client("operator", f"{BASE}/#")
        time.sleep(1.0)
        left = [each for each in late.retained if "/humidity/" in each]
        self.check("... and its retained topics", before and not left, left)
        late.close()

    # --- commands -------------------------------------------------------------------------------

    selected = f"sensor.{PREFIX}_temperature_selected"

    def poll(self, option):
        return {"entity_id": f"select.{PREFIX}_temperature_poll", "option": option}

    def commands(self):
        """Use the switches, buttons and the select."""
        self.configure()
        self.reload()
        self.agrees()
        for key in ("pause", "temperature_pause"):
            switch = f"switch.{PREFIX}_{key}"
            self.becomes(switch, "off")  # Home Assistant ignores a call while it is unavailable
            self.home.call("switch.turn_on", entity_id=switch)
            on = self.becomes(switch, "on") and self.becomes(self.selected, "unavailable")
            pauses = {
                self.state(f"switch.{PREFIX}_{each}") for each in ("pause", "temperature_pause")
            }
            self.check(f"{key} is shown, and nothing is selected", on and pauses == {"on"}, pauses)
            self.home.call("switch.turn_off", entity_id=switch)
            self.becomes(self.selected, *NAMES.values(), "mote-3")
        self.changed("longer intervals")
        self.home.call("select.select_option", **self.poll("Cold cellar"))
        polled = self.becomes(self.selected, "Cold cellar") and self.agrees()
        self.check("a sensor is polled by its name", polled, self.state(self.selected))
        before = self.lab.watcher.document("health")["fields"]["temperature"]["answered"]
        self.home.call("button.press", entity_id=f"button.{PREFIX}_temperature_poll_again")
        again = wait_for(
            lambda: (
                self.lab.watcher.document("health")["fields"]["temperature"]["answered"] > before
            )
        )
        self.check("... and again by the button", again)
        ignored = f"switch.{PREFIX}_temperature_cold_cellar_ignored"
        self.home.call("switch.turn_on", entity_id=ignored)
        self.check("a sensor is ignored", self.becomes(ignored, "on") and self.agrees())
        self.home.call("switch.turn_off", entity_id=ignored)
        number = f"number.{PREFIX}_temperature_alert_threshold"
        self.home.call("number.set_value", entity_id=number, value=21.25)
        shown = self.becomes(number, "21.25") and self.agrees()
        alert = self.lab.watcher.document("temperature/alert")
        self.check("a threshold is set", shown and alert["threshold"] == 21.25, alert)
        self.home.call("button.press", entity_id=f"button.{PREFIX}_reset")
        events = f"event.{PREFIX}_temperature_events"

        def kind():
            return self.home.states()[events]["attributes"].get("event_type")

        self.check("reset is an event", wait_for(lambda: kind() == "model-reset"), kind())

    def problems(self):
        """Silence all sensors, and then let them reply again."""
        self.configure(humidity=False)
        self.reload()
        problem = f"binary_sensor.{PREFIX}_problem"
        self.becomes(problem, "off")
        self.lab.sensors.silent.update(LOGINS)
        on = self.becomes(problem, "on", timeout=30.0)
        health = self.lab.watcher.document("health")
        early = len(health["fields"]["temperature"]["suspects"]) < len(MOTES)
        self.check("a problem is shown before all sensors are unresponsive", on and early, health)
        self.lab.sensors.silent.clear()
        self.check("... and its end", self.becomes(problem, "off", timeout=40.0), health)

    def without(self):
        """Check the entities of daemons that have no model, or that execute no commands."""
        policy = f'policy = {{ name = "round-robin" }}\n{KERNEL}'
        self.changed("a policy without a model", policy=policy, alert="", humidity=False)
        odd = [
            each for each in self.home.states() if re.search("hotspot|estimate|reset$|alert", each)
        ]
        self.check(
            "... has no entities of a model or an alert",
            f"button.{PREFIX}_reset" in odd and len(odd) == 1,
            odd,
        )
        self.changed("no commands", top="commands = false")
        controls = re.compile("switch|button|select|number")
        odd = [each for each in self.home.states() if controls.match(each)]
        self.check("... no controls", not odd, odd)

    def blueprint(self):
        """Let Home Assistant itself poll what mode advise recommends."""
        publish = {"topic": "homeassistant/polled", "payload": "{{ sensor }} {{ entity }}"}
        automation = {
            "alias": "poll",
            "use_blueprint": {
                "path": "edge_tvbo/poll-recommended-sensor.yaml",
                "input": {
                    "recommendation": self.selected,
                    "actions": [{"action": "mqtt.publish", "data": publish}],
                },
            },
        }
        self.home.request("POST", "/api/config/automation/config/poll", automation)
        self.configure(activate="")
        self.reload()
        polled = self.message.retained
        recommended = wait_for(lambda: polled.get("homeassistant/polled"))
        sensor, entity = (recommended or b"- -").decode().split()
        good = sensor in MOTES and entity == f"sensor.{sensor.replace('-', '_')}_temperature"
        self.check("the blueprint polls the recommended sensor", good, recommended)

    def removal(self):
        """Remove the device."""
        self.lab.processes.stop("daemon")
        done = self.lab.run("ha", "remove", "edge.toml")
        gone = wait_for(lambda: not self.home.states())
        evidence = done.stdout + done.stderr, list(self.home.states())
        self.check("ha remove", gone, evidence)

    def log(self):
        """Check that Home Assistant has logged nothing about us.

        After the removal of a device, 2025.10 logs warnings about its own clearing of the message.
        """
        lines = self.lab.processes.log("hass").splitlines()
        bad = [
            each
            for each in lines
            if re.search("WARNING|ERROR|CRITICAL", each)
            and re.search("components.mqtt|edge_tvbo", each)
            and not ABOUT_THE_BROKER.search(each)
        ]
        self.check("nothing is logged about us at WARNING or above", not bad, "\n".join(bad[:5]))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    test = Test(*sys.argv[1:])
    try:
        test.run()
    except BaseException:
        traceback.print_exc()
        test.check("the test reaches its end", False, traceback.format_exc()[-400:])
    finally:
        test.lab.processes.stop_all()
    ran = len(test.results)
    test.check(f"{EXPECTED_CHECKS} checks ran", ran == EXPECTED_CHECKS, ran)
    print(f"END {test.version}", flush=True)
