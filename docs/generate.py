"""Generator of topics.md, configuration.md and commands.md, and of a table of troubleshooting.md.

    python docs/generate.py

The description of a JSON key is the comment of its field in `messages/documents.py`. The examples
come from a daemon without a broker, which this script runs for a few intervals. The description of
a setting is the one that `edge-tvbo config explain` prints. The description of a command is the
output of its `--help`. The advice for a rejected message is the advice in the log. `TOPICS` is
written by hand; a test compares it with the topics that a real daemon publishes on.
"""

import ast
import inspect
import io
import re
import tempfile
import tokenize
from collections.abc import Collection, Iterator
from enum import Enum
from itertools import groupby
from pathlib import Path
from textwrap import dedent
from typing import Any, NamedTuple, get_args

import click
import msgspec
from edge_tvbo_adapters.payloads.formats import FORMATS
from msgspec import inspect as types

from edge_tvbo.cli import SECTIONS, main
from edge_tvbo.config.docs import PolicyEntry, SettingEntry, entries, policy_entries
from edge_tvbo.config.loader import load
from edge_tvbo.daemon.build_controllers import controllers
from edge_tvbo.daemon.command_handler import CommandHandler
from edge_tvbo.daemon.decision_log import DecisionLog
from edge_tvbo.daemon.loop import Loop
from edge_tvbo.daemon.posterior_publisher import PosteriorPublisher
from edge_tvbo.daemon.rejection_log import INFO_HINTS, WARN_HINTS
from edge_tvbo.daemon.scheduler import Scheduler
from edge_tvbo.daemon.status import StatusCollector
from edge_tvbo.messages import documents
from edge_tvbo.messages.commands import Activate, Command, Notify, PublishState
from edge_tvbo.messages.documents import (
    Alert,
    Decision,
    Health,
    Hotspot,
    LinkStatus,
    Notice,
    NoticeKind,
    PublishedPosterior,
    Request,
    Response,
    Verb,
)
from edge_tvbo.messages.events import Event, Reading, Unreadable
from edge_tvbo.messages.formatting import MAX_NAMED_SENSORS

PAGES = Path(__file__).parent

# --- topics -------------------------------------------------------------------------------------


class Topic(NamedTuple):
    """One kind of topic that the daemon publishes on."""

    name: str
    retained: bool
    qos: int
    when: str
    document: type[msgspec.Struct] | None = None
    payload: str = ""  # the payload in words, if `document` is None

    @property
    def formatted(self) -> str:
        """Return the topic in backticks; a final part `, mode ...` stays outside the backticks."""
        topic, comma, mode = self.name.partition(", ")
        return f"`{topic}`{comma}{mode}"


BASE = "edge_tvbo/<instance>"
TOPICS = (
    Topic(
        f"{BASE}/status",
        True,
        1,
        "`online` after each connection and every 10 minutes; `offline` when the daemon stops, and "
        "when the connection is lost (last will)",
        payload="`online` or `offline`",
    ),
    Topic(
        f"{BASE}/health",
        True,
        1,
        "at the start; every 60 s (the setting `health`); after each decision, reply and time-out "
        "(at most once a second); after each command; after the clock was set",
        Health,
    ),
    Topic(f"{BASE}/event", False, 1, "on an event of the daemon", Notice),
    Topic(
        f"{BASE}/<field>/selected",
        True,
        1,
        "when a sensor is selected: at the beginning of an interval, for each further activation "
        "in the interval, and after the command `cmd/activate`",
        Decision,
    ),
    Topic(
        f"{BASE}/<field>/hotspot",
        True,
        1,
        "after each connection, decision and reply, if the policy has a model and a reading",
        Hotspot,
    ),
    Topic(
        f"{BASE}/<field>/alert",
        True,
        1,
        "for fields with the setting `alert`: together with `hotspot`, and when an alert begins or "
        "is over",
        Alert,
    ),
    Topic(
        f"{BASE}/<field>/posterior",
        True,
        1,
        "for fields of at most `publish_posterior` (100) sensors: when a sensor is selected, and "
        "after each reply and time-out",
        PublishedPosterior,
    ),
    Topic(f"{BASE}/<field>/event", False, 1, "on an event of the field", Notice),
    Topic(
        f"{BASE}/response/<verb>",
        False,
        1,
        "once for each command, but not for a retained command, and not if the commands are too "
        "frequent; for an unknown verb, the topic is `response/unknown`",
        Response,
    ),
    Topic(
        "activate.topic, mode live",
        False,
        1,
        "when a sensor is activated",
        payload="`activate.payload`",
    ),
    Topic(
        "activate.topic, mode sleepy",
        True,
        1,
        "when a sensor is activated; cleared after the reply or the time-out",
        payload="`activate.payload`; empty to clear it",
    ),
    Topic(
        "activate.topic, mode lorawan",
        False,
        0,
        "when a sensor is activated; after the reply or the time-out, the daemon cancels the "
        "downlink if the network server supports that",
        payload="`activate.payload`, which is a downlink",
    ),
    Topic(
        "<prefix>/device/edge_tvbo_<instance>/config",
        True,
        1,
        "only with `[homeassistant]`: each time Home Assistant starts; when the daemon starts, if "
        "the copy that the broker retains is out of date",
        payload="the [discovery message](home-assistant.md)",
    ),
)
SUBSCRIBED = (
    (
        "`reading.topic`",
        "a reading in the format `reading.payload`; see [sensors.md](sensors.md)",
    ),
    ("`energy.battery.topic`", "the charge of a sensor's battery, in %"),
    (
        f"`{BASE}/cmd/<verb>`",
        "a command: a [Request](#request); see [home-assistant.md](home-assistant.md#commands)",
    ),
    (
        f"`{BASE}/health`",
        "the health of this daemon, and of a second daemon of the same instance if there is one"
        " ([E415](errors.md#e415-a-second-daemon-of-the-instance-is-running)). The daemon"
        " subscribes to this topic with QoS 0",
    ),
    ("`homeassistant.birth`", "`online` when Home Assistant has started"),
    (
        "`<prefix>/device/edge_tvbo_<instance>/config`",
        "the daemon's own discovery message, which the broker retains",
    ),
)

EVENTS: dict[NoticeKind, str] = {
    "alert": "an [alert](sensors.md#alerts) begins",
    "alert-over": "an alert is over",
    "all-suspect": "all sensors are unresponsive; until a sensor responds, the sensors are selected"
    " in turn",
    "battery-low": "the charge of a sensor's battery is below `energy.battery.least`",
    "clock-step": "the wall clock was set while the daemon was running",
    "clock-synced": "the wall clock was set; before, it showed a time before 2026. (If it showed a"
    " later time, such as that of the last shutdown, the event is `clock-step`.)",
    "inputs-silent": "no sensor has sent a message during the time that `mqtt.silence` sets, so the"
    " daemon reconnects",
    "message-refused": "the broker refuses the daemon's messages on a topic, because its access"
    ' rules forbid the topic (known only with `mqtt.version = "5"`) or because the message is too'
    " large; the event is on `<field>/event` if the message activates a sensor. The event is"
    " published again only if the broker has accepted a message on the topic since, and at the"
    " earliest after 10 minutes",
    "model-reset": "the model was reset, for one of three reasons: a reading contradicts the model,"
    " the largest number of replies (`n_upper`) was reached, or `cmd/reset` was sent; the text"
    " compares the reading with the estimate",
    "paused": "`cmd/pause` has paused the field",
    "reload": "the daemon has read the configuration again",
    "resumed": "`cmd/resume` has resumed the field",
    "second-daemon": "another daemon of the same instance publishes to the broker"
    " ([E415](errors.md#e415-a-second-daemon-of-the-instance-is-running))",
    "sensor-agrees": "the readings of a faulty sensor agree with the estimate again",
    "sensor-back": "an unresponsive sensor has sent a reading",
    "sensor-faulty": "a sensor seems to be [faulty](faults.md). When a third of the sensors are"
    " faulty, the text says that faults of further sensors will not be reported",
    "sensor-ignored": "`cmd/ignore` has taken a sensor out of use",
    "sensor-implausible": "a sensor has sent a reading outside the plausible range",
    "sensor-lost": "a sensor is [unresponsive](sensors.md#which-sensors-are-unresponsive)",
    "sensor-used": '`cmd/ignore` with `"ignored": false` has put an ignored sensor back into use',
    "some-back": "after the event `all-suspect`: a sensor has sent a reading, or an ignored sensor"
    " is used again",
    "state-removed": "the lock file of the stored state was removed or replaced while the daemon"
    " was running, perhaps together with the state directory; the daemon has locked it again",
    "threshold-set": "`cmd/threshold` has changed the threshold of the alert",
}
OF_DAEMON = (
    "clock-step",
    "clock-synced",
    "message-refused",
    "reload",
    "second-daemon",
    "state-removed",
)  # events on the topic of the daemon

# --- a daemon for the examples ------------------------------------------------------------------

GATEWAY = """
instance = "lab"
[fields.temperature]
unit = "°C"
interval = "10min"
policy = { name = "et-gp-ucb", delta_b = 0.1, n_upper = 29 }
kernel = { name = "exchangeable", variance = 4.0, noise_variance = 0.04, mean = 21.0 }
sensors = ["hall", "attic", "kitchen"]
reading = { topic = "lab/{sensor}/temperature" }
activate = { mode = "live", topic = "lab/{sensor}/get" }
energy = { cost = 0.5, budget = 40.0 }
alert = { threshold = 24.0, hysteresis = 0.5 }
"""
START = 1_772_438_400.0  # 2026-03-02T08:00:00Z
MEASURED = {"hall": 20.9, "attic": 23.6, "kitchen": 22.4}
INTERVALS = 9
SILENT_SINCE = 4  # the first interval in which no sensor replies
REQUESTED: tuple[Verb, Request] = ("pause", Request(field="temperature", transaction="17"))


class ManualClock:
    """A clock whose time the script sets."""

    speed = 1.0
    min_reply_time = 0.0
    is_set = is_synced = counts_as_synced = True

    def __init__(self) -> None:
        self.now = 0.0

    def elapsed(self) -> float:
        return self.now

    def wall(self, elapsed: float) -> float:
        return START + elapsed

    def resync(self) -> float:
        return 0.0

    def catch_up(self, due: float, interval: float) -> int:
        return 1


class RecordingLink:
    """A `Link` to three sensors that reply immediately; it keeps the last document of each type."""

    online = True

    def __init__(self, clock: ManualClock) -> None:
        self.documents: dict[type, Any] = {}
        self.requested: list[tuple[Verb, Request] | Unreadable] = []
        self._clock = clock
        self._replies: list[tuple[str, Event]] = []

    def interest(self) -> None:
        return None

    def alive(self, now: float) -> bool:
        return True

    def status(self) -> LinkStatus:
        return LinkStatus()

    def wake_at(self) -> float:
        return 0.0

    def service(self, mask: int, now: float) -> list[tuple[str, Event]]:
        replies, self._replies = self._replies, []
        return replies

    def acknowledge(self) -> None:
        pass

    def recall(self, field: str) -> tuple[()]:
        return ()

    def requests(self) -> Iterator[tuple[Verb, Request] | Unreadable]:
        while self.requested:
            yield self.requested.pop(0)

    def send(self, field: str, command: Command) -> None:
        match command:
            case Activate(sensor=sensor, interval=interval) if interval < SILENT_SINCE:
                at = self._clock.wall(self._clock.now)
                value = MEASURED[sensor] + 0.1 * interval
                self._replies.append((field, Reading(sensor, value, at, at)))
            case PublishState(decision=document) | Notify(notice=document):
                self._keep(document)
            case _:
                pass

    def show(self, field: str, document: Hotspot | Alert | PublishedPosterior) -> None:
        self._keep(document)

    def announce(self, notice: Notice) -> None:
        self._keep(notice)

    def expect_readings(self, fields: Collection[str]) -> None:
        pass

    def report(self, health: Health) -> None:
        uptime_s = int(self._clock.now)
        self._keep(msgspec.structs.replace(health, uptime_s=uptime_s, kernels="just in time"))

    def respond(self, verb: Verb, response: Response) -> None:
        self._keep(response)

    def close(self) -> None:
        pass

    def _keep(self, document: msgspec.Struct) -> None:
        self.documents[type(document)] = document


def examples() -> dict[type, Any]:
    """Run a daemon without a broker; return the last document of each type."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "lab.toml"
        path.write_text(GATEWAY, encoding="utf-8")
        running = controllers(load(path))
    clock = ManualClock()
    link = RecordingLink(clock)
    schedule = Scheduler(dict.fromkeys(running, 600.0), clock, first=clock.now)
    posteriors = PosteriorPublisher(link.show, running, lambda: clock.wall(clock.now))
    status, decisions = StatusCollector(clock, "5f3a9c1e"), DecisionLog()
    status.attach(running, link, period=0.0)
    loop = Loop(
        link,
        running,
        schedule,
        clock,
        handler=CommandHandler(running, status.health, decisions.decisions, schedule.next_interval),
        observers=[posteriors, decisions.update, status],
        services=[status],
    )
    for interval in range(INTERVALS):
        clock.now = 600.0 * interval
        loop.turn(0)
        clock.now += 2.5
        loop.turn(0)
    clock.now += 120.0
    loop.turn(0)  # the silent sensor has timed out
    shown = dict(link.documents)
    link.requested.append(REQUESTED)
    loop.turn(0)
    return shown | {Request: REQUESTED[1], Response: link.documents[Response]}


# --- topics.md ----------------------------------------------------------------------------------


WIRE = """\
# Topics and payloads

<!-- Written by docs/generate.py; `make docs` updates it. -->

The protocol is MQTT 3.1.1, or MQTT 5 with `mqtt.version = "5"` ([brokers.md](brokers.md)). The
daemon publishes its documents as JSON in UTF-8, without NaN or infinity. Later versions may add
keys to a document, so ignore keys that you do not know. The tables on this page use these names:

- `<instance>` is the setting `instance`;
- `<field>` is the name of a field: the field has the table `[fields.<name>]` in the configuration;
- `<prefix>` is the setting `homeassistant.prefix`;
- `activate.topic`, `reading.topic` and `energy.battery.topic` are topics that you set in the
  [configuration](configuration.md);
- 'for "min"' means: if the field has the setting `objective = "min"`.

## What the daemon publishes

{published}

The broker retains the newest document of a retained topic for later subscribers, and the daemon
publishes this document again after each reconnect. A document that is not retained is published
once. Such a document may arrive twice if the connection breaks before the broker has acknowledged
it.

After a reload, or a restart with the setting `state.history`, the daemon publishes the last
`selected` and `posterior` of each field again. In three cases, the daemon publishes `selected` and
`posterior` only with the next decision: after a restart without a history, after a kill or a power
cut, and for a paused field.

The daemon does not publish a message that is too large for the broker, or that makes the broker end
each session ([E400](errors.md#e400-the-connection-failed)). A retained topic then keeps its
previous document, and `problem` in [Health](#health) names the topic. With `mqtt.version =
"3.1.1"`, the daemon recognises such a message only after the message has ended three sessions, and
only if it has 1 kB or more.

## What the daemon subscribes to

{subscribed}

The daemon subscribes with QoS 1, except to its own health document. The daemon counts retained
readings but does not use them, and it ignores retained commands. Sensors and other clients of the
broker may use either version of MQTT.

**Messages that wait at the broker.** The daemon acknowledges a reading after the model has used it.
Messages that the daemon has not yet acknowledged wait at the broker. Mosquitto has two limits for
the waiting messages, and drops messages above a limit, although it has acknowledged the dropped
messages to the sensors. If more messages may wait, raise both limits:

- `max_queued_messages` limits the number of waiting messages. It is 1000 by default and in the
  shipped [mosquitto.conf](../deploy/mosquitto.conf);
- `max_queued_bytes` limits the total size of the waiting messages.

While the daemon is not running, the broker keeps no messages for the daemon. While the daemon
compiles its kernels, no messages wait, because it compiles the kernels before it subscribes.

**Slow acknowledgements.** If the broker delays small packets, each acknowledgement takes 40 ms.
`edge-tvbo check --connect` detects this delay. To remove it, set `set_tcp_nodelay true` in the
configuration of mosquitto.

{documents}
"""


def topics() -> str:
    """Return the text of topics.md."""
    shown = examples()
    described = [each.document for each in TOPICS if each.document]
    parts = [
        part
        for kind in reachable(dict.fromkeys([*described, Request]))
        for part in section(kind, shown.get(kind))
    ]
    rows = (
        (
            each.formatted,
            "yes" if each.retained else "no",
            str(each.qos),
            each.when,
            linked(each.document) if each.document else each.payload,
        )
        for each in TOPICS
    )
    return WIRE.format(
        published=table(("topic", "retained", "QoS", "when", "payload"), rows),
        subscribed=table(("topic", "content"), SUBSCRIBED),
        documents="\n\n".join(parts),
    )


def section(kind: type, example: Any) -> Iterator[str]:
    """Yield the Markdown paragraphs about one document type: description, keys and example."""
    yield f"## {kind.__name__}"
    yield escaped(inspect.getdoc(kind) or "")
    meant = comments(kind)
    if issubclass(kind, Enum):
        yield table(("word", "meaning"), ((f'`"{each}"`', meant[each.name]) for each in kind))
        return
    info = types.type_info(kind)
    assert isinstance(info, types.StructType)
    yield table(
        ("key", "type", "meaning"),
        (
            (f"`{each.name}`", in_words(each.type), escaped(meant.get(each.name, "")))
            for each in info.fields
        ),
    )
    if example is not None:
        yield f"```json\n{document(example)}\n```"
    if kind is Notice:
        yield "### Events"
        yield (
            "The daemon publishes each event on its topic, and logs it. If a field has more than"
            f" {MAX_NAMED_SENSORS} events of the same kind about its sensors in an interval, the"
            f" log contains only the first {MAX_NAMED_SENSORS} of them, and the number of the"
            " others."
        )
        yield table(("event", "topic", "meaning"), events())


def events() -> Iterator[tuple[str, str, str]]:
    """Yield a row for each event of a notice: its name, its topic and its meaning."""
    for kind in sorted(get_args(NoticeKind)):
        topic = "event" if kind in OF_DAEMON else "<field>/event"
        yield f'`"{kind}"`', f"`{topic}`", EVENTS[kind]


def comments(kind: type) -> dict[str, str]:
    """Return the comments of a document's fields in `messages/documents.py`, by field name."""
    source = inspect.getsource(documents)
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    at = {each.start[0]: each.string for each in tokens if each.type == tokenize.COMMENT}
    (node,) = (
        each
        for each in ast.parse(source).body
        if isinstance(each, ast.ClassDef) and each.name == kind.__name__
    )
    found = {}
    for line in node.body:
        if isinstance(line, ast.AnnAssign | ast.Assign) and line.end_lineno in at:
            target = line.target if isinstance(line, ast.AnnAssign) else line.targets[0]
            meaning = at[line.end_lineno].removeprefix("# ")
            for python, json in (("None", "null"), ("False", "false"), ("True", "true")):
                meaning = re.sub(rf"\b{python}\b", f"`{json}`", meaning)
            found[ast.unparse(target)] = meaning
    return found


def in_words(kind: types.Type) -> str:
    """Return the type of a JSON key in words for topics.md, such as "whole number or null"."""
    match kind:
        case types.StrType():
            return "text"
        case types.IntType():
            return "whole number"
        case types.FloatType():
            return "number"
        case types.BoolType():
            return "true or false"
        case types.NoneType():
            return "null"
        case types.LiteralType(values=values):
            return ", ".join(f'`"{each}"`' for each in values)
        case types.ListType(item_type=item) | types.VarTupleType(item_type=item):
            return f"array of: {in_words(item)}"
        case types.DictType(value_type=value):
            return f"object that maps names to: {in_words(value)}"
        case types.StructType(cls=cls) | types.EnumType(cls=cls):
            return linked(cls)
        case types.UnionType(types=members):
            return " or ".join(in_words(each) for each in members)
        case _:
            raise TypeError(f"docs/generate.py cannot describe the type {kind}; add it to in_words")


def reachable(kinds: Any) -> list[type]:
    """Return the types of a generated page: `kinds` and the types that they contain.

    Each type is returned once. The types that a kind contains come directly after this kind, except
    types that an earlier kind also contains.
    """
    found: dict[type, None] = {}

    def visit(kind: types.Type) -> None:
        match kind:
            case types.EnumType(cls=cls):
                found[cls] = None
            case types.StructType(cls=cls, fields=fields) if cls not in found:
                found[cls] = None
                for field in fields:
                    visit(field.type)
            case types.UnionType(types=members):
                for member in members:
                    visit(member)
            case types.ListType(item_type=item) | types.DictType(value_type=item):
                visit(item)

    for kind in kinds:
        visit(types.type_info(kind))
    return list(found)


def document(example: msgspec.Struct) -> str:
    """Return a document as JSON, with one line for each key."""
    items = msgspec.to_builtins(example).items()
    lines = (f'  "{key}": {one_line(value)}' for key, value in items)
    return "{\n" + ",\n".join(lines) + "\n}"


def one_line(value: Any) -> str:
    """Return a value as JSON on one line of a page, with a space after each comma and colon."""
    return msgspec.json.format(msgspec.json.encode(value), indent=0).decode()


# --- configuration.md ---------------------------------------------------------------------------


SETTINGS = """\
# Configuration

<!-- Written by docs/generate.py; `make docs` updates it. -->

The configuration is one file in TOML. You can start from
[config.example.toml](../deploy/config.example.toml), which has comments. A duration is a text such
as `"500ms"`, `"10s"`, `"10min"`, `"1.5h"` or `"1d"`. A relative path starts at the directory of the
configuration file. These commands help to write the file:

- `edge-tvbo check my.toml` reports every error in the file, with its line. Some errors, such as a
  plausible range in another unit, are found only when the models are built. These errors are
  reported only if the file has no other errors. The command also warns of each setting that has
  no effect because of other settings; the daemon logs the same warnings.
- `edge-tvbo config explain` prints the settings on this page.
- `edge-tvbo schema` prints a JSON Schema, with which an editor can complete and check settings.

Environment variables override the file: `EDGE_TVBO__MQTT__HOST=broker.lan` sets `host` of
`[mqtt]`. Any text in the file may contain environment variables:

- `${{BROKER}}` is replaced by the value of the variable `BROKER`. If the variable is not set,
  `${{BROKER}}` is an error.
- `${{BROKER:-broker.lan}}` is replaced by the value of `BROKER`, or by `broker.lan` if the variable
  is not set.
- `${{BROKER:?set it in my.env}}` is an error if the variable `BROKER` is not set or is empty. The
  error contains the text `set it in my.env`.
- `$${{` is replaced by the characters `${{`, which a password may contain. Any other `${{` is an
  error.

{settings}

## Policies and their parameters

The setting `name` in `[fields.<name>.policy]` is one of the following policies.
[policies.md](policies.md) says when to use which policy. Every policy also has the parameter
`seed`. [references.md](references.md) lists the papers in brackets, such as [ET].

{policies}

## Formats of readings

`payload` in `[fields.<name>.reading]`, in `[[fields.<name>.readings]]` and in
`[fields.<name>.energy.battery]` is one of {formats}.
[sensors.md](sensors.md) describes each format; [adapters.md](adapters.md) explains how to add one.
"""


def configuration() -> str:
    """Return the text of configuration.md."""
    parts = []
    arrays = {each.key for each in entries() if each.is_array}
    for parent, group in groupby(sections(), key=lambda each: each.key.rpartition(".")[0]):
        head = ("setting", "allowed", "default", "description")
        header = f"[[{parent}]]" if parent in arrays else f"[{parent}]"
        title = f"## `{header}`" if parent else "## Top-level settings"
        parts += [title, table(head, map(row, group))]
    return SETTINGS.format(
        settings="\n\n".join(parts),
        policies="\n\n".join(map(policy_section, policy_entries())),
        formats=", ".join(f"`{each}`" for each in FORMATS.builtin),
    )


def policy_section(policy: PolicyEntry) -> str:
    """Return the section of a policy: its description and the table of its parameters."""
    parts = [f"### `{policy.name}`", escaped(policy.description)]
    if policy.parameters:
        head = ("parameter", "allowed", "default", "description")
        parts.append(table(head, map(row, policy.parameters)))
    return "\n\n".join(parts)


def sections() -> list[SettingEntry]:
    """Return all settings for configuration.md, grouped by table, in the order of the tables."""
    found = list(entries())
    tables = list(dict.fromkeys(each.key.rpartition(".")[0] for each in found))
    return sorted(found, key=lambda each: tables.index(each.key.rpartition(".")[0]))


def row(entry: SettingEntry) -> tuple[str, str, str, str]:
    """Return a setting's row in the generated page; for a table, the setting's name is a link."""
    name = f"`{entry.key.rpartition('.')[2]}`"
    if entry.is_table:
        below = {each.key.rpartition(".")[0] for each in entries()}
        inside = entry.key if entry.key in below else f"{entry.key}.<name>"
        name = f"[{name}](#{re.sub('[^a-z0-9_-]', '', inside)})"
    default = "required" if entry.required else escaped(entry.default)
    return name, escaped(entry.expected), default, escaped(entry.description)


# --- troubleshooting.md --------------------------------------------------------------------------


MARK = "<!-- The table below is written by docs/generate.py; `make docs` updates it. -->"


def troubleshooting() -> str:
    """Return the text of troubleshooting.md, with a new table of the rejected messages."""
    above, mark, _ = (PAGES / "troubleshooting.md").read_text("utf-8").partition(MARK)
    hints = WARN_HINTS | INFO_HINTS
    rows = (
        (f"`{reason}`", "information" if reason in INFO_HINTS else "warning", escaped(hint))
        for reason, hint in sorted(hints.items())
    )
    return f"{above}{mark}\n\n{table(('reason', 'log level', 'meaning, and advice'), rows)}\n"


# --- commands.md --------------------------------------------------------------------------------


COMMANDS = """\
# Commands

<!-- Written by docs/generate.py; `make docs` updates it. -->

This page contains the help of each command, which the option `--help`, or `-h`, prints.
[completion](#edge-tvbo-completion) lets a shell complete the names of commands and options.

{main}

{commands}
"""


def commands() -> str:
    """Return the text of commands.md."""
    parts = []
    for title, names in SECTIONS.items():
        parts.append(f"## {title}")
        for name in names:
            parts += command_section(f"edge-tvbo {name}", main.get_command(None, name))
    _, *about = help_text(main)
    return COMMANDS.format(main="\n\n".join(about), commands="\n\n".join(parts))


def command_section(words: str, command: click.Command) -> Iterator[str]:
    """Yield the Markdown paragraphs about a command and its subcommands."""
    context = click.Context(command)
    summary, *details = help_text(command)
    yield f"### `{words}`"
    yield summary
    if isinstance(command, click.Group):
        yield from details
        for name in command.list_commands(context):
            yield from command_section(f"{words} {name}", command.get_command(context, name))
        return
    yield f"```\n{' '.join([words, *command.collect_usage_pieces(context)])}\n```"
    yield from details
    options = [each for each in command.params if isinstance(each, click.Option)]
    records = [each.get_help_record(context) for each in options if not each.hidden]
    if records:
        rows = ((escaped(f"`{option}`"), in_markdown(text)) for option, text in records)
        yield table(("option", "meaning"), rows)


def help_text(command: click.Command) -> list[str]:
    """Return the help of a command as Markdown paragraphs.

    A paragraph that click does not wrap becomes a code block.
    """
    paragraphs = inspect.cleandoc(command.help or "").split("\n\n")
    return [
        f"```\n{dedent(each[2:])}\n```" if each.startswith("\b\n") else in_markdown(each)
        for each in paragraphs
    ]


def in_markdown(text: str) -> str:
    """Return a part of a help text as Markdown: options become code, and paths of pages links."""
    for written, shown in (("  [", " ["), ("<=", " ≤ "), (">=", " ≥ "), ("*", "\\*")):
        text = text.replace(written, shown)
    parts = text.split("`")
    for number in range(0, len(parts), 2):
        part = re.sub(r"--[a-z][a-z-]*", r"`\g<0>`", parts[number])
        parts[number] = re.sub(r"\bdocs/(\w+\.md)", r"[\1](\1)", part)
    return escaped("`".join(parts))


# --- Markdown -----------------------------------------------------------------------------------


def table(head: tuple[str, ...], rows: Any) -> str:
    """Return a Markdown table with the header cells `head` and the given rows."""
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(each)} |" for each in lines)


def linked(kind: type) -> str:
    """Return a Markdown link to the section about a document type."""
    return f"[{kind.__name__}](#{kind.__name__.lower()})"


def escaped(text: str) -> str:
    """Return `text` for a cell of a generated page: escape each `|`, and each `<` outside code."""
    parts = text.split("`")
    parts[::2] = [each.replace("<", "\\<") for each in parts[::2]]
    return "`".join(parts).replace("|", "\\|")


def pages() -> dict[Path, str]:
    """Return the text of each generated page, by the path of its file."""
    texts = {
        "topics": topics(),
        "configuration": configuration(),
        "commands": commands(),
        "troubleshooting": troubleshooting(),
    }
    return {PAGES / f"{name}.md": text for name, text in texts.items()}


if __name__ == "__main__":
    for page, text in pages().items():
        page.write_text(text, encoding="utf-8")
