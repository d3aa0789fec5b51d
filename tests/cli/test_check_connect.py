"""`check --connect` with working and with misconfigured brokers."""

import json
import re
import socket
import subprocess
import sys
import time
from contextlib import closing, contextmanager

import pytest
from click.testing import CliRunner
from edge_tvbo_adapters.mqtt import short_session
from edge_tvbo_adapters.mqtt.short_session import ShortSession
from edge_tvbo_adapters.simulation import local_broker
from support.mosquitto import TIMEOUT_S, write_passwords
from support.paths import DEPLOY
from support.ports import free_port
from support.settings import VERSION

from edge_tvbo.cli import main
from edge_tvbo.cli.settings import settings_of
from edge_tvbo.errors import Code, LinkError

FIELD = """
[fields.heat]
interval = "10min"
sensors = ["a", "b", "c"]
reading = { topic = "lab/{sensor}/t" }
kernel = { name = "exchangeable", variance = 9, noise_variance = 0.1, mean = 20 }
"""


def configured(directory, port, mqtt=""):
    path = directory / "my.toml"
    path.write_text(f'instance = "lab"\n[mqtt]\nport = {port}\n{mqtt}\n{FIELD}')
    return path


@pytest.fixture(autouse=True)
def longer_timeouts(monkeypatch):
    """Let the check wait for its own message on a busy machine."""
    monkeypatch.setattr("edge_tvbo_adapters.mqtt.connection_check.ECHO_TIMEOUT_S", 5.0)


def tried(path, listen="1s"):
    """Return the exit status and the result of each step."""
    command = ["check", "--connect", "--listen", listen, "--json", str(path)]
    result = CliRunner().invoke(main, command, catch_exceptions=False)
    assert "hunter2" not in result.output
    return result.exit_code, json.loads(result.stdout)["broker"]


def tried_until(path, expected):
    """Return the exit status and the result of each step, once the round trip is as expected.

    On a busy machine, a round trip may take any time.
    """
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        status, steps = tried(path)
        (text,) = [each["text"] for each in steps if "round trip" in each["text"]]
        if expected(float(re.search(r"takes ([0-9.]+) ms", text)[1])):
            return status, steps
        assert time.monotonic() < deadline, text


def test_after_ctrl_c_the_readings_until_then_are_printed(mosquitto, peer, tmp_path, monkeypatch):
    broker = mosquitto()
    broker.start()
    peer(broker.port).publish("lab/a/t", "21.3", retain=True)
    listen = short_session.ShortSession.listen

    def interrupted(session, until, *done):
        if not done:
            raise KeyboardInterrupt
        listen(session, until, *done)

    monkeypatch.setattr(short_session.ShortSession, "listen", interrupted)

    status, steps = tried(configured(tmp_path, broker.port), listen="1h")

    assert status == 0
    assert re.fullmatch(
        r"heat: 0 of 3 sensors sent a reading within [0-9.]+ s; sensors with only a retained "
        r"message \(.*\): a; sensors without a reading: b, c; if the sensors report rarely, "
        r"listen for longer, such as --listen 10min",
        steps[-1]["text"],
    )


def test_every_step_succeeds_with_a_working_broker(mosquitto, peer, tmp_path):
    broker = mosquitto()
    broker.start()
    other = peer(broker.port)
    other.publish("lab/a/t", "21.3", retain=True)
    other.publish("lab/b/t", "warm", retain=True)
    other.publish("lab/d/t", "21.3", retain=True)

    status, steps = tried_until(configured(tmp_path, broker.port), lambda took: took < 35)

    texts = [each["text"] for each in steps]
    assert (status, {each["good"] for each in steps}) == (0, {True}), steps
    assert f"127.0.0.1, port {broker.port}, answers in" in texts[0]
    assert texts[1:3] == [
        "the broker accepts the connection, without a login",
        "subscribed to lab/+/t",
    ]
    assert re.search(r"takes [0-9.]+ ms$", texts[3])
    assert texts[4] == "messages under edge_tvbo/lab/ arrive"
    assert "0 of 3 sensors" in texts[5]
    assert "only a retained message (the daemon ignores retained messages): a;" in texts[5]
    assert "without a reading: b, c" in texts[5]
    assert "messages of sensors that are not configured: 1" in texts[5]
    assert "rejected: 1 not-a-number" in texts[5]
    other.wait(lambda: other.on("edge_tvbo/lab/response/check"))
    assert not any(kept for topic, _, kept in other.received if topic.startswith("edge_tvbo"))


def test_sensors_that_are_not_configured_are_named_if_they_sent_a_reading(
    mosquitto, peer, tmp_path
):
    """A device that was renamed is one of them; a plug without a thermometer is not."""
    broker = mosquitto()
    broker.start()
    other = peer(broker.port)
    for name, payload in {"Schlafzimmer": "21.3", "e\u2028": "4", "plug": "null"}.items():
        other.publish(f"lab/{name}/t", payload, retain=True)

    command = ["check", "--connect", "--listen", "1s", str(configured(tmp_path, broker.port))]
    line = CliRunner().invoke(main, command, catch_exceptions=False).stdout.splitlines()[-1]

    assert "of sensors that are not configured: 3 (with a reading: " in line
    assert set(re.search(r"with a reading: (.*?)\)", line)[1].split(", ")) == {
        "Schlafzimmer",
        "e\N{REPLACEMENT CHARACTER}",
    }


def test_the_first_cause_of_each_kind_of_rejection_is_printed(mosquitto, peer, tmp_path):
    broker = mosquitto()
    broker.start()
    other = peer(broker.port)
    for name, payload in {"a": "null", "b": "warm", "c": "nan"}.items():
        other.publish(f"lab/{name}/t", payload, retain=True)

    status, steps = tried(configured(tmp_path, broker.port))

    assert status == 1
    assert re.search(
        r"rejected: 2 not-a-number \('(null|warm)' is not a number\), "
        r"1 non-finite \(the value is nan\); check reading.payload and reading.value",
        steps[-1]["text"],
    )


@pytest.mark.parametrize(
    ("value", "label", "text"),
    [
        ("battery", "good", "1 of 3 sensors sent a charge within 1 s"),
        (
            "batterie",
            "none",
            "0 of 3 sensors sent a charge within 1 s; if the sensors report rarely, listen for "
            "longer, such as --listen 10min; otherwise check topic, payload and value of "
            "energy.battery",
        ),
    ],
)
def test_the_charges_of_batteries_are_counted(
    mosquitto, peer, tmp_path, monkeypatch, value, label, text
):
    broker = mosquitto()
    broker.start()
    path = configured(tmp_path, broker.port)
    reading = '{ topic = "lab/{sensor}/t", payload = "json", value = "t" }'
    settings = path.read_text().replace('{ topic = "lab/{sensor}/t" }', reading)
    battery = 'topic = "lab/{sensor}/t"\npayload = "json"\n'
    path.write_text(f'{settings}[fields.heat.energy.battery]\n{battery}value = "{value}"\n')
    sender, listen = peer(broker.port), short_session.ShortSession.listen

    def listen_to_the_device(session, until, *done):
        sender.publish("lab/a/t", '{"t": 21.3, "battery": 88}')
        listen(session, until, *done)

    monkeypatch.setattr(short_session.ShortSession, "listen", listen_to_the_device)
    command = ["check", "--connect", "--listen", "1s", str(path)]
    line = CliRunner().invoke(main, command, catch_exceptions=False).stdout.splitlines()[-1]

    assert line == f"{label}  heat, energy.battery: {text}"


@pytest.mark.parametrize("number", [1, 12, 40])
def test_sensors_that_sent_nothing_are_named_up_to_a_bound(mosquitto, tmp_path, number):
    broker = mosquitto()
    broker.start()
    path = configured(tmp_path, broker.port)
    sensors = [f"s{index}" for index in range(number)]
    path.write_text(path.read_text().replace('["a", "b", "c"]', json.dumps(sensors)))

    status, steps = tried(path, "100ms")

    text = steps[-1]["text"]
    more = " and 28 more" if number == 40 else ""
    assert status == 0
    assert (
        f"without a reading: {', '.join(sensors[:12])}{more}; if the sensors report rarely, listen"
        in text
    )
    assert "otherwise check the topic, and whether the broker's ACL allows" in text


@pytest.mark.parametrize(
    ("limit", "version", "words"),
    [
        ("retain_available false", "5", "the broker retains no messages"),
        ("retain_available false", "3.1.1", "the broker's log says why"),
        ("max_qos 0", "5", "the broker accepts only QoS 0"),
        ("max_qos 0", "3.1.1", "the broker's log says why"),
    ],
)
def test_a_broker_that_the_daemon_cannot_use_is_not_called_good(
    mosquitto, tmp_path, limit, version, words
):
    broker = mosquitto(f"allow_anonymous true\n{limit}\n")
    broker.start()
    status, steps = tried(configured(tmp_path, broker.port, f'version = "{version}"'))
    assert status == 1
    assert not steps[-1]["good"]
    assert words in steps[-1]["text"]


def test_a_source_without_a_reading_is_not_called_good(mosquitto, tmp_path):
    broker = mosquitto()
    broker.start()
    command = ["check", "--connect", "--listen", "100ms", str(configured(tmp_path, broker.port))]
    result = CliRunner().invoke(main, command, catch_exceptions=False)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1].startswith("none  heat: 0 of 3 sensors sent a reading")


@pytest.mark.parametrize("number", [3, 40])
def test_the_sources_of_one_device_are_told_apart_and_many_good_ones_share_a_line(
    mosquitto, peer, tmp_path, monkeypatch, number
):
    broker = mosquitto()
    broker.start()
    path = configured(tmp_path, broker.port)
    sensors = [f"s{index}" for index in range(number)]
    sources = "".join(
        f"[[fields.heat.readings]]\nsensors = [{json.dumps(sensor)}]\n"
        f'topic = "{{sensor}}"\npayload = "json"\nvalue = "t{index}"\n'
        for index, sensor in enumerate(sensors)
    )
    names = ", ".join(f'{sensor} = "bus"' for sensor in sensors)
    text = path.read_text().replace('["a", "b", "c"]', json.dumps(sensors))
    reading = 'reading = { topic = "lab/{sensor}/t" }'
    path.write_text(text.replace(reading, f"names = {{ {names} }}") + sources)
    sender, listen = peer(broker.port), short_session.ShortSession.listen
    body = json.dumps({f"t{index}": 20 + index for index in range(1, number)})

    def listen_to_the_device(session, until, *done):
        sender.publish("bus", body)
        listen(session, until, *done)

    monkeypatch.setattr(short_session.ShortSession, "listen", listen_to_the_device)

    status, steps = tried(path)

    texts = [each["text"] for each in steps if each["text"].startswith("heat")]
    good = [f"heat, {{sensor}}, t{index}: 1 of 1 sensors sent a reading" for index in (1, 2)]
    if number == 40:
        good = ["heat: all sensors of 39 sources sent a reading"]
    silent = "heat, {sensor}, t0: 0 of 1 sensors sent a reading"
    assert status == 1
    assert sorted(each.partition(" within")[0] for each in texts) == sorted([*good, silent])


def test_sources_with_the_same_topic_and_value_are_told_apart_by_their_sensors(mosquitto, tmp_path):
    broker = mosquitto()
    broker.start()
    path = configured(tmp_path, broker.port)
    text = path.read_text()
    sources = "".join(
        f"[[fields.heat.readings]]\nsensors = {sensors}\nscale = {scale}\n"
        'topic = "lab/{sensor}/t"\n'
        for sensors, scale in (('["a", "b"]', 1.0), ('["c"]', 0.5))
    )
    path.write_text(text.replace('reading = { topic = "lab/{sensor}/t" }', "") + sources)

    result = CliRunner().invoke(main, ["check", "--connect", "--listen", "100ms", str(path)])

    assert "heat, lab/{sensor}/t (a, b): 0 of 2 sensors" in result.stdout
    assert "heat, lab/{sensor}/t (c): 0 of 1 sensors" in result.stdout


def test_many_topics_share_a_line(mosquitto, tmp_path):
    broker = mosquitto()
    broker.start()
    path = configured(tmp_path, broker.port)
    sources = "".join(
        f'[[fields.heat.readings]]\ntopic = "{{sensor}}/{number}"\nsensors = ["s{number}"]\n'
        for number in range(40)
    )
    text = path.read_text().replace('reading = { topic = "lab/{sensor}/t" }', "")
    sensors = json.dumps([f"s{number}" for number in range(40)])
    path.write_text(text.replace('["a", "b", "c"]', sensors) + sources)

    _, steps = tried(path, "100ms")

    (subscribed,) = [each["text"] for each in steps if "subscribed" in each["text"]]
    assert subscribed == f"subscribed to {', '.join(f'+/{n}' for n in range(12))} and 28 more"


def test_a_broker_that_delays_small_packets_is_reported_with_the_fix(
    mosquitto,
    monkeypatch,
    tmp_path,
):
    quick = local_broker.MOSQUITTO
    monkeypatch.setattr(local_broker, "MOSQUITTO", quick.replace("set_tcp_nodelay true\n", ""))
    broker = mosquitto()
    broker.start()

    status, steps = tried_until(configured(tmp_path, broker.port), lambda took: 35 < took < 60)

    (found,) = [each["text"] for each in steps if "round trip" in each["text"]]
    assert status == 0
    assert "`set_tcp_nodelay true` in its configuration" in found


def test_a_running_daemon_is_reported_and_not_disturbed(mosquitto, peer, tmp_path):
    broker = mosquitto()
    broker.start()
    other = peer(broker.port)
    path = configured(tmp_path, broker.port)
    command = [sys.executable, "-m", "edge_tvbo", "run", str(path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as daemon:
        try:
            other.wait(lambda: other.on("edge_tvbo/lab/heat/selected"), 2 * TIMEOUT_S)
            status, steps = tried(path)
        finally:
            daemon.terminate()
            log = daemon.communicate(timeout=TIMEOUT_S)[1]
    assert status == 0
    assert any("instance = 'lab' is connected" in each["text"] for each in steps)
    assert "ERROR" not in log
    assert other.on("edge_tvbo/lab/status") == [b"online", b"offline"]


DISCOVERY = "homeassistant/device/edge_tvbo_lab/config"
RULES = """topic read lab/+/t
topic readwrite edge_tvbo/lab/#
topic read homeassistant/status
"""


READWRITE = f"allow `topic readwrite {DISCOVERY}` in the broker's ACL"


@pytest.mark.parametrize(
    ("rights", "version", "status", "text"),
    [
        ("readwrite", "3.1.1", 0, f"messages on {DISCOVERY} arrive"),
        ("read", "3.1.1", 1, READWRITE),
        ("write", "3.1.1", 1, "or this login cannot read the topic"),
        ("readwrite", "5", 0, f"messages on {DISCOVERY} arrive"),
        ("read", "5", 1, f"refuses a message on {DISCOVERY} (Not authorized); {READWRITE}"),
        ("write", "5", 0, f"accepts messages on {DISCOVERY}; this login cannot read the topic"),
    ],
)
def test_the_topic_of_the_discovery_message_is_tested(
    mosquitto, tmp_path, monkeypatch, rights, version, status, text
):
    """In MQTT 3.1.1, the broker does not say whether it refuses a message."""
    monkeypatch.setenv(VERSION, version)
    (tmp_path / "acl").write_text(f"{RULES}topic {rights} {DISCOVERY}\n")
    broker = mosquitto(f"allow_anonymous true\nacl_file {tmp_path}/acl\n")
    broker.start()

    found, steps = tried(configured(tmp_path, broker.port, "[homeassistant]"))

    (step,) = [each for each in steps if DISCOVERY in each["text"]]
    assert (found, step["good"]) == (status, status == 0)
    assert text in step["text"]
    assert step["code"] == (None if status == 0 else Code.FORBIDDEN)
    assert "subscribed to homeassistant/status" in [each["text"] for each in steps]


@pytest.mark.parametrize("copy", ["", '{"components": {}}'])
def test_home_assistant_receives_the_retained_discovery_message_or_none(
    mosquitto, peer, tmp_path, copy
):
    """It ignores a message that changes nothing, and one that is no JSON."""
    broker = mosquitto()
    broker.start()
    if copy:
        peer(broker.port).publish(DISCOVERY, copy, retain=True)
    home = peer(broker.port, "homeassistant/#")

    status, _ = tried(configured(tmp_path, broker.port, "[homeassistant]"))
    home.wait(lambda: len(home.on(DISCOVERY)) > bool(copy))
    restarted = peer(broker.port, "homeassistant/#")
    restarted.publish("homeassistant/end", "")
    restarted.wait(lambda: restarted.on("homeassistant/end"))  # the retained message comes earlier

    *earlier, tested = home.on(DISCOVERY)
    assert status == 0
    assert earlier == restarted.on(DISCOVERY) == ([copy.encode()] if copy else [])
    assert tested.startswith(copy.encode() or b"edge-tvbo check ")


@pytest.fixture
def deployed(mosquitto, peer, tmp_path):
    """Return the path of a configuration, and a client that sees the status of its daemon.

    The broker has the rules in deploy/, and uses logins as client ids.
    """
    write_passwords(tmp_path, "edge-tvbo", "watcher", "operator")
    rules = f"allow_anonymous false\npassword_file {tmp_path}/users\nacl_file {DEPLOY / 'acl'}\n"
    broker = mosquitto(f"use_username_as_clientid true\n{rules}")
    broker.start()
    path = configured(tmp_path, broker.port, 'username = "edge-tvbo"\npassword = "hunter2"')
    return path, peer(broker.port, "edge_tvbo/lab/#", login=("operator", "hunter2"))


@contextmanager
def running(path):
    command = [sys.executable, "-m", "edge_tvbo", "run", str(path)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as daemon:
        try:
            yield
        finally:
            daemon.terminate()
            daemon.wait(TIMEOUT_S)


READONLY = 'readonly = { username = "watcher", password = "hunter2" }\n'


def test_a_daemon_whose_login_is_its_client_id_is_not_disturbed(deployed):
    path, operator = deployed
    path.write_text(path.read_text().replace("[fields.heat]", READONLY + "[fields.heat]"))
    with running(path):
        operator.wait(lambda: operator.on("edge_tvbo/lab/heat/selected"), 2 * TIMEOUT_S)
        status, steps = tried(path)
        assert operator.on("edge_tvbo/lab/status") == [b"online"]
    stopped, all_steps = tried(path)

    texts = [each["text"] for each in steps]
    assert status == stopped == 0, (steps, all_steps)
    assert texts[1] == "the broker accepts the connection, as watcher"
    assert "'lab' is online, so the connection was not tested as edge-tvbo" in texts[2]
    assert len(texts) == 3
    assert "the broker accepts the connection, as edge-tvbo" in [each["text"] for each in all_steps]


def test_ha_remove_does_not_disturb_a_daemon_whose_login_is_its_client_id(deployed):
    path, operator = deployed
    tables = f"{READONLY}[homeassistant]\n[fields.heat]"
    path.write_text(path.read_text().replace("[fields.heat]", tables))
    with running(path):
        operator.wait(lambda: operator.on("edge_tvbo/lab/heat/selected"), 2 * TIMEOUT_S)
        removed = CliRunner().invoke(main, ["ha", "remove", str(path)])
        statuses = operator.on("edge_tvbo/lab/status")

    assert (removed.exit_code, "is running and would publish" in removed.stderr) == (2, True)
    assert statuses == [b"online"]


def test_a_session_with_the_login_of_a_daemon_that_ends_it_says_to_stop_the_daemon(deployed, peer):
    """As of `ha remove`, which needs the login of the daemon even if there is a read-only login."""
    path, _ = deployed
    path.write_text(path.read_text().replace("[fields.heat]", READONLY + "[fields.heat]"))
    mqtt = settings_of(path).mqtt
    with closing(ShortSession(mqtt, "lab", lambda message: None)) as session:
        peer(mqtt.port, "edge_tvbo/lab/status", login=("edge-tvbo", "hunter2"))
        with pytest.raises(LinkError, match="stop the daemon, and run the command again") as ended:
            session.listen(time.monotonic() + TIMEOUT_S)

    assert ended.value.code == Code.CLIENT_ID


def test_a_check_that_ends_the_session_of_the_daemon_says_how_to_avoid_it(deployed):
    path, operator = deployed
    with running(path):
        operator.wait(lambda: operator.on("edge_tvbo/lab/heat/selected"), 2 * TIMEOUT_S)
        status, steps = tried(path, listen=f"{TIMEOUT_S:g}s")

    assert status == 1
    assert steps[-1]["code"] == Code.CLIENT_ID
    assert "add a second login as [mqtt.readonly], or stop the daemon" in steps[-1]["text"]


def test_a_status_that_ends_the_session_of_the_daemon_says_how_to_avoid_it(deployed):
    path, operator = deployed
    with running(path):
        operator.wait(lambda: operator.on("edge_tvbo/lab/health"), 2 * TIMEOUT_S)
        status = CliRunner().invoke(main, ["status", str(path)])

    assert status.exit_code == 1
    # The daemon may connect again so soon that it ends the session of the command, too.
    assert "add a second login as [mqtt.readonly]" in status.output


def test_an_acl_that_forbids_the_topics_is_reported(mosquitto, tmp_path):
    (tmp_path / "acl").write_text("topic read lab/#\n")
    broker = mosquitto(f"allow_anonymous true\nacl_file {tmp_path}/acl\n")
    broker.start()

    status, steps = tried(configured(tmp_path, broker.port))

    assert status == 1
    (bad,) = [each for each in steps if not each["good"]]
    assert bad["code"] == Code.FORBIDDEN
    assert "topic readwrite edge_tvbo/lab/#" in bad["text"]


def test_every_step_succeeds_with_the_deployed_acl(mosquitto, tmp_path):
    acl = DEPLOY / "acl"
    write_passwords(tmp_path, "edge-tvbo")
    extra = f"allow_anonymous false\npassword_file {tmp_path}/users\nacl_file {acl}\n"
    broker = mosquitto(extra)
    broker.start()

    mqtt = 'username = "edge-tvbo"\npassword = "hunter2"'
    status, steps = tried(configured(tmp_path, broker.port, mqtt))

    assert status == 0, steps


def test_a_wrong_or_missing_password_names_the_login_settings(mosquitto, tmp_path):
    write_passwords(tmp_path, "me")
    broker = mosquitto(f"allow_anonymous false\npassword_file {tmp_path}/users\n")
    broker.start()

    for mqtt in ('username = "me"\npassword = "hunter22"', ""):
        status, steps = tried(configured(tmp_path, broker.port, mqtt))
        assert status == 1
        assert steps[-1]["code"] == Code.LOGIN
        assert "mqtt.username" in steps[-1]["text"]


def test_a_wrong_password_of_the_readonly_login_names_the_settings_of_this_login(
    mosquitto, tmp_path
):
    write_passwords(tmp_path, "edge", "watcher")
    broker = mosquitto(f"allow_anonymous false\npassword_file {tmp_path}/users\n")
    broker.start()
    edge = 'username = "edge"\npassword = "hunter2"\n'
    watcher = 'readonly = { username = "watcher", password = "hunter22" }'
    path = configured(tmp_path, broker.port, edge + watcher)

    _, steps = tried(path)
    status = CliRunner().invoke(main, ["status", str(path)])

    assert steps[-1]["code"] == Code.LOGIN
    for text in (steps[-1]["text"], status.output):
        assert "check mqtt.readonly.username and mqtt.readonly.password_file" in text


@pytest.mark.parametrize(
    ("server", "ca", "code"),
    [
        ("server", "ca", None),
        ("server", "stranger", Code.UNKNOWN_CA),
        ("expired", "ca", Code.EXPIRED),
        ("elsewhere", "ca", Code.WRONG_NAME),
        ("server", None, Code.NOT_MQTT),
        (None, "ca", Code.NOT_TLS),
    ],
)
def test_each_tls_problem_has_its_own_error_code(server, ca, code, mosquitto, certs, tmp_path):
    files = f"cafile {certs}/ca.pem\ncertfile {certs}/{server}.pem\nkeyfile {certs}/{server}.key\n"
    broker = mosquitto("allow_anonymous true\n" + files if server else "")
    broker.start()

    tls = f'[mqtt.tls]\nca = "{certs}/{ca}.pem"' if ca else ""
    status, steps = tried(configured(tmp_path, broker.port, tls))

    assert status == (1 if code else 0), steps
    assert steps[-1]["code"] == code or code is None
    if code is None:
        assert "is for localhost, 127.0.0.1, valid until" in steps[1]["text"]


@pytest.mark.slow
def test_a_refused_connection_and_a_silent_server_have_different_codes(tmp_path, monkeypatch):
    monkeypatch.setattr(short_session, "ANSWER_TIMEOUT_S", 0.5)

    assert tried(configured(tmp_path, free_port()))[1][-1]["code"] == Code.REFUSED
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        status, steps = tried(configured(tmp_path, port))
    assert (status, steps[0]["good"], steps[-1]["code"]) == (1, True, Code.NO_ANSWER)
