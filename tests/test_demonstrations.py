"""Acceptance demonstrations that are in no other test module.

The mark `acceptance(n)` of a test, in any module, is the number of its demonstration.
"""

import json
import re
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from getpass import getuser
from socket import gethostname

import pytest
from support import certificates
from support.gateway import CRASHING, Daemon, Gateway, program
from support.mosquitto import TIMEOUT_S, write_passwords

SECRET = "hunter2-is-not-a-password"
FIELD = """
[fields.lab]
interval = "300ms"
reply_timeout = "200ms"
policy = { name = "tv-gp-ucb", epsilon = 0.03 }
kernel = { name = "exchangeable", variance = 4.0, noise_variance = 0.04, mean = 20.0 }
reading = { topic = "k/{sensor}/t", payload = "json", value = "t", time = "ts" }
"""


# --- 2: a configuration with five mistakes --------------------------------------------------------


@pytest.mark.acceptance(2)
def test_check_prints_five_errors_with_their_lines_and_does_not_connect(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        path = tmp_path / "my.toml"
        path.write_text(
            "instance = 'a\tb'\n"
            f"[mqtt]\nport = {listener.getsockname()[1]}\npasswd = '{SECRET}'\n"
            + FIELD.replace('"k/{sensor}/t"', '"#/x"').replace('"300ms"', "true")
            + 'sensors = ["a", "b", "a"]\n'
        )
        done = program("check", str(path))
        with pytest.raises(BlockingIOError):
            listener.accept()

    found = [line for line in done.stderr.splitlines() if line.startswith(f"{path}:")]
    assert done.returncode == 2
    assert len(found) == 5, done.stderr
    assert all(
        re.match(rf"{re.escape(str(path))}:\d+:\d+: .+ \[E\d\d\d\]$", each) for each in found
    )
    assert "did you mean" in next(each for each in found if "passwd" in each).lower()
    assert SECRET not in done.stdout + done.stderr


# --- 6: four connection errors --------------------------------------------------------------------

VERBOSE = ("/bin/sh", "-c", 'exec "$0" -m edge_tvbo "$@" --verbose', sys.executable)
ENCRYPTED = """allow_anonymous true
cafile {here}/ca.pem
certfile {here}/NAME.pem
keyfile {here}/NAME.key
"""
PROTECTED = "allow_anonymous false\npassword_file {here}/users\n"
CONNECTION_ERRORS = {  # the broker's settings, whether the daemon uses TLS, words of the log
    "password": (PROTECTED, False, ("mqtt.username", "mqtt.password")),
    "expired": (ENCRYPTED, True, ("has expired", "renew it")),
    "elsewhere": (ENCRYPTED, True, ("not for '127.0.0.1'", "mqtt.tls.server_name")),
    "plain": ("", True, ("TLS handshake", "remove [mqtt.tls]")),
}


@pytest.mark.acceptance(6)
def test_four_connection_errors_have_four_explanations_without_the_password(mosquitto, tmp_path):
    certificates.everything(tmp_path)
    write_passwords(tmp_path, "me")
    with ExitStack() as stack:
        daemons = {}
        for name, (theirs, ours, _) in CONNECTION_ERRORS.items():
            broker = mosquitto(theirs.format(here=tmp_path).replace("NAME", name))
            broker.start()
            own = tmp_path / name
            own.mkdir()
            daemons[name] = Daemon(own)
            tls = f'[mqtt.tls]\nca = "{tmp_path}/ca.pem"\n' if ours else ""
            daemons[name].config.write_text(
                f'[mqtt]\nport = {broker.port}\nusername = "me"\npassword = "{SECRET}"\n'
                f'{tls}{FIELD}sensors = ["a", "b"]\n'
            )
            daemons[name].start(by=VERBOSE)
            stack.callback(daemons[name].close)
        for daemon in daemons.values():
            daemon.wait_for_log(" ERROR ", " DEBUG ")
        for daemon in daemons.values():
            daemon.stop()

    explanations = {}
    for name, (*_, words) in CONNECTION_ERRORS.items():
        log = daemons[name].log_text()
        assert SECRET not in log
        (explanations[name],) = [
            line.partition(" ERROR ")[2] for line in log.splitlines() if " ERROR " in line
        ]
        assert all(word in explanations[name] for word in words), explanations[name]
    assert len({re.sub(r"\d+", "", each) for each in explanations.values()}) == 4


# --- 7: last week's readings ----------------------------------------------------------------------

SENSORS = ("a", "b", "c", "d", "e", "f", "g")
WEEK = 7 * 86_400.0  # s


@pytest.mark.acceptance(7)
def test_retained_readings_of_last_week_are_only_counted(
    mosquitto,
    peer,
    tmp_path,
):
    old, clean = mosquitto(), mosquitto()
    old.start()
    clean.start()
    sender = peer(old.port)
    for number, sensor in enumerate(SENSORS):
        reading = {"t": 23.0 + number / 2, "ts": time.time() - WEEK}
        sender.publish(f"k/{sensor}/t", json.dumps(reading), retain=True)
    with ExitStack() as stack:
        homes = [stack.enter_context(silent_home(tmp_path, peer, each)) for each in (old, clean)]
        for each in homes:
            each.wait(lambda each=each: len(decisions(each)) >= 8 and healths(each), 3 * TIMEOUT_S)
        kept, none = map(decisions, homes)
        counted = [healths(each)[-1]["fields"]["lab"]["refused"] for each in homes]

    assert counted == [{"retained": len(SENSORS)}, {}]
    assert all((each["mean"], each["std"]) == (20.0, 2.0) for each in kept)
    assert all(each["model"]["observations"] == 0 for each in kept)
    assert {each["reason"] for each in kept} <= {"warmup", "probe"}  # at random, or in turn
    assert kept[0]["sensor"] == none[0]["sensor"]


def decisions(each):
    return [json.loads(payload) for payload in each.on("edge_tvbo/k/lab/selected")]


def healths(each):
    """Return the health documents after every subscription was granted."""
    found = [json.loads(payload) for payload in each.on("edge_tvbo/k/health")]
    return [health for health in found if (health["fields"]["lab"]["interval"] or 0) >= 3]


@contextmanager
def silent_home(tmp_path, peer, broker):
    """Run a daemon whose sensors never reply; yield the client that receives its messages."""
    own = tmp_path / str(broker.port)
    own.mkdir()
    daemon, client = Daemon(own), peer(broker.port)
    sensors = json.dumps(SENSORS)
    head = f'instance = "k"\nhealth = "1s"\n[mqtt]\nport = {broker.port}\n'
    daemon.config.write_text(f"{head}{FIELD}sensors = {sensors}\n")
    daemon.start()
    try:
        yield client
        daemon.stop()
    finally:
        daemon.close()


# --- 25: a report after a crash -------------------------------------------------------------------


@pytest.mark.acceptance(25)
def test_report_after_a_crash_is_complete_and_anonymous(
    mosquitto,
    peer,
    tmp_path,
):
    """No history is stored; the report still has the last decisions."""
    broker = mosquitto()
    broker.start()
    gateway = Gateway(tmp_path, broker.port, peer)
    ours = f'[mqtt]\nusername = "bob.smith"\npassword = "{SECRET}"'
    gateway.config.write_text(gateway.config.read_text().replace("[mqtt]", ours))
    words = f"{getuser()} of {gethostname()}, bob.smith, {SECRET}, divided by zero in {tmp_path}"
    crashing = CRASHING.replace("bob.smith divided by zero at 127.0.0.1", words)
    command = [sys.executable, "-c", crashing, "run", str(gateway.config)]
    assert subprocess.run(command, capture_output=True, timeout=60).returncode == 1

    report = program("report", str(gateway.config)).stdout
    parts = dict(re.findall(r"^## (.*)\n\n((?s:.*?))(?=^## |\Z)", report, re.MULTILINE))
    assert re.search(r"edge-tvbo \d+\.\d+", parts["Versions"])
    assert "mqtt.password = ***" in parts["Configuration"]
    assert 3 <= len(re.findall(r"^    lab \d+ .*: .* °?C?", parts["Last decisions"], re.M)) <= 50
    counted = re.search(
        r"^    lab: interval (\d+); (\d+) replies, (\d+) timed out; \d+ resets?",
        parts["Counters"],
        re.MULTILINE,
    )
    assert int(counted[1]) + 1 >= int(counted[2]) + int(counted[3]) >= 2
    assert "ZeroDivisionError" in parts["Last crash"]
    for name in ("bob", "smith", SECRET, str(tmp_path)):
        assert name not in report
    for name in (getuser(), gethostname()):
        assert not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", report)
