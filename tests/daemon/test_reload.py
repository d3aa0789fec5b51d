"""Reload: an invalid configuration changes nothing, and the log has the reason with its code."""

import gc
import io
import logging
import warnings
from itertools import pairwise
from types import SimpleNamespace
from weakref import ref

import numpy as np
import pytest
from support.controllers import AdviseSettings
from support.lives import Life, Time

from edge_tvbo.config.controller_settings import ControllerSettings
from edge_tvbo.control.controller_state import SNAPSHOT_KIND
from edge_tvbo.daemon import checkpoints
from edge_tvbo.daemon.log_format import RepeatFilter
from edge_tvbo.daemon.memory import release_memory
from edge_tvbo.daemon.reload import reload, transfer_state
from edge_tvbo.errors import DataError, MissingExtra, SnapshotError
from edge_tvbo.messages.events import IntervalElapsed, Reading
from edge_tvbo.models.snapshot import decode_snapshot, encode_snapshot


@pytest.mark.parametrize(
    ("error", "logs"),
    [
        (DataError("lab.model.json is damaged"), "lab.model.json is damaged [E200]"),
        (SnapshotError("it is cut off"), "it is cut off [E300]"),
        (MissingExtra("scipy", "science"), "scipy is not installed. [E500]\nInstall it with:"),
        (PermissionError(13, "Permission denied", "a.toml"), "a.toml: Permission denied [E001]"),
    ],
    ids=lambda each: type(each).__name__,
)
def test_failed_reload_logs_the_text_that_a_command_prints(error, logs, caplog):
    """`reload` returns the daemon unchanged, so a stand-in is enough."""
    daemon = SimpleNamespace(surroundings=None)

    def successor(before):
        raise error

    assert reload(daemon, successor) is daemon
    (logged,) = caplog.messages
    assert logged.startswith(f"reload: nothing is changed, because of an error: {logs}")


def test_each_reload_is_logged_even_if_its_text_is_the_same():
    """A user who corrects a mistake only in part sends SIGHUP again within the minute."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.addFilter(RepeatFilter(clock=lambda: 0.0))

    def successor(before):
        raise DataError("lab.model.json is damaged")

    reload_log = logging.getLogger("edge_tvbo.daemon.reload")
    reload_log.addHandler(handler)
    try:
        for _ in range(2):
            reload(SimpleNamespace(surroundings=None), successor)
    finally:
        reload_log.removeHandler(handler)
    assert stream.getvalue().count("nothing is changed") == 2


@pytest.mark.slow
def test_replaced_daemon_is_freed():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # of earlier tests
        gc.unfreeze()
        gc.collect()

    class Cyclic:
        """An object in a reference cycle, as the loop and the command handler are."""

    daemon = Cyclic()
    daemon.itself = daemon
    gone = ref(daemon)
    gc.freeze()
    del daemon
    gc.collect()
    assert gone() is not None
    release_memory()
    assert gone() is None


class SleepySettings(ControllerSettings, frozen=True, kw_only=True):
    restart_withdraws = True


def begun_and_reloaded(clock, changed=None, reloads=1, **settings):
    """Return when the first interval began, and the life that the last reload in it began.

    `changed` contains the settings that the first reload changes.
    """
    later = [settings | (changed or {})] * reloads
    lives = [Life(clock, [], **each) for each in (settings, *later)]
    daemons = [
        SimpleNamespace(controllers={"lab": each.controller}, scheduler=each.schedule)
        for each in lives
    ]
    began = clock.now.wall
    lives[0].live(0.0)
    for before, successor in pairwise(daemons):
        transfer_state("lab", before, successor)
    return began, lives[-1]


def test_intervals_of_a_downtime_do_not_pass_again_at_a_reload_before_the_first_interval(
    monkeypatch,
):
    clock, stored = Time(), []
    monkeypatch.setattr(checkpoints.time, "monotonic", lambda: clock.now.monotonic)
    life = Life(clock, stored)
    life.controller.policy.observe(0, 2.0)
    life.live(550.0)
    life.checkpoints.close()
    clock.move(7200.0)
    lives = [Life(clock, stored), Life(clock, [], every=3600.0)]
    before, successor = (
        SimpleNamespace(controllers={"lab": each.controller}, scheduler=each.schedule)
        for each in lives
    )
    transfer_state("lab", before, successor)
    both = [each.controllers["lab"] for each in (before, successor)]
    assert [each.used for each in both] == [12, 12]
    assert [each.newest for each in both] == [0, 0]
    posteriors = [each.policy.posterior() for each in both]
    np.testing.assert_array_equal(*posteriors)
    assert posteriors[0][0][0] == pytest.approx(2.0 / 1.01 * 0.9**6)  # half of 12, of a mean


def test_after_a_reload_within_a_longer_interval_the_next_one_begins_within_the_shorter_length():
    _, reloaded = begun_and_reloaded(Time(), {"every": 60.0}, every=3600.0)
    assert reloaded.schedule.next_interval("lab")[1] == 60.0


@pytest.mark.parametrize("kind", [ControllerSettings, SleepySettings])
def test_a_field_on_reading_whose_sensor_was_only_recommended_continues_at_once(kind):
    """After a reload that changes the mode advise, no reply is awaited that could go on."""
    clock = Time()
    settings = {"every": None, "on_reading": True, "kind": AdviseSettings, "reply_timeout": 100.0}
    began, reloaded = begun_and_reloaded(clock, {"kind": kind}, **settings)
    assert reloaded.live(200.0)[:1] == [(1, began + 50.0)]


@pytest.mark.usefixtures("first_timeout_counts")
def test_the_awaited_reply_times_out_after_a_reload_and_the_next_sensor_is_activated():
    clock, settings = Time(), {"per_interval": 2, "reply_timeout": 100.0}
    began, reloaded = begun_and_reloaded(clock, **settings)
    assert reloaded.live(450.0, step=10.0) == [(0, began + 100.0)]
    health = reloaded.controller.health()
    assert health.suspects == [health.selected]  # not the first one


@pytest.mark.parametrize("replies", [True, False])
def test_a_field_on_reading_awaits_its_reply_after_a_reload(replies):
    clock = Time()
    settings = {"every": None, "on_reading": True, "reply_timeout": 100.0}
    began, reloaded = begun_and_reloaded(clock, **settings)
    controller = reloaded.controller
    assert reloaded.live(10.0, step=10.0) == []
    if replies:
        at, sensor = clock.now.wall, controller.health().selected
        assert reloaded.handle(Reading(sensor, 0.5, at, at)) == [(1, at)]
    else:
        assert reloaded.live(60.0, step=10.0) == [(1, began + 100.0)]
    assert (controller.health().answered, controller.health().missed) == (replies, not replies)


@pytest.mark.parametrize("every", [600.0, None])
def test_an_activation_that_the_reload_withdraws_is_no_time_out(every):
    clock = Time()
    settings = {"every": every, "on_reading": every is None, "kind": SleepySettings}
    began, reloaded = begun_and_reloaded(clock, **settings, reply_timeout=100.0)
    expected = [(1, began + 600.0)] if every else [(1, began + 50.0)]
    assert reloaded.live(600.0 if every else 0.0) == expected
    health = reloaded.controller.health()
    assert (health.missed, health.undelivered) == (0, 1)


@pytest.mark.parametrize(
    "kinds", [(SleepySettings, ControllerSettings), (ControllerSettings, SleepySettings)]
)
@pytest.mark.parametrize("every", [600.0, None])
@pytest.mark.parametrize("reloads", [1, 2])
def test_the_mode_of_the_activation_decides_whether_a_reload_withdrew_it(reloads, every, kinds):
    before, after = kinds
    clock = Time()
    settings = {"every": every, "on_reading": every is None, "kind": before, "reply_timeout": 100.0}
    began, reloaded = begun_and_reloaded(clock, {"kind": after}, reloads, **settings)
    was_withdrawn = before is SleepySettings
    if every is None:
        assert reloaded.live(50.0) == [(1, began + (50.0 if was_withdrawn else 100.0))]
    else:
        assert reloaded.live(600.0) == [(1, began + 600.0)]
    health = reloaded.controller.health()
    assert (health.missed, health.undelivered) == (not was_withdrawn, was_withdrawn)


def test_an_awaited_activation_in_the_state_of_an_old_version_counts_as_withdrawn():
    """The state does not say which activations a restart withdraws; `activate.mode` does."""
    clock = Time()
    before, after = (Life(clock, [], kind=SleepySettings).controller for _ in range(2))
    before.handle(IntervalElapsed(clock.now.wall))
    state = decode_snapshot(SNAPSHOT_KIND, None, before.snapshot())
    del state["recalled"]
    after.restore(encode_snapshot(SNAPSHOT_KIND, before.policy.field.fingerprint(), state))
    after.handle(IntervalElapsed(clock.now.wall + 600.0))
    assert (after.health().missed, after.health().undelivered) == (0, 1)
