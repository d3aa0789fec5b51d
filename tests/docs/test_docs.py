"""The commands and the Python of the pages are run, their links followed, their options checked.

In a page, an indented line that begins with ``edge-tvbo`` or ``pip`` is a command of its own. The
blocks ``sh`` are one script, and it prints each line of the blocks ``text``, numbers aside. A block
whose language is followed by a path is that file.

The commands run in an environment that the README's commands made. If a page needs another package,
a command of this page has to install it. The experiments `SLOW` take up to a minute each, even with
one run; their parts are run in tests/research/experiments.
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
from support.installation import install_extra, variables
from support.mosquitto import stop
from support.pages import blocks, files, prose, unprinted
from support.paths import DOCS, ROOT, SHARED
from support.ports import free_port

from edge_tvbo.cli import main
from edge_tvbo.config.docs import explain
from edge_tvbo.policy import policies

PAGES = [ROOT / "README.md", ROOT / "deploy" / "README.md", *sorted(DOCS.glob("*.md"))]
TEXTS = {page: page.read_text("utf-8") for page in PAGES}
README = TEXTS[ROOT / "README.md"]

TIMEOUT_S = 240  # twenty times as long as the slowest command takes on a busy machine
pytestmark = pytest.mark.timeout(900)  # a test may wait for the shared installation
PROGRAMS = ("mosquitto", "mosquitto_sub", "mosquitto_pub", "curl")
PORTS = ("18830", "8787")  # of the pages; replaced, because they may be in use here
SERVERS = {"run": "ready", "dashboard": "http://"}  # and what they print once they run
SLOW = tuple(f"edge-tvbo experiment {name} " for name in ("auto", "cold", "leftout", "loss"))
FEWER = {"compare": ("--seeds", "1"), "experiment": ("--runs", "1"), "dashboard": ("--port", "0")}


def with_any(find):
    """Parametrise a test by the pages in which `find` finds something."""
    found = [page for page in PAGES if find(TEXTS[page])]
    return pytest.mark.parametrize("page", found, ids=lambda page: str(page.relative_to(ROOT)))


def indented(text):
    return re.findall(r"^    ((?:edge-tvbo|pip) .*)$", prose(text), flags=re.MULTILINE)


def commands_named(text):
    text = prose(text)
    spans = re.findall(r"`(edge-tvbo [^`]+)`", text)
    return [
        *(line for line in indented(text) if f"{line} ".startswith(SLOW)),
        *(" ".join(each.split()) for each in spans),
        *re.findall(r"bin/(edge-tvbo .*)$", text, re.M),
    ]


def makes(text):
    """Return the targets of make that a page names, as code or on an indented line."""
    return re.findall(r"(?:`|^    )make ([a-z][a-z0-9-]*)", text, re.MULTILINE)


# --- the Makefile ---------------------------------------------------------------------------------


def test_the_first_two_commands_are_make_demo_and_make_test():
    assert re.findall(r"^    (\S.*)$", README, re.MULTILINE)[:2] == ["make demo", "make test"]
    makefile = (ROOT / "Makefile").read_text()
    assert all(re.search(rf"^{name}:", makefile, re.MULTILINE) for name in ("demo", "test", "docs"))


@with_any(makes)
def test_the_make_targets_of_a_page_exist(page):
    targets = re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)

    assert [name for name in makes(TEXTS[page]) if name not in targets] == []


def test_make_chooses_a_python_that_can_make_environments():
    show = ["--eval=chosen:;@echo $(PYTHON)", "chosen"]
    chosen = subprocess.run(["make", "-s", *show], cwd=ROOT, capture_output=True, text=True)
    code = "import ensurepip, sys; assert sys.version_info >= (3, 11)"

    subprocess.run([chosen.stdout.strip(), "-c", code], check=True)


def test_ci_runs_make_test_and_nothing_else():
    lines = (ROOT / ".ci" / "run").read_text().splitlines()

    assert [line for line in lines if "make" in line] == ["exec make test"]


# --- commands -------------------------------------------------------------------------------------


@pytest.mark.broker
@with_any(indented)
def test_the_indented_commands_of_a_page_run_in_their_order(
    page, tmp_path, broker, base, installed
):
    example = (ROOT / "deploy" / "config.example.toml").read_text("utf-8")
    if "edge-tvbo init" not in TEXTS[page]:
        (tmp_path / "my.toml").write_text(example.replace("1883", str(broker.port)), "utf-8")
    for line in indented(TEXTS[page]):
        if f"{line} ".startswith(SLOW) or ("../shared/data" in line and not SHARED.is_dir()):
            continue
        if line.startswith("pip install"):
            install_extra(line, base, installed)
            continue
        command = program(line, installed)
        user = {"cwd": tmp_path, "env": variables(installed), "text": True}
        if command[1] in SERVERS:
            assert runs_and_stops(command, user), line
            continue
        done = subprocess.run(command, **user, capture_output=True, timeout=TIMEOUT_S)
        assert done.returncode == 0, f"{line}\n{done.stderr}"


def program(line, installed):
    """Return the command of a line, with our data, and fewer runs."""
    name, *words = shlex.split(line, comments=True)
    words = [str(SHARED) if word == "../shared/data" else word for word in words]
    fewer = () if "list" in words else FEWER.get(words[0], ())
    return [str(installed / name), *words, *fewer]


def runs_and_stops(command, user):
    """Start a server, stop it by Ctrl-C; return whether it ran, and exits with 0."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, **user, **pipes) as process:
        ran = any(SERVERS[command[1]] in line for line in process.stdout)
        process.send_signal(signal.SIGINT)
        return process.wait(timeout=TIMEOUT_S) == 0 and ran


@pytest.mark.broker
@with_any(lambda text: blocks(text, "sh"))
def test_the_script_of_a_page_prints_what_the_page_says(page, tmp_path, installed):
    script = "set -e\n" + "\n".join(blocks(TEXTS[page], "sh"))
    missing = [each for each in PROGRAMS if each in script and not shutil.which(each, path=paths())]
    if missing:
        assert not os.environ.get("CI"), f"CI needs {missing}"
        pytest.skip(f"{missing} is not installed")
    prepare(page, tmp_path)
    for port in PORTS:
        script = re.sub(rf"\b{port}\b", str(free_port()), script)
    printed = run_script(script, tmp_path, installed)

    assert unprinted(TEXTS[page], printed) == [], printed


def paths():
    return f"{os.environ['PATH']}:/usr/sbin"


def prepare(page, tmp_path):
    """Write the page's files and a recording."""
    for path, body in files(TEXTS[page]):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(body, "utf-8")
    rows = [f"{3600 * t},{20 + t % 7},{21 + t % 5},{19 + t % 3}" for t in range(4 * 24)]
    (tmp_path / "readings.csv").write_text("\n".join(["time,hall,attic,kitchen", *rows]))


def run_script(script, directory, installed):
    """Return what a script prints; processes that it leaves behind are killed."""
    with subprocess.Popen(
        ["bash", "-c", script],
        cwd=directory,
        env=variables(installed),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            printed, errors = process.communicate(timeout=2 * TIMEOUT_S)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, f"{printed}\n{errors}"
    return printed


@with_any(commands_named)
def test_commands_that_are_not_run_exist_with_their_options(page):
    for line in commands_named(TEXTS[page]):
        command, words = main, shlex.split(line, comments=True)[1:]
        while isinstance(command, click.Group) and words:
            name, *words = words
            command = command.get_command(None, name)
            assert command is not None, line
        with click.Context(command, **command.context_settings) as context:
            command.make_parser(context).parse_args(words)


# --- Python ---------------------------------------------------------------------------------------


@with_any(lambda text: blocks(text, "python"))
def test_the_python_of_a_page_runs(page):
    names = {}
    for block in blocks(TEXTS[page], "python"):
        exec(compile(block, page.name, "exec"), names)


# --- links ----------------------------------------------------------------------------------------


@with_any(lambda text: True)
def test_links_lead_to_an_existing_page_and_heading(page):
    links = re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", prose(TEXTS[page]))
    broken = []
    for target, anchor in links:
        path = (page.parent / target).resolve() if target else page
        if not path.exists() or (anchor and anchor not in anchors(path)):
            broken.append(f"{target}#{anchor}")

    assert broken == []


def anchors(path):
    """Return the anchors that GitHub makes of a page's headings."""
    headings = re.findall(r"^#+ (.*)$", prose(path.read_text("utf-8")), re.MULTILINE)
    return [re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings]


def test_the_index_lists_every_page():
    index = TEXTS[DOCS / "README.md"] + "(README.md)"

    assert [page.name for page in DOCS.glob("*.md") if f"({page.name})" not in index] == []


# --- generated pages ------------------------------------------------------------------------------


def test_the_generated_pages_are_up_to_date():
    for page, text in runpy.run_path(str(DOCS / "generate.py"))["pages"]().items():
        assert page.read_text("utf-8") == text, f"{page.name} is out of date; run:  make docs"


def test_every_setting_is_in_its_table_of_the_reference():
    parts = re.split(
        r"^## (?:`\[{1,2}([^]]*)\]{1,2}`|Top-level settings)$",
        TEXTS[DOCS / "configuration.md"],
        flags=re.M,
    )
    tables = dict(zip([each or "" for each in parts[1::2]], parts[2::2], strict=True))
    parts = re.split(r"^### `(.*)`$", TEXTS[DOCS / "configuration.md"], flags=re.M)
    of_policy = dict(zip(parts[1::2], parts[2::2], strict=True))
    for key, policy in re.findall(r"^(\S+) = .*\n    (?:(\S+): )?", explain(), re.MULTILINE):
        table, _, name = key.rpartition(".")
        place = tables[table] if policy not in of_policy else of_policy[policy]
        assert f"`{name}`" in place, key
    assert tuple(of_policy) == policies()


def test_every_command_and_option_is_in_the_reference():
    parts = re.split(r"^### `(.*)`$", TEXTS[DOCS / "commands.md"], flags=re.M)
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    for words, command in subcommands("edge-tvbo", main):
        options = {each for option in command.params for each in option.opts if each[0] == "-"}
        assert options <= set(re.findall(r"--?[a-z][a-z-]*", sections[words])), words


def subcommands(words, command):
    """Yield the words that call a command, and the command; for a group, those of its commands."""
    if not isinstance(command, click.Group):
        yield words, command
        return
    for name in command.list_commands(None):
        yield from subcommands(f"{words} {name}", command.get_command(None, name))


def test_the_example_configuration_mentions_only_settings_that_exist():
    example = (ROOT / "deploy" / "config.example.toml").read_text()
    keys = set(re.findall(r"^#? ?([a-z_]+) = ", example, re.MULTILINE))
    settings = re.findall(r"^(\S+) = ", explain(), re.MULTILINE)

    assert keys - {each.rpartition(".")[2] for each in settings} == set()


def test_every_policy_is_in_the_comparison_or_in_the_guide():
    named = TEXTS[DOCS / "comparison.md"] + TEXTS[DOCS / "policies.md"]

    assert [name for name in policies() if f"`{name}`" not in named] == []


def test_the_readme_has_one_picture_and_40_lines_before_what_to_read_next():
    before, found, _ = README.partition("\nWhat to read next:\n")

    assert found and len(before.splitlines()) <= 40
    assert README.count("![") == before.count("![") == 1
    assert before.splitlines()[2].startswith("![")


# --- topics ---------------------------------------------------------------------------------------

GATEWAY = """
instance = "k"
[mqtt]
port = {port}
[homeassistant]
"""
FIELD = """
[fields.{mode}]
alert = {{ threshold = 30.0 }}
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
    """Subscribes to everything; keeps (retained, QoS) by kind of topic."""

    def __init__(self, port):
        self.seen = {}
        self.client = Client(CallbackAPIVersion.VERSION2)
        self.client.on_connect = lambda client, *_: client.subscribe("#", qos=2)
        self.client.on_message = self._on_message
        self.client.connect("127.0.0.1", port)
        self.client.loop_start()

    def _on_message(self, client, userdata, message):
        if kind := kind_of(message.topic):
            retained, _ = self.seen.get(kind, (False, 0))
            self.seen[kind] = (retained or bool(message.retain), message.qos)

    def wait(self, condition, within=60.0):
        deadline = time.monotonic() + within
        while not condition():
            assert time.monotonic() < deadline, self.seen
            time.sleep(0.02)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        stop(self.client)


def kind_of(topic):
    """Return the reference's name of a topic; None for a topic that only this test publishes on."""
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
    """Return (retained, QoS) of each kind of topic, as the page states it."""
    rows = re.findall(
        r"^\| `([^`]+)`(, mode \w+)? \| (yes|no) \| (\d) \|",
        TEXTS[DOCS / "topics.md"],
        re.MULTILINE,
    )
    return {topic + mode: (retained == "yes", int(qos)) for topic, mode, retained, qos in rows}


@pytest.mark.broker
def test_a_daemon_publishes_what_the_reference_lists(tmp_path, broker):
    config = tmp_path / "edge.toml"
    config.write_text(
        GATEWAY.format(port=broker.port) + "".join(FIELD.format(mode=each) for each in MODES)
    )
    listed = reference()
    retained = {kind for kind, (is_retained, _) in listed.items() if is_retained}
    with ExitStack() as stack:
        early = stack.enter_context(ObservedField(broker.port))
        process = stack.enter_context(daemon(config))
        early.wait(lambda: "edge_tvbo/<instance>/<field>/selected" in early.seen)
        early.client.publish("nodes/live/b/t", "21.5", qos=1)
        early.client.publish("edge_tvbo/k/cmd/reset", json.dumps({"field": "live"}), qos=1)
        early.wait(lambda: "edge_tvbo/<instance>/response/<verb>" in early.seen)
        process.send_signal(signal.SIGHUP)
        early.wait(lambda: early.seen.keys() >= listed.keys())
        kept = retained_kinds(broker.port, retained)

    assert {kind: (kind in kept, qos) for kind, (_, qos) in early.seen.items()} == listed


def retained_kinds(port, expected):
    """Return the kinds that the broker retains; it retains a sleepy activation for a while only."""
    kept, deadline = set(), time.monotonic() + TIMEOUT_S
    while not kept >= expected and time.monotonic() < deadline:
        with ObservedField(port) as late:
            time.sleep(0.3)
            kept |= {kind for kind, (is_retained, _) in late.seen.items() if is_retained}
    return kept


@contextmanager
def daemon(config):
    """Run a daemon, and check that it exits with 0 when it is terminated."""
    command = [sys.executable, "-m", "edge_tvbo", "run", str(config)]
    process = subprocess.Popen(command, cwd=ROOT)
    try:
        yield process
    finally:
        process.terminate()
        assert process.wait(TIMEOUT_S) == 0
