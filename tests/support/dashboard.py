"""Dashboard test helpers: processes, a gateway with replying sensors, and the page in a browser."""

import json
import math
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import MappingProxyType

from support.mosquitto import Peer
from support.paths import ROOT

SCREENSHOTS = os.environ.get("EDGE_TVBO_SCREENSHOTS")  # a folder, for people: no test compares them
TIMEOUT_S = 60.0  # long enough for a busy machine


def wait_for(condition, timeout=TIMEOUT_S):
    """Return the result of `condition` once it is true."""
    deadline = time.monotonic() + timeout
    while not (result := condition()):
        assert time.monotonic() < deadline, f"not within {timeout} s"
        time.sleep(0.05)
    return result


# --- processes ------------------------------------------------------------------------------------


class EdgeTvboProcess:
    """One `edge-tvbo` command that runs until it is stopped."""

    def __init__(self, log, *arguments):
        self._log = log
        with log.open("wb") as output:
            command = [sys.executable, "-m", "edge_tvbo", *map(str, arguments)]
            self._process = subprocess.Popen(
                command, stdout=output, stderr=subprocess.STDOUT, cwd=ROOT
            )
        self.pid = self._process.pid

    def output(self):
        return self._log.read_text()

    def wait_for_output(self, pattern):
        """Return the match of `pattern` in the output, once there is one."""

        def match():
            assert self._process.poll() is None, self.output()
            return re.search(pattern, self.output())

        return wait_for(match)

    def stop(self, number=signal.SIGTERM):
        """Stop the process and return its exit status."""
        if self._process.poll() is None:
            self._process.send_signal(number)
        return self._process.wait(TIMEOUT_S)


class DashboardProcess(EdgeTvboProcess):
    """A dashboard and its address."""

    def __init__(self, log, *arguments, port=0):
        super().__init__(log, "dashboard", *arguments, "--port", port)
        self.address = self.wait_for_output(r"dashboard: (http://\S+/)")[1]
        self.port = int(self.wait_for_output(r"dashboard: http://[^/]*:(\d+)")[1])

    def stop(self, number=signal.SIGTERM):
        self._process.send_signal(signal.SIGCONT)
        return super().stop(number)

    def suspend(self):
        """Send nothing more to the pages, which do not notice until they miss the heartbeat."""
        self._process.send_signal(signal.SIGSTOP)


# --- a gateway with sensors -----------------------------------------------------------------------


class ReplyingSensors:
    """Simulated sensors that reply at once to an activation.

    The `unresponsive` ones do not reply, the `implausible` ones reply 85 °C, as a sensor whose
    supply voltage is too low, and the `stuck` ones always reply the same.
    """

    def __init__(self, port, positions, names):
        self._positions = positions
        self._names = names
        self._ids = {name: sensor for sensor, name in names.items()}
        self._rng = random.Random(7)
        self.unresponsive = set()
        self.implausible = set()
        self.stuck = set()
        self.peer = Peer(port, ["lab/+/activate"])
        self.peer.client.on_message = lambda client, userdata, message: self._reply(message)

    def _reply(self, message):
        name = message.topic.split("/")[1]
        sensor = self._ids.get(name, name)
        if sensor not in self.unresponsive:
            self.report(sensor)

    def report(self, sensor):
        """Publish a reading of a sensor."""
        name = self._names.get(sensor, sensor)
        self.peer.client.publish(f"lab/{name}/t", f"{self._value(sensor):.2f}", qos=1)

    def _value(self, sensor):
        if sensor in self.implausible:
            return 85.0
        if sensor in self.stuck:
            return 23.0
        x, y = self._positions[sensor]
        angle = time.time() / 40
        distance = math.hypot(x - 20 - 12 * math.cos(angle), y - 12 - 8 * math.sin(angle))
        return 20 + 7 * math.exp(-distance / 9) + self._rng.gauss(0, 0.1)


CONFIG = """\
instance = "{instance}"
health = "1s"

[mqtt]
port = {port}
username = "gateway"
password = "hunter2-secret"
reconnect = {{ min = "200ms", max = "1s" }}
"""
STATE = """
[state]
dir = "{directory}/state"
checkpoint = "1s"
history = "16MiB"
"""
FIELD = """
[fields.{field}]
unit = "°C"
interval = "1s"
reply_timeout = "400ms"
policy = {{ name = "et-gp-ucb", n_upper = 15 }}
publish_posterior = 300
plausible = [-40, 60]
alert = {{ threshold = {threshold}, hysteresis = 0.5 }}
kernel = {{ name = "se", length_scale = 8.0, variance = 6.0, noise_variance = 0.05, mean = 21.0 }}
sensors = [{sensors}]
reading = {{ topic = "{root}/{{sensor}}/t" }}
activate = {{ mode = "live", topic = "{root}/{{sensor}}/activate" }}

[fields.{field}.names]
{names}

[fields.{field}.positions]
{positions}
"""


def positions_of(count):
    """Return the positions of the sensors node-1, node-2, ... by sensor."""
    rng = random.Random(1)
    columns = max(6, round(math.sqrt(1.3 * count)))
    return {
        f"node-{k + 1}": (
            round(4 + 7 * (k % columns) + rng.uniform(-1.5, 1.5), 1),
            round(3 + 7 * (k // columns) + rng.uniform(-1.5, 1.5), 1),
        )
        for k in range(count)
    }


def field_text(field, root, positions, names=MappingProxyType({}), threshold=40.0):
    """Return a field's tables of a configuration; the topics of its sensors begin with `root`."""
    return FIELD.format(
        field=field,
        root=root,
        sensors=", ".join(f'"{each}"' for each in positions),
        threshold=threshold,
        names="\n".join(f'{id} = "{name}"' for id, name in names.items()),
        positions="\n".join(f"{id} = [{x}, {y}]" for id, (x, y) in positions.items()),
    )


class Laboratory:
    """A daemon that decides every second, and its sensors."""

    def __init__(self, directory, broker, count=24, names=(), threshold=40.0):
        self.broker = broker
        self._directory = directory
        self.config = directory / "lab.toml"
        self.positions = positions_of(count)
        self.names = dict(zip(self.positions, names, strict=False))
        text = CONFIG.format(instance="lab", port=broker.port) + STATE.format(directory=directory)
        text += field_text("temperature", "lab", self.positions, self.names, threshold)
        self.config.write_text(text)
        self.sensors = ReplyingSensors(broker.port, self.positions, self.names)
        self.start()

    def cause_problems(self, states):
        """Let a sensor be in each of the `states` of the health; return the sensors by state.

        Returns once the daemon has reported all of these states and an alert.
        """
        found = dict(zip(states, list(self.positions)[1:], strict=False))
        self.sensors.unresponsive.add(found["suspects"])
        self.sensors.implausible.add(found["implausible"])
        self.sensors.stuck.update(found[state] for state in ("faulty",) if state in found)
        daemon = Peer(self.broker.port, ["edge_tvbo/lab/health", "edge_tvbo/lab/temperature/alert"])
        self._command(daemon, "ignore", found["ignored"])

        def is_reported():
            health = daemon.on("edge_tvbo/lab/health")
            alerts = daemon.on("edge_tvbo/lab/temperature/alert")
            field = json.loads(health[-1])["fields"]["temperature"] if health else {}
            missing = [
                state for state, sensor in found.items() if sensor not in field.get(state, ())
            ]
            if "faulty" in found:
                self.sensors.report(found["faulty"])
            for state in missing:
                if state in ("suspects", "implausible"):
                    self._command(daemon, "activate", found[state])
            time.sleep(0.2)
            return not missing and alerts and json.loads(alerts[-1])["active"]

        wait_for(is_reported)
        daemon.close()
        return found

    def _command(self, peer, verb, sensor):
        request = json.dumps({"field": "temperature", "sensor": sensor})
        peer.client.publish(f"edge_tvbo/lab/cmd/{verb}", request, qos=1)

    def start(self):
        self.daemon = EdgeTvboProcess(self._directory / "daemon.log", "run", self.config)
        self.daemon.wait_for_output("ready:")

    def close(self):
        self.daemon.stop()
        self.sensors.peer.close()


# --- the page -------------------------------------------------------------------------------------


# A transition begins in the frame after a change; endless animations are not waited for.
SETTLE = """
const done = arguments[0], frame = () => new Promise(requestAnimationFrame);
const ends = animation => Number.isFinite(animation.effect.getComputedTiming().endTime);
frame().then(frame).then(() => new Promise(each => setTimeout(each, 200))).then(frame).then(() =>
    Promise.allSettled(document.getAnimations().filter(ends).map(each => each.finished))
).then(frame).then(() => done());
"""


class Page:
    """The dashboard's page in a browser."""

    def __init__(self, driver):
        self.driver = driver
        self.set_size(1280)
        self.set_dark(False)
        self.console()  # drops the messages of the tests before

    def open(self, address):
        self.leave()
        self.driver.get(address)
        self.wait_for_text("sentence", lambda text: ":" in text)

    def leave(self):
        """Show an empty page: another fragment of the same address would load no new page."""
        if self.driver.current_url != "about:blank":
            self.driver.get("about:blank")

    def stop_timers(self):
        """Stop what the page does each second."""
        self.script("for (let id = setTimeout(() => {}); id > 0; id--) clearTimeout(id);")

    def set_size(self, width, height=900):
        settings = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", settings)

    def set_dark(self, dark):
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})

    def script(self, text, *arguments):
        return self.driver.execute_script(text, *arguments)

    def text(self, id):
        text = self.script("return document.getElementById(arguments[0]).textContent", id)
        return text.replace("\u00a0", " ")

    def wait_for_text(self, id, expected, timeout=TIMEOUT_S):
        """Return an element's text once it contains `expected`, or `expected(text)` is true."""
        if isinstance(expected, str):
            words = expected
            return wait_for(lambda: words in self.text(id) and self.text(id), timeout)
        return wait_for(lambda: expected(text := self.text(id)) and text, timeout)

    def click(self, id):
        self.script("document.getElementById(arguments[0]).click()", id)

    def press(self, key, times=1):
        from selenium.webdriver import ActionChains

        actions = ActionChains(self.driver, duration=0)
        for _ in range(times):
            actions.send_keys(key)
        actions.perform()

    def seek(self, index):
        """Move the slider of the replay."""
        self.script(
            "const s = document.getElementById('slider'); s.value = arguments[0];"
            "s.dispatchEvent(new Event('input'))",
            index,
        )

    def appearances(self):
        """Show the page at two widths with light and dark colours; yield each in words."""
        for width in (1280, 390):
            for dark in (False, True):
                self.set_dark(dark)
                self.set_size(width)
                wait_for(lambda width=width: self.script("return innerWidth") == width)
                self.settle()
                self.set_size(width, self.script("return document.documentElement.scrollHeight"))
                self.settle()
                yield f"{width}-{'dark' if dark else 'light'}"
        self.set_size(1280)
        self.set_dark(False)

    def settle(self):
        """Wait until the page is redrawn and its transitions have ended."""
        self.driver.execute_async_script(SETTLE)

    def save_screenshots(self, name):
        """Write an image of the whole page for each of its appearances, where they are wanted."""
        if SCREENSHOTS:
            for appearance in self.appearances():
                self.save_screenshot(f"{name}-{appearance}")

    def save_screenshot(self, name):
        """Write an image of the page, where images are wanted."""
        if SCREENSHOTS:
            Path(SCREENSHOTS).mkdir(parents=True, exist_ok=True)
            assert self.driver.save_screenshot(str(Path(SCREENSHOTS, f"{name}.png")))

    def console(self):
        """Return the messages of the browser's console."""
        return [each["message"] for each in self.driver.get_log("browser")]
