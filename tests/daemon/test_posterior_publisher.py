"""What is believed of every sensor, as it is published."""

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support.controllers import controller_settings

from edge_tvbo import SensorField, make_policy
from edge_tvbo.control.controller import Controller
from edge_tvbo.daemon.posterior_publisher import PosteriorPublisher, posterior
from edge_tvbo.messages.documents import PublishedPosterior
from edge_tvbo.messages.events import DeadlineElapsed, IntervalElapsed, Reading

SENSORS = ("a", "b", "c")


def made():
    X = np.array([0.0, 1.0, 4.0])
    kernel = np.exp(-0.5 * (X[:, None] - X) ** 2)
    field = SensorField(SENSORS, kernel, 0.01, unit="°C", center=20.0, scale=2.0)
    return Controller(
        make_policy("et-gp-ucb", field, seed=0), controller_settings(reply_timeout=1.0, max_age=9.0)
    )


class Link:
    """Keeps what it is to show."""

    def __init__(self):
        self.shown = []

    def show(self, field, document):
        self.shown.append((field, document))


def carried_out(controller, showing, event):
    for command in controller.handle(event):
        showing("heat", command)


@given(st.lists(st.tuples(st.sampled_from(SENSORS), st.floats(15, 25)), max_size=12))
def test_it_is_what_the_policy_believes_in_the_fields_unit_and_strict_json(readings):
    controller = made()
    controller.handle(IntervalElapsed(0.0))
    for at, (sensor, value) in enumerate(readings, 1):
        controller.handle(Reading(sensor, value, at=float(at), received=float(at)))
    told = posterior(controller, 0, None, 100.0)
    mean, std = controller.policy.posterior()
    np.testing.assert_allclose(told.mean, 20 + 2 * mean, atol=0.0051)
    np.testing.assert_allclose(told.std, 2 * std, atol=0.0051)
    for sensor, last, age in zip(told.sensors, told.last, told.age_s, strict=True):
        ours = [at for at, (each, _) in enumerate(readings, 1) if each == sensor]
        assert (last is None) is (age is None) is (not ours)
        assert age is None or 0 <= age <= 99
    assert msgspec.json.decode(msgspec.json.encode(told), type=PublishedPosterior) == told


def test_it_is_told_when_a_sensor_is_chosen_and_when_its_interval_ends():
    controller, link = made(), Link()
    showing = PosteriorPublisher(link.show, {"heat": controller}, lambda: 5.0)
    carried_out(controller, showing, IntervalElapsed(0.0))
    (_, first) = link.shown[-1]
    chosen = first.sensors[controller.policy.select().arm]
    assert (first.interval, first.ending, set(first.last)) == (0, None, {None})

    carried_out(controller, showing, Reading(chosen, 21.0, at=1.0, received=1.0))
    (_, answered) = link.shown[-1]
    index = SENSORS.index(chosen)
    assert (answered.ending, answered.last[index], answered.age_s[index]) == ("answered", 21.0, 4.0)
    assert answered.std[index] < first.std[index]

    carried_out(controller, showing, IntervalElapsed(10.0))
    carried_out(controller, showing, DeadlineElapsed(1, 11.0))
    assert link.shown[-1][1].ending == "missed" and len(link.shown) == 4


def test_nothing_is_told_of_a_field_that_is_not_shown():
    controller, link = made(), Link()
    carried_out(controller, PosteriorPublisher(link.show, {}, lambda: 5.0), IntervalElapsed(0.0))
    assert link.shown == []
