"""The daemon as a whole, in this process and without a broker: its start, and a refused reload."""

import gc
import logging
import shutil
import sqlite3
from contextlib import ExitStack, closing, contextmanager
from math import inf
from pathlib import Path
from typing import ClassVar
from unittest.mock import patch

import pytest
from edge_tvbo_adapters.mqtt.link import MqttLink
from edge_tvbo_adapters.mqtt.outbox import MAX_NOTICES
from edge_tvbo_adapters.mqtt.second_daemon import ProcessKeys
from edge_tvbo_adapters.storage.history_reader import HistoryReader
from edge_tvbo_adapters.storage.reading_db import read_readings
from edge_tvbo_adapters.storage.state_files import FileStore
from edge_tvbo_adapters.storage.state_lock import StateLock
from msgspec.structs import replace
from support.ports import free_port

from edge_tvbo.cli.settings import settings_of, verbose_settings_of
from edge_tvbo.config.mqtt_settings import Mqtt
from edge_tvbo.config.settings import HomeAssistant
from edge_tvbo.daemon import app, build_controllers, checkpoints
from edge_tvbo.daemon.app import build_daemon, build_successor, make_surroundings
from edge_tvbo.daemon.build_discovery import discovery_message
from edge_tvbo.daemon.checkpoint_document import decode
from edge_tvbo.daemon.clock import LiveClock
from edge_tvbo.daemon.log_format import RepeatFilter
from edge_tvbo.daemon.memory import collection_after_start
from edge_tvbo.daemon.reload import reload
from edge_tvbo.errors import SettingErrors, StateInUse
from edge_tvbo.messages.documents import Notice
from edge_tvbo.messages.events import IntervalElapsed, Reading
from edge_tvbo.policy.baseline_settings import RandomSettings
from edge_tvbo.policy.settings import PolicySettings

CONFIG = """
instance = "pi"
[mqtt]
port = {port}
[state]
dir = "{dir}"
history = "16MiB"
[fields.{field}]
interval = "1min"
sensors = ["a", "b"]
kernel = {{ name = "se", length_scale = 6.0, variance = 4.0, noise_variance = 0.04, mean = 20 }}
positions = {{ a = [0, 0], b = [5, 0] }}
reading = {{ topic = "lab/{{sensor}}", payload = "number" }}
{more}
"""
SLEEPY = """
activate = { mode = "sleepy", topic = "lab/{sensor}/go" }
reply_timeout = "20s"
[fields.lab.energy]
unit = "J"
cost = 1.0
field_budget = 5.0
period = "1h"
"""


class PatrolSettings(PolicySettings, frozen=True, kw_only=True, tag="patrol"):
    """A policy of another package; its settings, as in the guide, do not set `has_model`."""

    maker: ClassVar[str] = "edge_tvbo.policy.baselines:make_random"


@pytest.fixture
def settings(tmp_path):
    """Return a function that returns the settings of a field with its state in a directory."""

    def make(directory="state", field="lab", more=""):
        path = tmp_path / "edge.toml"
        text = CONFIG.format(port=free_port(), dir=tmp_path / directory, field=field, more=more)
        path.write_text(text, encoding="utf-8")
        return settings_of(path)

    return make


class SteppedClock(LiveClock):
    """A clock that was set while the daemon was built."""

    stepped = True

    def is_stepped(self):
        return self.stepped

    def resync(self):
        self.stepped = False
        return super().resync()


def test_both_checkpoints_reserve_numbers_after_a_step_of_the_clock_during_the_start(settings):
    """Otherwise a damaged newest checkpoint would let the next process use a number again."""
    for clock in (LiveClock(), SteppedClock()):
        daemon = build_daemon(settings(), make_surroundings(clock))
        daemon.start()
        store = FileStore(daemon.settings.state.dir, "pi")
        final = [decode(data).final for _, data in store.generations()]
        daemon.stop()
    assert final == [False, False]


def test_the_daemon_collects_garbage_once_it_has_started(settings):
    """Otherwise, its memory would grow until it ends."""
    with collection_after_start():
        daemon = build_daemon(settings(), make_surroundings())
        daemon.start()
        collects = gc.isenabled()
        daemon.stop()
    assert collects


def test_a_start_after_a_kill_builds_the_matrices_of_a_field_only_once(settings, monkeypatch):
    """The controller that replays the journal has the same field as the real controller."""
    monkeypatch.setattr(checkpoints, "LARGE_DOCUMENT_BYTES", 300)
    killed = build_daemon(settings(), make_surroundings())
    killed.start()
    event = Reading("a", 20.0, 1.8e9, 1.8e9)
    killed.controllers["lab"].handle(event)
    killed.checkpoints.note("lab", event, 0.001)
    killed.checkpoints.service(killed.checkpoints.wake_at())
    later = build_daemon(settings(), make_surroundings())
    with patch.object(build_controllers, "_field", side_effect=AssertionError("a second field")):
        later.start()
    assert later.controllers["lab"].policy.observations == 1
    later.stop()


@pytest.mark.parametrize("large", [2**18, 300])  # bytes of a state that has a journal
def test_a_removed_state_directory_is_created_and_locked_again(settings, monkeypatch, large):
    monkeypatch.setattr(checkpoints, "LARGE_DOCUMENT_BYTES", large)
    with daemon_without_its_state(settings) as (daemon, other, directory):
        with patch.object(daemon.link, "announce") as announce:
            daemon.checkpoints.service(daemon.checkpoints.wake_at())
        store = FileStore(directory, "pi")
        assert [decode(data).final for _, data in store.generations()] == [False, False]
        with pytest.raises(StateInUse):
            other.hold(directory, "pi")
        daemon.stop()
    (notice,) = [each.args[0] for each in announce.call_args_list]
    assert notice.event == "state-removed"
    assert (
        f"{directory}/pi.lock was removed or replaced while the daemon was running" in notice.text
    )


def test_a_removed_working_directory_does_not_end_the_daemon(settings, monkeypatch, tmp_path):
    """Its state directory is relative to it, if the path of the configuration is relative."""
    home = tmp_path / "home"
    home.mkdir()
    given = settings()
    monkeypatch.chdir(home)
    given = replace(given, state=replace(given.state, dir="state"))
    with closing(StateLock()) as lock:
        daemon = build_daemon(given, make_surroundings(), lock=lock)
        lock.hold("state", "pi")
        daemon.start()
        shutil.rmtree(home)
        daemon.checkpoints.service(inf)
        assert daemon.checkpoints.failing
        daemon.stop()


@contextmanager
def daemon_without_its_state(settings):
    """Yield a started daemon, whose state directory was removed, and a second lock on its state."""
    with closing(StateLock()) as lock, closing(StateLock()) as other:
        daemon = build_daemon(settings(), make_surroundings(), lock=lock)
        directory = daemon.settings.state.dir
        lock.hold(directory, "pi")
        daemon.start()
        shutil.rmtree(directory)
        yield daemon, other, directory


def test_a_state_that_a_second_daemon_has_taken_ends_the_daemon_without_storing_its_state(settings):
    with daemon_without_its_state(settings) as (daemon, other, directory):
        other.hold(directory, "pi")
        with pytest.raises(StateInUse):
            daemon.checkpoints.service(inf)
        daemon.stop()
    assert list(FileStore(directory, "pi").generations()) == []


def test_a_state_that_a_second_daemon_has_taken_is_not_replaced_at_the_stop(settings, caplog):
    with daemon_without_its_state(settings) as (daemon, other, directory):
        other.hold(directory, "pi")
        daemon.stop()
    assert list(FileStore(directory, "pi").generations()) == []
    assert "the state was not stored when the daemon stopped: another daemon" in caplog.text


@pytest.mark.parametrize("field", ["lab", "renamed"])
def test_a_reload_that_the_state_lock_refuses_leaves_the_history_to_the_daemon(settings, field):
    daemon = build_daemon(settings(), make_surroundings())
    daemon.start()
    with closing(StateLock()) as other, closing(StateLock()) as lock:
        changed = settings("taken", field)
        other.hold(changed.state.dir, "pi")
        assert reload(daemon, lambda before: build_successor(before, changed, lock)) is daemon
        for command in daemon.controllers["lab"].handle(IntervalElapsed(1.8e9)):
            daemon.surroundings.decisions.update("lab", command)
        daemon.controllers["lab"].policy.observe(0, 3.0)
        shown = daemon.surroundings.decisions.posterior("lab")
        assert shown.mean != daemon.surroundings.decisions.newest("lab").posterior.mean
        daemon.stop()


def test_a_reload_stores_the_pending_readings_and_decisions(settings):
    daemon = build_daemon(settings(), make_surroundings())
    daemon.start()
    _record(daemon, 0)
    successor = reload(
        daemon, lambda before: build_daemon(before.settings, before.surroundings, before)
    )
    directory = daemon.settings.state.dir
    readings = read_readings(directory, "pi", "lab")
    with closing(HistoryReader(directory, "pi")) as history:
        decisions = history.newest("lab", 2)
    successor.stop()
    assert [(each.sensor, each.value) for each in readings] == [("a", 20.0)]
    assert [each.decision.interval for each in decisions] == [0]


@pytest.mark.parametrize("directory", ["state", "other"])
def test_readings_and_decisions_that_a_reload_cannot_store_are_stored_later(
    settings, directory, tmp_path
):
    """The databases are locked during the reload, for example by a backup."""
    daemon = build_daemon(settings(), make_surroundings())
    daemon.start()
    changed = settings(directory)
    _record(daemon, 0)
    daemon.dump_status()  # creates the databases
    _record(daemon, 1)
    with ExitStack() as locks:
        for kind in ("readings", "history"):
            path = tmp_path / "state" / f"pi.{kind}.db"
            other = locks.enter_context(closing(sqlite3.connect(path, isolation_level=None)))
            other.execute("BEGIN IMMEDIATE")
        successor = reload(
            daemon, lambda before: build_daemon(changed, before.surroundings, before)
        )
    for each in (successor.recorder, successor.readings):
        each.service(LiveClock().elapsed())
    readings = read_readings(changed.state.dir, "pi", "lab")
    with closing(HistoryReader(changed.state.dir, "pi")) as history:
        decisions = history.newest("lab", 3)
    successor.stop()
    first = 1 if directory == "other" else 0  # the other directory has new databases
    assert [each.value for each in readings] == [20.0, 21.0][first:]
    assert sorted(each.decision.interval for each in decisions) == [0, 1][first:]


def test_notices_that_a_reload_drops_are_counted(settings):
    """The notice about the reload drops the oldest one of those that wait for the broker."""
    daemon = build_daemon(settings(), make_surroundings())
    daemon.start()
    for number in range(MAX_NOTICES):
        daemon.link.announce(Notice("paused", "2004-03-07T08:20:00Z", str(number)))
    successor = reload(
        daemon, lambda before: build_daemon(before.settings, before.surroundings, before)
    )
    successor.attach_monitors()
    assert successor.surroundings.status.status().lost == 1
    successor.stop()


def _record(daemon, number):
    """Queue a reading and a decision of an interval in the recorders of the daemon."""
    at = 1.8e9 + 60.0 * number
    daemon.readings.add("lab", Reading("a", 20.0 + number, at, at))
    for command in daemon.controllers["lab"].handle(IntervalElapsed(at)):
        if entry := daemon.surroundings.decisions.update("lab", command):
            daemon.recorder.add(entry)


@pytest.mark.parametrize("restarts", [True, False])
def test_the_log_warns_of_a_removed_field_whose_state_is_deleted(settings, restarts, caplog):
    daemon = build_daemon(settings(), make_surroundings())
    daemon.start()
    changed = settings(field="renamed")
    if restarts:
        daemon.stop()
        successor = build_daemon(changed, make_surroundings())
        successor.start()
    else:
        successor = reload(
            daemon, lambda before: build_daemon(changed, before.surroundings, before)
        )
    store = FileStore(changed.state.dir, "pi")
    stored = [list(decode(data).fields) for _, data in store.generations()]
    successor.stop()
    occasion = "state" if restarts else "reload"
    warnings = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    text = f"{occasion}: the field lab is not in the configuration, so its state is deleted; "
    assert [each for each in warnings if each.startswith(text)]
    assert stored == [["renamed"], ["renamed"]]


@pytest.mark.parametrize(
    ("changed", "is_known"),
    [({}, True), ({"instance": "other"}, False), ({"mqtt": Mqtt(host="other.lan")}, False)],
)
def test_a_reload_does_not_forget_a_second_daemon(settings, changed, is_known):
    """At another broker, or with another name, there is perhaps no second daemon."""
    before = build_daemon(settings(), make_surroundings())
    for now in (0.0, 60.0):
        before.link.detector.add(ProcessKeys(int(now), "0.2.0", "other"), now)
    assert before.link.status().second_daemon
    reloaded = replace(before.settings, health=300.0, **changed)
    after = build_daemon(reloaded, before.surroundings, before)
    assert after.link.status().second_daemon == (
        before.link.status().second_daemon if is_known else ""
    )


def with_policy(settings, policy):
    return replace(settings, fields={"lab": replace(settings.fields["lab"], policy=policy)})


@pytest.mark.parametrize("policy", [RandomSettings(), PatrolSettings()])
def test_the_hot_spot_of_a_field_without_a_model_is_cleared_and_not_described(settings, policy):
    """It is never published, so Home Assistant would show the hot spot of an earlier policy."""
    daemon = build_daemon(with_policy(settings(), policy), make_surroundings())
    message = discovery_message(daemon.settings, HomeAssistant(), daemon.controllers)
    assert not [key for key in message["components"] if "hotspot" in key or "estimate" in key]
    assert daemon.link._outbox.awaits_ack("edge_tvbo/pi/lab/hotspot")


@pytest.mark.parametrize("policy", [RandomSettings(), PatrolSettings()])
def test_an_alert_of_a_policy_without_a_model_is_rejected(settings, policy):
    given = with_policy(settings(more="alert = { threshold = 30 }"), policy)
    with pytest.raises(SettingErrors, match=f"the policy {policy.name} has no model"):
        build_daemon(given, make_surroundings())


@pytest.mark.parametrize("restarts", [True, False])
def test_an_activation_that_was_not_sent_before_a_restart_or_reload_is_not_charged(
    settings, restarts
):
    daemon = build_daemon(settings(more=SLEEPY), make_surroundings())
    daemon.start()
    for command in daemon.controllers["lab"].handle(IntervalElapsed(1.8e9)):
        daemon.link.send("lab", command)  # there is no broker
    assert daemon.controllers["lab"].health().energy.spent == 1.0
    if restarts:
        daemon.stop()
        successor = build_daemon(daemon.settings, make_surroundings())
        successor.start()
    else:
        successor = reload(
            daemon, lambda before: build_daemon(before.settings, before.surroundings, before)
        )
    health = successor.controllers["lab"].health()
    successor.stop()
    assert health.energy.spent == 0.0


def test_an_error_in_the_restore_of_a_policy_does_not_replace_the_stored_state(
    settings, monkeypatch
):
    daemon = build_daemon(settings(), make_surroundings())
    daemon.start()
    daemon.controllers["lab"].policy.observe(0, 3.0)
    daemon.stop()
    store = FileStore(daemon.settings.state.dir, "pi")
    stored = list(store.generations())

    def fail(blob):
        raise MemoryError

    second = build_daemon(settings(), make_surroundings())
    monkeypatch.setattr(second.controllers["lab"].policy, "restore", fail)
    with pytest.raises(MemoryError):
        second.start()
    second.stop()

    assert list(store.generations()) == stored


def test_a_state_that_a_policy_of_another_package_cannot_read_is_kept(
    settings, monkeypatch, caplog
):
    """After the update of a package with an error, the former version can still read it."""
    daemon = build_daemon(settings(), make_surroundings())
    daemon.start()
    daemon.controllers["lab"].policy.observe(0, 3.0)
    daemon.stop()
    store = FileStore(daemon.settings.state.dir, "pi")
    [_, newest] = next(store.generations())

    def fail(policy, blob):
        raise KeyError("rates")

    kind = type(daemon.controllers["lab"].policy)
    for method in ("restore", "restore_sensors"):
        monkeypatch.setattr(kind, method, fail)
    monkeypatch.setattr(kind, "__module__", "foreign")
    second = build_daemon(settings(), make_surroundings())
    second.start()
    second.stop()

    assert "the field lab starts without readings: The policy" in caplog.text
    [kept] = Path(daemon.settings.state.dir).glob("pi.state.unreadable-*")
    assert kept.read_bytes() == newest


def test_verbose_settings_differ_in_the_common_log_level_only(settings, tmp_path):
    settings(more='[log]\nlevel = "error"\nmqtt = "warning"')
    plain, verbose = (read(tmp_path / "edge.toml") for read in (settings_of, verbose_settings_of))
    assert (verbose.log.level, verbose.log.mqtt) == ("debug", "warning")
    assert replace(verbose, log=plain.log) == plain


@pytest.mark.usefixtures("root")
def test_a_reload_sets_the_log_levels_and_an_invalid_configuration_does_not(
    settings, tmp_path, monkeypatch
):
    """The first level is that of the start, and the third that of the valid configuration."""
    path, link = tmp_path / "edge.toml", logging.getLogger("edge_tvbo_adapters.mqtt.link")
    levels = []

    def lives(daemon, make_successor, caught):
        levels.append(link.getEffectiveLevel())
        text = path.read_text("utf-8")
        for value in ('"debug"\nlevel = "no"', '"debug"'):
            path.write_text(text.replace('"error"', value), "utf-8")
            daemon = reload(daemon, make_successor)
            levels.append(link.getEffectiveLevel())
        daemon.stop()

    settings(more='[log]\nmqtt = "error"')
    monkeypatch.setattr(app, "run_until_stopped", lives)
    app.run(path, settings_of)
    assert levels == [logging.ERROR, logging.ERROR, logging.DEBUG]


def test_each_status_dump_is_logged_whole(settings, caplog):
    daemon = build_daemon(settings(), make_surroundings())
    daemon.start()
    caplog.clear()
    with caplog.at_level("INFO"):
        daemon.dump_status()
    daemon.stop()
    lines = [each for each in caplog.records if each.getMessage().startswith("status: ")]
    repeats = RepeatFilter()
    assert len(lines) > 3
    assert all(repeats.filter(each) for each in [*lines, *lines])


@pytest.fixture
def published(monkeypatch):
    """Return a list to which each link appends the decisions and the posteriors that it gets."""
    documents = []
    monkeypatch.setattr(MqttLink, "send", lambda link, field, each: documents.append(each.decision))
    monkeypatch.setattr(MqttLink, "show", lambda link, field, document: documents.append(document))
    return documents


def decide_and_reply(daemon):
    """Let the daemon decide, and let the selected sensor reply; return the decision."""
    controller, decisions = daemon.controllers["lab"], daemon.surroundings.decisions
    commands = controller.handle(IntervalElapsed(1.8e9))
    commands += controller.handle(Reading(controller.health().selected, 21.5, 1.8e9, 1.8e9))
    for command in commands:
        if entry := decisions.update("lab", command):
            daemon.recorder.add(entry)
    return decisions.newest("lab").decision


def begin_again(daemon, restarts, settings):
    """Reload `settings`, or stop `daemon` and start another one with them; return the new one."""
    if not restarts:
        return reload(daemon, lambda each: build_daemon(settings, each.surroundings, each))
    daemon.stop()
    successor = build_daemon(settings, make_surroundings())
    successor.start()
    return successor


@pytest.mark.parametrize("restarts", [False, True])
def test_the_last_decision_and_its_posterior_are_published_again_after_a_new_start(
    settings, published, restarts
):
    daemon = build_daemon(
        settings(more='activate = { mode = "live", topic = "{sensor}" }'), make_surroundings()
    )
    daemon.start()
    decision = decide_and_reply(daemon)
    assert published == []
    begin_again(daemon, restarts, daemon.settings).stop()
    selected, posterior = published
    assert selected == decision
    assert (posterior.interval, posterior.ending) == (0, "answered")
    assert 21.5 in posterior.last


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("change", [{"unit": "°F"}, {"sensor": "removed"}])
def test_a_decision_of_another_unit_or_of_a_removed_sensor_is_not_published_again(
    settings, published, restarts, change
):
    daemon = build_daemon(settings(), make_surroundings())
    daemon.start()
    decide_and_reply(daemon)
    entry = daemon.surroundings.decisions.newest("lab")
    former = replace(entry, decision=replace(entry.decision, **change))
    daemon.surroundings.decisions.restore(former)
    daemon.recorder.add(former)
    begin_again(daemon, restarts, daemon.settings).stop()
    assert published == []


def test_a_decision_that_a_killed_daemon_may_have_replaced_is_not_published_again(
    settings, published
):
    daemon = build_daemon(settings(), make_surroundings())
    daemon.start()
    decide_and_reply(daemon)
    daemon.checkpoints.save()
    daemon.recorder.save()
    daemon.recorder._writer.close()  # killed: no last checkpoint
    successor = build_daemon(daemon.settings, make_surroundings())
    successor.start()
    successor.stop()
    assert published == []
