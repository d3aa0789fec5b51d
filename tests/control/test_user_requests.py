"""Commands of the user: pause, resume, reset, activate; and the hot spot."""

import base64
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.controllers import controller_settings

from edge_tvbo.control.controller import Controller
from edge_tvbo.messages.commands import Activate, Ending, Notify, PublishState, Record
from edge_tvbo.messages.documents import Reason
from edge_tvbo.messages.events import (
    ActivationRequested,
    DeadlineElapsed,
    IntervalElapsed,
    PauseRequested,
    Reading,
    ResetRequested,
    ResumeRequested,
)
from edge_tvbo.models.field import SensorField
from edge_tvbo.policy import make_policy, policies

NAMES = ("a", "b", "c")
STEP = 100.0
# A controller's snapshot of version 0.1.0, before there were commands: three intervals of
# et-gp-ucb, in one of which b timed out, and the begin of a fourth.
BEFORE_COMMANDS = (
    b"c-noCziZo25XU8}kUdlBWHJ^U+}6b@gvi;m1hSMSl;@|jctm~@@6HO|JS1642ge?oWGTd!?NCFZWXWW(Js9onRJ!"
    b"C3$Pn7GeU{xoYsfA4<9+Vl_pWJPa$l12JrC4pUd%zxd6DP*RW1+D;V24xPw?v4Txyy<po|-2D!jPB9k)o7!HOURN"
    b"x0NzxDQS}b-`RnMG6oIjb7j*ffBwNT{q1yNQ@wZ0ppN<wwg_6SF;Oa58J_%kL_C{u}^*xL4}NjFY!^U3`{mI)=O)"
    b"3YxH<RPpV&k|FECF58w2)|L}dewD;|ot=9{g5=?Sv^fjBNY2tc-CzdtJ?(D5>S|zg2PS3|`c(YNP`+Bbab8Gw1t_"
    b"4@SE4{l7W1e>d<-2+#98KPJg`}w*&uSOJWil?PL87yZ-~lIaQk?@PNJw|sWfBiS=~7e{h~Su)9z%MY9B0r`P^#!+"
    b"t&<cPHR8hSLNe=q`M4lHCP9DR$U%hQJVegE&;l!<v6p{e?}Pj-Xi-H;W2OuBK}B*<V{WGLueBABsxDyGf7l;lz|!"
    b"s"
)


def controller_of(name="et-gp-ucb", objective="max", **changes):
    positions = np.array([[0.0, 0.0], [5.0, 0.0], [9.0, 9.0]])
    field = SensorField(
        NAMES,
        np.eye(3) + 0.5,
        0.01,
        unit="°C",
        center=20.0,
        scale=2.0,
        objective=objective,
        positions=positions,
    )
    limits = controller_settings(
        **{"reply_timeout": 20.0, "max_age": 150.0, "max_backoff": 4, **changes}
    )
    return Controller(make_policy(name, field), limits)


def of(kind, commands):
    return [each for each in commands if isinstance(each, kind)]


def interval(controller, n, value=21.0):
    """Run interval `n`, in which the activated sensor replies `value`; return all commands."""
    at = n * STEP
    commands = controller.handle(IntervalElapsed(at))
    for activated in of(Activate, commands):
        if value is None:
            commands += controller.handle(DeadlineElapsed(activated.interval, at + 20.0))
        else:
            commands += controller.handle(Reading(activated.sensor, value + n / 8, at + 5, at + 5))
    return commands


# --- pause ----------------------------------------------------------------------------------------


@given(st.lists(st.sampled_from(["pause", "resume", "interval", "silence"]), max_size=30))
def test_no_sensor_is_selected_or_activated_while_paused(steps):
    controller, paused, n = controller_of(), False, 0
    for step in steps:
        at = n * STEP + 50.0
        match step:
            case "pause":
                commands = controller.handle(PauseRequested(at))
                assert [each.notice.event for each in commands] == ([] if paused else ["paused"])
                paused = True
            case "resume":
                commands = controller.handle(ResumeRequested(at))
                assert [each.notice.event for each in commands] == (["resumed"] if paused else [])
                paused = False
            case _:
                n += 1
                commands = interval(controller, n, None if step == "silence" else 21.0)
                expected = 0 if paused else 1
                assert len(of(Activate, commands)) == len(of(PublishState, commands)) == expected
        assert controller.health().paused is paused


def test_model_advances_and_uses_readings_while_paused():
    controller = controller_of("tv-gp-ucb")
    interval(controller, 0)
    controller.handle(PauseRequested(50.0))
    _, before = controller.policy.posterior()
    controller.handle(IntervalElapsed(STEP))
    _, later = controller.policy.posterior()
    controller.handle(Reading("b", 21.5, 110.0, 110.0))
    _, after = controller.policy.posterior()

    assert (later > before).any()
    assert after[1] < later[1]
    assert controller.interval == 1


@pytest.mark.usefixtures("first_timeout_counts")
def test_sensor_activated_before_a_pause_may_reply_and_is_not_backed_off():
    replying, silent = controller_of(), controller_of()
    for each in (replying, silent):
        each.handle(IntervalElapsed(0.0))
        each.handle(PauseRequested(1.0))
    activated = replying.health().selected
    (record,) = replying.handle(Reading(activated, 21.0, 5.0, 5.0))
    (missed,) = silent.handle(DeadlineElapsed(0, 20.0))

    assert (record.ending, missed.ending) == (Ending.ANSWERED, Ending.MISSED)
    assert silent.health().suspects == []


@pytest.mark.parametrize("answered", [True, False])
def test_resuming_begins_the_next_interval_if_intervals_follow_the_readings(answered):
    controller = controller_of(on_reading=True)
    (activated, _) = controller.handle(IntervalElapsed(0.0))
    controller.handle(PauseRequested(1.0))
    if answered:
        commands = controller.handle(Reading(activated.sensor, 21.0, 5.0, 5.0))
    else:
        commands = controller.handle(DeadlineElapsed(0, 20.0))
    resumed = controller.handle(ResumeRequested(60.0))

    assert not of(Activate, commands)
    assert len(of(Activate, resumed)) == 1


def test_resuming_before_the_reply_activates_no_other_sensor():
    controller = controller_of(on_reading=True)
    controller.handle(IntervalElapsed(0.0))
    controller.handle(PauseRequested(1.0))

    assert not of(Activate, controller.handle(ResumeRequested(2.0)))


def test_pause_continues_after_a_restart():
    one, other = controller_of(), controller_of()
    interval(one, 0)
    one.handle(PauseRequested(50.0))
    other.restore(one.snapshot())

    assert other.health() == one.health()
    assert not of(Activate, interval(other, 1))


def test_snapshot_of_a_version_without_commands_is_restored():
    controller = controller_of()
    controller.restore(zlib.decompress(base64.b85decode(BEFORE_COMMANDS)))
    health = controller.health()

    assert (health.interval, health.answered, health.missed) == (3, 2, 1)
    assert (health.suspects, health.paused) == (["b"], False)
    assert of(Activate, interval(controller, 4))


# --- reset ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", policies())
def test_reset_by_command_returns_every_policy_to_the_prior(name):
    controller, fresh = controller_of(name), controller_of(name)
    for n in range(4):
        interval(controller, n)
        fresh.handle(IntervalElapsed(n * STEP))
    (notify,) = controller.handle(ResetRequested(350.0))
    for one, other in zip(controller.policy.posterior(), fresh.policy.posterior(), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)

    assert controller.policy.observations == 0
    assert (notify.notice.event, "by command" in notify.notice.text) == ("model-reset", True)
    assert of(Record, interval(controller, 4))
    twin = controller_of(name)
    twin.restore(controller.snapshot())
    assert interval(twin, 5) == interval(controller, 5)


def test_next_decision_has_the_time_of_the_reset():
    controller = controller_of()
    interval(controller, 0)
    controller.handle(ResetRequested(50.0))
    (published,) = of(PublishState, interval(controller, 1))

    assert published.decision.model.last_reset == "1970-01-01T00:00:50Z"
    assert published.decision.model.resets == 1


# --- activate -------------------------------------------------------------------------------------


@given(st.sampled_from(NAMES), st.sampled_from(sorted(set(policies()) - {"auto"})))
def test_requested_sensor_is_activated_and_its_reply_is_recorded(sensor, name):
    controller = controller_of(name)
    interval(controller, 0)
    commands = controller.handle(ActivationRequested(sensor, 50.0))
    (activated,), (published,) = of(Activate, commands), of(PublishState, commands)
    records = of(Record, controller.handle(Reading(sensor, 20.5, 55.0, 55.0)))

    assert activated == Activate(sensor, 0, 50.0, 70.0)
    assert (published.decision.sensor, published.decision.reason) == (sensor, Reason.ASKED)
    assert [(each.sensor, each.ending) for each in records] == [(sensor, Ending.ANSWERED)]


def test_sensor_replaced_by_a_request_is_neither_awaited_nor_backed_off():
    controller = controller_of()
    (first, _) = controller.handle(IntervalElapsed(0.0))
    other = next(name for name in NAMES if name != first.sensor)
    commands = controller.handle(ActivationRequested(other, 5.0))
    late = controller.handle(Reading(first.sensor, 21.0, 8.0, 8.0))

    assert not of(Record, commands)
    assert not late  # it updates the model only
    assert (controller.health().suspects, controller.health().missed) == ([], 0)


def test_requested_sensor_that_times_out_is_unresponsive():
    controller = controller_of()
    interval(controller, 0)
    commands = []
    for _ in range(3):
        controller.handle(ActivationRequested("b", 50.0))
        commands += controller.handle(DeadlineElapsed(0, 70.0))

    assert [each.notice.event for each in of(Notify, commands)] == ["sensor-lost"]


@pytest.mark.usefixtures("first_timeout_counts")
def test_sensor_without_time_to_reply_is_not_backed_off():
    """Several sensors are requested in one interval; the deadline of the last is its end."""
    controller = controller_of()
    interval(controller, 0)
    controller.handle(ActivationRequested("b", 90.0))
    commands = controller.handle(DeadlineElapsed(0, 99.0))

    assert [each.ending for each in of(Record, commands)] == [Ending.MISSED]
    assert controller.health().suspects == []


# --- hot spot -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("objective", "value"), [("max", 25.0), ("min", 15.0)])
def test_hotspot_is_the_highest_or_lowest_estimate(objective, value):
    controller = controller_of("gp-ucb", objective)
    controller.handle(IntervalElapsed(0.0))
    controller.handle(Reading("b", value, 10.0, 10.0))
    hotspot = controller.hotspot(40.0)

    assert (hotspot.sensor, hotspot.age_s, hotspot.unit) == ("b", 30, "°C")
    assert abs(hotspot.value - value) < 0.1
    assert (hotspot.value, hotspot.std) == (round(hotspot.value, 2), round(hotspot.std, 2))


@given(st.lists(st.floats(10.0, 30.0), min_size=1, max_size=9))
def test_hotspot_leaves_the_state_unchanged(values):
    controller = controller_of()
    for n, value in enumerate(values):
        interval(controller, n, value)
    before = controller.snapshot()
    controller.hotspot(1e6)

    assert controller.snapshot() == before
