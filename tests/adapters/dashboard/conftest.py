"""A browser, a gateway whose sensors answer, and the dashboard that looks at it."""

import math
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from broker.conftest import Peer, broker, directory, mosquitto, peer  # noqa: F401 - fixtures
from support.paths import ROOT

SHOTS = Path(os.environ.get("EDGE_TVBO_SCREENSHOTS") or ROOT / "tests-out" / "screenshots")
GENEROUS = 30.0  # s; a busy machine takes its time
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")


def until(condition, within=GENEROUS):
    """Give what `condition` comes to once it is true."""
    deadline = time.monotonic() + within
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not in {within} s"
        time.sleep(0.05)
    return found


# --- processes ------------------------------------------------------------------------------------


class Process:
    """One `edge-tvbo` command that runs until it is stopped."""

    def __init__(self, log, *arguments):
        self._log = log
        with log.open("wb") as output:
            command = [sys.executable, "-m", "edge_tvbo", *map(str, arguments)]
            self._process = subprocess.Popen(
                command, stdout=output, stderr=subprocess.STDOUT, cwd=ROOT
            )
        self.pid = self._process.pid

    def said(self):
        return self._log.read_text()

    def hears(self, pattern):
        """Give what it says that matches, once it has."""

        def found():
            assert self._process.poll() is None, self.said()
            return re.search(pattern, self.said())

        return until(found)

    def stop(self, number=signal.SIGTERM):
        """End it, and give its exit status."""
        if self._process.poll() is None:
            self._process.send_signal(number)
        return self._process.wait(GENEROUS)


class Served(Process):
    """A dashboard, and its address."""

    def __init__(self, log, *arguments, port=0):
        super().__init__(log, "dashboard", *arguments, "--port", port)
        self.address = self.hears(r"dashboard: (http://\S+/)")[1]
        self.port = int(self.hears(r"dashboard: http://[^/]*:(\d+)")[1])


class Sensors:
    """Simulated nodes on a broker: each answers at once when it is asked, but for the `dead`."""

    def __init__(self, port, places):
        self._places = places
        self._chance = random.Random(7)
        self.dead = set()
        self.peer = Peer(port, ["lab/+/activate"])
        self.peer.client.on_message = lambda client, userdata, message: self._answer(message)

    def _answer(self, message):
        sensor = message.topic.split("/")[1]
        if sensor not in self.dead:
            self.peer.client.publish(f"lab/{sensor}/t", f"{self._value(sensor):.2f}", qos=1)

    def _value(self, sensor):
        x, y = self._places[sensor]
        turn = time.time() / 40
        far = math.hypot(x - 20 - 12 * math.cos(turn), y - 12 - 8 * math.sin(turn))
        return 20 + 7 * math.exp(-far / 9) + self._chance.gauss(0, 0.1)


CONFIG = """\
instance = "{instance}"
health = "1s"

[mqtt]
port = {port}
username = "gateway"
password = "hunter2-secret"
reconnect = {{ min = "200ms", max = "1s" }}

[state]
dir = "{directory}/state"
checkpoint = "1s"
history = "16MiB"

[fields.temperature]
unit = "°C"
interval = "1s"
reply_timeout = "400ms"
policy = {{ name = "et-gp-ucb", n_upper = 15 }}
kernel = {{ name = "se", length_scale = 8.0, variance = 6.0, noise_variance = 0.05, mean = 21.0 }}
sensors = [{sensors}]
reading = {{ topic = "lab/{{sensor}}/t" }}
activate = {{ mode = "live", topic = "lab/{{sensor}}/activate" }}

[fields.temperature.positions]
{positions}
"""


class Laboratory:
    """A gateway with its sensors on a broker of its own."""

    def __init__(self, where, running, count=24):
        self.broker = running
        self._directory = where
        self.config = where / "lab.toml"
        chance = random.Random(1)
        self.places = {
            f"node-{k + 1}": (
                round(4 + 7 * (k % 6) + chance.uniform(-1.5, 1.5), 1),
                round(3 + 7 * (k // 6) + chance.uniform(-1.5, 1.5), 1),
            )
            for k in range(count)
        }
        text = CONFIG.format(
            instance="lab",
            port=running.port,
            directory=where,
            sensors=", ".join(f'"{each}"' for each in self.places),
            positions="\n".join(f"{id} = [{x}, {y}]" for id, (x, y) in self.places.items()),
        )
        self.config.write_text(text)
        self.sensors = Sensors(running.port, self.places)
        self.start()

    def start(self):
        self.daemon = Process(self._directory / "daemon.log", "run", self.config)
        self.daemon.hears("ready:")

    def close(self):
        self.daemon.stop()
        self.sensors.peer.close()


@pytest.fixture(scope="module")
def shared():
    """Give what closes in the end what a module shares."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture(scope="module")
def laboratory(tmp_path_factory, broker, shared):  # noqa: F811 - a fixture
    """Give a gateway that decides every second."""
    made = Laboratory(tmp_path_factory.mktemp("lab"), broker)
    shared.callback(made.close)
    return made


@pytest.fixture(scope="module")
def dashboard(laboratory, shared, tmp_path_factory):
    """Give a dashboard that looks at it."""
    made = Served(tmp_path_factory.mktemp("dashboard") / "log", laboratory.config)
    shared.callback(made.stop)
    return made


@pytest.fixture(scope="module")
def recorded(shared, tmp_path_factory):
    """Give a dashboard that replays a day."""
    log = tmp_path_factory.mktemp("recorded") / "log"
    made = Served(log, "--dataset", "lab-sample", "--replay", "2026-03-08")
    shared.callback(made.stop)
    return made


# --- a browser ------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def chromium():
    """Give Debian's chromium, headless."""
    if not (CHROMIUM and DRIVER):
        reason = "these tests want chromium and chromium-driver:  apt install chromium-driver"
        if os.environ.get("EDGE_TVBO_REQUIRE_BROWSER"):
            pytest.fail(reason)
        pytest.skip(reason)
    webdriver = pytest.importorskip("selenium.webdriver")
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for each in ("headless=new", "no-sandbox", "disable-dev-shm-usage", "disable-gpu"):
        options.add_argument(f"--{each}")
    options.add_argument("--hide-scrollbars")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


class Page:
    """The page as somebody sees it."""

    def __init__(self, driver):
        self.driver = driver
        self.size(1280)
        self.dark(False)
        for each in ("browser", "performance"):
            driver.get_log(each)  # of the tests before

    def open(self, address):
        self.driver.get("about:blank")
        self.driver.get(address)
        self.shows("sentence", lambda text: ":" in text)

    def size(self, width, height=900):
        settings = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", settings)

    def dark(self, on):
        scheme = {"name": "prefers-color-scheme", "value": "dark" if on else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})

    def script(self, text, *arguments):
        return self.driver.execute_script(text, *arguments)

    def text(self, id):
        return self.script("return document.getElementById(arguments[0]).textContent", id)

    def shows(self, id, wanted, within=GENEROUS):
        """Give the text of an element once it is as `wanted`: a test, or words in it."""
        if isinstance(wanted, str):
            words = wanted
            return until(lambda: words in self.text(id) and self.text(id), within)
        return until(lambda: wanted(text := self.text(id)) and text, within)

    def click(self, id):
        self.script("document.getElementById(arguments[0]).click()", id)

    def press(self, key, times=1):
        from selenium.webdriver import ActionChains

        actions = ActionChains(self.driver, duration=0)
        for _ in range(times):
            actions.send_keys(key)
        actions.perform()

    def seek(self, index):
        """Move the slider as a hand would."""
        self.script(
            "const s = document.getElementById('slider'); s.value = arguments[0];"
            "s.dispatchEvent(new Event('input'))",
            index,
        )

    def shoot(self, name):
        """Write a picture of the whole page, at two widths, by day and by night."""
        SHOTS.mkdir(parents=True, exist_ok=True)
        for width in (1280, 390):
            for dark in (False, True):
                self.dark(dark)
                self.size(width)
                time.sleep(0.4)  # what is drawn anew at the new size, and what fades
                self.size(width, self.script("return document.documentElement.scrollHeight"))
                time.sleep(0.2)
                kind = "dark" if dark else "light"
                self.driver.save_screenshot(str(SHOTS / f"{name}-{width}-{kind}.png"))
        self.size(1280)
        self.dark(False)

    def complaints(self):
        """Give what the browser's console says, and the requests that leave the page's origin."""
        return [each["message"] for each in self.driver.get_log("browser")]


@pytest.fixture
def page(chromium):
    """Give a new page."""
    return Page(chromium)
