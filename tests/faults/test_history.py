"""The history of real daemons, over kills, full disks and bugs, against a real mosquitto."""

import json
import re
import signal
import subprocess
import sys
from contextlib import closing
from functools import partial

import msgspec
import pytest
from edge_tvbo_adapters.storage.history_reader import HistoryReader
from support.gateway import CRASHING, ROOT, Gateway, program
from support.mosquitto import TIMEOUT_S

from edge_tvbo.errors import DataError
from edge_tvbo.messages.commands import Ending


@pytest.fixture
def gateway(tmp_path, mosquitto, peer):
    broker = mosquitto()
    broker.start()
    gateway = Gateway(tmp_path, broker.port, peer)
    with_history(gateway)
    gateway.watcher = peer(broker.port, "edge_tvbo/k/lab/selected", "edge_tvbo/k/lab/event")
    yield gateway
    if gateway.process and gateway.process.poll() is None:
        gateway.kill()


def with_history(gateway, checkpoint="1s", **changes):
    gateway.configure(**changes)
    text = gateway.config.read_text()
    gateway.config.write_text(
        text.replace('checkpoint = "1s"', f'checkpoint = "{checkpoint}"\nhistory = "16MiB"')
    )


def kept(gateway, count=10_000):
    """Return the newest entries of the history, oldest first."""
    with closing(HistoryReader(str(gateway.state.parent), "k")) as past:
        return past.newest("lab", count)[::-1]


def kept_count(gateway):
    """Return the number of entries in the history; 0 before there is one."""
    try:
        return len(kept(gateway))
    except DataError:
        return 0


def on_the_wire(gateway, what):
    return [json.loads(payload) for payload in gateway.watcher.on(f"edge_tvbo/k/lab/{what}")]


def all_are_on_the_wire(gateway, decisions):
    """Return whether all decisions were published that a broker could take.

    While a broker stands still, newer decisions replace those that were not sent.
    """
    published = on_the_wire(gateway, "selected")
    if "was not delivered" in gateway.log_text():
        decisions = decisions[:1]
    return all(each in published for each in decisions)


def built_in(structs):
    return [msgspec.to_builtins(each) for each in structs]


def test_the_history_equals_what_was_published(gateway):
    gateway.start()
    gateway.wait_for_activations(12)
    gateway.stop()
    entries = kept(gateway)
    notices = [notice for each in entries for notice in each.notices]
    decisions = built_in(each.decision for each in entries)
    gateway.watcher.wait(partial(all_are_on_the_wire, gateway, decisions))
    gateway.watcher.wait(lambda: len(on_the_wire(gateway, "event")) >= len(notices))
    published = on_the_wire(gateway, "selected")
    assert [each for each in decisions if each in published] == published
    assert built_in(notices) == on_the_wire(gateway, "event")
    answered = [each.record for each in entries if each.record]
    assert len(answered) >= len(entries) - 1
    assert Ending.ANSWERED in {each.ending for each in answered}
    assert all(each.posterior.sensors == ("a", "b", "c") for each in entries)


def test_after_kill_9_the_history_is_readable_and_continued(gateway):
    for life in (1, 2):
        gateway.start()
        gateway.wait_for_activations(8)
        gateway.wait(lambda life=life: kept_count(gateway) >= 3 * life)
        gateway.kill()
        known = kept(gateway)
        decisions = built_in(each.decision for each in known)
        gateway.watcher.wait(partial(all_are_on_the_wire, gateway, decisions))
    gateway.start()
    gateway.wait_for_activations(2)
    gateway.stop()
    numbers = [each.decision.interval for each in kept(gateway)]
    assert numbers == sorted(set(numbers))
    assert numbers[: len(known)] == [each.decision.interval for each in known]
    assert "history" not in gateway.log_text()


def test_sigusr1_writes_the_history_at_once_and_a_reload_keeps_it(gateway):
    with_history(gateway, checkpoint="1h")
    gateway.start()
    gateway.wait_for_activations(5)
    gateway.process.send_signal(signal.SIGUSR1)
    gateway.wait_for_log("status: lab: interval")  # after the history is written
    before = len(kept(gateway))
    assert before >= 4
    gateway.process.send_signal(signal.SIGHUP)
    gateway.wait_for_log("reload: done")
    after = len(kept(gateway))
    assert after >= before
    gateway.wait_for_activations(3)
    gateway.stop()
    entries = kept(gateway)
    assert len(entries) >= after + 3
    assert [each.record for each in entries[:-1] if each.record is None] == []


@pytest.mark.parametrize("place", ["/proc/edge_tvbo", "/dev/null/x"])
def test_with_an_unusable_directory_the_daemon_decides_and_logs_each_problem_once(gateway, place):
    with_history(gateway, dir=place)
    gateway.start()
    gateway.wait_for_activations(12)
    gateway.stop()
    assert gateway.log_text().count("history: cannot be stored") == 1
    assert gateway.log_text().count("state: cannot be stored") == 1


def test_with_a_file_size_limit_it_decides_and_logs_it_once(gateway):
    """As on a full disk; the log is a file too, which is why a few lines fit."""
    gateway.start_with_small_files(9000)
    gateway.wait_for_activations(40)
    gateway.stop()
    assert gateway.log_text().count("history: cannot be stored") == 1
    gateway.assert_never_twice()


def test_a_damaged_history_is_renamed_and_a_new_one_started(gateway):
    gateway.state.parent.mkdir()
    path = gateway.state.parent / "k.history.db"
    path.write_bytes(b"rubbish" * 999)
    gateway.start()
    gateway.wait_for_activations(12)
    gateway.stop()
    assert path.with_name("k.history.db.damaged").exists()
    assert gateway.log_text().count("is damaged") == 1
    assert len(kept(gateway)) >= 5


# --- why, status and report of a daemon that runs -------------------------------------------------


def test_why_and_status_work_with_and_without_a_running_daemon(gateway):
    gateway.start()
    gateway.wait_for_activations(12)
    gateway.wait(lambda: kept_count(gateway) >= 12)
    answer = program("status", str(gateway.config))
    assert answer.returncode == 0, answer.stderr
    assert "k: online since" in answer.stdout
    assert re.search(r"history: intervals \d+ to \d+", answer.stdout)
    newest = json.loads(program("why", str(gateway.config), "--json").stdout)[0]
    gateway.watcher.wait(lambda: newest["decision"] in on_the_wire(gateway, "selected"))
    assert newest["decision"]["interval"] >= 12
    answered = next(each for each in kept(gateway) if each.record and each.record.value)
    number = str(answered.decision.interval)
    earlier = program("why", str(gateway.config), number)
    assert earlier.returncode == 0
    assert earlier.stdout.startswith(f"lab, interval {number}, ")
    assert "The sensor replied" in earlier.stdout
    none = program("why", str(gateway.config), "99999")
    assert none.returncode == 2
    assert "The history contains intervals" in none.stderr
    gateway.stop()
    gone = program("status", str(gateway.config))
    assert gone.returncode == 1
    assert "k: offline, last report at" in gone.stdout


@pytest.mark.acceptance(17)
def test_why_shows_how_long_a_backed_off_sensor_has_sent_no_reading(gateway):
    quiet = "b"
    answer = gateway.sensors.client.on_message

    def mute(client, userdata, message):
        if f"/{quiet}/" in message.topic and len(gateway.activations) > 3:
            gateway.activations.append(json.loads(message.payload))
        else:
            answer(client, userdata, message)

    def reasons():
        factors = [
            factor for each in on_the_wire(gateway, "selected") for factor in each["factors"]
        ]
        return [
            each for each in factors if each.startswith(f"{quiet} is backed off until interval ")
        ]

    gateway.sensors.client.on_message = mute
    gateway.start()
    gateway.watcher.wait(reasons)
    gateway.stop()
    assert all(
        re.search(r": (its last reading is \d+ s old|it has sent no reading yet)$", each)
        for each in reasons()
    )
    kept_too = [factor for each in kept(gateway) for factor in each.decision.factors]
    assert set(reasons()) <= set(kept_too)


CRASHING_AFTER_A_RELOAD = f"""
import edge_tvbo.daemon.app as app
reload = app.reload

def reloaded(*arguments):
    left[0] = 3
    return reload(*arguments)

app.reload = reloaded
{CRASHING.replace("[40]", "[10**9]")}
"""


def test_a_crash_after_a_reload_is_in_the_new_directory_of_the_state(gateway):
    gateway.start(by=(sys.executable, "-c", CRASHING_AFTER_A_RELOAD))
    gateway.wait_for_activations(1)
    gateway.configure(dir="moved")
    gateway.process.send_signal(signal.SIGHUP)
    assert gateway.process.wait(TIMEOUT_S) == 1
    moved = gateway.state.parent.with_name("moved")
    assert "ZeroDivisionError" in (moved / "k.last-crash.txt").read_text()
    assert not (gateway.state.parent / "k.last-crash.txt").exists()


@pytest.mark.acceptance(25)
def test_the_report_contains_the_traceback_of_a_crash(gateway):
    text = gateway.config.read_text()
    gateway.config.write_text(text.replace("[mqtt]", '[mqtt]\nusername = "bob.smith"'))
    command = [sys.executable, "-c", CRASHING, "run", str(gateway.config)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert done.returncode == 1
    crash = (gateway.state.parent / "k.last-crash.txt").read_text()
    assert "ZeroDivisionError" in crash and len(crash) < 20_000
    report = program("report", str(gateway.config)).stdout
    last = report.partition("## Last crash")[2]
    assert "ZeroDivisionError: *** divided by zero" in last
    assert 'File "loop.py", line' in last
    assert "bob" not in report and str(ROOT) not in report
    decisions = report.partition("## Last decisions")[2].partition("## Last crash")[0]
    assert 3 <= decisions.count(" lab ") <= 50
