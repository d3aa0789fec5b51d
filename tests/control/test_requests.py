"""What somebody asks of a controller: pause, resume, begin anew, activate this one."""

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
# a controller's snapshot as version 0.1.0 wrote it before there were commands: three intervals of
# et-gp-ucb, in which b did not answer, and a fourth that has begun
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
    rules = controller_settings(
        **{"reply_timeout": 20.0, "max_age": 150.0, "max_backoff": 4, **changes}
    )
    return Controller(make_policy(name, field), rules)


def of(kind, commands):
    return [each for each in commands if isinstance(each, kind)]


def interval(controller, n, value=21.0):
    """Let interval `n` begin, and answer whoever is asked in it; give all commands."""
    at = n * STEP
    commands = controller.handle(IntervalElapsed(at))
    for asked in of(Activate, commands):
        if value is None:
            commands += controller.handle(DeadlineElapsed(asked.interval, at + 20.0))
        else:
            commands += controller.handle(Reading(asked.sensor, value + n / 8, at + 5, at + 5))
    return commands


# --- pause --------------------------------------------------------------------------------------


@given(st.lists(st.sampled_from(["pause", "resume", "interval", "silence"]), max_size=30))
def test_nobody_is_asked_and_nothing_decided_while_it_is_paused(steps):
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
                asked = 0 if paused else 1
                assert len(of(Activate, commands)) == len(of(PublishState, commands)) == asked
        assert controller.health().paused is paused


def test_time_goes_on_while_it_is_paused_and_readings_are_learned():
    controller = controller_of("tv-gp-ucb")
    interval(controller, 0)
    controller.handle(PauseRequested(50.0))
    _, before = controller.policy.posterior()
    controller.handle(IntervalElapsed(STEP))
    _, later = controller.policy.posterior()
    controller.handle(Reading("b", 21.5, 110.0, 110.0))
    _, told = controller.policy.posterior()

    assert (later > before).any()
    assert told[1] < later[1]
    assert controller.interval == 1


def test_whoever_was_asked_before_a_pause_may_answer_and_is_not_blamed():
    answering, silent = controller_of(), controller_of()
    for each in (answering, silent):
        each.handle(IntervalElapsed(0.0))
        each.handle(PauseRequested(1.0))
    asked = answering.health().selected
    (record,) = answering.handle(Reading(asked, 21.0, 5.0, 5.0))
    (missed,) = silent.handle(DeadlineElapsed(0, 20.0))

    assert (record.ending, missed.ending) == (Ending.ANSWERED, Ending.MISSED)
    assert silent.health().suspects == []


@pytest.mark.parametrize("answered", [True, False])
def test_where_intervals_follow_the_readings_resuming_begins_the_next(answered):
    controller = controller_of(on_reading=True)
    (asked, _) = controller.handle(IntervalElapsed(0.0))
    controller.handle(PauseRequested(1.0))
    if answered:
        commands = controller.handle(Reading(asked.sensor, 21.0, 5.0, 5.0))
    else:
        commands = controller.handle(DeadlineElapsed(0, 20.0))
    resumed = controller.handle(ResumeRequested(60.0))

    assert not of(Activate, commands)
    assert len(of(Activate, resumed)) == 1


def test_resumed_before_the_answer_it_does_not_ask_another():
    controller = controller_of(on_reading=True)
    controller.handle(IntervalElapsed(0.0))
    controller.handle(PauseRequested(1.0))

    assert not of(Activate, controller.handle(ResumeRequested(2.0)))


def test_a_pause_outlives_a_restart():
    one, other = controller_of(), controller_of()
    interval(one, 0)
    one.handle(PauseRequested(50.0))
    other.restore(one.snapshot())

    assert other.health() == one.health()
    assert not of(Activate, interval(other, 1))


def test_a_snapshot_from_before_there_were_commands_is_restored_and_goes_on():
    controller = controller_of()
    controller.restore(zlib.decompress(base64.b85decode(BEFORE_COMMANDS)))
    health = controller.health()

    assert (health.interval, health.answered, health.missed) == (3, 2, 1)
    assert (health.suspects, health.paused) == (["b"], False)
    assert of(Activate, interval(controller, 4))


# --- begin anew ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", policies())
def test_asked_to_every_policy_begins_anew_and_goes_on(name):
    controller, fresh = controller_of(name), controller_of(name)
    for n in range(4):
        interval(controller, n)
        fresh.handle(IntervalElapsed(n * STEP))
    (told,) = controller.handle(ResetRequested(350.0))
    for one, other in zip(controller.policy.posterior(), fresh.policy.posterior(), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)

    assert controller.policy.observations == 0
    assert (told.notice.event, "asked" in told.notice.text) == ("model-reset", True)
    assert of(Record, interval(controller, 4))
    twin = controller_of(name)
    twin.restore(controller.snapshot())
    assert interval(twin, 5) == interval(controller, 5)


def test_the_next_decision_says_when_the_model_began_anew():
    controller = controller_of()
    interval(controller, 0)
    controller.handle(ResetRequested(50.0))
    (published,) = of(PublishState, interval(controller, 1))

    assert published.decision.model.last_reset == "1970-01-01T00:00:50Z"
    assert published.decision.model.resets == 1


# --- activate -----------------------------------------------------------------------------------


@given(st.sampled_from(NAMES), st.sampled_from(sorted(set(policies()) - {"auto"})))
def test_whoever_is_asked_for_is_activated_and_answers(sensor, name):
    controller = controller_of(name)
    interval(controller, 0)
    commands = controller.handle(ActivationRequested(sensor, 50.0))
    (asked,), (published,) = of(Activate, commands), of(PublishState, commands)
    answers = of(Record, controller.handle(Reading(sensor, 20.5, 55.0, 55.0)))

    assert asked == Activate(sensor, 0, 50.0, 70.0)
    assert (published.decision.sensor, published.decision.reason) == (sensor, Reason.ASKED)
    assert [(each.sensor, each.ending) for each in answers] == [(sensor, Ending.ANSWERED)]


def test_whoever_was_to_answer_instead_is_waited_for_no_more_and_not_blamed():
    controller = controller_of()
    (first, _) = controller.handle(IntervalElapsed(0.0))
    other = next(name for name in NAMES if name != first.sensor)
    commands = controller.handle(ActivationRequested(other, 5.0))
    late = controller.handle(Reading(first.sensor, 21.0, 8.0, 8.0))

    assert not of(Record, commands)
    assert not late  # free information
    assert (controller.health().suspects, controller.health().missed) == ([], 0)


def test_whoever_is_asked_for_and_does_not_answer_is_a_suspect():
    controller = controller_of()
    interval(controller, 0)
    controller.handle(ActivationRequested("b", 50.0))
    commands = controller.handle(DeadlineElapsed(0, 70.0))

    assert [each.notice.event for each in of(Notify, commands)] == ["sensor-lost"]


def test_whoever_had_no_time_to_answer_is_not_blamed():
    """One after the other is asked for; the deadline of the last is the interval's end."""
    controller = controller_of()
    interval(controller, 0)
    controller.handle(ActivationRequested("b", 90.0))
    commands = controller.handle(DeadlineElapsed(0, 99.0))

    assert [each.ending for each in of(Record, commands)] == [Ending.MISSED]
    assert controller.health().suspects == []


# --- where it is highest ------------------------------------------------------------------------


@pytest.mark.parametrize(("objective", "value"), [("max", 25.0), ("min", 15.0)])
def test_the_hotspot_is_where_the_field_is_believed_to_be_highest_or_lowest(objective, value):
    controller = controller_of("gp-ucb", objective)
    controller.handle(IntervalElapsed(0.0))
    controller.handle(Reading("b", value, 10.0, 10.0))
    hotspot = controller.hotspot(40.0)

    assert (hotspot.sensor, hotspot.age_s, hotspot.unit) == ("b", 30, "°C")
    assert abs(hotspot.value - value) < 0.1
    assert (hotspot.value, hotspot.std) == (round(hotspot.value, 2), round(hotspot.std, 2))


@pytest.mark.parametrize("name", policies())
def test_before_anything_is_known_there_is_no_hotspot(name):
    controller = controller_of(name)
    assert controller.hotspot(0.0) is None
    controller.handle(IntervalElapsed(0.0))
    assert controller.hotspot(0.0) is None


@given(st.lists(st.floats(10.0, 30.0), min_size=1, max_size=9))
def test_the_hotspot_changes_nothing(values):
    controller = controller_of()
    for n, value in enumerate(values):
        interval(controller, n, value)
    before = controller.snapshot()
    controller.hotspot(1e6)

    assert controller.snapshot() == before
