"""Tutorial: a test types the commands of the page, and compares what they print with the page.

In a block ``console``, a line that begins with ``$`` is a command, and the lines below it are what
the command prints on both streams. A line ``...`` stands for any lines. Ports, numbers and units of
time are not compared; after the heading "After a month", where everything is computed from
fixed readings, numbers may differ by 2 %.

    EDGE_TVBO_WRITE_TUTORIAL=1 python -m pytest tests/docs/test_tutorial.py

writes into the page what was printed, except into blocks with ``...``.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import time
from contextlib import ExitStack
from http.client import HTTPConnection
from itertools import count

import pytest
from support.house import HOUSE, LIVE_BEGIN
from support.installation import variables
from support.mosquitto import Peer
from support.pages import FENCED
from support.paths import DOCS, ROOT
from support.ports import free_port

ELLIPSIS = "..."
PAGE = DOCS / "tutorial.md"
EXACT = "## After a month"
TIMEOUT_S = 600.0  # a month of the house took over 240 s beside 24 busy processes
DECISIONS = 6  # that a newcomer waits for
PROGRESS = re.compile(r"^\S+: [\d,]+( of [\d,]+)?\n", re.MULTILINE)  # only of a slow machine
NUMBER = re.compile(r"\d[\d.,]*\d|\d")
VARYING = (  # what depends on the moment
    (r"unresponsive: [^;]*", "unresponsive: ..."),
    (r"rejected: .*", "rejected: ..."),
    (r"# (s|ms|min|h)\b", "# s"),
    (r"; the broker delays small packets.*", ""),
    (r"next is .* with #", "next is ... with #"),
    (r"varies # times as much as", "varies as much as"),
    (r"(#) repl(y|ies)", r"\1 replies"),
    (r"(#) selected sensors?", r"\1 selected sensors"),
)
COMMAND_TOPIC = re.compile(r"zigbee2mqtt/.*/get|cmnd/.*|home/.*/get")
ASKED = re.compile(r"\bactivate|timed out|time-out|did not reply|replie|was asked|responds again")


class Terminal:
    """A server of the page, which a newcomer starts in a terminal of its own."""

    def __init__(self, command, options, log):
        self._log = log
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                command, stdout=output, stderr=subprocess.STDOUT, **options
            )

    def text(self):
        return self._log.read_text("utf-8")

    def wait_for(self, words):
        deadline = time.monotonic() + TIMEOUT_S
        while words not in self.text():
            assert self.process.poll() is None, self.text()
            assert time.monotonic() < deadline, self.text()
            time.sleep(0.05)

    def close(self):
        if self.process.poll() is None:
            self.process.terminate()
        return self.process.wait(30)


class Newcomer:
    """Types the commands of the page in their order, and waits as a person does."""

    def __init__(self, directory, bin_directory):
        self.directory, self.options = (
            directory,
            {"cwd": directory, "env": variables(bin_directory)},
        )
        self.mqtt_port, self.page_port = free_port(), free_port()
        self.observer = None  # a peer that receives all messages
        self.said = ""  # all that was printed
        self.said_in_advice = ""  # while the daemon only recommended sensors
        self.commanded = {}  # topics of the commands to sensors, by configuration
        self._numbers, self._stack = count(), ExitStack()
        self._daemon = self._config = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._stack.close()

    def types(self, command):
        """Run a command, and return what it prints."""
        match words := shlex.split(command):
            case ["mosquitto", *_]:
                return self._starts_broker(words)
            case ["python", _, "live", _]:
                return self._starts_house(words)
            case ["edge-tvbo", "run", config]:
                return self._runs_daemon(words, config)
            case ["edge-tvbo", "dashboard", _]:
                return self._looks_at_dashboard([*words, "--port", str(self.page_port)])
            case ["mosquitto_sub", *_]:
                return self._prints([*words, "-p", str(self.mqtt_port)])
            case ["edge-tvbo", "init", *_]:
                self._stops_daemon()
                return self._prints([*words, "--port", str(self.mqtt_port)])
            case ["python", _, "month", _]:
                self._stops_daemon()
            case ["pip", *_]:  # prints warnings about the package index of this machine
                self._prints(words)
                return ""
        return self._prints(words)

    def _prints(self, words):
        done = subprocess.run(
            self._found(words),
            **self.options,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_S,
        )
        assert done.returncode == 0, f"{words}\n{done.stdout}"
        if self._config == "my.toml":
            self.said_in_advice += done.stdout
        return self._as_on_the_page(done.stdout)

    def _found(self, words):
        program = shutil.which(words[0], path=self.options["env"]["PATH"])
        assert program, f"{words[0]} is not installed"
        replaced = {"tests/support/house.py": str(ROOT / "tests" / "support" / "house.py")}
        replaced["1883"] = str(self.mqtt_port)
        return [program, *(replaced.get(word, word) for word in words[1:])]

    def _as_on_the_page(self, text):
        self.said += text
        text = text.replace(str(self.mqtt_port), "1883").replace(str(self.page_port), "8787")
        return PROGRESS.sub("", text.replace(f" --port {self.mqtt_port}", ""))

    # --- servers --------------------------------------------------------------------------------

    def _serves(self, words, **variables):
        log = self.directory / f"terminal-{next(self._numbers)}.log"
        options = self.options | {"env": self.options["env"] | variables}
        terminal = Terminal(self._found(words), options, log)
        self._stack.callback(terminal.close)
        return terminal

    def _starts_broker(self, words):
        broker = self._serves(words)
        broker.wait_for(" running\n")  # it opens the port later than it warns of "local only mode"
        self.observer = Peer(self.mqtt_port, ("#",))
        self._stack.callback(self.observer.close)
        return ""

    def _starts_house(self, words):
        self._serves(words)
        topics = {each.message(LIVE_BEGIN)[0] for each in HOUSE}
        self.observer.wait(
            lambda: topics <= {topic for topic, _, _ in list(self.observer.received)}
        )
        return ""

    def _runs_daemon(self, words, config):
        self._daemon, self._config = self._serves(words, EDGE_TVBO_KERNELS="jit"), config
        self._daemon.wait_for("ready: ")
        deadline = time.monotonic() + TIMEOUT_S
        while not self._has_settled():
            assert time.monotonic() < deadline, self._daemon.text()
            time.sleep(0.1)
        return self._as_on_the_page(self._daemon.text())

    def _has_settled(self):
        """Return whether the last decisions of each field exploited what it has learned."""
        decisions = {}
        for topic, payload, _ in list(self.observer.received):
            if topic.endswith("/selected") and payload:
                decisions.setdefault(topic, []).append(json.loads(payload))
        return decisions and all(
            each[-1]["interval"] >= DECISIONS
            and [decision["reason"] for decision in each[-3:]] == ["exploit"] * 3
            for each in decisions.values()
        )

    def _stops_daemon(self):
        if self._daemon is None:
            return
        assert self._daemon.close() == 0
        self.said += self._daemon.text()
        topics = {topic for topic, _, _ in self.observer.received}
        self.commanded[self._config] = {each for each in topics if COMMAND_TOPIC.fullmatch(each)}
        if self._config == "my.toml":
            published = [text for topic, text, _ in self.observer.received if "edge_tvbo/" in topic]
            self.said_in_advice += self._daemon.text() + b"".join(published).decode()
        self.observer.received.clear()
        self._daemon = self._config = None

    def _looks_at_dashboard(self, words):
        dashboard = self._serves(words)
        dashboard.wait_for("http://")
        connection = HTTPConnection("127.0.0.1", self.page_port, timeout=TIMEOUT_S)
        connection.request("GET", "/")
        assert b"<html" in connection.getresponse().read()
        connection.request("GET", "/events")
        stream = connection.getresponse()
        while not (line := stream.readline()).startswith(b"data:"):
            assert line
        connection.close()
        text = dashboard.text()
        dashboard.close()
        return self._as_on_the_page(text)


# --- the page -----------------------------------------------------------------------------------


def commands(block):
    """Yield the commands of a block, each with the lines that it prints."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, *lines = part.splitlines()
        yield command, lines


def agrees(lines, said, is_exact):
    """Return whether the page's lines are what a command said."""
    said, rest = iter(said), iter(lines)
    for line in rest:
        if line == ELLIPSIS:
            line = next(rest, None)
            if line is None:
                return True
            if not any(is_same(line, each, is_exact) for each in said):
                return False
        elif not is_same(line, next(said, ""), is_exact):
            return False
    return next(said, None) is None


def is_same(line, said, is_exact):
    """Return whether two lines differ in their varying parts only."""
    if shape(line) != shape(said):
        return False
    return not is_exact or numbers(said) == pytest.approx(numbers(line), rel=0.02, abs=0.002)


def shape(line):
    """Return a line without what depends on the moment."""
    line = NUMBER.sub("#", " ".join(line.split()))
    for varying, usual in VARYING:
        line = re.sub(varying, usual, line)
    return line


def numbers(line):
    return [float(each.replace(",", "")) for each in re.findall(r"\d+(?:\.\d+)?", line)]


@pytest.mark.broker
@pytest.mark.timeout(1200)
def test_the_commands_of_the_tutorial_print_what_it_says(tmp_path, broker_directory, installed):
    text, wrong = PAGE.read_text("utf-8"), []
    with Newcomer(tmp_path, installed) as newcomer:

        def typed(block):
            if block[1] != "console":
                return block[0]
            shown = ""
            for command, lines in commands(block[2]):
                said = newcomer.types(command).strip("\n").splitlines()
                if not agrees(lines, said, is_exact=block.start() > text.index(EXACT)):
                    wrong.append("\n".join(["", f"$ {command}", *said]))
                shown += "\n".join([f"$ {command}", *(lines if ELLIPSIS in lines else said), ""])
            return f"```console\n{shown}```"

        page = FENCED.sub(typed, text)
    if os.environ.get("EDGE_TVBO_WRITE_TUTORIAL"):
        PAGE.write_text(page, "utf-8")
    assert not wrong, "".join(wrong)
    assert "Traceback" not in newcomer.said
    assert "recommended" in newcomer.said_in_advice
    assert not ASKED.findall(newcomer.said_in_advice)
    assert newcomer.commanded["my.toml"] == set()
    assert newcomer.commanded["live.toml"] <= {each.command_topic for each in HOUSE}
    assert len(newcomer.commanded["live.toml"]) > 1
