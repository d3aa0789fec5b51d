"""The processes of one test: a broker with the rules of deploy/acl, sensors, a daemon, and hass."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import paho.mqtt.client as paho

PROJECT = Path(__file__).resolve().parents[3]
PORT = 1883  # in the test's own network namespace
BASE = "edge_tvbo/lab"
HASS_CONFIG = """
homeassistant:
  {name: Test, latitude: 52.0, longitude: 13.0, elevation: 40, unit_system: metric,
   time_zone: UTC, currency: EUR, country: DE}
api:
config:
frontend:
history:
logbook:
recorder: {commit_interval: 1}
automation: !include automations.yaml
lovelace:
  dashboards:
    edge-tvbo: {mode: yaml, title: Edge TVBO, icon: "mdi:radar", filename: dashboard.yaml}
logger: {default: warning, logs: {homeassistant.components.mqtt: info}}
"""
FIELD = """
[fields.{field}]
unit = "{unit}"
interval = "{interval}"
reply_timeout = "500ms"
sensors = {sensors}
reading = {{ topic = "lab/{{sensor}}/{field}" }}
{rest}
"""
KERNEL = 'kernel = { name = "exchangeable", variance = 9.0, noise_variance = 0.05, mean = 20.0 }'
LIVE = 'activate = { mode = "live", topic = "lab/{sensor}/activate", payload = "%s" }'


def wait_for(condition, timeout=20.0, step=0.1):
    """Return the result of `condition` once it is true, or the last one after `timeout` seconds."""
    end = time.monotonic() + timeout
    while not (result := condition()) and time.monotonic() < end:
        time.sleep(step)
    return result


class Processes:
    """Processes by their names; their output goes to a file each."""

    def __init__(self, directory):
        self.directory, self._running = directory, {}

    def start(self, name, *command, **options):
        with (self.directory / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(
                [*map(str, command)], cwd=self.directory, stdout=log, stderr=log, **options
            )

    def stop(self, name, how=signal.SIGTERM):
        process = self._running.pop(name)
        process.send_signal(how)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def signal(self, name, number):
        self._running[name].send_signal(number)

    def stop_all(self):
        for name in list(self._running):
            self.stop(name)

    def log(self, name):
        return (self.directory / f"{name}.log").read_text(errors="replace")


class Client:
    """A login at the broker; it keeps what is retained."""

    def __init__(self, user, *filters, on_message=None):
        self.retained = {}  # the last payload of each topic
        self._on_message = on_message
        client = self._client = paho.Client(paho.CallbackAPIVersion.VERSION2, f"client-{user}")
        client.username_pw_set(user, user)
        client.on_connect = lambda *_: [client.subscribe(each, 1) for each in filters]
        client.on_message = self._take
        client.reconnect_delay_set(1, 1)
        client.connect("127.0.0.1", PORT)
        client.loop_start()

    def _take(self, client, _, message):
        if message.payload:
            self.retained[message.topic] = message.payload
        else:
            self.retained.pop(message.topic, None)
        if self._on_message:
            self._on_message(client, message)

    def document(self, topic):
        """Return a document that is retained; None without one."""
        payload = self.retained.get(f"{BASE}/{topic}")
        return None if payload is None else json.loads(payload)

    def publish(self, topic, payload, *, retain=False):
        self._client.publish(topic, payload, 1, retain)

    def close(self):
        self._client.disconnect()
        self._client.loop_stop()


def quick_value(login):
    """Return a reading that differs between sensors and changes within a second."""
    return 20.0 + sum(login.encode()) % 5 + time.time() % 1


class Sensors:
    """Sensors with a login each: they reply to an activation with the reading of one field."""

    def __init__(self, names, value):
        self.silent, self._value = set(), value
        for name in names:
            Client(name, f"lab/{name}/activate", on_message=partial(self._reply, name))

    def _reply(self, name, client, message):
        if name not in self.silent:
            topic = f"lab/{name}/{message.payload.decode()}"
            client.publish(topic, f"{self._value(name):.2f}", 1)


class Lab:
    """The broker, the sensors, the daemon and Home Assistant."""

    LOGINS = ("edge-tvbo", "homeassistant", "operator", "watcher")

    def __init__(self, directory, chroot, sensors, value=quick_value):
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        directory.chmod(0o755)
        self.directory, self.chroot = directory, Path(chroot)
        self.processes = Processes(directory)
        self._configure_broker([*self.LOGINS, *sensors])
        self.start_broker()
        self.sensors = Sensors(sensors, value)
        self.watcher = Client("watcher", f"{BASE}/#")

    # --- the broker -------------------------------------------------------------------------------

    def _configure_broker(self, users):
        passwords = self.directory / "passwords"
        passwords.touch(0o700)
        for user in users:
            subprocess.run(["mosquitto_passwd", "-b", passwords, user, user], check=True)
        rules = (PROJECT / "deploy/acl").read_text()
        rules += "\npattern write lab/%u/humidity\nuser edge-tvbo\ntopic read lab/+/humidity\n"
        (self.directory / "acl").write_text(rules)
        (self.directory / "acl").chmod(0o700)
        (self.directory / "mosquitto.conf").write_text(
            f"listener {PORT} 127.0.0.1\nallow_anonymous false\npersistence false\nuser root\n"
            f"password_file {passwords}\nacl_file {self.directory}/acl\nset_tcp_nodelay true\n"
        )

    def start_broker(self):
        self.processes.start("broker", "mosquitto", "-c", self.directory / "mosquitto.conf")
        time.sleep(1.0)

    # --- the daemon -------------------------------------------------------------------------------

    def configure(self, fields, *, top="", homeassistant="", silence="8s"):
        """Write the configuration; `fields` maps names to (sensors, unit, interval, rest)."""
        text = (
            f'instance = "lab"\nhealth = "2s"\n{top}\n[mqtt]\nport = {PORT}\n'
            f'silence = "{silence}"\n'
            f'username = "edge-tvbo"\npassword = "edge-tvbo"\n[state]\ndir = "state"\n'
            f"[homeassistant]\n{homeassistant}\n"
        )
        for name, (sensors, unit, interval, rest) in fields.items():
            text += FIELD.format(
                field=name, unit=unit, interval=interval, sensors=json.dumps(sensors), rest=rest
            )
        (self.directory / "edge.toml").write_text(text)

    def start_daemon(self):
        self.processes.start("daemon", *self.edge_tvbo("run", "edge.toml"), env=self._environment())

    def reload_daemon(self):
        self.processes.signal("daemon", signal.SIGHUP)

    def run(self, *words):
        """Return the result of a command of `edge-tvbo`."""
        command = self.edge_tvbo(*words)
        return subprocess.run(
            command, cwd=self.directory, env=self._environment(), capture_output=True, text=True
        )

    @staticmethod
    def edge_tvbo(*words):
        return sys.executable, "-m", "edge_tvbo", *words

    @staticmethod
    def _environment():
        return os.environ | {"PYTHONPATH": f"{PROJECT}:{PROJECT}/adapters"}

    # --- Home Assistant ---------------------------------------------------------------------------

    def configure_hass(self):
        config = self.chroot / "config"
        shutil.rmtree(config, ignore_errors=True)
        config.mkdir()
        (config / "configuration.yaml").write_text(HASS_CONFIG)
        (config / "automations.yaml").write_text("[]")
        blueprints = config / "blueprints/automation/edge_tvbo"
        blueprints.mkdir(parents=True)
        examples = PROJECT / "deploy/home-assistant"
        shutil.copy(examples / "poll-recommended-sensor.yaml", blueprints)
        shutil.copy(examples / "dashboard.yaml", config)

    def start_hass(self):
        environment = {
            "HOME": "/root",
            "PATH": "/ha/bin:/usr/sbin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
        }
        command = ("chroot", self.chroot, "/ha/bin/hass", "--config", "/config", "--skip-pip")
        self.processes.start("hass", *command, env=environment)
