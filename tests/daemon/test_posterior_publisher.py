"""Posterior publisher: the published posterior of every sensor."""

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support.controllers import controller_settings

from edge_tvbo import SensorField, make_policy
from edge_tvbo.control.controller import Controller
from edge_tvbo.daemon.posterior_publisher import PosteriorPublisher, posterior
from edge_tvbo.messages.commands import Activate
from edge_tvbo.messages.documents import PublishedPosterior
from edge_tvbo.messages.events import DeadlineElapsed, IntervalElapsed, Reading

SENSORS = ("a", "b", "c")


def controller_of_three(**limits):
    X = np.array([0.0, 1.0, 4.0])
    kernel = np.exp(-0.5 * (X[:, None] - X) ** 2)
    field = SensorField(SENSORS, kernel, 0.01, unit="°C", center=20.0, scale=2.0)
    return Controller(
        make_policy("et-gp-ucb", field, seed=0),
        controller_settings(reply_timeout=1.0, max_age=9.0, **limits),
    )


class Link:
    """A link that stores the documents."""

    def __init__(self):
        self.shown = []

    def show(self, field, document):
        self.shown.append((field, document))


def publish_after(controller, publisher, event):
    for command in controller.handle(event):
        publisher("heat", command)


@given(st.lists(st.tuples(st.sampled_from(SENSORS), st.floats(15, 25)), max_size=12))
def test_posterior_is_that_of_the_policy_in_the_unit_and_strict_json(readings):
    controller = controller_of_three()
    controller.handle(IntervalElapsed(0.0))
    for at, (sensor, value) in enumerate(readings, 1):
        controller.handle(Reading(sensor, value, at=float(at), received=float(at)))
    published = posterior(controller, 0, None, 100.0)
    mean, std = controller.policy.posterior()
    np.testing.assert_allclose(published.mean, 20 + 2 * mean, atol=0.0051)
    np.testing.assert_allclose(published.std, 2 * std, atol=0.0051)
    for sensor, last, age in zip(published.sensors, published.last, published.age_s, strict=True):
        ours = [at for at, (each, _) in enumerate(readings, 1) if each == sensor]
        assert (last is None) is (age is None) is (not ours)
        assert age is None or 0 <= age <= 99
    assert msgspec.json.decode(msgspec.json.encode(published), type=PublishedPosterior) == published


def test_posterior_is_published_after_a_decision_and_at_the_end_of_the_interval():
    controller, link = controller_of_three(), Link()
    publisher = PosteriorPublisher(link.show, {"heat": controller}, lambda: 5.0)
    publish_after(controller, publisher, IntervalElapsed(0.0))
    (_, first) = link.shown[-1]
    chosen = first.sensors[controller.policy.select().arm]
    assert (first.interval, first.ending, set(first.last)) == (0, None, {None})

    publish_after(controller, publisher, Reading(chosen, 21.0, at=1.0, received=1.0))
    (_, answered) = link.shown[-1]
    index = SENSORS.index(chosen)
    assert (answered.ending, answered.last[index], answered.age_s[index]) == ("answered", 21.0, 4.0)
    assert answered.std[index] < first.std[index]

    publish_after(controller, publisher, IntervalElapsed(10.0))
    publish_after(controller, publisher, DeadlineElapsed(1, 11.0))
    assert link.shown[-1][1].ending == "missed" and len(link.shown) == 4


def test_published_ending_is_that_of_the_sensor_that_was_selected_last():
    controller = controller_of_three(per_interval=2, next_activation="at-once")
    link, endings = Link(), []
    publisher = PosteriorPublisher(link.show, {"heat": controller}, lambda: 5.0)
    for begin, order in ((0.0, (0, 1)), (60.0, (1, 0))):
        commands = controller.handle(IntervalElapsed(begin))
        for command in commands:
            publisher("heat", command)
        activated = [each.sensor for each in commands if isinstance(each, Activate)]
        for n in order:
            publish_after(controller, publisher, Reading(activated[n], 21.0, begin + n, begin + n))
            endings.append(link.shown[-1][1].ending)
    assert endings == [None, "answered", "answered", "answered"]


def test_posterior_of_an_unlisted_field_is_not_published():
    controller, link = controller_of_three(), Link()
    publish_after(controller, PosteriorPublisher(link.show, {}, lambda: 5.0), IntervalElapsed(0.0))
    assert link.shown == []
