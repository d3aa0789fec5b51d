"""Decision log: what the daemon keeps and logs about decisions and activations."""

import logging
from itertools import count, islice

from msgspec.structs import replace

from edge_tvbo.daemon.decision_log import MAX_DECISIONS, DecisionLog, DecisionLogger
from edge_tvbo.messages.commands import Ending, Notify, PublishState, Record
from edge_tvbo.messages.documents import Decision, ModelState, Notice, Reason


def test_an_undelivered_activation_names_the_sensor_as_people_do(caplog):
    log = DecisionLogger()
    log.names = {"heat": {"Living-room": "Living room"}}
    for field in ("heat", "damp"):
        undelivered = Record(7, 0.0, "Living-room", Ending.UNDELIVERED, None, None, None, False)
        log(field, undelivered)

    heat, damp = caplog.messages
    assert heat.startswith("heat: interval 7: the activation of Living room was not delivered")
    assert damp.startswith("damp: interval 7: the activation of Living-room was not delivered")


def decided(interval):
    times = "2004-03-07T08:00:00Z", "2004-03-07T08:10:00Z"
    numbers, because = (21.0, 0.5, 22.0, "°C"), (Reason.EXPLOIT, [], "It is the warmest.")
    state = ModelState(observations=3, resets=0)
    return PublishState(Decision(interval, *times, "hall", "auto", *numbers, *because, state))


def test_notices_of_hundreds_of_sensors_in_an_interval_are_counted_in_the_log(caplog):
    log = DecisionLogger()
    log("heat", decided(7))
    caplog.clear()

    for number in range(300):
        notice = Notice("sensor-back", "2004-03-07T08:20:00Z", f"{number} reports", str(number))
        log("heat", Notify(notice))
    log("damp", Notify(replace(notice, text="it reports")))
    log("heat", Notify(Notice("some-back", "2004-03-07T08:20:00Z", "A sensor reports again")))
    log("heat", decided(7))  # another sensor of the same interval
    log("heat", decided(8))
    log("heat", Notify(notice))
    log("heat", decided(9))

    first = [f"heat: sensor-back: {number} reports" for number in range(12)]
    texts = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert texts == [
        *first,
        "heat: sensor-back: more than 12 of these events in a short time; further events are only "
        "counted",
        "damp: sensor-back: it reports",
        "heat: some-back: A sensor reports again",
        "heat: sensor-back: 288 more events",
        "heat: sensor-back: 299 reports",
    ]


def test_while_a_field_is_paused_its_notices_are_counted_per_hour(caplog):
    log = DecisionLogger()
    for hour in range(3):
        for minute in range(14):
            at = f"2004-03-07T0{hour}:{minute:02}:00Z"
            log("heat", Notify(Notice("model-reset", at, "an error of a", "a")))
    log("heat", Notify(Notice("model-reset", at, "reset by command")))

    texts = [each.getMessage().removeprefix("heat: model-reset: ") for each in caplog.records]
    assert texts.count("an error of a") == 3 * 12
    assert texts.count("2 more events") == 2
    assert texts[-1] == "reset by command"


def test_late_notices_of_a_slow_field_do_not_let_the_log_grow():
    log, fast = DecisionLog(), count()
    for slow in range(5):
        log.update("slow", decided(slow))
        for number in islice(fast, 2 * MAX_DECISIONS):
            log.update("fast", decided(number))
        log.update("slow", Notify(Notice("sensor-lost", "2004-03-07T08:20:00Z", "It is silent")))
    assert len(list(log.lines())) == MAX_DECISIONS


def test_the_log_names_the_sensor_whose_activation_is_delivered_after_an_undelivered_one(caplog):
    """It does not say that the activations of a sensor that the broker refuses are delivered."""
    caplog.set_level(logging.INFO)
    log = DecisionLogger()
    undelivered, answered = Ending.UNDELIVERED, Ending.ANSWERED
    endings = [("a", undelivered), ("a", undelivered), ("b", answered), ("b", answered)]
    for interval, (sensor, ending) in enumerate(endings):
        log("heat", Record(interval, 0.0, sensor, ending, None, None, None, False))

    assert [each.split(";")[0] for each in caplog.messages] == [
        "heat: interval 0: the activation of a was not delivered",
        "heat: interval 2: the activation of b was delivered",
    ]
