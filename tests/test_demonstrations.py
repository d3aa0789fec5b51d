"""The demonstrations for a sceptical user: what shows each, and those that nothing else shows."""
# ruff: noqa: F811 - fixtures

import ast
import json
import re
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from getpass import getuser
from pathlib import Path
from socket import gethostname

import pytest
from broker.conftest import GENEROUS, directory, mosquitto, peer  # noqa: F401 - fixtures
from faults import certificates
from faults.gateway import Daemon, Gateway
from faults.test_history import CRASHING, program
from test_connect import login

TESTS = Path(__file__).parent
SHOWN = {  # number: the tests that show it, in the words of design/PRODUCT.md section 5
    1: """
        test_wheel.py::test_a_fresh_installation_shows_decisions_with_reasons_within_a_minute
        broker/test_demo.py::test_the_demo_shows_decisions_with_reasons_on_a_broker_and_leaves_a_page
    """,
    2: """
        test_demonstrations.py::test_check_prints_five_findings_each_with_its_place_and_connects_nowhere
        test_config.py::test_five_mistakes_are_five_findings_with_line_column_and_code
    """,
    6: """
        test_demonstrations.py::test_four_ways_to_be_kept_out_are_four_explanations_and_no_password
        faults/test_network.py::test_each_failure_of_tls_has_one_line_of_its_own_with_the_fix
        faults/test_network.py::test_tls_to_a_plain_port_and_plain_to_a_tls_port_are_told_apart
    """,
    7: """
        test_demonstrations.py::test_readings_that_the_broker_kept_since_last_week_are_counted_and_that_is_all
        broker/test_link.py::test_a_reading_that_the_broker_kept_arrives_as_retained
    """,
    15: """
        broker/test_homeassistant.py::test_home_assistant_may_start_twenty_times
        adapters/test_homeassistant.py::test_whatever_is_configured_home_assistant_takes_the_message
        adapters/test_homeassistant.py::test_what_is_published_is_among_the_options
        adapters/test_homeassistant.py::test_it_is_told_once_and_a_restart_of_ours_tells_nothing_new
    """,
    16: """
        adapters/test_homeassistant.py::test_a_sensor_that_was_taken_away_is_no_option_any_more
        adapters/test_homeassistant.py::test_a_field_that_was_taken_away_is_removed_and_stays_so
        broker/test_homeassistant.py::test_an_instance_that_was_renamed_is_removed_by_its_old_name
        broker/test_homeassistant.py::test_what_is_removed_leaves_nothing_behind
    """,
    17: """
        faults/test_energy.py::test_a_sensor_that_is_switched_off_is_lost_in_its_own_timeout_and_left_alone
        faults/test_history.py::test_a_sensor_that_is_silent_is_passed_over_and_why_says_for_how_long
        test_why.py::test_who_is_left_alone_is_named_with_the_time_it_has_been_silent
        runtime/test_watching.py::test_a_sensor_that_does_not_answer_is_shown_no_more
        adapters/test_prometheus.py::test_the_series_of_a_sensor_vanish_with_it
    """,
    18: """
        faults/test_energy.py::test_when_all_are_off_each_is_asked_in_turn_and_then_the_one_that_answers
        controller/test_energy.py::test_when_all_are_silent_each_is_asked_in_turn_within_its_budget_then_the_one_that_answers
        controller/test_energy.py::test_no_stretch_of_one_period_costs_more_than_the_budget_whatever_happens
    """,
    21: """
        test_reporting.py::test_one_command_puts_ours_beside_others_with_intervals_energy_seeds_and_figures
        test_reporting.py::test_one_command_says_so_when_asking_the_same_sensor_always_beats_a_bandit
        test_reporting.py::test_a_report_says_when_a_simple_baseline_wins
    """,
    25: """
        test_demonstrations.py::test_after_a_crash_the_report_has_all_that_is_asked_and_names_nobody
        test_diagnosis.py::test_no_secret_is_in_what_is_kept_beside_the_configuration
        faults/test_history.py::test_what_a_daemon_with_a_bug_put_into_it_died_of_is_in_the_report
    """,
}
SECRET = "hunter2-is-not-a-password"
FIELD = """
[fields.lab]
interval = "300ms"
reply_timeout = "200ms"
policy = { name = "tv-gp-ucb", epsilon = 0.03 }
kernel = { name = "exchangeable", variance = 4.0, noise_variance = 0.04, mean = 20.0 }
reading = { topic = "k/{sensor}/t", payload = "json", value = "t", time = "ts" }
"""


@pytest.mark.parametrize("number", SHOWN)
def test_what_shows_a_demonstration_is_there(number):
    for name in SHOWN[number].split():
        path, _, test = name.partition("::")
        module = ast.parse((TESTS / path).read_text("utf-8"))
        functions = [each.name for each in module.body if isinstance(each, ast.FunctionDef)]
        assert functions.count(test) == 1, name


# --- 2: a configuration with five mistakes --------------------------------------------------------


def test_check_prints_five_findings_each_with_its_place_and_connects_nowhere(tmp_path):
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


# --- 6: four ways to be kept out ------------------------------------------------------------------

VERBOSE = ("/bin/sh", "-c", 'exec "$0" -m edge_tvbo "$@" --verbose', sys.executable)
ENCRYPTED = """allow_anonymous true
cafile {here}/ca.pem
certfile {here}/NAME.pem
keyfile {here}/NAME.key
"""
PROTECTED = "allow_anonymous false\npassword_file {here}/users\n"
KEPT_OUT = {  # what is wrong: the broker's settings, whether we want TLS, words of the explanation
    "password": (PROTECTED, False, ("mqtt.username", "mqtt.password")),
    "expired": (ENCRYPTED, True, ("has expired", "renew it on the broker")),
    "elsewhere": (ENCRYPTED, True, ("not for '127.0.0.1'", "mqtt.tls.server_name")),
    "plain": ("", True, ("TLS handshake", "take [mqtt.tls] away")),
}


@pytest.mark.broker
def test_four_ways_to_be_kept_out_are_four_explanations_and_no_password(mosquitto, tmp_path):
    certificates.everything(tmp_path)
    login(tmp_path, "me")
    with ExitStack() as stack:
        daemons = {}
        for name, (theirs, ours, _) in KEPT_OUT.items():
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
            daemon.hears(" ERROR ", " DEBUG ")
        for daemon in daemons.values():
            daemon.stop()

    told = {}
    for name, (*_, words) in KEPT_OUT.items():
        log = daemons[name].said()
        assert SECRET not in log
        (told[name],) = [
            line.partition(" ERROR ")[2] for line in log.splitlines() if " ERROR " in line
        ]
        assert all(word in told[name] for word in words), told[name]
    assert len({re.sub(r"\d+", "", each) for each in told.values()}) == 4


# --- 7: last week's readings ----------------------------------------------------------------------

SENSORS = ("a", "b", "c", "d", "e", "f", "g")
WEEK = 7 * 86_400.0  # s


@pytest.mark.broker
def test_readings_that_the_broker_kept_since_last_week_are_counted_and_that_is_all(
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
        heard = [stack.enter_context(silent_home(tmp_path, peer, each)) for each in (old, clean)]
        for each in heard:
            each.wait(lambda each=each: len(decisions(each)) >= 8 and healths(each), 3 * GENEROUS)
        kept, none = map(decisions, heard)
        counted = [healths(each)[-1]["fields"]["lab"]["refused"] for each in heard]

    assert counted == [{"retained": len(SENSORS)}, {}]
    assert all((each["mean"], each["std"]) == (20.0, 2.0) for each in kept)
    assert all(each["model"]["observations"] == 0 for each in kept)
    assert {each["reason"] for each in kept} <= {"warmup", "probe"}  # a draw, or a turn
    assert kept[0]["sensor"] == none[0]["sensor"]


def decisions(each):
    return [json.loads(payload) for payload in each.on("edge_tvbo/k/lab/selected")]


def healths(each):
    """Give what was said of it once every subscription was granted."""
    found = [json.loads(payload) for payload in each.on("edge_tvbo/k/health")]
    return [health for health in found if health["fields"]["lab"]["interval"] >= 3]


@contextmanager
def silent_home(tmp_path, peer, broker):
    """Have a daemon run whose sensors never answer, and give who hears it."""
    own = tmp_path / str(broker.port)
    own.mkdir()
    daemon, hears = Daemon(own), peer(broker.port)
    sensors = json.dumps(SENSORS)
    head = f'instance = "k"\nhealth = "1s"\n[mqtt]\nport = {broker.port}\n'
    daemon.config.write_text(f"{head}{FIELD}sensors = {sensors}\n")
    daemon.start()
    try:
        yield hears
        daemon.stop()
    finally:
        daemon.close()


# --- 25: a report after a crash -------------------------------------------------------------------


@pytest.mark.broker
def test_after_a_crash_the_report_has_all_that_is_asked_and_names_nobody(
    mosquitto,
    peer,
    tmp_path,
):
    """No history is kept; a report has the last decisions all the same."""
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
        r"^    lab: interval (\d+); (\d+) answered, (\d+) missed; \d+ resets?",
        parts["Counters"],
        re.MULTILINE,
    )
    assert int(counted[1]) + 1 >= int(counted[2]) + int(counted[3]) >= 2
    assert "ZeroDivisionError" in parts["Last crash"]
    for name in ("bob", "smith", SECRET, str(tmp_path)):
        assert name not in report
    for name in (getuser(), gethostname()):
        assert not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", report)
