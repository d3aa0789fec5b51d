"""The flows of deploy/node-red in a real Node-RED, beside a real broker and a real daemon.

    checks.py NODE_RED DIRECTORY

NODE_RED is the directory where npm has installed Node-RED; DIRECTORY is for files. The flows are
the shipped flows with the addresses of this test; their debug nodes also write to the log.
"""

import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import paho.mqtt.client as paho

PROJECT = Path(__file__).resolve().parents[3]
FLOWS = PROJECT / "deploy/node-red/flows.json"
BASE = "edge_tvbo/edge"
READ_URL = '"http://" & sensor & ".local/temperature"'  # in the shipped flows
CONFIGURATION = """
health = "2s"
[mqtt]
port = {port}
[state]
dir = "state"
[fields.temperature]
unit = "°C"
interval = "1s"
reply_timeout = "700ms"
sensors = ["hall", "attic", "kitchen"]
reading = {{ topic = "node-red/{{sensor}}/reading" }}
activate = {{ mode = "live", topic = "node-red/{{sensor}}/activate" }}
kernel = {{ name = "exchangeable", variance = 9.0, noise_variance = 0.05, mean = 20.0 }}
alert = {{ threshold = 30.0 }}
"""


def free_port():
    """Return a port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(condition, timeout=30.0):
    """Return the result of `condition` once it is true, or the last one after `timeout` seconds."""
    end = time.monotonic() + timeout
    while not (result := condition()) and time.monotonic() < end:
        time.sleep(0.1)
    return result


class Thermometers:
    """Sensors that only speak HTTP; those in `broken` reply with an error."""

    def __init__(self):
        self.values = {"hall": 20.0, "attic": 22.0, "kitchen": 21.0}
        self.broken = set()
        sensors = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                sensor = self.path.split("/")[1]
                self.send_response(500 if sensor in sensors.broken else 200)
                self.end_headers()
                self.wfile.write(f"{sensors.values[sensor]:.2f}".encode())

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        Thread(target=self._server.serve_forever, daemon=True).start()


class Laboratory:
    """The broker, Node-RED and the daemon, each a process with a log."""

    def __init__(self, node_red, directory):
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        self.directory, self.thermometers = directory, Thermometers()
        self.port, self.node_red_port = free_port(), free_port()
        self._running = {}
        (directory / "settings.js").write_text(
            f"module.exports = {{ uiPort: {self.node_red_port}, uiHost: '127.0.0.1' }};"
        )
        (directory / "mosquitto.conf").write_text(
            f"listener {self.port} 127.0.0.1\nallow_anonymous true\nset_tcp_nodelay true\n"
        )
        (directory / "edge.toml").write_text(CONFIGURATION.format(port=self.port))
        (directory / "flows.json").write_text(json.dumps(self._flows()))
        self._commands = {
            "broker": ["mosquitto", "-c", "mosquitto.conf"],
            "node-red": [
                "node",
                node_red / "node_modules/node-red/red.js",
                "--userDir",
                directory,
                "flows.json",
            ],
            "daemon": [sys.executable, "-m", "edge_tvbo", "run", "edge.toml"],
        }

    def _flows(self):
        """Return the shipped flows with the addresses of this test."""
        text = FLOWS.read_text()
        assert text.count(json.dumps(READ_URL)) == 1
        here = f'"http://127.0.0.1:{self.thermometers.port}/" & sensor & "/temperature"'
        nodes = json.loads(text.replace(json.dumps(READ_URL), json.dumps(here)))
        for node in nodes:
            if node["type"] == "mqtt-broker":
                node["port"] = str(self.port)
            if node["type"] == "debug":
                node["console"] = True
        return nodes

    def start(self, name):
        with (self.directory / f"{name}.log").open("ab") as log:
            command = [*map(str, self._commands[name])]
            self._running[name] = subprocess.Popen(
                command, cwd=self.directory, stdout=log, stderr=log
            )

    def stop(self, name):
        process = self._running.pop(name)
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def stop_all(self):
        for name in list(self._running):
            self.stop(name)

    def shown(self, node):
        """Return what a debug node of Node-RED has shown."""
        return re.findall(rf"\[debug:{re.escape(node)}\] (.*)", self._log())

    def press(self, button):
        """Press a button in the editor of Node-RED."""
        url = f"http://127.0.0.1:{self.node_red_port}/inject/{button}"
        urllib.request.urlopen(urllib.request.Request(url, b"", method="POST"), timeout=10).close()

    def problems(self):
        """Return the errors in the log of Node-RED, and the types of nodes that it misses."""
        return re.findall(r".*\[error\].*|.*missing types.*(?:\n.*- .*)*", self._log())

    def has_started(self):
        return "Started flows" in self._log()

    def _log(self):
        return (self.directory / "node-red.log").read_text(errors="replace")


class Watcher:
    """A client that keeps the newest document of each topic of the daemon."""

    def __init__(self, port):
        self.newest = {}
        client = paho.Client(paho.CallbackAPIVersion.VERSION2)
        client.on_connect = lambda *_: client.subscribe(f"{BASE}/#", 1)
        client.on_message = lambda _, __, message: self.newest.update(
            {message.topic.removeprefix(f"{BASE}/"): message.payload}
        )
        client.reconnect_delay_set(1, 1)
        client.connect("127.0.0.1", port)
        client.loop_start()

    def document(self, topic):
        return json.loads(self.newest.get(topic) or "null")

    def field(self):
        """Return the health of the field, {} before the first."""
        return (self.document("health") or {"fields": {}})["fields"].get("temperature", {})


def check(name, good, evidence=""):
    print(f"{'PASS' if good else 'FAIL'} {name}" + ("" if good else f" | {evidence!s:.500}"))
    sys.stdout.flush()


def readings(laboratory, watcher):
    """Check that Node-RED reads the sensors."""
    health = watcher.field
    check("20 replies", wait_for(lambda: health().get("answered", 0) >= 20, 60.0), health())
    check("no time-out", health()["missed"] == 0, health())
    check("no rejected reading", health()["refused"] == {}, health())
    posterior = watcher.document("temperature/posterior")
    last = dict(zip(posterior["sensors"], posterior["last"], strict=True))
    check("the readings are those of the sensors", last == laboratory.thermometers.values, last)
    text = watcher.document("temperature/selected")["text"]
    found = wait_for(lambda: text in laboratory.shown("the decision"))
    check("Node-RED shows the decision", found, text)


def alerts(laboratory, watcher):
    """Check that an alert is shown once when it begins, and once when it is over."""
    laboratory.thermometers.values["attic"] = 35.0
    check("the alert is shown", wait_for(lambda: laboratory.shown("an alert")))
    interval = watcher.field()["interval"]
    wait_for(lambda: watcher.field()["interval"] >= interval + 5)
    shown = laboratory.shown("an alert")
    check("the alert is shown once", len(shown) == 1, shown)
    laboratory.thermometers.values["attic"] = 22.0
    check("its end is shown", wait_for(lambda: laboratory.shown("the alert is over")))


def broken_sensor(laboratory, watcher):
    """Check that a sensor that replies with errors is shown, and is backed off by the daemon."""
    laboratory.thermometers.broken.add("attic")
    no_reading = "attic: no reading, status 500"
    check("no reading", wait_for(lambda: no_reading in laboratory.shown("no reading")))
    lost = wait_for(lambda: any("attic" in each for each in laboratory.shown("an event")), 60.0)
    check("the lost sensor is shown", lost, laboratory.shown("an event"))
    laboratory.thermometers.broken.clear()


def commands(laboratory, watcher):
    """Check the buttons of the flow."""
    laboratory.press("pause")
    check("pause", wait_for(lambda: watcher.field().get("paused")), watcher.field())
    laboratory.press("resume")
    resumed = wait_for(lambda: not watcher.field()["paused"])
    check("resume, both responses ok", resumed and laboratory.shown("the response") == ["ok"] * 2)


def restarts(laboratory, watcher):
    """Check that the flows go on after restarts of the broker and of Node-RED."""
    for name in ("broker", "node-red"):
        laboratory.stop(name)
        laboratory.start(name)
        replies = watcher.field()["answered"]
        go_on = wait_for(lambda before=replies: watcher.field()["answered"] >= before + 5, 90.0)
        check(f"readings after a restart of {name}", go_on, watcher.field())


def main():
    laboratory = Laboratory(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
    try:
        laboratory.start("broker")
        laboratory.start("node-red")
        check("Node-RED starts the flows", wait_for(laboratory.has_started, 60.0))
        laboratory.start("daemon")
        watcher = Watcher(laboratory.port)
        for part in (readings, alerts, broken_sensor, commands, restarts):
            part(laboratory, watcher)
        check("Node-RED logs no error", not laboratory.problems(), laboratory.problems())
    finally:
        laboratory.stop_all()


main()
