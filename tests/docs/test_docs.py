"""The documents' commands and Python are run, their links followed, what they name exists.

In a page, an indented line that begins with ``edge-tvbo`` is a command of its own. A block ``sh``
is a part of the page's one script, and each line of a block ``text`` something that it prints, but
for its numbers. A block whose language is followed by a path is that file.
"""

import json
import os
import re
import runpy
import shlex
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager, suppress

import click
import pytest
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion
from support.paths import ROOT
from support.ports import free_port

from edge_tvbo.cli import main
from edge_tvbo.config.docs import explain
from edge_tvbo.policy import policies

SHARED = ROOT.parent / "shared" / "data"
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "deploy" / "README.md", *sorted(DOCS.glob("*.md"))]
TEXTS = {page: page.read_text("utf-8") for page in PAGES}
README = TEXTS[ROOT / "README.md"]

FENCED = re.compile(r"^```(.*)\n((?s:.*?))^```$", re.MULTILINE)
GENEROUS = 120  # s
PROGRAMS = ("mosquitto", "mosquitto_sub", "mosquitto_pub", "curl")
PORTS = ("18830", "8787")  # of the tutorial, which may be taken here
SERVERS = {"run": "ready", "dashboard": "http://"}  # and what they say when they are there
SMALL = {"compare": ("--seeds", "1"), "experiment": ("--runs", "1"), "dashboard": ("--port", "0")}


def prose(page):
    return FENCED.sub("", TEXTS[page])


def blocks(page, language):
    return [body for info, body in FENCED.findall(TEXTS[page]) if info == language]


def with_some(find):
    """Run a test on every page in which `find` finds something."""
    found = [page for page in PAGES if find(page)]
    return pytest.mark.parametrize("page", found, ids=lambda page: str(page.relative_to(ROOT)))


def indented(page):
    return re.findall(r"^    (edge-tvbo .*)$", prose(page), flags=re.MULTILINE)


def commands_named(page):
    text = prose(page)
    spans = re.findall(r"`(edge-tvbo [^`]+)`", text)
    return [
        *(" ".join(each.split()) for each in spans),
        *re.findall(r"bin/(edge-tvbo .*)$", text, re.M),
    ]


# --- the Makefile ---------------------------------------------------------------------------------


def test_the_first_two_commands_are_make_demo_and_make_test():
    assert re.findall(r"^    (\S.*)$", README, re.MULTILINE)[:2] == ["make demo", "make test"]
    makefile = (ROOT / "Makefile").read_text()
    assert all(re.search(rf"^{name}:", makefile, re.MULTILINE) for name in ("demo", "test", "docs"))


def test_ci_runs_make_test_and_nothing_else():
    lines = (ROOT / ".ci" / "run").read_text().splitlines()

    assert [line for line in lines if "make" in line] == ["exec make test"]


# --- commands -------------------------------------------------------------------------------------


@pytest.mark.broker
@with_some(indented)
def test_a_pages_commands_run_in_their_order(page, tmp_path, broker):
    example = (ROOT / "deploy" / "config.example.toml").read_text("utf-8")
    if "edge-tvbo init" not in TEXTS[page]:
        (tmp_path / "my.toml").write_text(example.replace("1883", str(broker.port)), "utf-8")
    for line in indented(page):
        if "../shared/data" in line and not SHARED.is_dir():
            continue
        command = program(line)
        if command[3] in SERVERS:
            assert stops_politely(command, tmp_path), line
            continue
        done = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, timeout=GENEROUS
        )
        assert done.returncode == 0, f"{line}\n{done.stderr}"


def program(line):
    """Give a command as it is run here: with our Python, our data, and little to do."""
    words = shlex.split(line, comments=True)[1:]
    words = [str(SHARED) if word == "../shared/data" else word for word in words]
    few = () if "list" in words else SMALL.get(words[0], ())
    return [sys.executable, "-m", "edge_tvbo", *words, *few]


def stops_politely(command, directory):
    """Start what runs until it is told to stop, and tell it once it is there."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(command, cwd=directory, **pipes) as process:
        for line in process.stdout:
            if SERVERS[command[3]] in line:
                break
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        return process.wait(timeout=10) == 0


@pytest.mark.broker
@with_some(lambda page: blocks(page, "sh"))
def test_a_pages_script_runs_and_prints_what_it_says(page, tmp_path):
    script = "set -e\n" + "\n".join(blocks(page, "sh"))
    missing = [each for each in PROGRAMS if each in script and not shutil.which(each, path=paths())]
    if missing:
        assert not os.environ.get("CI"), f"CI wants {missing}"
        pytest.skip(f"there is no {missing}")
    prepare(page, tmp_path)
    for port in PORTS:
        script = re.sub(rf"\b{port}\b", str(free_port()), script)
    printed = run_script(script, tmp_path)
    shapes = {shape(line) for line in printed.splitlines()}
    told = [line for block in blocks(page, "text") for line in block.splitlines()]

    assert [line for line in told if shape(line) not in shapes] == [], printed


def paths():
    return f"{os.environ['PATH']}:/usr/sbin"


def prepare(page, tmp_path):
    """Write the page's files, a recording, and programs that are those of this Python."""
    for info, body in FENCED.findall(TEXTS[page]):
        if " " in info:
            path = tmp_path / info.split()[1]
            path.parent.mkdir(exist_ok=True)
            path.write_text(body, "utf-8")
    rows = [f"{600 * t},{20 + t % 7},{21 + t % 5},{19 + t % 3}" for t in range(4 * 144)]
    (tmp_path / "readings.csv").write_text("\n".join(["time,hall,attic,kitchen", *rows]))
    site, bin_ = tmp_path / "site", tmp_path / "bin"
    bin_.mkdir()
    offline = f"--quiet --no-deps --no-index --no-build-isolation --target {site}"
    for name, words in {
        "python": '"$@"',
        "edge-tvbo": '-m edge_tvbo "$@"',
        "pip": f'-m pip "$1" {offline} "${{@:2}}"',
    }.items():
        (bin_ / name).write_text(
            f"#!/bin/bash\nPYTHONPATH={site} exec {shlex.quote(sys.executable)} {words}\n"
        )
        (bin_ / name).chmod(0o755)


def run_script(script, directory):
    """Give what a script prints; whatever it started and left is ended with it."""
    with subprocess.Popen(
        ["bash", "-c", script],
        cwd=directory,
        env=os.environ | {"PATH": f"{directory / 'bin'}:{paths()}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            printed, said = process.communicate(timeout=2 * GENEROUS)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, f"{printed}\n{said}"
    return printed


def shape(line):
    """Give a line without its numbers."""
    return re.sub(r"\d[\d.]*", "0", " ".join(line.split()))


@with_some(commands_named)
def test_commands_in_running_text_exist_with_their_options(page):
    for line in commands_named(page):
        command, words = main, shlex.split(line, comments=True)[1:]
        while isinstance(command, click.Group) and words:
            name, *words = words
            command = command.get_command(None, name)
            assert command is not None, line
        with click.Context(command, **command.context_settings) as context:
            command.make_parser(context).parse_args(words)


# --- Python ---------------------------------------------------------------------------------------


@with_some(lambda page: blocks(page, "python"))
def test_a_pages_python_runs(page):
    names = {}
    for block in blocks(page, "python"):
        exec(compile(block, page.name, "exec"), names)


# --- links ----------------------------------------------------------------------------------------


@with_some(lambda page: True)
def test_links_lead_to_a_page_and_a_heading_that_are_there(page):
    links = re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", prose(page))
    lost = []
    for target, anchor in links:
        path = (page.parent / target).resolve() if target else page
        if not path.exists() or (anchor and anchor not in anchors(path)):
            lost.append(f"{target}#{anchor}")

    assert lost == []


def anchors(path):
    """Give the names by which GitHub knows the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", FENCED.sub("", path.read_text("utf-8")), re.MULTILINE)
    return [re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings]


def test_the_index_names_every_page():
    index = TEXTS[DOCS / "README.md"] + "(README.md)"

    assert [page.name for page in DOCS.glob("*.md") if f"({page.name})" not in index] == []


# --- what is generated ----------------------------------------------------------------------------


def test_the_generated_pages_are_those_of_this_code():
    for page, text in runpy.run_path(str(DOCS / "generate.py"))["pages"]().items():
        assert page.read_text("utf-8") == text, f"{page.name} is out of date; run:  make docs"


def test_every_setting_is_in_the_reference_in_its_table():
    parts = re.split(
        r"^## (?:`\[(.*)\]`|At the top)$", TEXTS[DOCS / "configuration.md"], flags=re.M
    )
    tables = dict(zip([each or "" for each in parts[1::2]], parts[2::2], strict=True))
    parts = re.split(r"^### `(.*)`$", TEXTS[DOCS / "configuration.md"], flags=re.M)
    of_policy = dict(zip(parts[1::2], parts[2::2], strict=True))
    for key, policy in re.findall(r"^(\S+) = .*\n    (?:(\S+): )?", explain(), re.MULTILINE):
        table, _, name = key.rpartition(".")
        place = tables[table] if policy not in of_policy else of_policy[policy]
        assert f"`{name}`" in place, key
    assert tuple(of_policy) == policies()


def test_the_example_configuration_mentions_only_settings_that_exist():
    example = (ROOT / "deploy" / "config.example.toml").read_text()
    keys = set(re.findall(r"^#? ?([a-z_]+) = ", example, re.MULTILINE))

    assert [key for key in keys if key not in explain()] == []


def test_the_readme_compares_every_policy_and_the_guide_says_when():
    named = README + TEXTS[DOCS / "policies.md"] + TEXTS[DOCS / "configuration.md"]

    assert [
        name for name in policies() if f"`{name}`" not in README or f"`{name}`" not in named
    ] == []


# --- topics, by ear -------------------------------------------------------------------------------

GATEWAY = """
instance = "k"
[mqtt]
port = {port}
[homeassistant]
"""
FIELD = """
[fields.{mode}]
interval = "4s"
reply_timeout = "4s"
policy = {{ name = "tv-gp-ucb", epsilon = 0.03 }}
kernel = {{ name = "exchangeable", variance = 4.0, noise_variance = 0.04, mean = 20.0 }}
sensors = ["a", "b"]
reading = {{ topic = "nodes/{mode}/{{sensor}}/t" }}
activate = {{ mode = "{mode}", topic = "nodes/{mode}/{{sensor}}/go", payload = "01" }}
"""
MODES = ("live", "sleepy", "lorawan")


class ObservedField:
    """Hears what is published, by kind of topic: (retained, QoS)."""

    def __init__(self, port):
        self.heard = {}
        self.client = Client(CallbackAPIVersion.VERSION2)
        self.client.on_connect = lambda client, *_: client.subscribe("#", qos=2)
        self.client.on_message = self._hear
        self.client.connect("127.0.0.1", port)
        self.client.loop_start()

    def _hear(self, client, userdata, message):
        if kind := kind_of(message.topic):
            retained, _ = self.heard.get(kind, (False, 0))
            self.heard[kind] = (retained or bool(message.retain), message.qos)

    def wait(self, condition, within=60.0):
        deadline = time.monotonic() + within
        while not condition():
            assert time.monotonic() < deadline, self.heard
            time.sleep(0.02)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.disconnect()
        self.client.loop_stop()


def kind_of(topic):
    """Give what the reference calls a topic; None where we publish on it ourselves."""
    match topic.split("/"):
        case ["edge_tvbo", "k", "cmd", _] | ["nodes", _, _, "t"]:
            return None
        case ["edge_tvbo", "k", "response", _]:
            return "edge_tvbo/<instance>/response/<verb>"
        case ["edge_tvbo", "k", word]:
            return f"edge_tvbo/<instance>/{word}"
        case ["edge_tvbo", "k", field, word] if field in MODES:
            return f"edge_tvbo/<instance>/<field>/{word}"
        case ["nodes", mode, _, "go"]:
            return f"activate.topic, mode {mode}"
        case ["homeassistant", "device", "edge_tvbo_k", "config"]:
            return "<prefix>/device/edge_tvbo_<instance>/config"
        case _:
            return topic


def reference():
    """Give what the page says of each kind of topic."""
    rows = re.findall(
        r"^\| `([^`]+)`(, mode \w+)? \| (yes|no) \| (\d) \|",
        TEXTS[DOCS / "topics.md"],
        re.MULTILINE,
    )
    return {topic + mode: (retained == "yes", int(qos)) for topic, mode, retained, qos in rows}


@pytest.mark.broker
def test_what_a_daemon_publishes_is_what_the_reference_says(tmp_path, broker):
    config = tmp_path / "edge.toml"
    config.write_text(
        GATEWAY.format(port=broker.port) + "".join(FIELD.format(mode=each) for each in MODES)
    )
    told = reference()
    retained = {kind for kind, (kept, _) in told.items() if kept}
    with ExitStack() as stack:
        early = stack.enter_context(ObservedField(broker.port))
        process = stack.enter_context(daemon(config))
        early.wait(lambda: "edge_tvbo/<instance>/<field>/selected" in early.heard)
        early.client.publish("nodes/live/b/t", "21.5", qos=1)
        early.client.publish("edge_tvbo/k/cmd/reset", json.dumps({"field": "live"}), qos=1)
        early.wait(lambda: "edge_tvbo/<instance>/response/<verb>" in early.heard)
        process.send_signal(signal.SIGHUP)
        early.wait(lambda: early.heard.keys() >= told.keys())
        kept = found_by_who_comes_late(broker.port, retained)

    assert {kind: (kind in kept, qos) for kind, (_, qos) in early.heard.items()} == told


def found_by_who_comes_late(port, retained):
    """Give what the broker keeps; what a sleeping node is asked is there only for a while."""
    kept, deadline = set(), time.monotonic() + GENEROUS
    while not kept >= retained and time.monotonic() < deadline:
        with ObservedField(port) as late:
            time.sleep(0.3)
            kept |= {kind for kind, (was_kept, _) in late.heard.items() if was_kept}
    return kept


@contextmanager
def daemon(config):
    """Run a daemon; it has to end well in the end."""
    command = [sys.executable, "-m", "edge_tvbo", "run", str(config)]
    process = subprocess.Popen(command, cwd=ROOT)
    try:
        yield process
    finally:
        process.terminate()
        assert process.wait(20) == 0
